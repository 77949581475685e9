//! Copies: bits from one layout to another, by whichever of four kernels the layouts allow.
//!
//! [`Move`] first brings both layouts to a normal form (`copy/normal.rs`). Then, in order: the tiled transposes when the
//! fastest dimensions differ; the elementwise kernel ([`crate::ops::map::plan`]) when the output is dense; else one element an
//! invocation (`wgsl/scatter.wgsl`). Elements move as unsigned words, bytes or halves, so that every bit survives and
//! 8-byte types need no feature.

mod normal;
mod text;

use crate::ops::Copy;
use crate::{Layout, Result, Shape, Step, StepSet};

use self::normal::{Dim, Move};
use crate::ops::map::plan::{Request, Target};
use crate::plan::KernelKey;
use crate::plan::looped;
use crate::plan::{Caps, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::Element;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    algorithm: Algorithm,
    element: Element,
    /// Dimensions that are walked by division: all of a scatter, those around the matrices of a transpose.
    rank: usize,
    threads: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        text::source(self)
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        let threads = u64::from(self.threads);
        match self.algorithm {
            Algorithm::Scatter => 0,
            // Blocks to workgroup memory, then their four vectors from there.
            Algorithm::TransposeQuads { side } => {
                let passes = u64::from(side * side) / threads;
                looped(passes, 0) + looped(4 * passes, 0)
            }
            Algorithm::TransposeScalar { side } => 2 * looped(u64::from(side * side).div_ceil(threads), 0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Algorithm {
    /// `wgsl/scatter.wgsl`
    Scatter,
    /// `wgsl/transpose.wgsl` over tiles of `side` x `side` blocks of 4 x 4.
    TransposeQuads { side: u32 },
    /// `wgsl/transpose_scalar.wgsl` over tiles of `side` x `side` elements.
    TransposeScalar { side: u32 },
}

/// Elements from which tiles of 128 x 128 elements are enough for every processor (2048 x 2048: 256 of them).
const LARGE_TRANSPOSE: u64 = 1 << 22;
/// Extents under which a tile of a transpose would be mostly empty.
const TRANSPOSE_FROM: u64 = 16;

pub(crate) fn plan(op: &Copy, caps: &Caps) -> Result<Plan> {
    let moved = Move::of(op)?;
    let launch = match transpose(&moved, caps)? {
        Some(launch) => launch,
        None if moved.is_dense_output() && moved.dims.len() <= crate::MAX_RANK => gather(&moved, caps)?,
        None => scatter(&moved, caps)?,
    };
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

/// The elementwise kernel of one step: the input itself.
fn gather(moved: &Move, caps: &Caps) -> Result<Launch> {
    let element = Element::raw(moved.size_bytes);
    let extents: Vec<u64> = moved.dims.iter().map(|d| d.extent).collect();
    let strides: Vec<i64> = moved.dims.iter().map(|d| d.from).collect();
    let layout = Layout::strided(Shape::new(&extents)?, &strides, moved.from)?;
    let steps = vec![(Step::Input(0), element)];
    let inputs = vec![(element, layout)];
    let (rounded, output) = (StepSet::of([0]), Target { step: 0, element, offset: moved.to });
    let request =
        Request { name: "copy", steps, rounded, constants: &[], inputs, output, others: Vec::new(), updates: 0 };
    request.launch(moved.elements(), caps)
}

fn scatter(moved: &Move, caps: &Caps) -> Result<Launch> {
    let threads = threads(caps);
    let kernel = Kernel {
        algorithm: Algorithm::Scatter,
        element: Element::raw(moved.size_bytes),
        rank: moved.dims.len(),
        threads,
    };
    let mut params = vec![moved.elements() as u32];
    push_walk(&mut params, moved, &moved.dims);
    launch(kernel, params, moved.elements().div_ceil(threads.into()), caps)
}

/// A launch of a tiled transpose, when the copy is one.
fn transpose(moved: &Move, caps: &Caps) -> Result<Option<Launch>> {
    let Some((&rows, outer)) = moved.dims.split_last() else { return Ok(None) };
    let Some(at) = outer.iter().position(|d| d.from == 1) else { return Ok(None) };
    let cols = outer[at];
    if rows.to != 1 || rows.from == 1 || rows.extent.min(cols.extent) < TRANSPOSE_FROM {
        return Ok(None);
    }
    let batch: Vec<Dim> = outer.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, d)| *d).collect();
    let steps = batch.iter().flat_map(|d| [d.from, d.to]).chain([rows.from, cols.to]);
    let quads = [moved.from, moved.to, rows.extent, cols.extent].iter().all(|n| n.is_multiple_of(4))
        && steps.into_iter().all(|step| step % 4 == 0);
    // A vector of four elements, 4 x 4 elements a block. Short elements take larger tiles where there is work for many, so
    // that runs are as long.
    let tile_bytes = |side: u32| 4 * moved.size_bytes as u32 * 4 * side * side;
    let wanted: u32 = if moved.size_bytes < 4 && moved.elements() >= LARGE_TRANSPOSE { 32 } else { 16 };
    let side = if tile_bytes(wanted) <= caps.max_workgroup_bytes { wanted } else { wanted / 2 };
    let (algorithm, tile) = match (quads, moved.size_bytes) {
        (true, _) => (Algorithm::TransposeQuads { side }, u64::from(4 * side)),
        (false, 4) => (Algorithm::TransposeScalar { side: 32 }, 32),
        // Neighbours of a word lie in different rows of the input: bytes and halves go element by element.
        (false, _) => return Ok(None),
    };
    let kernel = Kernel {
        algorithm,
        element: Element::raw(moved.size_bytes),
        rank: batch.len(),
        threads: threads(caps).min(side * side),
    };
    let (tiles_r, tiles_c) = (rows.extent.div_ceil(tile), cols.extent.div_ceil(tile));
    let batches: u64 = batch.iter().map(|d| d.extent).product();
    let mut params = [rows.extent, cols.extent, tiles_r, tiles_c, batches].map(|n| n as u32).to_vec();
    params.extend([rows.from as u32, (rows.from / 4) as u32, cols.to as u32]);
    push_walk(&mut params, moved, &batch);
    launch(kernel, params, batches * tiles_r * tiles_c, caps).map(Some)
}

/// The largest power of two up to 256 that a workgroup may have.
fn threads(caps: &Caps) -> u32 {
    1 << caps.max_invocations.clamp(1, 256).ilog2()
}

/// Both offsets, then extent and strides of each dimension; strides wrap, their sums do not.
fn push_walk(params: &mut Vec<u32>, moved: &Move, dims: &[Dim]) {
    params.extend([moved.from as u32, moved.to as u32]);
    params.extend(dims.iter().flat_map(|d| [d.extent as u32, d.from as u32, d.to as u32]));
}

fn launch(kernel: Kernel, mut params: Vec<u32>, workgroups: u64, caps: &Caps) -> Result<Launch> {
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(workgroups)?;
    Ok(Launch { kernel: KernelKey::own(kernel), grid, bindings: vec![Slot::Input(0), Slot::Output(0)], params })
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
