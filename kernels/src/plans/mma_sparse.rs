//! Products with a 2:4 compressed A by warp-level sparse tensor instructions: `catalogue/mma_sparse.rs`.
//!
//! Values and B are taken as they lie on a 16-byte grid with neighbours along K, and packed otherwise (`plans/pack.rs`). Rows of K
//! that is no multiple of 4 are left to the portable way: their last values may name places beyond K, which count for nothing
//! there and would be multiplied with zeros here. The kernels have not been run on a card; like all others they are
//! checked against the oracle before their first use. Rates are guesses: half as much again as the dense kernels reach.

use polywarp_core::Op;
use polywarp_core::ops::{MatmulDims, SparseMatmul};

use super::compressed::{behind_metadata, values};
use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use crate::catalogue::mma_sparse::{INSTANCES, Instance};
use crate::catalogue::mma_sync::operations_per_clock;
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Launch, Slot, find};

/// There is one kernel for each op.
pub(super) const WORTH_TIMING: f64 = 1.0;
/// Share of twice the dense rate.
const EFFICIENCY: f64 = 0.6;
/// Clocks from launch to the first tile of K, and from the last to the end; and per round of blocks (as `plans/mma_sync.rs`).
const START_CLOCKS: f64 = 4500.0;
const ROUND_CLOCKS: f64 = 1500.0;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Some(op) = op.get::<SparseMatmul>() else { return Vec::new() };
    INSTANCES.iter().filter_map(|instance| candidate(op, caps, instance)).collect()
}

fn candidate(op: &SparseMatmul, caps: &Caps, instance: &Instance) -> Option<Candidate> {
    let product = &op.product;
    let MatmulDims { batch, m, n, k } = product.dims();
    let fits = instance.operands == product.a.dtype
        && k.is_multiple_of(4)
        // Scales would be applied by a second launch: dense kernels that know them do better.
        && !product.is_quantised()
        && instance.shared_bytes() <= caps.max_shared_bytes
        && find(&instance.symbol)?.target(caps.sm).is_some();
    let ending = Ending::of(product, caps).filter(|_| fits)?;
    let blocks = m.div_ceil(instance.tile.m.into()) * n.div_ceil(instance.tile.n.into()) * batch;
    let grid = u32::try_from(blocks).ok().filter(|&grid| grid <= i32::MAX as u32)?;

    let mut prepared = Prepared::default();
    let mut ready = |operand: Operand| {
        if is_on_grid(&operand) {
            return Some(operand);
        }
        prepared.pack(Mode::Copy(operand.element_bytes), &operand, caps)
    };
    let (values, words_stride) = values(op)?;
    let values = ready(values)?;
    let b = ready(Operand { slot: Slot::Input(2), ..Operand::b(product)? })?;
    let packed = if prepared.plan.launches.is_empty() { "" } else { "_packed" };

    let metadata = Arg::Address { slot: Slot::Input(1), offset_bytes: 4 * op.metadata.layout.offset() };
    let operand = |operand: Operand| {
        let at = Arg::Address { slot: operand.slot, offset_bytes: operand.offset_bytes() };
        [at, Arg::I64(operand.row_stride), Arg::I64(operand.batch_stride)]
    };
    let launch = |to: Written| {
        let word = |value: u64| Arg::U32(value as u32);
        let args = operand(values).into_iter().chain([metadata, Arg::I64(words_stride)]).chain(operand(b));
        let args = args.chain([to.d(), Arg::U32(to.is_f32.into()), word(m), word(n), word(k), word(batch)]);
        let args = args.chain(to.epilogue.args().into_iter().map(behind_metadata)).collect();
        Some(Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args })
    };
    let Prepared { mut plan, mut estimate_ns } = prepared;
    ending.add(&mut plan, 1, Scales::Unknown, launch)?;
    estimate_ns += tensor_ns(instance, blocks, k, caps);
    Some(Candidate { name: format!("{}{packed}", instance.symbol), plan, estimate_ns })
}

/// Whether neighbours lie along K and every row starts on a 16-byte boundary.
fn is_on_grid(operand: &Operand) -> bool {
    let steps = [operand.offset, operand.row_stride.unsigned_abs(), operand.batch_stride.unsigned_abs()];
    operand.k_stride == 1 && steps.iter().all(|step| (step * operand.element_bytes).is_multiple_of(16))
}

fn tensor_ns(instance: &Instance, blocks: u64, k: u64, caps: &Caps) -> f64 {
    let tile = instance.tile;
    let work = 2.0 * f64::from(tile.m) * f64::from(tile.n) * k.next_multiple_of(tile.k.into()) as f64;
    let rate = 2.0 * operations_per_clock(instance.operands, caps.sm) * EFFICIENCY;
    let rounds = blocks.div_ceil(u64::from(caps.multiprocessors.max(1)));
    caps.clocks_ns(START_CLOCKS + rounds as f64 * (work / rate + ROUND_CLOCKS))
}

#[cfg(test)]
#[path = "mma_sparse_tests.rs"]
mod tests;
