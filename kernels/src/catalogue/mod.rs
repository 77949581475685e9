//! The catalogue: what every kernel is. One file per family; [`FAMILIES`] holds one sorted line for each.
//!
//! A kernel here is one instance with one symbol, made from a source in `cuda/` by a line of C++ ([`KernelInfo::instance`]).
//! Families write their instances as data of their own (tile, stages, dtypes) and derive the symbol, the line and the
//! numbers from it, so that nothing is said twice. The archive, the manifest and the planners all read this list.

pub(crate) mod attention;
pub(crate) mod convolution;
pub(crate) mod convolution_mma;
pub(crate) mod dmma;
pub(crate) mod gemv;
pub(crate) mod gemv_tma;
pub(crate) mod mma_sparse;
pub(crate) mod mma_sync;
pub(crate) mod pack;
pub(crate) mod probe;
pub(crate) mod reduce_parts;
pub(crate) mod simt;
pub(crate) mod sparse24;
pub(crate) mod split_f16;
pub(crate) mod splitk;
pub(crate) mod wgmma;
pub(crate) mod wgmma_sparse;

use std::collections::HashMap;
use std::sync::LazyLock;

use polywarp_core::DType;

use crate::{Param, Target};

/// The kernels of a family.
type List = fn() -> Vec<KernelInfo>;

/// The families, by name.
const FAMILIES: &[(&str, List)] = &[
    ("attention", attention::kernels),
    ("convolution", convolution::kernels),
    ("convolution_mma", convolution_mma::kernels),
    ("dmma", dmma::kernels),
    ("gemv", gemv::kernels),
    ("gemv_tma", gemv_tma::kernels),
    ("mma_sparse", mma_sparse::kernels),
    ("mma_sync", mma_sync::kernels),
    ("pack", pack::kernels),
    ("probe", probe::kernels),
    ("reduce_parts", reduce_parts::kernels),
    ("simt", simt::kernels),
    ("sparse24", sparse24::kernels),
    ("split_f16", split_f16::kernels),
    ("splitk", splitk::kernels),
    ("wgmma", wgmma::kernels),
    ("wgmma_sparse", wgmma_sparse::kernels),
];

/// One kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelInfo {
    /// Its name in machine code: unique, and what people read. `gemm_f16_f16_wgmma_128x256x64_tn`.
    pub symbol: String,
    /// The family it belongs to: a file here. Filled in by the catalogue.
    pub family: &'static str,
    /// The file in `cuda/` that its translation unit includes.
    pub source: &'static str,
    /// What follows that include: the line of C++ that makes this instance. May be empty.
    pub instance: String,
    /// What machine code is made for. Each has its own `__CUDA_ARCH__`.
    pub targets: &'static [Target],
    /// Threads per block along x, y, z.
    pub block: [u32; 3],
    /// Blocks per cluster along x, y, z, as compiled in by `__cluster_dims__`; ones without.
    pub cluster: [u32; 3],
    /// Shared memory that a launch asks for.
    pub dynamic_shared_bytes: u32,
    /// What it is launched with, in order.
    pub params: Vec<Param>,
    /// It may start while the kernel before it still runs: it waits by itself (`griddepcontrol.wait`) before it touches
    /// memory.
    pub starts_early: bool,
    /// Its blocks wait for each other: a launch starts all of them or none (cooperative launch), in turn, and has no more than fit on the
    /// card at a time.
    pub cooperative: bool,
    /// Instructions of which the machine code must have one, by their names in a disassembly: `HGMMA`. Empty for kernels
    /// without tensor cores.
    pub tensor: &'static [&'static str],
    /// How it cuts its work.
    pub tile: Option<Tile>,
}

/// How a matrix product is cut: per block, and how many such pieces of K are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of D per block.
    pub m: u32,
    /// Columns of D per block.
    pub n: u32,
    /// Depth of one stage.
    pub k: u32,
    /// Stages in shared memory.
    pub stages: u32,
}

/// Along which dimension the neighbours of an operand of a product lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Major {
    /// K.
    K,
    /// M of A, N of B.
    Mn,
}

/// Bytes of a sum of products of `operands`: f32, i32, or f64.
pub(crate) fn sum_bytes(operands: DType) -> u64 {
    if operands == DType::F64 { 8 } else { 4 }
}

