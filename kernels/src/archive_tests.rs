//! Archives that are cut short, changed or lie about themselves: refused, never a panic.

use super::write::{Kernel, archive};
use super::*;

const TARGETS: [u32; 2] = [80, 90];

fn small() -> (Vec<Kernel>, Vec<u8>) {
    let entry = |seed: u8| (0..40u8).map(|i| i.wrapping_mul(seed)).collect::<Vec<u8>>();
    let kernels: Vec<Kernel> =
        [7u8, 3, 5].map(|seed| Kernel { digest: [seed; 16], entries: vec![entry(seed), entry(seed + 1)] }).into();
    let bytes = archive(&TARGETS, &kernels, 5);
    (kernels, bytes)
}

/// Every kernel of `bytes` that can be had.
fn readable(bytes: &[u8], kernels: &[Kernel]) -> Result<Vec<Vec<u8>>, Refused> {
    let archive = Archive::parse(bytes)?;
    let mut entries = Vec::new();
    for target in 0..TARGETS.len() {
        for kernel in kernels {
            let place = archive.find(&kernel.digest, target).ok_or("it is missing")?;
            entries.push(super::kernel(&archive.unpack(place.block)?, place)?.to_vec());
        }
    }
    Ok(entries)
}

#[test]
fn archive_gives_back_what_was_put_in() {
    let (kernels, bytes) = small();
    let expected: Vec<Vec<u8>> = (0..TARGETS.len())
        .flat_map(|target| kernels.iter().map(move |kernel| kernel.entries[target].clone()))
        .collect();
    assert_eq!(readable(&bytes, &kernels), Ok(expected));
    let archive = Archive::parse(&bytes).unwrap();
    assert_eq!(archive.targets().collect::<Vec<_>>(), TARGETS);
    assert_eq!(archive.kernels(), 3);
    assert_eq!(archive.find(&[4; 16], 0), None);
    assert_eq!(archive.find(&[7; 16], 2), None);
    assert!(archive.unpack(2).is_err());
    assert!(archive.unpack(u32::MAX).is_err());
}

#[test]
fn archive_cut_anywhere_is_refused() {
    let (kernels, bytes) = small();
    for length in 0..bytes.len() {
        assert!(readable(&bytes[..length], &kernels).is_err(), "{length} of {} bytes", bytes.len());
    }
}

#[test]
fn archive_with_any_byte_changed_is_refused() {
    let (kernels, bytes) = small();
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            assert!(readable(&changed, &kernels).is_err(), "byte {at} changed by {flip:#x}");
        }
    }
}

/// As one that was made to be wrong: the digests are right, the numbers under them are not.
#[test]
fn archive_with_false_numbers_never_panics() {
    let (kernels, bytes) = small();
    let index_end = 8 + SHA_BYTES + 12 + 8 + 2 * BLOCK_RECORD_BYTES + 3 * 16 + 6 * PLACE_BYTES;
    let mut refused = 0;
    for at in (8 + SHA_BYTES..index_end).step_by(4) {
        for value in [0, 1, 0x7fff_ffff, u32::MAX - 3, u32::MAX] {
            let mut changed = bytes.clone();
            changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let digest = Sha256::digest(&changed[8 + SHA_BYTES..index_end]);
            changed[8..8 + SHA_BYTES].copy_from_slice(&digest);
            refused += u32::from(readable(&changed, &kernels).is_err());
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn kernel_outside_of_its_block_is_refused() {
    let (kernels, bytes) = small();
    let archive = Archive::parse(&bytes).unwrap();
    let place = archive.find(&kernels[0].digest, 0).unwrap();
    let block = archive.unpack(place.block).unwrap();
    for start in [block.len() as u32 - 39, 4096, u32::MAX] {
        assert!(super::kernel(&block, Place { start, ..place }).is_err(), "{start}");
    }
    assert_eq!(super::kernel(&block, place), Ok(&kernels[0].entries[0][..]));
}

#[test]
fn kernel_that_a_target_lacks_is_not_found() {
    let (mut kernels, _) = small();
    kernels[1].entries[1].clear();
    let bytes = archive(&TARGETS, &kernels, 5);
    let archive = Archive::parse(&bytes).unwrap();
    assert!(archive.find(&kernels[1].digest, 0).is_some());
    assert_eq!(archive.find(&kernels[1].digest, 1), None);
    assert!(archive.find(&kernels[2].digest, 1).is_some());
}
