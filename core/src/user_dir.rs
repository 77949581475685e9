//! A directory of the user's own, for what a later process may trust as much as this one does: compiled kernels, answers of
//! the tuner.
//!
//! What lies there steers what runs on a device, so the directory is made with mode 0700, one that others can write or own
//! is refused, nothing is read through a link, and files are written whole or not at all: under a name of their own, then
//! renamed. Nobody locks. What a file holds, and whether it is what it should be, is its reader's to check.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that moves what is kept on disk, or turns it off (`off`).
pub const CACHE_VARIABLE: &str = "POLYWARP_CACHE";

/// A directory that only this user can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDir {
    path: PathBuf,
}

impl UserDir {
    /// `path`, made if need be.
    ///
    /// # Errors
    /// Why it cannot be trusted or made, in words that follow its name.
    pub fn open(path: PathBuf) -> Result<UserDir, String> {
        prepare(&path)?;
        Ok(UserDir { path })
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
        let file = match open_itself(&self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Of what was opened, whatever has the name by now.
        let found = file.metadata()?;
        if !found.is_file() || found.len() > most_bytes {
            return Err(io::Error::other("it is not a file of this cache"));
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

    fn replace(&self, name: &str, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
        let temporary = self.path.join(temporary_name());
        let mut file = create_private(&temporary)?;
        let written = fill(&mut file);
        drop(file);
        let renamed = written.and_then(|()| fs::rename(&temporary, self.path.join(name)));
        if renamed.is_err() {
            let _ = fs::remove_file(&temporary); // the first error is the one to tell
        }
        renamed
    }

    /// Removes the file `name`, if there is one.
    ///
    /// # Errors
    /// What the system reports.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The names of files that end in `suffix`, sorted.
    ///
    /// # Errors
    /// What the system reports.
    pub fn names(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            names.extend(name.to_str().filter(|name| name.ends_with(suffix)).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }
}

/// Makes the directory for this user alone, and checks that it is.
#[cfg(unix)]
fn prepare(directory: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| format!("cannot be made: {error}"))?;
    let found = fs::symlink_metadata(directory).map_err(|error| format!("cannot be looked at: {error}"))?;
    if !found.is_dir() {
        return Err("is not a directory itself".to_owned());
    }
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(format!("can be written by others (mode {mode:04o}); run chmod 700 on it"));
    }
    match own_user(directory) {
        Some(user) if user == found.uid() => Ok(()),
        Some(user) => Err(format!("belongs to user {}, not to user {user}", found.uid())),
        None => Err("cannot be written".to_owned()),
    }
}

#[cfg(not(unix))]
fn prepare(directory: &Path) -> Result<(), String> {
    // The user's own profile; its rights come with it.
    fs::create_dir_all(directory).map_err(|error| format!("cannot be made: {error}"))
}

/// The user this process acts as: who owns its entry in /proc, or else a file it makes.
#[cfg(unix)]
fn own_user(directory: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    if let Ok(own) = fs::metadata("/proc/self") {
        return Some(own.uid());
    }
    let path = directory.join(temporary_name());
    let made = create_private(&path).ok()?;
    let user = made.metadata().ok().map(|found| found.uid());
    let _ = fs::remove_file(&path); // what stays behind is an empty file
    user
}

/// Opens a file for reading: not through a link, which could lead to what others write, and without waiting for whoever
/// writes a pipe.
#[cfg(unix)]
fn open_itself(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open_itself(path: &Path) -> io::Result<fs::File> {
    match fs::symlink_metadata(path)?.is_file() {
        true => fs::File::open(path),
        false => Err(io::Error::other("it is not a file itself")),
    }
}

fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A name no other writer uses.
fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
    format!(".{}-{}-{time}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn read_takes_files_themselves_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("polywarp-user-dir-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let directory = UserDir::open(path.clone()).unwrap();
        directory.write("file", b"own").unwrap();
        assert_eq!(directory.read("file", 3).unwrap().as_deref(), Some(&b"own"[..]));
        assert!(directory.read("file", 2).is_err(), "longer than it may be");
        assert_eq!(directory.read("absent", 3).unwrap(), None);
        // A link is refused wherever it leads, also to a good file and to none.
        for (name, to) in [("near", path.join("file")), ("far", "/proc/version".into()), ("lost", path.join("absent"))]
        {
            std::os::unix::fs::symlink(to, path.join(name)).unwrap();
            let refused = directory.read(name, 1 << 20).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ELOOP), "{name}: {refused}");
        }
        fs::create_dir(path.join("folder")).unwrap();
        assert!(directory.read("folder", 1 << 20).is_err());
        // Nobody writes this pipe: a read that waits for that does not end.
        if std::process::Command::new("mkfifo").arg(path.join("pipe")).status().is_ok_and(|made| made.success()) {
            assert!(directory.read("pipe", 1 << 20).is_err());
        }
        fs::remove_dir_all(&path).unwrap();
    }
}
