//! Compiled kernels on disk, so that a process starts without compiling anything.
//!
//! A cache of code is code: it lives in a directory of the user's own ([`UserDir`]: mode 0700, never /tmp; one that others
//! can write, own or replace is refused with a warning), and every entry is one file that holds the code *and* how it is launched,
//! under a SHA-256 that is checked on the very bytes that are used. A file that is torn, altered, renamed or foreign is a
//! miss, never an error. Uses no GPU.
//!
//! `POLYWARP_CACHE=off` turns it off, `POLYWARP_CACHE=/a/directory` puts it elsewhere (under the same rules). Beyond 1 GiB, or
//! what `POLYWARP_CACHE_LIMIT_MIB` says, the kernels that were not used for longest go.

use std::path::{Path, PathBuf};

use polywarp_core::{CACHE_VARIABLE, UserDir};
use sha2::{Digest, Sha256};

use crate::params::Metadata;

/// First bytes of an entry: the format's name and version.
const MAGIC: &[u8; 8] = b"pwcubin1";
const DIGEST_BYTES: usize = 32;
/// Length of the metadata, length of the code.
const LENGTHS_BYTES: usize = 4 + 8;
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

    fn file_name(&self, kind: &Kind) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.{}", kind.suffix)
    }
}

/// What a file holds.
pub(crate) struct Kind {
    /// Its first bytes: the format's name and version.
    pub(crate) magic: &'static [u8; 8],
    /// What its name ends in.
    pub(crate) suffix: &'static str,
}

/// A kernel's machine code, and how it is launched: an [`Entry`].
const KERNEL: Kind = Kind { magic: MAGIC, suffix: "cubin" };

/// The bytes of a file of `kind` with `payload` under `key`.
fn sealed(kind: &Kind, key: &Key, payload: &[u8]) -> Vec<u8> {
    let body = [&key.0, payload].concat();
    let digest: [u8; DIGEST_BYTES] = Sha256::digest(&body).into();
    [kind.magic.as_slice(), &digest, &body].concat()
}

/// What [`sealed`] put into `file`, or why it is not taken.
fn opened<'a>(kind: &Kind, key: &Key, file: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let rest = file.strip_prefix(kind.magic).ok_or("it is no entry of this version")?;
    let (digest, body) = rest.split_at_checked(DIGEST_BYTES).ok_or("it is cut short")?;
    if Sha256::digest(body).as_slice() != digest {
        return Err("its digest is wrong");
    }
    let (stored, payload) = body.split_at_checked(DIGEST_BYTES).ok_or("it is cut short")?;
    if stored != key.0 {
        return Err("it is another kernel's");
    }
    Ok(payload)
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
    let mut payload = Vec::with_capacity(LENGTHS_BYTES + metadata.len() + entry.cubin.len());
    payload.extend(u32::try_from(metadata.len()).ok()?.to_le_bytes());
    payload.extend((entry.cubin.len() as u64).to_le_bytes());
    payload.extend(metadata);
    payload.extend(&entry.cubin);
    Some(sealed(&KERNEL, key, &payload))
}

/// The entry in `file`, or why there is none.
fn decode(key: &Key, file: &[u8]) -> Result<Entry, &'static str> {
    let rest = opened(&KERNEL, key, file)?;
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
    directory: Option<UserDir>,
}

impl DiskCache {
    /// The cache where the environment says.
    pub(crate) fn from_env() -> DiskCache {
        let chosen = std::env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty());
        let directory = match chosen {
            Some(value) if value == "off" => return DiskCache::default(),
            Some(value) => Some(PathBuf::from(value)),
            None => UserDir::usual("cuda"),
        };
        match directory.filter(|path| path.is_absolute()) {
            Some(directory) => DiskCache::at(directory),
            None => {
                log::info!(
                    "kernels are not kept on disk: no absolute path in {CACHE_VARIABLE}, XDG_CACHE_HOME or HOME"
                );
                DiskCache::default()
            }
        }
    }

    /// The cache in `directory`, which is made if need be.
    pub(crate) fn at(directory: PathBuf) -> DiskCache {
        match UserDir::open(directory.clone()) {
            Ok(directory) => DiskCache { directory: Some(directory) },
            Err(reason) => {
                warn_once(&directory, &reason);
                DiskCache::default()
            }
        }
    }

    /// Whether there is a kernel for `key`; it is not read.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.has(&key.file_name(&KERNEL)))
    }

    /// The kernel of `key`, if there is a sound one.
    pub(crate) fn get(&self, key: &Key) -> Option<Entry> {
        self.read(&KERNEL, key, |file| decode(key, file))
    }

    /// Keeps a kernel. A failure costs the next process a compilation and is logged.
    pub(crate) fn put(&self, key: &Key, entry: &Entry) {
        self.write(&KERNEL, key, || encode(key, entry));
    }

    /// What `decode` makes of the bytes that are kept of this kind under `key`, if they are sound.
    pub(crate) fn get_of<T>(
        &self,
        kind: &Kind,
        key: &Key,
        decode: impl FnOnce(&[u8]) -> Result<T, &'static str>,
    ) -> Option<T> {
        self.read(kind, key, |file| decode(opened(kind, key, file)?))
    }

    /// Keeps the bytes that `encode` gives, as [`DiskCache::put`] does.
    pub(crate) fn put_of(&self, kind: &Kind, key: &Key, encode: impl FnOnce() -> Vec<u8>) {
        self.write(kind, key, || Some(sealed(kind, key, &encode())));
    }

    fn read<T>(&self, kind: &Kind, key: &Key, decode: impl FnOnce(&[u8]) -> Result<T, &'static str>) -> Option<T> {
        let directory = self.directory.as_ref()?;
        let name = key.file_name(kind);
        let refused =
            |why: &str| log::info!("cached kernel {} is not used: {why}", directory.path().join(&name).display());
        let bytes = match directory.read(&name, MAX_FILE_BYTES) {
            Ok(bytes) => bytes?,
            Err(error) => {
                refused(&error.to_string());
                return None;
            }
        };
        decode(&bytes).map_err(refused).ok()
    }

    fn write(&self, kind: &Kind, key: &Key, encode: impl FnOnce() -> Option<Vec<u8>>) {
        let Some(directory) = &self.directory else { return };
        let Some(bytes) = encode() else { return };
        if let Err(error) = directory.write(&key.file_name(kind), &bytes) {
            log::info!("a kernel was not kept in {}: {error}", directory.path().display());
        }
    }
}

fn warn_once(directory: &Path, reason: &str) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| log::warn!("kernels are not kept on disk: {} {reason}", directory.display()));
}

#[cfg(any(test, feature = "fuzzing"))]
#[path = "cache_fuzzing.rs"]
pub(crate) mod fuzzing;
#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
