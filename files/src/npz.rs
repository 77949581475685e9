//! .npz files: zip archives of .npy files, stored or deflated, each named after its array. Crate `zip` reads and writes the archive.
//!
//! The decision to know: an archive takes no more memory than 1032 times its length, which is the most that deflate packs. An array that claims
//! more than that of its bytes is refused, and so are arrays that share bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use polywarp_core::{Device, Result, Tensor, replace_file};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::npy::{self, Form, one_line};
use crate::{fault, form_of, named, open, tensor, unwritten};

/// Bytes that one byte of deflate is at most: 258 for each two bits of a match (zlib's technical notes).
const MOST_PACKED: u64 = 1032;

/// How arrays lie in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As they are: NumPy's `savez`.
    Stored,
    /// Packed by deflate: `savez_compressed`.
    Deflated,
}

/// The arrays of the archive by their names, on `device`, each as [`crate::read_npy`] reads it.
///
/// # Errors
/// [`polywarp_core::Error::File`], which names the array where it is one's fault: as [`crate::read_npy`]; for a file that is no zip archive or is
/// damaged, encrypted or packed in another way, for two arrays of one name, for a file in it that is no array, and for a claim of more bytes than
/// there can be. Memory errors of the device.
pub fn read_npz(path: impl AsRef<Path>, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    let (file, length) = open(path).map_err(|reason| fault(path, None, &reason))?;
    let mut tensors = BTreeMap::new();
    read_from(io::BufReader::new(file), length, |name, form, bytes| {
        let made = tensor(device, &form, &bytes).map_err(|error| named(path, Some(name), error))?;
        tensors.insert(name.to_owned(), made);
        Ok(())
    })
    .map_err(|fallen| match fallen {
        Fallen::Archive { array, reason } => fault(path, array.as_deref(), &reason),
        Fallen::Taker(error) => error,
    })?;
    Ok(tensors)
}

/// Why an archive is not read to its end.
#[derive(Debug)]
enum Fallen<E> {
    Archive { array: Option<String>, reason: String },
    Taker(E),
}

/// Gives each array of an archive of `length` bytes to `take`.
fn read_from<E, R, F>(file: R, length: u64, mut take: F) -> std::result::Result<(), Fallen<E>>
where
    R: Read + Seek,
    F: FnMut(&str, Form, Vec<u8>) -> std::result::Result<(), E>,
{
    let broken = |reason: String| Fallen::Archive { array: None, reason };
    let unread = |error: zip::result::ZipError| one_line(&error.to_string());
    let mut archive =
        ZipArchive::new(file).map_err(|error| broken(format!("not a .npz file, or cut off: {}", unread(error))))?;
    let (mut seen, mut packed) = (BTreeSet::new(), 0u64);
    for number in 0..archive.len() {
        let entry = archive.by_index(number).map_err(|error| broken(format!("entry {number}: {}", unread(error))));
        let mut entry = entry?;
        let whole = entry.name().map(|name| one_line(&name));
        let whole = whole.map_err(|error| broken(format!("entry {number}: {}", unread(error))))?;
        let Some(name) = whole.strip_suffix(".npy").map(str::to_owned) else {
            return Err(broken(format!("it holds `{whole}`, which is no array (.npy)")));
        };
        let bad = |reason: String| Fallen::Archive { array: Some(name.clone()), reason };
        if !seen.insert(name.clone()) {
            return Err(bad("the name is there twice".to_owned()));
        }
        packed = packed.saturating_add(entry.compressed_size());
        if packed > length {
            return Err(bad(format!("it is said to lie in {} bytes, more than the file has", entry.compressed_size())));
        }
        let size = entry.size();
        if size > entry.compressed_size().saturating_mul(MOST_PACKED) {
            return Err(bad(format!("{} bytes cannot be {size} bytes packed", entry.compressed_size())));
        }
        let (form, bytes) = npy::read_from(&mut entry, size).map_err(bad)?;
        // The checksum is compared at the end.
        let beyond = entry.read(&mut [0]).map_err(|error| bad(one_line(&error.to_string())))?;
        if beyond > 0 {
            return Err(bad(format!("it goes on behind the {size} bytes that it is said to have")));
        }
        take(&name, form, bytes).map_err(Fallen::Taker)?;
    }
    Ok(())
}

