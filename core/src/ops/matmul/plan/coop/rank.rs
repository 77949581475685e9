//! Which products of cooperative matrices serve an op, and which tiles.
//!
//! Only kernels that keep core's bounds: f16 products must add in f32, so the f16 sums that adapters offer beside them
//! are never used. WGSL has no matrices of bf16 or integers. bf16 becomes f16, which has all of its digits, where the
//! range allows it (`range.rs`).

use crate::ops::{Matmul, MatmulDims};
use crate::{DType, Precision};

use super::super::rank::{Cut, Rated};
use super::split::Extents;
use super::{Lanes, Parts, Shape, Tile};
use crate::plan::{Caps, Cooperative};

/// Threads of a subgroup where a device has several sizes: Apple's GPUs have 32, and most others prefer it.
const USUAL_LANES: u32 = 32;

const fn tile(block_m: u32, block_n: u32, block_k: u32, warps_m: u32, warps_n: u32) -> Tile {
    Tile { block_m, block_n, block_k, warps_m, warps_n }
}

/// A kernel with the rates that it reaches on one card. With these rates the estimates below put candidates in the
/// order of their measured times, for 21 products of each kind (H100 through Vulkan; benches/results/h100-2026-11-27c).
struct Row {
    shape: Shape,
    resident: u32,
    alone: f64,
    full: f64,
    /// Time with f32 operands made f16, over that with f16: twice the bytes travel, through twice the registers. For
    /// bf16 it is 1, an estimate.
    scaled_times: f64,
}

const fn row(tile: Tile, end_fragments: u32, resident: u32, [alone, full]: [f64; 2], scaled_times: f64) -> Row {
    Row { shape: Shape { tile, end_fragments }, resident, alone, full, scaled_times }
}

/// Kernels for matrices of 16.
const SIXTEEN: &[Row] = &[
    row(tile(128, 128, 32, 2, 2), 1, 2, [187.0, 354.0], 1.18),
    row(tile(256, 128, 32, 4, 2), 1, 1, [285.0, 285.0], 1.28),
    row(tile(64, 64, 32, 2, 2), 2, 2, [51.0, 121.0], 1.09),
    row(tile(64, 64, 64, 2, 2), 1, 2, [65.0, 164.0], 1.06),
    row(tile(32, 32, 32, 2, 2), 1, 8, [27.0, 86.0], 1.09),
];

/// Kernels for matrices of 8. Not measured: ranked by the bytes that each reads from memory for a product.
const EIGHT: &[Row] =
    &[row(tile(64, 64, 32, 2, 2), 2, 2, [40.0, 60.0], 1.0), row(tile(32, 32, 32, 2, 2), 1, 4, [20.0, 40.0], 1.0)];

/// A kernel for an op.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Choice {
    pub cut: Cut,
    pub shape: Shape,
    pub product: Cooperative,
    pub lanes: Lanes,
    pub parts: Parts,
}

/// From this many sums and elements under way in a thread on, unpacking bytes one by one takes more registers than
/// there are: 128x128x32 by 128 threads has 192 and spills up to 160 bytes (i8 and u8, `ptxas` 13.0, sm_80 to sm_120);
/// 256x128x32 by 256 threads has 176 and does not.
const FULL: u32 = 192;

impl Choice {
    /// Whether a kernel that reads operands element by element would spill registers to memory. The same tile on packed
    /// operands, and all other tiles, serve instead.
    pub fn spills_by_elements(&self, op: &Matmul) -> bool {
        let Tile { block_m, block_n, block_k, warps_m, warps_n } = self.shape.tile;
        let threads = warps_m * warps_n * self.lanes.count();
        let held = (block_m * block_n + block_k * (block_m + block_n)) / threads;
        held >= FULL && [&op.a, &op.b].iter().any(|spec| matches!(spec.dtype, DType::I8 | DType::U8))
    }
}

/// The extra time of scaled factors: three launches, and reading the operands at this many bytes in a nanosecond.
const RANGE_NS: f64 = 20e3;
const RANGE_BYTES_PER_NS: f64 = 3000.0;
/// Integer sums below this magnitude are exact in f32.
const EXACT_IN_F32: u64 = 1 << 24;

