//! Kernels that were compiled before: the machine code of everyday ops, embedded, for the architectures in use.
//!
//! A process that finds its kernels here neither parses WGSL nor waits for the driver's assembler. They were made from the
//! same WGSL by the same compiler, then by NVIDIA's `ptxas` (`cargo xtask prepare`). A kernel is known by its text and how
//! it was to be compiled, not by the compiler: a test compiles every text again and fails when the PTX is another, so
//! that an archive of an earlier compiler cannot be merged. What is not here, or what the driver does not take (one that
//! is older than the `ptxas`), is compiled as ever. Opening a device reads the index's digest; unpacking waits for the
//! first use.
//!
//! `POLYWARP_PREPARED=off` leaves them unused. Format: [`polywarp_kernels::archive`], with the length of a kernel's
//! metadata, the metadata in JSON, and the machine code as its bytes. Which kernels: `prepared/everyday.rs`.

#[cfg(test)]
mod everyday;
#[cfg(test)]
mod make;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use naga_ptx::Target;
use polywarp_kernels::archive::{self, Archive, KernelDigest, LastBlock, Refused};
use sha2::{Digest, Sha256};

use crate::cache::Entry;
use crate::options::own_options;
use crate::params::Metadata;
use crate::status::{Code, code};

/// Made by `cargo xtask prepare`.
static ARCHIVE: &[u8] = include_bytes!("../prepared/kernels.bin");

/// The environment variable that leaves prepared kernels unused (`off`).
const VARIABLE: &str = "POLYWARP_PREPARED";

/// The prepared kernels that one card can run.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// With the number, in it, of the target that the card runs.
    archive: Option<(Archive<'static>, usize)>,
    /// The driver does not take them.
    unusable: AtomicBool,
    /// How many the driver took.
    taken: AtomicUsize,
    last: LastBlock,
}

impl Prepared {
    /// Those for a card of `target`.
    pub(crate) fn new(target: Target) -> Prepared {
        if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
            return Prepared::default();
        }
        let archive = embedded().and_then(|archive| Some((archive, runs_on(archive.targets(), target)?)));
        Prepared { archive, ..Prepared::default() }
    }

    /// Whether there is a kernel with this text. Nothing is unpacked.
    pub(crate) fn has(&self, wgsl: &str) -> bool {
        let usable = self.archive.as_ref().filter(|_| !self.unusable.load(Ordering::Relaxed));
        usable.is_some_and(|(archive, target)| archive.find(&digest(wgsl), *target).is_some())
    }

    /// The kernel with this text.
    pub(crate) fn get(&self, wgsl: &str) -> Option<Entry> {
        let (archive, target) = self.archive.as_ref()?;
        if self.unusable.load(Ordering::Relaxed) {
            return None;
        }
        let place = archive.find(&digest(wgsl), *target)?;
        let found = self.last.get(archive, place.block).and_then(|block| entry(archive::kernel(&block, place)?));
        match found {
            Ok(entry) => Some(entry),
            Err(why) => {
                log::warn!("prepared kernels are not used: {why}");
                self.unusable.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// The driver took one.
    pub(crate) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// How many the driver took.
    pub(crate) fn count(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The driver did not take one, and why: unless it was for the moment, no other is tried.
    pub(crate) fn refused(&self, why: Code) {
        self.unusable.fetch_or(why != code::OUT_OF_MEMORY, Ordering::Relaxed);
    }
}

/// A kernel of the archive.
fn entry(bytes: &[u8]) -> Result<Entry, Refused> {
    let short = "a kernel is cut short";
    let (metadata_len, rest) = bytes.split_first_chunk::<4>().ok_or(short)?;
    let (metadata, cubin) = rest.split_at_checked(u32::from_le_bytes(*metadata_len) as usize).ok_or(short)?;
    let metadata: Metadata = serde_json::from_slice(metadata).map_err(|_| "a kernel's metadata cannot be read")?;
    if !metadata.is_sound() {
        return Err("a kernel's metadata cannot be true");
    }
    Ok(Entry { metadata, cubin: cubin.to_vec() })
}

/// The embedded archive; its index is checked once.
fn embedded() -> Option<Archive<'static>> {
    static PARSED: OnceLock<Option<Archive<'static>>> = OnceLock::new();
    *PARSED.get_or_init(|| match Archive::parse(ARCHIVE) {
        Ok(archive) => Some(archive),
        Err(why) => {
            log::warn!("prepared kernels are not used: {why}");
            None
        }
    })
}

/// Which of `targets` a card of architecture `card` runs best: machine code runs on its own architecture and on later ones
/// of the same generation (CUDA programming guide, "Binary Compatibility").
fn runs_on(targets: impl Iterator<Item = u32>, card: Target) -> Option<usize> {
    let fits = |&(_, target): &(usize, u32)| target / 10 == card.sm() / 10 && target <= card.sm();
    targets.enumerate().filter(fits).max_by_key(|&(_, target)| target).map(|(index, _)| index)
}

/// What the kernel with this text is known by, whatever the target.
fn digest(wgsl: &str) -> KernelDigest {
    let options = format!("{:?}", own_options(Target::OLDEST));
    let mut hasher = Sha256::new();
    hasher.update((options.len() as u64).to_le_bytes());
    hasher.update(options);
    hasher.update(wgsl);
    let mut digest = KernelDigest::default();
    digest.copy_from_slice(&hasher.finalize()[..size_of::<KernelDigest>()]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_take_code_of_their_generation_that_is_not_newer() {
        let best = |sm: u32| runs_on([75, 80, 90, 100, 120].into_iter(), Target::new(sm / 10, sm % 10));
        let found = [70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121].map(best);
        let expected = [None, Some(0), Some(1), Some(1), Some(1), Some(2), Some(3), Some(3), None, Some(4), Some(4)];
        assert_eq!(found, expected);
        assert_eq!(runs_on([86, 80].into_iter(), Target::new(8, 9)), Some(0));
        assert_eq!(runs_on([86, 80].into_iter(), Target::new(8, 0)), Some(1));
    }

    #[test]
    fn entry_that_is_cut_short_is_refused() {
        let (archive, mut read) = (embedded().unwrap(), 0);
        for source in make::sources().iter().step_by(40) {
            let Some(place) = archive.find(&digest(&source.wgsl), 0) else { continue };
            let block = archive.unpack(place.block).unwrap();
            let bytes = archive::kernel(&block, place).unwrap();
            let whole = entry(bytes).unwrap();
            let metadata_end = bytes.len() - whole.cubin.len();
            // Code that is cut short cannot be told here: digests do.
            assert!((0..metadata_end).all(|length| entry(&bytes[..length]).is_err()));
            read += 1;
        }
        assert!(read > 3);
    }

    #[test]
    fn a_kernel_that_was_not_prepared_is_not_found() {
        let prepared = Prepared::new(Target::new(9, 0));
        assert!(prepared.archive.is_some());
        assert_eq!(prepared.get("@compute @workgroup_size(1) fn main() {}"), None);
    }

    #[test]
    fn prepared_kernels_that_the_driver_refuses_are_not_offered_again() {
        let source = make::sources().swap_remove(0);
        let prepared = Prepared::new(Target::new(9, 0));
        assert!(prepared.get(&source.wgsl).is_some());
        prepared.refused(code::OUT_OF_MEMORY);
        assert!(prepared.get(&source.wgsl).is_some());
        prepared.refused(code::INVALID_IMAGE);
        assert!(prepared.get(&source.wgsl).is_none());
        assert!(Prepared::new(Target::OLDEST).get(&source.wgsl).is_none());
    }
}
