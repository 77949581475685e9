//! Kernels of the family mma_sparse: warp-level products of a 2:4 compressed A (mma.sp), sm_80 and later:
//! `cuda/gemm_mma_sparse.cuh`.
//!
//! One tile for each type, B's neighbours along K; the planner (`plans/mma_sparse.rs`) packs what lies otherwise. No code for
//! cards with less shared memory than those of sm_80 and sm_90: what they run is the decompressed product.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// Warps along M and N of a block.
const WARPS: [u32; 2] = [4, 2];

/// One kernel.
#[derive(Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    pub tile: Tile,
    pub symbol: String,
    /// In C++ (`cuda/gemm_mma_sparse.cuh`).
    cpp: &'static str,
    tensor: &'static [&'static str],
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<[Instance; 3]> = LazyLock::new(|| {
    [
        Instance::new(DType::F16, "SparseF16", "f16", 64, &["HMMA"]),
        Instance::new(DType::BF16, "SparseBf16", "bf16", 64, &["HMMA"]),
        Instance::new(DType::I8, "SparseS8", "i8_i32", 128, &["IMMA"]),
    ]
});

impl Instance {
    /// `k` elements of B, 128 bytes.
    fn new(operands: DType, cpp: &'static str, name: &str, k: u32, tensor: &'static [&'static str]) -> Instance {
        let tile = Tile { m: 256, n: 128, k, stages: 3 };
        let symbol = format!("gemm_{name}_mma_sparse_{}x{}x{k}_tn", tile.m, tile.n);
        Instance { operands, tile, symbol, cpp, tensor }
    }

    /// Values and B, and a word of metadata for 32 of K and a row, in lines that 16 words part.
    pub fn shared_bytes(&self) -> u32 {
        let Tile { m, n, k, stages } = self.tile;
        let elements = m * k / 2 + n * k;
        stages * (elements * self.operands.size_bytes() as u32 + k / 32 * (m + 16) * 4)
    }

    /// On Hopper dense i8 by warpgroups should do more than sparse i8 by single warps: no code for what would seldom be used.
    fn targets(&self) -> &'static [Target] {
        if self.operands == DType::I8 { &[Target::SM_80] } else { &[Target::SM_80, Target::SM_90] }
    }

    fn info(&self) -> KernelInfo {
        let Tile { m, n, k, stages } = self.tile;
        let [warps_m, warps_n] = WARPS;
        use Param::{Address, F32, I64, U32};
        KernelInfo {
            symbol: self.symbol.clone(),
            source: "gemm_mma_sparse.cuh",
            instance: format!(
                "GEMM_MMA_SPARSE_KERNEL({}, {}, 1, {m}, {n}, {k}, {warps_m}, {warps_n}, {stages}, \
                 gemm_mma::Major::K)",
                self.symbol, self.cpp
            ),
            targets: self.targets(),
            block: [32 * warps_m * warps_n, 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                Address, I64, I64, // values, pitch, batch stride
                Address, I64,      // metadata, batch stride
                Address, I64, I64, // b, pitch, batch stride
                Address, U32,      // d, whether it is f32
                U32, U32, U32,     // m, n, k
                U32, F32, F32,     // batches, alpha, beta
                Address, I64, I64, // c, pitch, batch stride
                Address, U32,      // bias, activation
            ],
            tensor: self.tensor,
            tile: Some(self.tile),
            ..KernelInfo::default()
        }
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