/// The factors that serve `op`: the product, how elements become factors, and the longest slab of K.
fn factors(op: &Matmul, caps: &Caps) -> Option<(Cooperative, Parts, u64)> {
    let product = |factors: DType| {
        let fits = |product: &&Cooperative| product.factors == factors && product.sum == DType::F32;
        caps.cooperative.iter().find(fits).copied().filter(|_| factors != DType::F16 || caps.f16)
    };
    let any = u64::MAX;
    let (half, single) = (product(DType::F16), product(DType::F32));
    match op.a.dtype {
        DType::F16 => Some((half?, Parts::Whole, any)),
        // All 8-bit floats are exact in f16, their products in f32.
        DType::F8E4M3 | DType::F8E5M2 => Some((half?, Parts::Whole, any)),
        // Small integers are exact in f16, and so are their products in f32, and sums of a limited number of products.
        DType::I8 => Some((half?, Parts::Whole, EXACT_IN_F32 >> 14)),
        DType::U8 => Some((half?, Parts::Whole, EXACT_IN_F32 >> 16)),
        DType::BF16 => Some((half?, Parts::Scaled, any)),
        DType::F32 => match (single, op.precision) {
            (Some(product), _) => Some((product, Parts::Whole, any)),
            (None, Precision::Highest) => None,
            (None, Precision::High) => Some((half?, Parts::Split, any)),
            (None, Precision::Medium | Precision::Low) => Some((half?, Parts::Scaled, any)),
        },
        _ => None,
    }
}

/// The kernels that can serve `op`, with estimates of time.
pub(in super::super) fn choices(op: &Matmul, caps: &Caps) -> Vec<Choice> {
    let Some((product, parts, longest)) = factors(op, caps) else { return Vec::new() };
    let Some((least, most)) = caps.subgroups else { return Vec::new() };
    let lanes = match (least, most) {
        _ if least == most => Lanes::Exactly(most),
        _ if (least..=most).contains(&USUAL_LANES) => Lanes::About(USUAL_LANES),
        _ => Lanes::About(most),
    };
    let rows = if product.size == 16 { SIXTEEN } else { EIGHT };
    let usable = |row: &&Row| {
        let Tile { warps_m, warps_n, .. } = row.shape.tile;
        warps_m * warps_n * lanes.count() <= caps.max_invocations
            && row.shape.workgroup_bytes(product) <= caps.max_workgroup_bytes
    };
    let dims = op.dims();
    let split = if parts == Parts::Split { Extents::of(op) } else { None };
    if parts == Parts::Split && split.is_none() {
        return Vec::new();
    }
    let choice = |row: &Row| {
        let rated = Rated { tile: row.shape.tile, resident: row.resident, alone: row.alone, full: row.full };
        // Only whole operands may be cut into slabs that another launch adds: scaled ones must know their range first,
        // and split ones would hold three sums for each slab.
        let most_slabs = if parts == Parts::Whole { u64::MAX } else { 1 };
        let slabs = dims.k.div_ceil(longest.min(longest_slab(row, product, lanes, caps)))..=most_slabs;
        let dims = if let Some(parts) = split { MatmulDims { k: 3 * parts.padded_k, ..dims } } else { dims };
        let mut cut = rated.cut(dims, 4, row.shape.tile.block_n > 32, slabs);
        if parts == Parts::Scaled {
            let read = (dims.m + dims.n) * dims.k * dims.batch * op.a.dtype.size_bytes();
            let times = if op.a.dtype == DType::F32 { row.scaled_times } else { 1.0 };
            cut.ns = cut.ns * times + RANGE_NS + read as f64 / RANGE_BYTES_PER_NS;
        }
        if let Some(parts) = split {
            cut.ns += parts.estimate_ns();
        }
        Choice { cut, shape: row.shape, product, lanes, parts }
    };
    rows.iter().filter(usable).map(choice).collect()
}

/// The longest slab of K, in whole steps, whose loops stay within the device's limit; at least one step.
fn longest_slab(row: &Row, product: Cooperative, lanes: Lanes, caps: &Caps) -> u64 {
    let Tile { block_m, block_n, block_k, warps_m, warps_n } = row.shape.tile;
    let each = match lanes {
        Lanes::Exactly(_) => 1,
        Lanes::About(_) => u64::from(warps_m * warps_n),
    };
    // The stores read every sum once, by quads or smaller pieces.
    let stores = u64::from(block_m * block_n / product.size);
    let steps = (caps.loop_limit() / each).saturating_sub(stores);
    steps.max(1).saturating_mul(block_k.into())
}
