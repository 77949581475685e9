//! Products of 8-bit floats whose scales change along K (`Matmul::scale_blocks`), by wgmma: each stage's sums are multiplied with
//! scales before they are added up (`cuda/gemm_wgmma_blocks.cuh`).
//!
//! Both operands have scales. A stage is 128 of K, and must lie within one block; so must each 128 columns of a tile, which begin
//! at multiples of 128. Every other block is the portable kernels'.

use polywarp_core::TensorSpec;
use polywarp_core::ops::{Matmul, MatmulDims};

use super::super::ending::Ending;
use super::super::operand::{Operand, at, batch_stride};
use super::super::pack::Prepared;
use super::source::Way;
use super::{Instance, Problem};
use crate::catalogue::wgmma::blocks_instances;
use crate::{Arg, Candidate, Caps};

/// K of a stage, and what the columns of all tiles divide, or are parts of.
const STAGE_K: u64 = 128;
const TILE_N: u64 = 128;

pub(super) fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let scales = scales(op)?;
    // What is left to the epilogue knows no scales.
    let unscaled = Matmul { scale_a: None, scale_b: None, scale_blocks: None, ..op.clone() };
    let serves = |instance: &&Instance| {
        [op.a.dtype, op.b.dtype] == [instance.operands(); 2] && instance.output == op.output.dtype
    };
    if !blocks_instances().iter().any(|instance| serves(&instance)) {
        return None;
    }
    let way = Way::of(&unscaled)?;
    let ending = Ending::of(&unscaled, caps)?;
    let mut prepared = Prepared::default();
    let a = way.operand(&mut prepared, Operand::a(&unscaled)?, caps)?;
    let b = way.operand(&mut prepared, Operand::b(&unscaled)?, caps)?;
    let problem = Problem { block_scales: scales, ..Problem::new(&unscaled, a, b, ending, caps) };
    let candidates = blocks_instances().iter().filter(serves);
    Some(candidates.filter_map(|instance| problem.candidate(instance, 1, &prepared)).collect())
}

/// The last arguments of a kernel (`BlockScales` in the source); `None` for blocks that none takes.
fn scales(op: &Matmul) -> Option<Vec<Arg>> {
    let blocks = op.scale_blocks?;
    let MatmulDims { n, k, .. } = op.dims();
    // A block that reaches the end is one block.
    let stages = if blocks.k >= k { k.div_ceil(STAGE_K).max(1) } else { whole(blocks.k, STAGE_K)? };
    let columns =
        if blocks.n >= n { n.next_multiple_of(TILE_N).max(TILE_N) } else { whole(blocks.n, TILE_N)? * TILE_N };
    let [place_a, place_b] = op.places().scales();
    let mut args = of_operand(op.scale_a.as_ref()?, place_a?, [0, 1])?;
    args.extend(of_operand(op.scale_b.as_ref()?, place_b?, [1, 0])?);
    args.extend([blocks.m, columns, stages].map(|extent| Arg::U32(u32::try_from(extent).unwrap_or(u32::MAX))));
    Some(args)
}

/// How many times `step` makes `extent`.
fn whole(extent: u64, step: u64) -> Option<u64> {
    extent.is_multiple_of(step).then_some(extent / step)
}

/// One operand's scales, the step along its own dimension and that along K, which are the matrix's `axes`, and the batch stride.
fn of_operand(spec: &TensorSpec, place: usize, axes: [usize; 2]) -> Option<Vec<Arg>> {
    let (dims, strides) = (spec.layout.dims(), spec.layout.strides());
    let batch = dims.len() - 2;
    let step = |axis: usize| if dims[batch + axis] == 1 { 0 } else { strides[batch + axis] };
    let (_, batch_stride) = batch_stride(&dims[..batch], &strides[..batch])?;
    let mut args = vec![at(spec, place)];
    args.extend([step(axes[0]), step(axes[1]), batch_stride].map(Arg::I64));
    Some(args)
}

#[cfg(test)]
#[path = "wgmma_blocks_tests.rs"]
mod tests;
