//! What a fuzzer calls with the bytes of a cached kernel (`fuzz/`), and the tests with the corpus of it: nothing may panic, and what
//! is read can be packed for a launch.

use super::*;
use crate::params::Bound;

/// Reads `bytes` as an entry, as they are and as the body of one whose digest and key are right.
pub fn fuzz(bytes: &[u8]) {
    let key = Key::of(&["fuzz"]);
    for entry in [decode(&key, bytes), decode(&key, &repaired(&key, bytes))].into_iter().flatten() {
        // What was read is written as an entry that reads the same.
        let again = encode(&key, &entry).and_then(|file| decode(&key, &file).ok());
        assert_eq!(again.as_ref(), Some(&entry));
        let bound = Bound { group: 0, binding: 0, address: 1 << 40, bytes: 64 };
        for (buffers, words) in [(&[][..], &[][..]), (&[bound], &[1, 2, 3, 4])] {
            if let Ok(block) = entry.metadata.pack(buffers, words) {
                assert_eq!(block.bytes().len(), entry.metadata.params_bytes as usize);
            }
        }
    }
}

/// A file with `body` behind `key`.
fn repaired(key: &Key, body: &[u8]) -> Vec<u8> {
    let body = [&key.0, body].concat();
    [MAGIC.as_slice(), &Sha256::digest(&body), &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_cached_kernels_is_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/cache");
        let files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        files.iter().for_each(|bytes| fuzz(bytes));
        let key = Key::of(&["fuzz"]);
        assert!(files.iter().any(|bytes| decode(&key, &repaired(&key, bytes)).is_ok()), "no entry is sound");
    }
}