/// Writes `tensors` under their names as an archive, each as [`crate::write_npy`] writes it. The file is there whole or not at all. Waits for the
/// device.
///
/// # Errors
/// [`polywarp_core::Error::File`] for a name that is given twice or is empty, and for what the operating system refuses; as
/// [`Tensor::to_bytes`].
pub fn write_npz(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)], compression: Compression) -> Result<()> {
    let path = path.as_ref();
    let mut seen = BTreeSet::new();
    let mut arrays = Vec::with_capacity(tensors.len());
    for &(name, tensor) in tensors {
        if name.is_empty() || one_line(name) != name {
            return Err(fault(path, Some(name), "a name is one line that is not empty, without double spaces"));
        }
        if !seen.insert(name) {
            return Err(fault(path, Some(name), "the name is given twice"));
        }
        arrays.push((name, form_of(tensor), tensor.to_bytes()?));
    }
    replace_file(path, |file| write_to(file, &arrays, compression)).map_err(|error| unwritten(path, &error))
}

fn write_to(file: impl Write + Seek, arrays: &[(&str, Form, Vec<u8>)], compression: Compression) -> io::Result<()> {
    let method = match compression {
        Compression::Stored => CompressionMethod::Stored,
        Compression::Deflated => CompressionMethod::Deflated,
    };
    let mut archive = ZipWriter::new(io::BufWriter::new(file));
    for (name, form, bytes) in arrays {
        // As NumPy does, which cannot know either how long packed arrays will be.
        let options = SimpleFileOptions::default().compression_method(method).large_file(true);
        archive.start_file(format!("{name}.npy"), options)?;
        npy::write(&mut archive, form, bytes)?;
    }
    archive.finish()?.flush()
}

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing {
    //! What a fuzzer calls with an archive's bytes: nothing may panic, no more memory is taken than 1032 times the length.

    use std::io::Cursor;

    /// Reads `bytes`; whether they are an archive of arrays.
    pub fn fuzz(bytes: &[u8]) -> bool {
        let (mut arrays, mut taken) = (Vec::new(), 0);
        let length = bytes.len() as u64;
        let read = super::read_from(Cursor::new(bytes), length, |name, form, data| {
            taken += data.len() as u64;
            assert!(taken <= length * super::MOST_PACKED, "{name}");
            arrays.push((name.to_owned(), form, data));
            Ok::<(), ()>(())
        });
        match read {
            Ok(()) => {
                let held: Vec<_> =
                    arrays.iter().map(|(name, form, data)| (&name[..], form.clone(), data.clone())).collect();
                let mut file = Cursor::new(Vec::new());
                super::write_to(&mut file, &held, super::Compression::Deflated).expect("memory takes every byte");
                let (file, mut again) = (file.into_inner(), Vec::new());
                let length = file.len() as u64;
                super::read_from(Cursor::new(file), length, |name, form, data| {
                    again.push((name.to_owned(), form, data));
                    Ok::<(), ()>(())
                })
                .expect("what was written is read");
                assert_eq!(again, arrays);
                true
            }
            Err(super::Fallen::Archive { reason, .. }) => {
                assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
                false
            }
            Err(super::Fallen::Taker(())) => unreachable!("everything is taken"),
        }
    }

    #[cfg(test)]
    mod tests {
        /// Made by Python's zipfile as NumPy calls it, and damaged.
        #[test]
        fn corpus_of_archives_is_read_or_refused() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/npz");
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is_good = ["stored", "deflated", "empty"].iter().any(|name| path.ends_with(name));
                assert_eq!(super::fuzz(&std::fs::read(&path).unwrap()), is_good, "{}", path.display());
            }
        }

        #[test]
        fn arrays_of_pythons_archives_are_read() {
            for packed in ["stored", "deflated"] {
                let path = format!("{}/../fuzz/corpus/npz/{packed}", env!("CARGO_MANIFEST_DIR"));
                let read = crate::read_npz(path, &polywarp_core::Device::cpu()).unwrap();
                assert_eq!(read["x"].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
                assert_eq!((read["x"].dims(), read["y"].to_vec::<i32>().unwrap()), (&[2u64, 3][..], vec![1, 2, 3]));
            }
        }
    }
}
