//! What a fuzzer calls with a .npy file's bytes (`fuzz/`), and the tests with the corpus of them:
//! nothing may panic, no more memory is taken than the file is long, and what is read is written as a file that reads the same.

use super::{read_from, write};

/// Reads `bytes`; whether they are an array.
pub fn fuzz(bytes: &[u8]) -> bool {
    match read_from(&mut &bytes[..], bytes.len() as u64) {
        Ok((form, data)) => {
            assert!(data.len() < bytes.len() && form.size_bytes() == Some(data.len() as u64), "{form}");
            let mut file = Vec::new();
            write(&mut file, &form, &data).expect("memory takes every byte");
            assert_eq!(read_from(&mut &file[..], file.len() as u64), Ok((form, data)));
            true
        }
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_arrays_is_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/npy");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        let read: Vec<bool> = files.map(|bytes| super::fuzz(&bytes)).collect();
        assert!(read.contains(&true) && read.contains(&false), "{read:?}");
    }
}
