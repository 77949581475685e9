//! Kernels of the family sparse24: the dense matrix of a 2:4 compressed one, and its metadata as wgmma.sp takes them.
//! Sources: `cuda/sparse24.cu`, `cuda/sparse24_metadata.cu`.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/sparse24.cu` and `cuda/sparse24_metadata.cu`.
pub(crate) const THREADS: u32 = 256;

/// `TILE_UNITS` in `cuda/sparse24_metadata.cu`: units of 64 of K that a block makes, of 64 rows.
pub(crate) const ARRANGED_UNITS: u64 = 16;

/// The kernel that arranges metadata for wgmma.sp, of elements of so many bytes: 1 or 2.
pub(crate) fn arrange(element_bytes: u64) -> String {
    format!("sparse24_metadata_wgmma_{element_bytes}")
}

/// The kernel for elements of so many bytes: 1, 2 or 4.
pub(crate) fn symbol(element_bytes: u64) -> String {
    format!("sparse24_decompress_{element_bytes}")
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    use Param::{Address, U32};
    let of = |(bytes, cpp): (u64, &str)| {
        let symbol = symbol(bytes);
        KernelInfo {
            source: "sparse24.cu",
            instance: format!("SPARSE24_DECOMPRESS({symbol}, {cpp})"),
            symbol,
            // So small that a driver assembles it in no time.
            targets: &[Target::SM_80, Target::SM_90, Target::PTX_80],
            block: [THREADS, 1, 1],
            // values, metadata, dense; units of a row, words of a row's metadata, units
            params: vec![Address, Address, Address, U32, U32, U32],
            ..KernelInfo::default()
        }
    };
    let arranging = [1, 2].map(|bytes| {
        let symbol = arrange(bytes);
        KernelInfo {
            source: "sparse24_metadata.cu",
            instance: format!("SPARSE24_METADATA({symbol}, {bytes})"),
            symbol,
            targets: &[Target::SM_90],
            block: [THREADS, 1, 1],
            // metadata, arranged; rows, words of a row, slabs of 64 rows, units of 64 of K, blocks along K
            params: vec![Address, Address, U32, U32, U32, U32, U32],
            starts_early: true,
            ..KernelInfo::default()
        }
    });
    [(1, "uint8_t"), (2, "uint16_t"), (4, "uint32_t")].map(of).into_iter().chain(arranging).collect()
}
