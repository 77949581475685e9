//! Matrix products: which kernel, which tile, how many slabs of K. A pure function of the op and the device.
//!
//! Candidates are listed, refused with a reason or ranked by an estimate of time ([`candidates`]). Three shapes of plan:
//! tiles that write the output; tiles that write slabs of the sum, then one launch that combines them (long K, few
//! tiles; always in the same order, so the bits are the same on every run); a matrix times a vector, which is a
//! reduction with a product in it. Operands may have any strides; those that are dense and aligned are read by quads.
//! Every precision is served in f32. Next: `matmul/tiled.rs` writes the kernel, `matmul/epilogue.rs` its end.

mod combine;
mod epilogue;
mod tiled;
mod vector;

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{Layout, Result};

use super::reduce::template::check_index;
use crate::element::{Element, Form};
use crate::{Caps, KernelKey, Launch, Plan, Slot, Source};
use combine::Combine;
use epilogue::Places;
use tiled::{Load, Operand, Target, Tile, Tiled};
use vector::Vector;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel(Form3);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form3 {
    Tiled(Tiled),
    Combine(Combine),
    Vector(Vector),
}

impl Kernel {
    pub(crate) fn source(&self) -> Source {
        match &self.0 {
            Form3::Tiled(kernel) => kernel.source(),
            Form3::Combine(kernel) => kernel.source(),
            Form3::Vector(kernel) => kernel.source(),
        }
    }
}

fn key(form: Form3) -> KernelKey {
    KernelKey::Matmul(Kernel(form))
}

/// Tiles, and the share of the device's rate that each reaches when it fills the device: 128 x 128 measured on an H200,
/// the others estimated from their reads of workgroup memory per multiplication.
const TILES: [(Tile, f64); 3] = [
    (Tile { block_m: 128, block_n: 128, block_k: 16, warps_m: 2, warps_n: 2 }, 1.0),
    (Tile { block_m: 64, block_n: 64, block_k: 16, warps_m: 2, warps_n: 2 }, 0.6),
    (Tile { block_m: 32, block_n: 32, block_k: 16, warps_m: 2, warps_n: 1 }, 0.35),
];

/// Workgroups that run at once on the devices in mind; a guess serves, because ranks change slowly with it.
const PROCESSORS: u64 = 128;
/// A step of fixed cost for starting and ending a tile, in elements of K.
const TILE_OVERHEAD_K: u64 = 64;
/// Most slabs of K, and the fewest elements of K that one is worth.
const MOST_SPLITS: u64 = 32;
const LEAST_SLAB: u64 = 256;
/// What a second launch costs, in multiplications of one workgroup (about 3 us at 0.3 TFLOP/s a processor).
const COMBINE_COST: f64 = 5e5;

/// A way to compute a product by tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    tile: Tile,
    /// Slabs of K.
    splits: u64,
    /// Estimated time; the unit is a multiplication of one workgroup.
    cost: f64,
    /// Why not.
    refused: Option<&'static str>,
}

/// Every tile and number of slabs, in order of preference.
fn candidates(dims: MatmulDims, element_bytes: u32, caps: &Caps) -> Vec<Candidate> {
    let mut list = Vec::new();
    for (tile, rate) in TILES {
        for splits in [1u64, 2, 4, 8, 16, MOST_SPLITS] {
            let slab = dims.k.div_ceil(splits).next_multiple_of(tile.block_k.into());
            let refused = if tile.threads() > caps.max_invocations {
                Some("more invocations than a workgroup may have")
            } else if tile.workgroup_bytes(element_bytes) > caps.max_workgroup_bytes {
                Some("more workgroup memory than a workgroup may have")
            } else if splits > 1 && slab < LEAST_SLAB {
                Some("slabs of K too short to pay for combining them")
            } else if element_bytes == 8 && tile.block_m > 64 {
                Some("too many registers for 64-bit sums")
            } else {
                None
            };
            let (rows, cols) = (dims.m.div_ceil(tile.block_m.into()), dims.n.div_ceil(tile.block_n.into()));
            let groups = rows * cols * dims.batch * splits;
            let waves = groups.div_ceil(PROCESSORS);
            let area = f64::from(tile.block_m * tile.block_n);
            let mut cost = waves as f64 * area * (slab + TILE_OVERHEAD_K) as f64 / rate;
            if splits > 1 {
                cost += COMBINE_COST + (dims.m * dims.n * dims.batch * splits) as f64 * 16.0 / PROCESSORS as f64;
            }
            list.push(Candidate { tile, splits, cost, refused });
        }
    }
    list.sort_by(|x, y| x.refused.is_some().cmp(&y.refused.is_some()).then(x.cost.total_cmp(&y.cost)));
    list
}

