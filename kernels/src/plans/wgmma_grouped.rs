//! Products of groups of A's rows by wgmma: which tile, and the launch whose blocks find their tiles from the ends.
//!
//! How many tiles the groups need is known on the device alone, so as many blocks are launched as the card holds, or as there
//! can be tiles. A tile begins at any row of A, which must lie K-major: it is packed where it does not.

use polywarp_core::ops::{GroupedMatmul, GroupedMatmulDims, Matmul, TensorSpec};
use polywarp_core::{DType, Layout, Shape as Extents};

use super::source::Way;
use super::{Problem, RASTER_ROWS, Target, Walk};
use crate::catalogue::wgmma::{Instance, grouped_instances};
use crate::plans::ending::{Ending, Scales};
use crate::plans::operand::Operand;
use crate::plans::pack::Prepared;
use crate::{Arg, Candidate, Caps, Launch, Slot, find};

/// Groups and rows are counted in 32 bits, and so are tiles.
const MOST_GROUPS: u64 = 1 << 30;
const MOST_TILES: u64 = 1 << 31;

pub(super) fn products(op: &GroupedMatmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let GroupedMatmulDims { groups, rows, .. } = op.dims();
    let serves = |instance: &&Instance| instance.operands() == op.a.dtype && instance.output == op.output.dtype;
    if !(1..=MOST_GROUPS).contains(&groups) || !grouped_instances().iter().any(|instance| serves(&instance)) {
        return None;
    }
    // All rows times the first group's matrix.
    let first = Matmul { output: op.output, ..op.of_group(0, 0..rows).ok()? };
    let way = Way::of(&first)?;
    let ending = Ending::of(&first, caps)?;
    let mut prepared = Prepared::default();
    let a = way.operand_along_k(&mut prepared, Operand::a(&first)?, caps)?;
    let b = way.operand(&mut prepared, matrices(op, &first)?, caps)?;
    let even = even(op)?;
    let problem = Problem::new(&even, a, b, ending, caps);
    let layouts = (problem.a.major, problem.b.major);
    let matching = grouped_instances().iter().filter(serves);
    let matching = matching.filter(|instance| (instance.major_a, instance.major_b) == layouts);
    Some(matching.filter_map(|instance| candidate(op, &problem, instance, &prepared)).collect())
}

/// B of all groups.
fn matrices(op: &GroupedMatmul, first: &Matmul) -> Option<Operand> {
    let (batch, batch_stride) = match (op.dims().groups, op.b.layout.strides()[0]) {
        (1, _) | (_, 0) => (1, 0),
        (groups, stride) => (groups, stride),
    };
    Some(Operand { batch, batch_stride, ..Operand::b(first)? })
}

/// The product that would be as much work if all groups owned as many rows: what estimates are made for.
fn even(op: &GroupedMatmul) -> Option<Matmul> {
    let GroupedMatmulDims { groups, rows, n, k } = op.dims();
    let batch = groups.min(rows).max(1);
    let m = rows.div_ceil(batch);
    let dense =
        |dtype: DType, dims: [u64; 3]| Some(TensorSpec::new(dtype, Layout::contiguous(Extents::new(&dims).ok()?)));
    let (a, b) = (dense(op.a.dtype, [batch, m, k])?, dense(op.b.dtype, [batch, k, n])?);
    let product = Matmul::product(a, b, dense(op.output.dtype, [batch, m, n])?);
    Some(Matmul { bias: op.bias, activation: op.activation, ..product })
}

fn candidate(op: &GroupedMatmul, problem: &Problem, instance: &Instance, prepared: &Prepared) -> Option<Candidate> {
    let mut plan = prepared.plan.clone();
    problem.ending.add(&mut plan, 1, Scales::Unknown, |to| {
        launch(op, problem, instance, (to.slot, to.offset_bytes), to.epilogue.args())
    })?;
    let estimate_ns = prepared.estimate_ns + problem.estimate_ns(instance, 1, problem.k_tiles(instance), 0);
    Some(Candidate { name: instance.symbol.clone(), plan, estimate_ns })
}

fn launch(
    op: &GroupedMatmul,
    problem: &Problem,
    instance: &Instance,
    (slot, offset_bytes): (Slot, u64),
    epilogue: Vec<Arg>,
) -> Option<Launch> {
    let GroupedMatmulDims { groups, rows, n, k } = op.dims();
    let (block_m, block_n) = (u64::from(instance.shape.block_m), u64::from(instance.shape.block_n));
    // As many partial tiles as there are groups, and one of the rows that none owns; but none without a row.
    let most_rows = rows.min((rows + (groups + 1) * (block_m - 1)) / block_m);
    let tiles = [most_rows, n.div_ceil(block_n)];
    let most_tiles = tiles[0].checked_mul(tiles[1]).filter(|&most| most < MOST_TILES)?;
    let grid = most_tiles.min(u64::from(problem.caps.multiprocessors)).max(1) as u32;

    let slab_tiles = problem.k_tiles(instance);
    let target = Target { slot, offset_bytes, dtype: instance.output, slabs: 1, slab_tiles };
    let walk = Walk { tiles, batch: groups, raster: RASTER_ROWS };
    let mut args = problem.args(instance, &target, [1, rows, n, k], &walk)?;
    args.extend(epilogue);
    let ends = Slot::Input(if op.bias.is_some() { 3 } else { 2 });
    let bias_stride = op.bias.map_or(0, |bias| bias.layout.strides()[0]);
    args.extend([
        Arg::Address { slot: ends, offset_bytes: op.ends.layout.offset() * op.ends.dtype.size_bytes() },
        Arg::I64(op.ends.layout.strides()[0]),
        Arg::U32((op.ends.dtype == DType::I32).into()),
        Arg::I64(bias_stride),
    ]);
    Some(Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args })
}

#[cfg(test)]
#[path = "wgmma_grouped_tests.rs"]
mod tests;
