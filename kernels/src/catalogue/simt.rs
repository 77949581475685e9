//! Kernels of the family simt: f32 products on the plain cores. Source: `cuda/gemm_simt.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/simt.rs`) walks over the same list.

use std::sync::LazyLock;

use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Neighbours along K, by single elements.
    K,
    /// Neighbours along M or N, four at a time: on a 16-byte grid.
    MnWide,
    /// Neighbours along M or N, by single elements.
    Mn,
}

/// A tile and how a block works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub tile: Tile,
    /// Warps along M and N of one slice.
    warps: [u32; 2],
    /// Outputs of a thread along M and N.
    thread: [u32; 2],
    /// Groups of warps that share K.
    slices: u32,
    /// Blocks that registers let a multiprocessor hold.
    pub resident: u32,
    /// Share of the multiprocessor's peak with one block, and with `resident` blocks, both operands read wide (H200).
    pub alone: f64,
    pub full: f64,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub shape: Shape,
    pub a: Access,
    pub b: Access,
    pub symbol: String,
}

const fn tile(m: u32, n: u32, k: u32, stages: u32) -> Tile {
    Tile { m, n, k, stages }
}

use Access::{K, Mn, MnWide};

/// Shapes, each with the accesses of A and B that it is made for. The planner packs operands for the others.
const SHAPES: &[(Shape, &[(Access, Access)])] = &[
    (
        Shape {
            tile: tile(128, 256, 16, 3),
            warps: [2, 4],
            thread: [16, 8],
            slices: 1,
            resident: 1,
            alone: 0.82,
            full: 0.82,
        },
        &[(MnWide, MnWide)],
    ),
    (
        Shape {
            tile: tile(128, 128, 8, 4),
            warps: [2, 2],
            thread: [16, 8],
            slices: 1,
            resident: 2,
            alone: 0.72,
            full: 0.81,
        },
        &[(MnWide, MnWide), (K, MnWide), (K, K)],
    ),
    (
        Shape {
            tile: tile(64, 128, 16, 4),
            warps: [1, 4],
            thread: [8, 8],
            slices: 2,
            resident: 1,
            alone: 0.78,
            full: 0.78,
        },
        &[(MnWide, MnWide), (K, MnWide), (K, K), (MnWide, K), (K, Mn)],
    ),
    (
        Shape {
            tile: tile(64, 64, 16, 4),
            warps: [1, 2],
            thread: [8, 8],
            slices: 2,
            resident: 2,
            alone: 0.60,
            full: 0.76,
        },
        &[(MnWide, MnWide), (K, MnWide), (K, K)],
    ),
    // 128 tiles of 768 x 768, for about as many multiprocessors.
    (
        Shape {
            tile: tile(48, 96, 32, 4),
            warps: [1, 3],
            thread: [12, 4],
            slices: 4,
            resident: 1,
            alone: 0.62,
            full: 0.62,
        },
        &[(MnWide, MnWide), (K, MnWide), (K, K)],
    ),
    (
        Shape {
            tile: tile(32, 64, 32, 4),
            warps: [1, 2],
            thread: [4, 8],
            slices: 4,
            resident: 2,
            alone: 0.62,
            full: 0.68,
        },
        &[(K, MnWide)],
    ),
    (
        Shape {
            tile: tile(64, 32, 32, 4),
            warps: [2, 1],
            thread: [8, 4],
            slices: 4,
            resident: 2,
            alone: 0.60,
            full: 0.67,
        },
        &[(MnWide, MnWide), (K, MnWide), (K, K), (MnWide, K), (K, Mn)],
    ),
];

impl Instance {
    fn new(shape: Shape, a: Access, b: Access) -> Instance {
        let Tile { m, n, k, .. } = shape.tile;
        // BLAS' letters for operands that lie column by column: a K-major A is t, a K-major B is n.
        let a_letter = if a == K { 't' } else { 'n' };
        let b_letter = if b == K { 'n' } else { 't' };
        let single = if a == Mn || b == Mn { "_any" } else { "" };
        let symbol = format!("gemm_f32_f32_simt_{m}x{n}x{k}_{a_letter}{b_letter}{single}");
        Instance { shape, a, b, symbol }
    }

    pub fn threads(&self) -> u32 {
        32 * self.shape.warps[0] * self.shape.warps[1] * self.shape.slices
    }

    /// `SMEM_BYTES` of `Kernel` in `cuda/gemm_simt.cuh`.
    pub fn shared_bytes(&self) -> u32 {
        let Shape { tile, warps, thread, slices, .. } = self.shape;
        // A copy that transposes pads its rows.
        let pitch = |extent: u32, access: Access| extent + if access == K { 4 } else { 0 };
        let stages = tile.stages * tile.k * (pitch(tile.m, self.a) + pitch(tile.n, self.b)) * 4;
        let sums = (slices - 1) * tile.m * tile.n * 4;
        let staging = 32 * warps[0] * warps[1] * thread[1] * 16;
        stages.max(sums).max(staging)
    }

    fn info(&self) -> KernelInfo {
        let Shape { tile, warps, thread, slices, resident, .. } = self.shape;
        let layout = |access| if access == K { "K_MAJOR" } else { "MN_MAJOR" };
        let vector = |access| if access == MnWide { 4 } else { 1 };
        let Tile { m, n, k, stages } = tile;
        let shape = format!(
            "{m}, {n}, {k}, {}, {}, {}, {}, {stages}, {slices}, {resident}",
            warps[0], warps[1], thread[0], thread[1]
        );
        use Param::{Address, F32, I64, U32};
        KernelInfo {
            symbol: self.symbol.clone(),
            source: "gemm_simt.cuh",
            instance: format!(
                "using KernelTile = polywarp::simt::Tile<{shape}>;\nGEMM_SIMT({}, KernelTile, {}, {}, {}, {})",
                self.symbol,
                layout(self.a),
                layout(self.b),
                vector(self.a),
                vector(self.b),
            ),
            targets: Target::EVERYWHERE,
            block: [self.threads(), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                Address, Address, Address, // a, b, d
                U32, U32, U32,             // m, n, k
                I64, I64, I64, I64,        // pitches of a and b, their batch strides
                U32,                       // elements of k in a slab
                F32, F32,                  // alpha, beta
                Address, I64, I64,         // c, pitch, batch stride
                Address, U32,              // bias, activation
            ],
            tile: Some(tile),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let each = |&(shape, accesses): &(Shape, &'static [(Access, Access)])| {
        accesses.iter().map(move |&(a, b)| Instance::new(shape, a, b))
    };
    SHAPES.iter().flat_map(each).collect()
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
