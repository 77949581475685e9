//! Products of a 2:4 compressed A by wgmma.sp: `catalogue/wgmma_sparse.rs`.
//!
//! Values and B are tensor maps, as they lie or packed. Metadata are arranged by a launch of their own, in the order in which
//! warpgroups take them (`cuda/sparse24_metadata.cu`); the product starts while that still runs. Rows of K that is no multiple
//! of 4 are left to the portable way, as in `plans/mma_sparse.rs`.

use polywarp_core::ops::{MatmulDims, SparseMatmul};

use super::super::compressed::values;
use super::super::ending::Ending;
use super::super::operand::Operand;
use super::super::pack::Prepared;
use super::source::Way;
use super::{Instance, Problem};
use crate::catalogue::sparse24::{ARRANGED_UNITS, arrange as arranging};
use crate::catalogue::wgmma_sparse::instances;
use crate::{Arg, Candidate, Caps, Launch, Slot, find};

/// K of a unit of arranged metadata, of a stage in bytes, and rows and bytes of a slab of a unit.
const UNIT_K: u64 = 64;
const STAGE_K_BYTES: u64 = 128;
const SLAB_ROWS: u64 = 64;
const SLAB_BYTES: u64 = 512;
/// Rows of the largest piece of D whose metadata are read at once: two tiles of 128 in a cluster.
const PIECE_ROWS: u64 = 256;
/// What a launch costs beside its traffic, where the next one starts early.
const LAUNCH_NS: f64 = 1500.0;

pub(super) fn products(op: &SparseMatmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let product = &op.product;
    let way = Way::of(product)?;
    let matches = |instance: &&Instance| {
        instance.operands() == product.a.dtype && instance.output == product.output.dtype && !product.is_quantised()
    };
    let fits = product.dims().k.is_multiple_of(4) && instances().iter().any(|instance| matches(&instance));
    let ending = Ending::of(product, caps).filter(|_| fits)?;
    let mut prepared = Prepared::default();
    let (values, words_stride) = values(op)?;
    let a = way.operand(&mut prepared, values, caps)?;
    let b = way.operand(&mut prepared, Operand { slot: Slot::Input(2), ..Operand::b(product)? }, caps)?;
    let metadata = Some(arrange(op, values.batch, words_stride, &mut prepared, caps)?);
    let problem = Problem { metadata, ..Problem::new(product, a, b, ending, caps) };
    let lies = |instance: &&Instance| (instance.major_a, instance.major_b) == (problem.a.major, problem.b.major);
    let candidates = instances().iter().filter(matches).filter(lies);
    Some(candidates.filter_map(|instance| problem.candidate(instance, 1, &prepared)).collect())
}

/// Adds the launch that arranges the metadata of `batch` matrices, `stride` words apart; where they are then, and slabs of rows in
/// each unit, those of a piece that hangs over the end of A among them.
fn arrange(op: &SparseMatmul, batch: u64, stride: i64, prepared: &mut Prepared, caps: &Caps) -> Option<[Arg; 2]> {
    let MatmulDims { m, k, .. } = op.product.dims();
    let element_bytes = op.values.dtype.size_bytes();
    let words = k.div_ceil(32);
    // Whole stages.
    let units = k.next_multiple_of(STAGE_K_BYTES / element_bytes) / UNIT_K;
    let slabs = m.div_ceil(PIECE_ROWS) * (PIECE_ROWS / SLAB_ROWS);
    let tiles = units.div_ceil(ARRANGED_UNITS);
    let dense = batch == 1 || u64::try_from(stride) == Ok(m * words);
    let bytes = [batch, units, slabs, SLAB_BYTES].into_iter().try_fold(1u64, u64::checked_mul).filter(|_| dense)?;
    let blocks = batch.checked_mul(slabs)?.checked_mul(tiles).filter(|&blocks| blocks <= i32::MAX as u64)?;
    let arranged = Arg::Address { slot: Slot::Scratch(prepared.plan.scratch_bytes.len()), offset_bytes: 0 };
    let mut args =
        vec![Arg::Address { slot: Slot::Input(1), offset_bytes: 4 * op.metadata.layout.offset() }, arranged.clone()];
    // All of them are at most 2^30, or counted in blocks.
    args.extend([m, words, slabs, units, tiles].map(|value| Arg::U32(value as u32)));
    prepared.plan.launches.push(Launch { kernel: find(&arranging(element_bytes))?, grid: [blocks as u32, 1, 1], args });
    prepared.plan.scratch_bytes.push(bytes);
    prepared.estimate_ns += LAUNCH_NS + caps.stream_ns(2 * bytes);
    Some([arranged, Arg::U32(slabs as u32)])
}

#[cfg(test)]
#[path = "wgmma_sparse_tests.rs"]
mod tests;
