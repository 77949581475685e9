//! A directory of the user's own, for what a later process may trust as much as this one does: compiled kernels, answers of
//! the tuner.
//!
//! What lies there steers what runs on a device, so the directory is made with mode 0700, one that others can write, own or
//! put another in the place of is refused, nothing is read through a link, and files are written whole or not at all: under a
//! name of their own, then renamed. The directory is reached once, each step of its path checked (`user_dir/unix.rs`), and used
//! by its descriptor from then on. It keeps so many bytes (`user_dir/limit.rs`). Nobody locks. What a file holds, and whether
//! it is what it should be, is its reader's to check.

#[cfg_attr(unix, path = "user_dir/unix.rs")]
#[cfg_attr(not(unix), path = "user_dir/other.rs")]
mod folder;
#[path = "user_dir/limit.rs"]
mod limit;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use folder::Folder;
pub use limit::LIMIT_VARIABLE;
use limit::Limit;

/// The environment variable that moves what is kept on disk, or turns it off (`off`).
pub const CACHE_VARIABLE: &str = "POLYWARP_CACHE";

/// A directory that only this user can write.
#[derive(Clone)]
pub struct UserDir {
    path: PathBuf,
    folder: Folder,
    limit: Arc<Limit>,
}

impl PartialEq for UserDir {
    fn eq(&self, other: &UserDir) -> bool {
        self.path == other.path
    }
}

impl Eq for UserDir {}

impl fmt::Debug for UserDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserDir({})", self.path.display())
    }
}

impl UserDir {
    /// `path`, made if need be.
    ///
    /// # Errors
    /// Why it cannot be trusted or made, in words that follow its name.
    pub fn open(path: PathBuf) -> Result<UserDir, String> {
        let folder = Folder::open(&path)?;
        Ok(UserDir { path, folder, limit: Arc::new(Limit::from_env()) })
    }

    /// Where things called `name` are kept when nobody says otherwise: `$XDG_CACHE_HOME/polywarp/NAME`, or the like;
    /// `None` where the environment names no home.
    pub fn usual(name: &str) -> Option<PathBuf> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = if cfg!(windows) {
            set("LOCALAPPDATA")
        } else {
            set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))
        };
        Some(base?.join("polywarp").join(name))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the file `name`; `None` when there is no such file.
    ///
    /// # Errors
    /// What the system reports; a link, a directory or a file over `most_bytes`.
    pub fn read(&self, name: &str, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.folder.read(plain(name)?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Of what was opened, whatever has the name by now.
        let found = file.metadata()?;
        if !found.is_file() || found.len() > most_bytes {
            return Err(io::Error::other("it is not a file of this cache"));
        }
        if let Ok(written) = found.modified() {
            limit::touch(&file, written);
        }
        let mut bytes = Vec::with_capacity(found.len() as usize);
        file.take(most_bytes).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes the file `name` whole or not at all.
    ///
    /// # Errors
    /// What the system reports; what was there before stays.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, |file| file.write_all(bytes).and_then(|()| file.sync_data()))
    }

    /// [`UserDir::write`] that does not wait for the disk: after a loss of power the file may be torn, which a reader that
    /// checks a digest notices.
    ///
    /// # Errors
    /// As [`UserDir::write`].
    pub fn write_soon(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, |file| file.write_all(bytes))
    }

    fn replace(&self, name: &str, fill: impl FnOnce(&mut std::fs::File) -> io::Result<()>) -> io::Result<()> {
        let (name, temporary) = (plain(name)?, temporary_name());
        let mut file = self.folder.create(&temporary)?;
        let written = fill(&mut file).and_then(|()| Ok(file.metadata()?.len()));
        drop(file);
        let renamed = written.and_then(|bytes| self.folder.rename(&temporary, name).map(|()| bytes));
        match renamed {
            Ok(bytes) => self.limit.note(&self.folder, name, bytes),
            Err(_) => {
                let _ = self.folder.remove(&temporary); // the first error is the one to tell
            }
        }
        renamed.map(|_| ())
    }

    /// Whether there is a file `name`; it is not read.
    pub fn has(&self, name: &str) -> bool {
        plain(name).is_ok_and(|name| matches!(self.folder.look(name), Ok(Some(_))))
    }

    /// Removes the file `name`, if there is one.
    ///
    /// # Errors
    /// What the system reports.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match self.folder.remove(plain(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The names of files that end in `suffix`, sorted.
    ///
    /// # Errors
    /// What the system reports.
    pub fn names(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = self.folder.names()?;
        names.retain(|name| name.ends_with(suffix));
        names.sort_unstable();
        Ok(names)
    }
}

/// The bytes of the file `path`, of a user's choosing, that steers what runs on a device: only root and this user may be able to write
/// it or to put another in its place, by the rules of [`UserDir`]. A link is refused, and so is more than `most_bytes`.
///
/// # Errors
/// Why it is not trusted or cannot be read, in words that follow its name.
pub fn read_trusted(path: &Path, most_bytes: u64) -> Result<Vec<u8>, String> {
    Folder::trusted(path, most_bytes)
}

/// All bytes of `file`.
fn whole(file: std::fs::File, most_bytes: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    match bytes.len() as u64 > most_bytes {
        true => Err(format!("has more than {most_bytes} bytes")),
        false => Ok(bytes),
    }
}

/// `name`, which leads nowhere else.
fn plain(name: &str) -> io::Result<&str> {
    match name.contains(['/', '\\', '\0']) || name == ".." {
        true => Err(io::Error::other("it is no name of a file")),
        false => Ok(name),
    }
}

/// A name no other writer uses.
fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
    format!(".{}-{}-{time}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(all(test, unix))]
#[path = "user_dir/tests.rs"]
mod tests;
