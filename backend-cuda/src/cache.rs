//! Compiled kernels on disk, so that a process starts without compiling anything.
//!
//! A cache of code is code: it lives in a directory of the user's own (mode 0700, never /tmp), a directory that others
//! can write or own is refused with a warning, and every entry is one file that holds the code *and* how it is launched,
//! under a SHA-256 that is checked on the very bytes that are used. A file that is torn, altered, renamed or foreign is a
//! miss, never an error. Writers do not lock: each writes a file of its own and renames it. Uses no GPU.
//!
//! `POLYWARP_CACHE=off` turns it off, `POLYWARP_CACHE=/a/directory` puts it elsewhere (under the same rules).

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::params::Metadata;

/// The environment variable that moves the cache or turns it off.
const VARIABLE: &str = "POLYWARP_CACHE";
/// First bytes of an entry: the format's name and version.
const MAGIC: &[u8; 8] = b"pwcubin1";
const DIGEST_BYTES: usize = 32;
/// Magic, digest, key, length of the metadata, length of the code.
const HEADER_BYTES: usize = 8 + DIGEST_BYTES + DIGEST_BYTES + 4 + 8;
/// Longest file that is read: the largest kernels have some hundred kilobytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What an entry is known by: a digest of everything its code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; DIGEST_BYTES]);

impl Key {
    /// The key of `parts`, in their order.
    pub(crate) fn of(parts: &[&str]) -> Key {
        let mut hasher = Sha256::new();
        for part in parts {
            // With lengths, so that ("a", "bc") and ("ab", "c") differ.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(hasher.finalize().into())
    }

    fn file_name(&self) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.cubin")
    }
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) metadata: Metadata,
    pub(crate) cubin: Vec<u8>,
}

/// The bytes of a file for `entry`.
fn encode(key: &Key, entry: &Entry) -> Option<Vec<u8>> {
    let metadata = serde_json::to_vec(&entry.metadata).ok()?;
    let mut body = Vec::with_capacity(HEADER_BYTES + metadata.len() + entry.cubin.len());
    body.extend(key.0);
    body.extend(u32::try_from(metadata.len()).ok()?.to_le_bytes());
    body.extend((entry.cubin.len() as u64).to_le_bytes());
    body.extend(metadata);
    body.extend(&entry.cubin);
    let digest: [u8; DIGEST_BYTES] = Sha256::digest(&body).into();
    Some([MAGIC.as_slice(), &digest, &body].concat())
}

/// The entry in `file`, or why there is none.
fn decode(key: &Key, file: &[u8]) -> Result<Entry, &'static str> {
    let rest = file.strip_prefix(MAGIC).ok_or("it is no entry of this version")?;
    let (digest, body) = rest.split_at_checked(DIGEST_BYTES).ok_or("it is cut short")?;
    if Sha256::digest(body).as_slice() != digest {
        return Err("its digest is wrong");
    }
    let (stored, rest) = body.split_at_checked(DIGEST_BYTES).ok_or("it is cut short")?;
    if stored != key.0 {
        return Err("it is another kernel's");
    }
    let (metadata_len, rest) = rest.split_first_chunk::<4>().ok_or("it is cut short")?;
    let (cubin_len, rest) = rest.split_first_chunk::<8>().ok_or("it is cut short")?;
    let (metadata_len, cubin_len) = (u32::from_le_bytes(*metadata_len) as usize, u64::from_le_bytes(*cubin_len));
    let (metadata, cubin) = rest.split_at_checked(metadata_len).ok_or("it is cut short")?;
    if cubin.len() as u64 != cubin_len {
        return Err("its length is wrong");
    }
    let metadata: Metadata = serde_json::from_slice(metadata).map_err(|_| "its metadata cannot be read")?;
    if !metadata.is_sound() {
        return Err("its metadata cannot be true");
    }
    Ok(Entry { metadata, cubin: cubin.to_vec() })
}

/// The cache on disk; without a directory it is always empty.
#[derive(Debug, Default)]
pub(crate) struct DiskCache {
    directory: Option<PathBuf>,
}

impl DiskCache {
    /// The cache where the environment says.
    pub(crate) fn from_env() -> DiskCache {
        let chosen = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let directory = match chosen {
            Some(value) if value == "off" => return DiskCache::default(),
            Some(value) => Some(PathBuf::from(value)),
            None => user_directory(),
        };
        match directory.filter(|path| path.is_absolute()) {
            Some(directory) => DiskCache::at(directory),
            None => {
                log::info!("kernels are not kept on disk: no absolute path in {VARIABLE}, XDG_CACHE_HOME or HOME");
                DiskCache::default()
            }
        }
    }

    /// The cache in `directory`, which is made if need be.
    pub(crate) fn at(directory: PathBuf) -> DiskCache {
        match prepare(&directory) {
            Ok(()) => DiskCache { directory: Some(directory) },
            Err(reason) => {
                warn_once(&directory, &reason);
                DiskCache::default()
            }
        }
    }

    /// The entry of `key`, if there is a sound one.
    pub(crate) fn get(&self, key: &Key) -> Option<Entry> {
        let path = self.directory.as_ref()?.join(key.file_name());
        let bytes = match read(&path) {
            Ok(bytes) => bytes?,
            Err(error) => {
                log::info!("cached kernel {} is not used: {error}", path.display());
                return None;
            }
        };
        match decode(key, &bytes) {
            Ok(entry) => Some(entry),
            Err(why) => {
                log::info!("cached kernel {} is not used: {why}", path.display());
                None
            }
        }
    }

    /// Keeps `entry`. A failure costs the next process a compilation and is logged.
    pub(crate) fn put(&self, key: &Key, entry: &Entry) {
        let Some(directory) = &self.directory else { return };
        let Some(bytes) = encode(key, entry) else { return };
        if let Err(error) = write(directory, &key.file_name(), &bytes) {
            log::info!("a kernel was not kept in {}: {error}", directory.display());
        }
    }
}

/// `$XDG_CACHE_HOME/polywarp/cuda`, or the like.
fn user_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else {
        set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))
    };
    Some(base?.join("polywarp").join("cuda"))
}

fn warn_once(directory: &Path, reason: &str) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| log::warn!("kernels are not kept on disk: {} {reason}", directory.display()));
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

/// The file's bytes; `None` when there is no such file.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    // Not through a link, which could lead to what others write.
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other("it is not a file of this cache"));
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a file whole or not at all.
fn write(directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = directory.join(temporary_name());
    let mut file = create_private(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    drop(file);
    let renamed = written.and_then(|()| fs::rename(&temporary, directory.join(name)));
    if renamed.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to tell
    }
    renamed
}

fn create_private(path: &Path) -> std::io::Result<fs::File> {
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

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