pub(crate) fn plan(op: &Matmul, caps: &Caps) -> Result<Plan> {
    for spec in op.inputs().iter().chain([&op.output]) {
        check_index(op.name(), spec)?;
    }
    let dims = op.dims();
    let places = Places::of(op, caps)?;
    if dims.k == 0 {
        // A sum of nothing: A and B are empty and not even bound.
        return Ok(Plan { launches: vec![combine::launch(op, &places, 0, None, caps)?], scratch_bytes: Vec::new() });
    }
    if let Some(plan) = vector::plan(op, &places, caps)? {
        return Ok(plan);
    }
    let element_bytes = places.epilogue.accumulator.dtype().size_bytes() as u32;
    let best = candidates(dims, element_bytes, caps)
        .into_iter()
        .find(|candidate| candidate.refused.is_none())
        .ok_or_else(|| caps.unsupported("matmul", "no tile fits the device's workgroups"))?;
    tiles(op, &places, best, caps)
}

/// The launches of `candidate`.
fn tiles(op: &Matmul, places: &Places, candidate: Candidate, caps: &Caps) -> Result<Plan> {
    let dims = op.dims();
    let Candidate { tile, splits: wanted, .. } = candidate;
    let slab = dims.k.div_ceil(wanted).next_multiple_of(tile.block_k.into());
    let splits = dims.k.div_ceil(slab);
    let a = operand(op, places, 0, caps)?;
    let b = operand(op, places, 1, caps)?;
    let target = match splits {
        1 if dims.n % 4 == 0 && op.output.layout.offset() % 4 == 0 => Target::Output(Form::Quad),
        1 => Target::Output(Form::Scalar),
        _ => Target::Partial,
    };
    let kernel = Tiled {
        tile,
        a: a.0,
        b: b.0,
        tail_m: dims.m % u64::from(tile.block_m) != 0,
        tail_n: dims.n % u64::from(tile.block_n) != 0,
        tail_k: dims.k % u64::from(tile.block_k) != 0,
        epilogue: places.epilogue,
        target,
        axes: places.axes(),
    };
    let (tiles_m, tiles_n) = (dims.m.div_ceil(tile.block_m.into()), dims.n.div_ceil(tile.block_n.into()));
    let mut own = vec![tiles_m as u32, tiles_n as u32, dims.batch as u32, splits as u32, slab as u32];
    own.extend(a.1);
    own.extend(b.1);
    let mut bindings = vec![Slot::Input(0), Slot::Input(1)];
    let (scratch_bytes, base) = if target == Target::Partial {
        bindings.push(Slot::Scratch(0));
        let elements = splits * dims.batch * dims.m * dims.n;
        (vec![elements * places.epilogue.accumulator.dtype().size_bytes()], Some(0))
    } else {
        bindings.push(Slot::Output);
        bindings.extend(&places.slots);
        (Vec::new(), None)
    };
    let mut launches = vec![Launch {
        kernel: key(Form3::Tiled(kernel)),
        grid: caps.fold_grid(tiles_m * tiles_n * dims.batch * splits)?,
        bindings,
        params: places.params(op, base, &own),
    }];
    if target == Target::Partial {
        launches.push(combine::launch(op, places, splits, Some(Slot::Scratch(0)), caps)?);
    }
    Ok(Plan { launches, scratch_bytes })
}

/// How A (`which` 0) or B (1) is read, and its base and strides along M (N) and K.
fn operand(op: &Matmul, places: &Places, which: usize, caps: &Caps) -> Result<(Operand, [u32; 3])> {
    let spec = if which == 0 { &op.a } else { &op.b };
    let layout: &Layout = &spec.layout;
    let rank = layout.rank();
    let ((x, stride_x), (k, stride_k)) = {
        let dim = |i: usize| (layout.dims()[i], layout.strides()[i]);
        if which == 0 { (dim(rank - 2), dim(rank - 1)) } else { (dim(rank - 1), dim(rank - 2)) }
    };
    // A dimension of one element has no neighbours: its stride never counts.
    let reach = |extent: u64, stride: i64| if extent == 1 { u64::MAX } else { stride.unsigned_abs() };
    let along_k = reach(k, stride_k) < reach(x, stride_x);
    let (near, near_extent, far) = if along_k { (stride_k, k, stride_x) } else { (stride_x, x, stride_k) };
    let aligned = layout.offset() % 4 == 0
        && far % 4 == 0
        && near_extent % 4 == 0
        && places.batch.iter().all(|axis| axis.strides[which] % 4 == 0);
    let load = match near {
        1 if aligned => Load::Quad,
        1 => Load::Unit,
        _ => Load::Strided,
    };
    let element = Element::new(spec.dtype, caps)?;
    Ok((Operand { element, along_k, load }, [layout.offset() as u32, stride_x as u32, stride_k as u32]))
}

#[cfg(test)]
#[path = "matmul/tests.rs"]
mod tests;
