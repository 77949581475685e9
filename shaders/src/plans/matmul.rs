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
pub struct Kernel(Shape);

/// The three kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Tiled(Tiled),
    Combine(Combine),
    Vector(Vector),
}

impl Kernel {
    pub(crate) fn source(&self) -> Source {
        match &self.0 {
            Shape::Tiled(kernel) => kernel.source(),
            Shape::Combine(kernel) => kernel.source(),
            Shape::Vector(kernel) => kernel.source(),
        }
    }
}

fn key(shape: Shape) -> KernelKey {
    KernelKey::Matmul(Kernel(shape))
}

/// A tile with what it reaches on one card (H200, f32, 2026-11-21; the smallest is an estimate). Other cards differ in scale
/// more than in order.
#[derive(Clone, Copy, Debug)]
struct Rated {
    tile: Tile,
    /// Workgroups that one processor works on at once.
    resident: u32,
    /// TFLOP/s of the card with one workgroup on every processor, and with `resident` of them.
    alone: f64,
    full: f64,
}

const fn tile(block_m: u32, block_n: u32, warps_m: u32, warps_n: u32) -> Tile {
    Tile { block_m, block_n, block_k: 16, warps_m, warps_n }
}

const TILES: [Rated; 5] = [
    Rated { tile: tile(128, 128, 2, 2), resident: 2, alone: 25.0, full: 45.0 },
    Rated { tile: tile(64, 128, 2, 2), resident: 3, alone: 31.5, full: 34.0 },
    Rated { tile: tile(64, 64, 2, 1), resident: 4, alone: 18.0, full: 38.0 },
    Rated { tile: tile(32, 64, 1, 2), resident: 4, alone: 13.0, full: 29.0 },
    Rated { tile: tile(32, 32, 2, 1), resident: 6, alone: 6.0, full: 15.0 },
];

/// Processors of that card. Shader APIs do not say how many there are.
const PROCESSORS: u64 = 132;
/// What starting and ending a tile costs, in elements of K.
const TILE_OVERHEAD_K: f64 = 48.0;
/// Multiplications from which the time to compute counts more than the time to compile (about 400^3).
const WORTH_UNROLLING: u64 = 1 << 26;
/// Below this many multiplications (256^3) the launch takes longer than the product with any tile.
const WORTH_A_LARGE_TILE: u64 = 1 << 24;
/// Most slabs of K, and the fewest elements of K that one is worth.
const MOST_SPLITS: u64 = 32;
const LEAST_SLAB: u64 = 256;
/// What a second launch costs, and a byte of partial sums.
const COMBINE_NS: f64 = 4000.0;
const PARTIAL_NS_PER_BYTE: f64 = 1.0 / 1500.0;

impl Rated {
    /// TFLOP/s that `groups` workgroups reach: the processor with most of them ends last.
    fn rate(&self, groups: u64) -> f64 {
        let most = groups.div_ceil(PROCESSORS);
        let rest = most % u64::from(self.resident);
        let spread = f64::from(self.resident) - 1.0;
        let rest_rate = self.alone + (self.full - self.alone) * (rest as f64 - 1.0).max(0.0) / spread;
        let time = (most - rest) as f64 / self.full + rest as f64 / rest_rate;
        groups as f64 / PROCESSORS as f64 / time
    }
}

/// A way to compute a product by tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    tile: Tile,
    /// Slabs of K.
    splits: u64,
    /// Estimated time.
    ns: f64,
    /// Why not.
    refused: Option<&'static str>,
}

/// Every tile and number of slabs, in order of preference.
fn candidates(dims: MatmulDims, element_bytes: u32, caps: &Caps) -> Vec<Candidate> {
    let mut list = Vec::new();
    for rated in TILES {
        let tile = rated.tile;
        for splits in [1u64, 2, 4, 8, 16, MOST_SPLITS] {
            let slab = dims.k.div_ceil(splits).next_multiple_of(tile.block_k.into());
            let refused = if tile.threads() > caps.max_invocations {
                Some("more invocations than a workgroup may have")
            } else if tile.workgroup_bytes(element_bytes) > caps.max_workgroup_bytes {
                Some("more workgroup memory than a workgroup may have")
            } else if splits > 1 && slab < LEAST_SLAB {
                Some("slabs of K too short to pay for combining them")
            } else if dims.m * dims.n * dims.k * dims.batch < WORTH_A_LARGE_TILE && tile.block_n > 32 {
                Some("takes longer to compile than the product to compute")
            } else if element_bytes == 8 && tile.thread_m() * tile.thread_n() > 64 {
                Some("too many registers for 64-bit sums")
            } else {
                None
            };
            let (rows, cols) = (dims.m.div_ceil(tile.block_m.into()), dims.n.div_ceil(tile.block_n.into()));
            let groups = rows * cols * dims.batch * splits;
            // Work in a partial tile costs as much as in a whole one.
            let flops = 2.0 * groups as f64 * f64::from(tile.block_m * tile.block_n) * (slab as f64 + TILE_OVERHEAD_K);
            let mut ns = flops / rated.rate(groups) / 1e3;
            if splits > 1 {
                let partial_bytes = (dims.m * dims.n * dims.batch * splits) as f64 * f64::from(element_bytes);
                ns += COMBINE_NS + partial_bytes * PARTIAL_NS_PER_BYTE;
            }
            list.push(Candidate { tile, splits, ns, refused });
        }
    }
    list.sort_by(|x, y| x.refused.is_some().cmp(&y.refused.is_some()).then(x.ns.total_cmp(&y.ns)));
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
        1 if dims.n.is_multiple_of(4) && op.output.layout.offset().is_multiple_of(4) => Target::Output(Form::Quad),
        1 => Target::Output(Form::Scalar),
        _ => Target::Partial,
    };
    let unroll = dims.m * dims.n * dims.k * dims.batch >= WORTH_UNROLLING;
    // Small products share one kernel, whatever their remainders: it is compiled once.
    let tail = |extent: u64, block: u32| !unroll || !extent.is_multiple_of(block.into());
    let kernel = Tiled {
        tile,
        a: a.0,
        b: b.0,
        tail_m: tail(dims.m, tile.block_m),
        tail_n: tail(dims.n, tile.block_n),
        tail_k: tail(dims.k, tile.block_k),
        unroll,
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
        kernel: key(Shape::Tiled(kernel)),
        grid: caps.fold_grid(tiles_m * tiles_n * dims.batch * splits)?,
        bindings,
        params: places.params(op, base, &own),
    }];
    if target == Target::Partial {
        launches.push(combine::launch(op, places, splits, Some(Slot::Scratch(0)), caps)?);
    }
    Ok(Plan { launches, scratch_bytes })
}

/// How A (`which` 0) or B (1) is read; its base, its strides along M (N) and K and its last element.
fn operand(op: &Matmul, places: &Places, which: usize, caps: &Caps) -> Result<(Operand, [u32; 4])> {
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
    let aligned = layout.offset().is_multiple_of(4)
        && far % 4 == 0
        && near_extent.is_multiple_of(4)
        && places.batch.iter().all(|axis| axis.strides[which] % 4 == 0);
    let load = match near {
        1 if aligned => Load::Quad,
        1 => Load::Unit,
        _ => Load::Strided,
    };
    let element = Element::new(spec.dtype, caps)?;
    Ok((
        Operand { element, along_k, load },
        [layout.offset() as u32, stride_x as u32, stride_k as u32, layout.required_elements() as u32 - 1],
    ))
}

#[cfg(test)]
#[path = "matmul/tests.rs"]
mod tests;
