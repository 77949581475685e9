//! Archives of machine code: their format, read without trusting a byte of it.
//!
//! Two are embedded: the kernels of this crate ([`crate::prepared`]), and those that `polywarp-cuda` compiled from WGSL.
//! Kernels stand in blocks of a megabyte and a half, each compressed (Brotli, RFC 7932) by itself, one architecture in
//! each: what a card does not need is never unpacked, and finding a kernel reads the index where it lies. All numbers are
//! little-endian, in 32 bits unless said:
//!
//! ```text
//! magic and version                        8 bytes
//! SHA-256 of the index, that is the rest up to the first block
//! counts: targets, blocks, kernels
//! per target   its number, of the makers' choosing
//! per block    where it ends, counted from the first block's start; bytes unpacked; SHA-256 of it as it is stored
//! per kernel   digest, 16 bytes; ascending
//! per target, per kernel   block, start within it unpacked, length; length 0: there is none
//! blocks, one after the other
//! ```
//!
//! What a kernel's bytes mean is for the archive's owner to say.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"pwready1";
const SHA_BYTES: usize = 32;
const BLOCK_RECORD_BYTES: usize = 4 + 4 + SHA_BYTES;
const PLACE_BYTES: usize = 12;
/// Longest block that is unpacked, so that no number in a file asks for all of memory.
const MAX_BLOCK_BYTES: u32 = 16 << 20;

/// What a kernel is known by: of a SHA-256 as much as tells kernels apart.
pub type KernelDigest = [u8; 16];

/// Why an archive or a part of it is not used.
pub type Refused = &'static str;

const SHORT: Refused = "it is cut short";

/// An archive whose index was checked.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    targets: &'a [u8],
    blocks: &'a [u8],
    digests: &'a [u8],
    places: &'a [u8],
    payload: &'a [u8],
}

/// Where a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block it is in.
    pub block: u32,
    start: u32,
    length: u32,
}

/// The block of an archive that was unpacked last: kernels that are wanted one after the other are often neighbours.
#[derive(Debug, Default)]
pub struct LastBlock(Mutex<Option<(u32, Arc<Vec<u8>>)>>);

impl LastBlock {
    /// The content of `block` of `archive`, whose blocks alone it is asked for.
    ///
    /// # Errors
    /// As [`Archive::unpack`].
    pub fn get(&self, archive: &Archive<'_>, block: u32) -> Result<Arc<Vec<u8>>, Refused> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((held, content)) if *held == block => Ok(Arc::clone(content)),
            _ => {
                let content = Arc::new(archive.unpack(block)?);
                *last = Some((block, Arc::clone(&content)));
                Ok(content)
            }
        }
    }
}

fn number(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// `count` records of `size` bytes off the front of `bytes`.
fn take<'a>(bytes: &mut &'a [u8], count: usize, size: usize) -> Result<&'a [u8], Refused> {
    let length = count.checked_mul(size).ok_or(SHORT)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(SHORT)?;
    *bytes = rest;
    Ok(taken)
}

impl<'a> Archive<'a> {
    /// The archive in `bytes`, when it is whole.
    ///
    /// # Errors
    /// Why not.
    pub fn parse(bytes: &'a [u8]) -> Result<Archive<'a>, Refused> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is no archive of this version")?;
        let (digest, index) = rest.split_at_checked(SHA_BYTES).ok_or(SHORT)?;
        let mut rest = index;
        let counts = take(&mut rest, 3, 4)?;
        let count = |i| number(counts, i).and_then(|n| usize::try_from(n).ok()).ok_or(SHORT);
        let (targets, blocks, kernels) = (count(0)?, count(1)?, count(2)?);
        let archive = Archive {
            targets: take(&mut rest, targets, 4)?,
            blocks: take(&mut rest, blocks, BLOCK_RECORD_BYTES)?,
            digests: take(&mut rest, kernels, size_of::<KernelDigest>())?,
            places: take(&mut rest, kernels.checked_mul(targets).ok_or(SHORT)?, PLACE_BYTES)?,
            payload: rest,
        };
        let index = &index[..index.len() - rest.len()];
        if Sha256::digest(index).as_slice() != digest {
            return Err("its index's digest is wrong");
        }
        Ok(archive)
    }

    /// Architectures, by their numbers.
    pub fn targets(&self) -> impl Iterator<Item = u32> {
        let targets = self.targets;
        (0..targets.len() / 4).filter_map(move |i| number(targets, i))
    }

    /// How many kernels it has.
    pub fn kernels(&self) -> usize {
        self.digests.len() / size_of::<KernelDigest>()
    }

    /// Where the kernel `digest` for target number `target` is.
    pub fn find(&self, digest: &KernelDigest, target: usize) -> Option<Place> {
        let kernel = self.digests.as_chunks().0.binary_search(digest).ok()?;
        let at = target.checked_mul(self.kernels())?.checked_add(kernel)?.checked_mul(3)?;
        let word = |i| number(self.places, at.checked_add(i)?);
        let place = Place { block: word(0)?, start: word(1)?, length: word(2)? };
        (place.length > 0).then_some(place)
    }

