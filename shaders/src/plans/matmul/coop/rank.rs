//! Which products of cooperative matrices serve an op, and which tiles.
//!
//! What reaches core's bounds, no more: f16 products must add in f32, so that the f16 sums that adapters offer beside
//! them are never used. WGSL has no matrices of bf16 or integers.

use polywarp_core::DType;
use polywarp_core::ops::Matmul;

use super::super::rank::{Cut, Rated};
use super::{Buffers, Lanes, Shape, Tile};
use crate::{Caps, Cooperative};

/// Threads of a subgroup where a device has several sizes: what Apple's have, and most others prefer.
const USUAL_LANES: u32 = 32;

const fn tile(block_m: u32, block_n: u32, block_k: u32, warps_m: u32, warps_n: u32) -> Tile {
    Tile { block_m, block_n, block_k, warps_m, warps_n }
}

/// A kernel with what it reaches on one card (H200 through Vulkan, f16, 2026-11-21).
struct Row {
    shape: Shape,
    resident: u32,
    alone: f64,
    full: f64,
}

const fn row(tile: Tile, buffers: Buffers, end_fragments: u32, resident: u32, alone: f64, full: f64) -> Row {
    Row { shape: Shape { tile, buffers, end_fragments }, resident, alone, full }
}

/// For matrices of 16.
const SIXTEEN: &[Row] = &[
    row(tile(256, 128, 32, 4, 2), Buffers::One, 2, 1, 350.0, 350.0),
    row(tile(128, 256, 32, 2, 4), Buffers::One, 2, 1, 350.0, 350.0),
    row(tile(128, 128, 32, 2, 2), Buffers::One, 2, 2, 200.0, 300.0),
    row(tile(128, 128, 32, 2, 2), Buffers::Two, 1, 2, 200.0, 300.0),
    row(tile(128, 128, 64, 2, 2), Buffers::One, 1, 2, 200.0, 300.0),
    row(tile(128, 128, 32, 4, 2), Buffers::One, 2, 2, 200.0, 300.0),
    row(tile(128, 128, 32, 4, 2), Buffers::Two, 1, 2, 200.0, 300.0),
    row(tile(64, 64, 32, 2, 2), Buffers::One, 2, 4, 60.0, 150.0),
    row(tile(32, 32, 32, 2, 2), Buffers::One, 1, 8, 20.0, 80.0),
];

/// For matrices of 8. Not measured: ranked by what they read from memory for each product.
const EIGHT: &[Row] = &[
    row(tile(64, 64, 32, 2, 2), Buffers::One, 2, 2, 40.0, 60.0),
    row(tile(32, 32, 32, 2, 2), Buffers::One, 1, 4, 20.0, 40.0),
];

/// A kernel for an op.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Choice {
    pub cut: Cut,
    pub shape: Shape,
    pub product: Cooperative,
    pub lanes: Lanes,
}

/// The kernels that can serve `op`, with estimates of time.
pub(in super::super) fn choices(op: &Matmul, caps: &Caps) -> Vec<Choice> {
    let factors = match op.a.dtype {
        DType::F16 if caps.f16 => DType::F16,
        DType::F32 => DType::F32,
        _ => return Vec::new(),
    };
    let fits = |product: &&Cooperative| product.factors == factors && product.sum == DType::F32;
    let Some(&product) = caps.cooperative.iter().find(fits) else { return Vec::new() };
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
    let choice = |row: &Row| {
        let rated = Rated { tile: row.shape.tile, resident: row.resident, alone: row.alone, full: row.full };
        let cut = rated.cut(op.dims(), 4, row.shape.tile.block_n > 32);
        Choice { cut, shape: row.shape, product, lanes }
    };
    rows.iter().filter(usable).map(choice).collect()
}
