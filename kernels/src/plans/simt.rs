//! f32 products on the plain cores: which instance of `catalogue/simt.rs`, which operands are packed first, how many slabs.
//!
//! Serves every precision, since it is exact to f32; where tensor cores may be used they are faster, and the estimates say
//! so. An operand that an instance cannot read as it lies is packed into rows along M or N (`plans/pack.rs`): the widest
//! tiles read nothing else, because copies of single elements hold up the loads from shared memory. The estimate counts
//! rounds of blocks at the shape's measured share of the peak.

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op};

use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use crate::catalogue::pack::Mode;
use crate::catalogue::simt::{Access, INSTANCES, Instance};
use crate::{Arg, Candidate, Caps, Launch, find};

/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.6;
/// f32 operations of a multiprocessor per clock: 128 fused multiply-adds (64 on sm_80).
const OPERATIONS_PER_CLOCK: f64 = 256.0;
/// Share of its rate that an instance keeps for each operand that it copies by single elements (H200).
const SINGLE: f64 = 0.94;
/// What a launch costs, and starting and ending a tile in elements of K.
const LAUNCH_NS: f64 = 2500.0;
const TILE_K: f64 = 40.0;
/// Slabs of K are at least so long, and at most so many.
const LEAST_SLAB: u64 = 256;
const MOST_SLABS: u64 = 64;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Some(op) = op.get::<Matmul>() else { return Vec::new() };
    Problem::new(op, caps).map(|problem| problem.candidates()).unwrap_or_default()
}

struct Problem<'a> {
    op: &'a Matmul,
    a: Operand,
    b: Operand,
    ending: Ending<'a>,
    caps: &'a Caps,
}

/// Elements from one line of neighbours to the next.
fn pitch(operand: &Operand, access: Access) -> i64 {
    if access == Access::K { operand.row_stride } else { operand.k_stride }
}

/// Whether `access` reads `operand` as it lies.
fn direct(operand: &Operand, access: Access) -> bool {
    let steps = [operand.offset, operand.k_stride.unsigned_abs(), operand.batch_stride.unsigned_abs(), operand.rows];
    match access {
        Access::K => operand.k_stride == 1 || operand.k == 1,
        Access::MnWide => operand.row_stride == 1 && steps.iter().all(|step| step.is_multiple_of(4)),
        Access::Mn => operand.row_stride == 1 || operand.rows == 1,
    }
}

impl<'a> Problem<'a> {
    fn new(op: &'a Matmul, caps: &'a Caps) -> Option<Problem<'a>> {
        if op.a.dtype != DType::F32 || op.output.dtype != DType::F32 {
            return None;
        }
        Some(Problem { op, a: Operand::a(op)?, b: Operand::b(op)?, ending: Ending::of(op, caps)?, caps })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let usable = INSTANCES.iter().filter(|instance| instance.shared_bytes() <= self.caps.max_shared_bytes);
        usable.flat_map(|instance| self.of(instance)).collect()
    }

    /// One launch (and those that pack), and with slabs of K where they fill the card.
    fn of(&self, instance: &Instance) -> Vec<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let tile = instance.shape.tile;
        let blocks = m.div_ceil(u64::from(tile.m)) * n.div_ceil(u64::from(tile.n)) * batch;
        let places = u64::from(self.caps.multiprocessors * instance.shape.resident);
        let most = (places / blocks.max(1)).min(k / LEAST_SLAB).min(MOST_SLABS);
        let mut slabs = vec![1];
        if most > 1 {
            let k_tiles = k.div_ceil(u64::from(tile.k));
            slabs.push(k_tiles.div_ceil(k_tiles.div_ceil(most)));
        }
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, blocks, slabs)).collect()
    }

    fn candidate(&self, instance: &Instance, blocks: u64, slabs: u64) -> Option<Candidate> {
        let MatmulDims { m, n, k, .. } = self.op.dims();
        let mut prepared = Prepared::default();
        let mut name = instance.symbol.clone();
        let mut ready = |operand: Operand, access, suffix| {
            if direct(&operand, access) {
                return Some(operand);
            }
            // Packing for single copies is never better than packing for wide ones, and one row would become lines of one element.
            if access != Access::MnWide || operand.rows == 1 {
                return None;
            }
            name.push_str(suffix);
            Some(prepared.pack(Mode::Copy(4), &operand.transposed(), self.caps)?.transposed())
        };
        let a = ready(self.a, instance.a, "_packa")?;
        let b = ready(self.b, instance.b, "_packb")?;
        let Prepared { mut plan, mut estimate_ns } = prepared;

        let k_tiles = k.div_ceil(u64::from(instance.shape.tile.k));
        let slab_k = k_tiles.div_ceil(slabs) * u64::from(instance.shape.tile.k);
        estimate_ns += LAUNCH_NS + self.product_ns(instance, blocks * slabs, slab_k.min(k));
        let grid = [u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)?, slabs as u32, 1];
        let product = |to: Written| {
            let at = |operand: &Operand| Arg::Address { slot: operand.slot, offset_bytes: operand.offset_bytes() };
            let word = |value: u64| Arg::U32(value as u32);
            let mut args = vec![at(&a), at(&b), to.d(), word(m), word(n), word(k)];
            let strides = [pitch(&a, instance.a), pitch(&b, instance.b), a.batch_stride, b.batch_stride];
            args.extend(strides.map(Arg::I64));
            args.push(word(slab_k));
            args.extend(to.epilogue.args());
            Some(Launch { kernel: find(&instance.symbol)?, grid, args })
        };
        let summed = self.ending.add(&mut plan, slabs, Scales::Unknown, product)?;
        if slabs > 1 {
            estimate_ns += LAUNCH_NS + self.caps.stream_ns(2 * summed);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Time of `blocks` blocks that each go through `k`.
    fn product_ns(&self, instance: &Instance, blocks: u64, k: u64) -> f64 {
        let shape = instance.shape;
        let single = [instance.a, instance.b].into_iter().filter(|&access| access != Access::MnWide).count();
        let rate = OPERATIONS_PER_CLOCK * SINGLE.powi(single as i32) * if self.caps.sm == 80 { 0.5 } else { 1.0 };
        let work = 2.0 * f64::from(shape.tile.m) * f64::from(shape.tile.n) * (k as f64 + TILE_K);
        // The multiprocessor with most blocks ends last; what does not fill it runs at a lower rate.
        let most = blocks.div_ceil(u64::from(self.caps.multiprocessors.max(1)));
        let rest = most % u64::from(shape.resident);
        let clocks = (most - rest) as f64 * work / (rate * shape.full) + rest as f64 * work / (rate * shape.alone);
        self.caps.clocks_ns(clocks)
    }
}

#[cfg(test)]
#[path = "simt_tests.rs"]
mod tests;