    /// The content of a block.
    ///
    /// # Errors
    /// It is not what was packed.
    pub fn unpack(&self, block: u32) -> Result<Vec<u8>, Refused> {
        let block = usize::try_from(block).map_err(|_| SHORT)?;
        let record = |i: usize| self.blocks.get(i.checked_mul(BLOCK_RECORD_BYTES)?..)?.get(..BLOCK_RECORD_BYTES);
        let end = |i: usize| number(record(i)?, 0).and_then(|end| usize::try_from(end).ok());
        let start = if block == 0 { Some(0) } else { end(block - 1) };
        let (Some(start), Some(end), Some(record)) = (start, end(block), record(block)) else {
            return Err("it has no such block");
        };
        let packed = self.payload.get(start..end).ok_or(SHORT)?;
        if Sha256::digest(packed).as_slice() != &record[8..] {
            return Err("a block's digest is wrong");
        }
        let length = number(record, 1).filter(|&n| n <= MAX_BLOCK_BYTES).ok_or("a block is too long")?;
        let mut unpacked = Vec::with_capacity(length as usize);
        let stream = brotli_decompressor::Decompressor::new(packed, 4096);
        let read = stream.take(u64::from(length) + 1).read_to_end(&mut unpacked);
        if read.is_err() || unpacked.len() != length as usize {
            return Err("a block cannot be unpacked");
        }
        Ok(unpacked)
    }
}

/// The kernel at `place` of an unpacked block.
///
/// # Errors
/// The block is shorter than that.
pub fn kernel(block: &[u8], place: Place) -> Result<&[u8], Refused> {
    let (start, length) = (place.start as usize, place.length as usize);
    start.checked_add(length).and_then(|end| block.get(start..end)).ok_or(SHORT)
}

/// Making archives: for the chores and tests that make those which are committed.
#[cfg(any(test, feature = "make"))]
pub mod write {
    use super::*;

    /// Bytes after which a block is full: a MiB takes some eight milliseconds to unpack. With 1 MiB the archive of native kernels is 5 % larger, with half of
    /// that another tenth (benches/results/h200-2026-11-29c/archive.txt).
    const BLOCK_BYTES: usize = 3 << 19;

    /// A kernel with its bytes for each target, in the targets' order; empty where there are none.
    pub struct Kernel {
        /// What it is known by.
        pub digest: KernelDigest,
        /// What is kept for each target.
        pub entries: Vec<Vec<u8>>,
    }

    /// An archive of `kernels` in which neighbours share blocks, so that it is the smaller the more they are alike. `quality` is Brotli's, 0 to 11.
    pub fn archive(targets: &[u32], kernels: &[Kernel], quality: i32) -> Vec<u8> {
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut places = vec![vec![[0u32; 3]; kernels.len()]; targets.len()];
        let mut order: Vec<usize> = (0..kernels.len()).collect();
        order.sort_by_key(|&i| kernels[i].digest);
        let mut rank = vec![0; kernels.len()];
        order.iter().enumerate().for_each(|(rank_of, &i)| rank[i] = rank_of);
        for (target, places) in places.iter_mut().enumerate() {
            let mut open = Vec::new();
            for (i, kernel) in kernels.iter().enumerate() {
                let entry = &kernel.entries[target];
                let start = open.len();
                open.extend(entry);
                places[rank[i]] = [blocks.len() as u32, start as u32, entry.len() as u32];
                if open.len() >= BLOCK_BYTES {
                    blocks.push(std::mem::take(&mut open));
                }
            }
            if !open.is_empty() {
                blocks.push(open);
            }
        }
        let packed = crate::make::in_parallel(&blocks, |block| pack(block, quality));
        let mut index: Vec<u8> = Vec::new();
        let mut put = |n: usize| index.extend((n as u32).to_le_bytes());
        [targets.len(), blocks.len(), kernels.len()].into_iter().for_each(&mut put);
        targets.iter().for_each(|&target| put(target as usize));
        let mut end = 0;
        for (block, packed) in blocks.iter().zip(&packed) {
            end += packed.len();
            index.extend((end as u32).to_le_bytes());
            index.extend((block.len() as u32).to_le_bytes());
            index.extend(Sha256::digest(packed));
        }
        order.iter().for_each(|&i| index.extend(kernels[i].digest));
        places.iter().flatten().flatten().for_each(|n| index.extend(n.to_le_bytes()));
        let mut file = MAGIC.to_vec();
        file.extend(Sha256::digest(&index));
        file.extend(index);
        packed.iter().for_each(|packed| file.extend(packed));
        file
    }

    fn pack(block: &[u8], quality: i32) -> Vec<u8> {
        let mut packed = Vec::new();
        let params = brotli::enc::BrotliEncoderParams { quality, lgwin: 22, ..Default::default() };
        brotli::BrotliCompress(&mut &block[..], &mut packed, &params).unwrap();
        packed
    }
}

#[cfg(any(test, feature = "fuzzing"))]
#[path = "archive_fuzzing.rs"]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
