//! Kernels of the family dmma: f64 products on sm_90, fed by the tensor memory accelerator. Source: `cuda/gemm_dmma.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/dmma.rs`) walks over the same list. What tensor maps cannot describe, and other cards, are mma_sync's.

use std::sync::LazyLock;

use super::{KernelInfo, Major, Tile};
use crate::{Param, Target};

/// Elements of K in a stage: a row of 128 bytes.
pub(crate) const BLOCK_K: u32 = 16;
/// Threads of a warpgroup; one of them loads.
const WARPGROUP: u32 = 128;

/// A tile and how a block works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub tile: Tile,
    /// Warps along M and N.
    warps: [u32; 2],
    /// Blocks of a cluster that share the K of one tile.
    pub cluster_k: u32,
    /// Share of the tensor cores' rate that its loop reaches (H200, docs/gemm.md).
    pub efficiency: f64,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub shape: Shape,
    pub a: Major,
    pub b: Major,
    pub symbol: String,
}

const fn shape([m, n]: [u32; 2], stages: u32, warps: [u32; 2], cluster_k: u32, efficiency: f64) -> Shape {
    Shape { tile: Tile { m, n, k: BLOCK_K, stages }, warps, cluster_k, efficiency }
}

const SHAPES: [Shape; 8] = [
    shape([128, 128], 6, [4, 2], 1, 0.97),
    shape([64, 128], 8, [2, 4], 1, 0.95),
    shape([64, 64], 12, [4, 2], 1, 0.90),
    // Few tiles, and slabs of a long k.
    shape([64, 32], 16, [4, 2], 1, 0.85),
    shape([64, 64], 12, [4, 2], 2, 0.90),
    shape([64, 64], 12, [4, 2], 4, 0.90),
    // Few rows, few columns: bound by memory.
    shape([16, 64], 20, [1, 4], 2, 0.60),
    shape([64, 16], 20, [4, 1], 2, 0.60),
];

impl Instance {
    fn new(shape: Shape, a: Major, b: Major) -> Instance {
        let Tile { m, n, .. } = shape.tile;
        // BLAS' letters for operands that lie column by column: a K-major A is t, a K-major B is n.
        let a_letter = if a == Major::K { 't' } else { 'n' };
        let b_letter = if b == Major::K { 'n' } else { 't' };
        let along_k = if shape.cluster_k == 1 { String::new() } else { format!("x{}", shape.cluster_k) };
        Instance { shape, a, b, symbol: format!("gemm_f64_f64_dmma_{m}x{n}{along_k}_{a_letter}{b_letter}") }
    }

    /// The ring on its 1024-byte grid, and two barriers a stage.
    pub fn shared_bytes(&self) -> u32 {
        let Tile { m, n, k, stages } = self.shape.tile;
        1024 + stages * ((m + n) * k * 8 + 16)
    }

    fn info(&self) -> KernelInfo {
        let Shape { tile, warps, cluster_k, .. } = self.shape;
        let major = |major| if major == Major::K { "K" } else { "MN" };
        use Param::{Address, F64, I64, TensorMap, U32};
        KernelInfo {
            symbol: self.symbol.clone(),
            source: "gemm_dmma.cuh",
            instance: format!(
                "GEMM_DMMA({}, {cluster_k}, {}, {}, {}, {}, {}, dmma::Major::{}, dmma::Major::{})",
                self.symbol,
                tile.m,
                tile.n,
                warps[0],
                warps[1],
                tile.stages,
                major(self.a),
                major(self.b)
            ),
            targets: &[Target::SM_90A],
            block: [32 * warps[0] * warps[1] + WARPGROUP, 1, 1],
            cluster: [cluster_k, 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                TensorMap, TensorMap, Address, // a, b, d
                U32, U32, U32,                 // m, n, k
                U32, U32, U32,                 // batches, slabs of k, elements of k in a slab
                U32, U32,                      // whether a and b have a matrix for every batch
                F64, F64,                      // alpha, beta
                Address, I64, I64,             // c, pitch, batch stride
                Address, U32,                  // bias, activation
            ],
            starts_early: true,
            tensor: &["DMMA"],
            tile: Some(tile),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family: each shape in all four orientations, but for narrow ones, whose long operand is K-major: of others
/// boxes are 16 elements wide, and no faster than slabs of a wide tile.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for shape in SHAPES {
        for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
            let narrow = shape.tile.m.min(shape.tile.n) == 16;
            let long = if shape.tile.m < shape.tile.n { b } else { a };
            if !narrow || long == Major::K {
                list.push(Instance::new(shape, a, b));
            }
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