/// The name of a floating-point type, or of a byte, in C++.
pub(crate) fn cpp(dtype: DType) -> &'static str {
    match (dtype.is_float(), dtype.size_bytes()) {
        (true, 2) if dtype == DType::BF16 => "__nv_bfloat16",
        (true, 2) => "__half",
        (true, 4) => "float",
        (true, 1) if dtype == DType::F8E5M2 => "__nv_fp8_e5m2",
        (true, 1) => "__nv_fp8_e4m3",
        (true, _) => "double",
        (false, _) if dtype == DType::U8 => "uint8_t",
        (false, _) => "int8_t",
    }
}

/// What kernels that know scales take last: those of A's rows and of B's columns, each an address, which may be null for ones,
/// the elements from one to the next, and those from matrix to matrix.
pub(crate) const SCALES: [Param; 6] = [Param::Address, Param::I64, Param::I64, Param::Address, Param::I64, Param::I64];

/// The type of alpha and beta where `operands` are multiplied.
pub(crate) fn scalar(operands: DType) -> Param {
    if operands == DType::F64 { Param::F64 } else { Param::F32 }
}

impl KernelInfo {
    /// Threads per block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Where each parameter starts in a block made by [`crate::Launch::pack`].
    pub fn param_offsets(&self) -> Vec<usize> {
        let mut end = 0;
        let place = |&param: &Param| {
            let at = crate::param::offset(end, param);
            end = at + param.size_bytes();
            at
        };
        self.params.iter().map(place).collect()
    }

    /// The code of it that a card of compute capability `sm` (90 is 9.0) runs best.
    pub fn target(&self, sm: u32) -> Option<Target> {
        Target::best(self.targets.iter().copied(), sm)
    }
}

impl Default for KernelInfo {
    /// A kernel without a name, of one thread: for the fields that a family does not set.
    fn default() -> KernelInfo {
        KernelInfo {
            symbol: String::new(),
            family: "",
            source: "",
            instance: String::new(),
            targets: &[],
            block: [1; 3],
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
            params: Vec::new(),
            starts_early: false,
            cooperative: false,
            tensor: &[],
            tile: None,
        }
    }
}

/// Every kernel, family by family.
pub fn kernels() -> &'static [KernelInfo] {
    static KERNELS: LazyLock<Vec<KernelInfo>> = LazyLock::new(|| {
        let named = |&(family, kernels): &(&'static str, List)| {
            kernels().into_iter().map(move |kernel| KernelInfo { family, ..kernel })
        };
        FAMILIES.iter().flat_map(named).collect()
    });
    &KERNELS
}

/// The kernel with this symbol.
pub fn find(symbol: &str) -> Option<&'static KernelInfo> {
    static BY_SYMBOL: LazyLock<HashMap<&'static str, &'static KernelInfo>> =
        LazyLock::new(|| kernels().iter().map(|kernel| (kernel.symbol.as_str(), kernel)).collect());
    BY_SYMBOL.get(symbol).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_sorted_and_symbols_unique() {
        assert!(FAMILIES.is_sorted_by(|a, b| a.0 < b.0));
        let mut symbols: Vec<&str> = kernels().iter().map(|kernel| kernel.symbol.as_str()).collect();
        symbols.sort_unstable();
        let count = symbols.len();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
        assert!(kernels().iter().all(|kernel| find(&kernel.symbol) == Some(kernel)));
    }

    #[test]
    fn every_kernel_can_be_launched_somewhere() {
        for kernel in kernels() {
            let name = &kernel.symbol;
            let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(word && name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
            assert!((1..=1024).contains(&kernel.threads()), "{name}: {:?} threads", kernel.block);
            assert!((1..=16).contains(&kernel.cluster.iter().product::<u32>()), "{name}: {:?}", kernel.cluster);
            // 227 KiB: most of any architecture (CUDA programming guide, "Technical Specifications").
            assert!(kernel.dynamic_shared_bytes <= 232_448, "{name}: {}", kernel.dynamic_shared_bytes);
            assert!(!kernel.targets.is_empty() && !kernel.params.is_empty(), "{name}");
            let maps = kernel.params.iter().rposition(|&param| param == Param::TensorMap).map_or(0, |last| last + 1);
            assert!(kernel.params[..maps].iter().all(|&param| param == Param::TensorMap), "{name}: maps come first");
        }
    }
}
