//! How much a directory of the user's keeps: the files that were not used for longest go first, and so do temporary files that a
//! killed process left behind.
//!
//! Only files of the kind that is being written count and are removed, and temporary files by the name that [`super`] gives
//! them: the directory may be one where the user keeps other things.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::folder::Folder;

/// The environment variable that sets how many MiB each directory of files kept on disk may have.
pub const LIMIT_VARIABLE: &str = "POLYWARP_CACHE_LIMIT_MIB";
/// What it is when nobody says: some thousand kernels.
const USUAL_LIMIT_MIB: u64 = 1024;
/// A temporary file is written in less time than this.
const STALE: Duration = Duration::from_secs(60 * 60);
/// The time of a file's last use is kept to this much.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// How many bytes of one kind a directory may have.
#[derive(Debug)]
pub(super) struct Limit {
    bytes: u64,
    /// Written since the directory was looked through last; so much at first that the first file has it looked through.
    written: AtomicU64,
}

impl Limit {
    pub(super) fn of(bytes: u64) -> Limit {
        Limit { bytes, written: AtomicU64::new(u64::MAX / 2) }
    }

    /// What the environment says, read once.
    pub(super) fn from_env() -> Limit {
        static MIB: OnceLock<u64> = OnceLock::new();
        let mib = *MIB.get_or_init(|| {
            let chosen = std::env::var(LIMIT_VARIABLE).ok().filter(|value| !value.is_empty());
            let parsed = chosen.as_ref().map(|value| value.trim().parse());
            match parsed {
                Some(Ok(mib)) => mib,
                None => USUAL_LIMIT_MIB,
                Some(Err(_)) => {
                    log::warn!("{LIMIT_VARIABLE}={} is no number of MiB", chosen.unwrap_or_default());
                    USUAL_LIMIT_MIB
                }
            }
        });
        Limit::of(mib.saturating_mul(1 << 20))
    }

    /// Called after the file `name` of `bytes` bytes was written to `folder`. What cannot be removed stays.
    pub(super) fn note(&self, folder: &Folder, name: &str, bytes: u64) {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        // A directory is looked through now and then: a sixteenth over the limit does no harm.
        if before.saturating_add(bytes) > self.bytes / 16 {
            self.written.store(0, Ordering::Relaxed);
            self.tidy(folder, name, SystemTime::now());
        }
    }

    fn tidy(&self, folder: &Folder, written: &str, now: SystemTime) {
        let Ok(names) = folder.names() else { return };
        let kind = extension(written);
        let older = |than: Duration, time: SystemTime| now.duration_since(time).is_ok_and(|age| age > than);
        let mut kept = Vec::new();
        for name in names {
            let Ok(Some((bytes, used))) = folder.look(&name) else { continue };
            if is_temporary(&name) {
                if older(STALE, used) {
                    let _ = folder.remove(&name); // tried again next time
                }
            } else if extension(&name) == kind {
                kept.push((used, name, bytes));
            }
        }
        let mut total: u64 = kept.iter().map(|(_, _, bytes)| bytes).sum();
        if total <= self.bytes {
            return;
        }
        kept.sort_unstable();
        let mut gone = 0;
        for (_, name, bytes) in kept {
            // Somewhat less than the limit, so that the next file does not ask for all of this again.
            if total <= self.bytes / 8 * 7 {
                break;
            }
            if name != written && folder.remove(&name).is_ok() {
                (total, gone) = (total - bytes, gone + 1);
            }
        }
        log::info!("{gone} files kept on disk were removed: more than {} bytes ({LIMIT_VARIABLE})", self.bytes);
    }
}

/// Marks `file`, which was just read, as used: now and then.
pub(super) fn touch(file: &std::fs::File, written: SystemTime) {
    let now = SystemTime::now();
    if now.duration_since(written).is_ok_and(|age| age > FRESH) {
        let _ = file.set_modified(now); // a read-only disk keeps its order
    }
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

/// Whether `name` is one that [`super::temporary_name`] makes.
fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|numbers| numbers.split('-').count() == 3 && numbers.split('-').all(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_known_by_the_whole_of_their_name() {
        assert!(is_temporary(&super::super::temporary_name()));
        for name in
            ["a.tmp", ".tmp", ".1-2.tmp", ".1-2-x.tmp", ".1-2-3-4.tmp", "1-2-3.tmp", ".1-2-3.tmp.kept", ".1--3.tmp"]
        {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
