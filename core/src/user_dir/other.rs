//! A directory by its path, where there are no rights to check: it is in the user's own profile, whose rights come with it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory of this user's own.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The directory `path`, made if need be.
    pub(super) fn open(path: &Path) -> Result<Folder, String> {
        fs::create_dir_all(path).map_err(|error| format!("cannot be made: {error}"))?;
        Ok(Folder(path.to_path_buf()))
    }

    /// The bytes of the file `path`; its rights are not looked at here.
    pub(super) fn trusted(path: &Path, most_bytes: u64) -> Result<Vec<u8>, String> {
        let found = fs::metadata(path).map_err(|error| format!("cannot be looked at: {error}"))?;
        match found.is_file() {
            true => super::whole(File::open(path).map_err(|error| format!("cannot be opened: {error}"))?, most_bytes),
            false => Err("is not a regular file".to_owned()),
        }
    }

    /// Opens a file for reading, which must be one itself.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        let path = self.0.join(name);
        match fs::symlink_metadata(&path)?.is_file() {
            true => File::open(path),
            false => Err(io::Error::other("it is not a file itself")),
        }
    }

    /// Makes a file.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.0.join(name))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// The length of the file `name`, and when it was written last; `None` for what is no file itself.
    pub(super) fn look(&self, name: &str) -> io::Result<Option<(u64, SystemTime)>> {
        let found = fs::symlink_metadata(self.0.join(name))?;
        Ok(found.is_file().then(|| (found.len(), found.modified().unwrap_or(UNIX_EPOCH))))
    }

    /// Every name that is UTF-8, in no order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }
}
