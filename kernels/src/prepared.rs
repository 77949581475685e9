//! The machine code of the kernels: the embedded archive, and how a kernel is found in one.
//!
//! Made by `cargo xtask kernels`. Finding reads the index; a block is unpacked when one of its kernels is wanted.

use sha2::{Digest, Sha256};

use crate::archive::{self, Archive, KernelDigest, LastBlock, Refused};
use crate::{Form, KernelInfo, Target};

/// The archive that is embedded.
pub static ARCHIVE: &[u8] = include_bytes!("../prepared/kernels.bin");

/// Most bytes of it: it is in the repository and in every binary.
pub const MOST_BYTES: usize = 7 << 20;

/// A kernel's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// What it was made for.
    pub target: Target,
    /// Machine code (an ELF file), or PTX ended by a zero.
    pub bytes: Vec<u8>,
}

/// What a kernel is known by in the archive.
pub fn digest(symbol: &str) -> KernelDigest {
    let mut digest = KernelDigest::default();
    digest.copy_from_slice(&Sha256::digest(symbol.as_bytes())[..size_of::<KernelDigest>()]);
    digest
}

/// The target of `kernel` that a card of compute capability `sm` runs best of those that `archive` has.
pub fn target(archive: &Archive<'_>, kernel: &KernelInfo, sm: u32) -> Option<Target> {
    let digest = digest(&kernel.symbol);
    let has = |(number, target): (usize, u32)| {
        archive.find(&digest, number).map(|_| Target::from_number(target)).filter(|t| kernel.targets.contains(t))
    };
    Target::best(archive.targets().enumerate().filter_map(has), sm)
}

/// The code of `kernel` for `target`, from `last` where it is in that block; `None` when the archive has none.
///
/// # Errors
/// The archive is not whole.
pub fn code(
    archive: &Archive<'_>,
    last: &LastBlock,
    kernel: &KernelInfo,
    target: Target,
) -> Result<Option<Code>, Refused> {
    let Some(number) = archive.targets().position(|number| number == target.number()) else { return Ok(None) };
    let Some(place) = archive.find(&digest(&kernel.symbol), number) else { return Ok(None) };
    let bytes = archive::kernel(&last.get(archive, place.block)?, place)?.to_vec();
    let whole = match target.form {
        Form::Machine => bytes.starts_with(b"\x7fELF"),
        Form::Ptx => bytes.ends_with(&[0]) && !bytes[..bytes.len() - 1].contains(&0),
    };
    if whole { Ok(Some(Code { target, bytes })) } else { Err("a kernel's code is not what its target's is") }
}
