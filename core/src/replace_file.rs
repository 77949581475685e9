//! Files of a user's choosing, written whole or not at all: a crash leaves the file before or the new one, never a half.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Temporary files that may lie beside a file before it is an error.
const MOST_LEFT: u32 = 1000;

/// Puts what `write` writes in the place of the file `path`: beside it first, onto the disk, then by its name.
///
/// # Errors
/// What `write` or the system reports; what was there before stays, and nothing lies beside it.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    let (temporary, mut file) = beside(path)?;
    let written = write(&mut file).and_then(|()| file.flush()).and_then(|()| file.sync_all());
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        // The first error is the one to tell of.
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// A new file in the folder of `path`. What others write there at the same time, or left there, has other names.
fn beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut number = 0;
    loop {
        let temporary = path.with_file_name(format!(".{}.{number}.part", name.to_string_lossy()));
        match fs::OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_LEFT => number += 1,
            opened => return opened.map(|file| (temporary, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("polywarp-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x");
        // What a process that was killed left behind.
        fs::write(folder.join(".x.0.part"), "left").unwrap();
        replace_file(&path, |file| file.write_all(b"before")).unwrap();
        let half = |file: &mut fs::File| file.write_all(b"ha").and_then(|()| Err(io::Error::other("full")));
        assert_eq!(replace_file(&path, half).unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"before");
        replace_file(&path, |file| file.write_all(b"after")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "something lies beside it");
        assert!(replace_file(Path::new("/"), |_| Ok(())).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
