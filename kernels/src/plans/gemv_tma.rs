//! Products with at most 16 rows or columns on sm_90 and later: streams through shared memory, of 16 bits, on Hopper of 8 bits too.
//!
//! The large operand must be one that a tensor map describes; the vectors are packed where they are not. Blocks of a cluster
//! share K, so that a narrow operand still keeps every multiprocessor loading; very long K is cut into slabs besides. The
//! estimate is the time that the fullest multiprocessor takes to load its share.

use polywarp_core::{DType, Op};

use super::ending::{Ending, Scales, Written};
use super::gemv::Sides;
use super::pack::Prepared;
use super::source::Source;
use crate::catalogue::gemv_tma::{INSTANCES, Instance, Readers, VECTORS};
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Element, Launch, Promotion, TensorMap, find};

/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.4;
/// What starting and ending cost warps and warpgroups, and what a cluster adds.
const START_WARPS_NS: f64 = 3500.0;
const START_WARPGROUPS_NS: f64 = 2700.0;
const CLUSTER_NS: f64 = 500.0;
/// What a second launch costs.
const COMBINE_NS: f64 = 2500.0;
/// Share of the promised memory rate that all multiprocessors together reach, and how many times its share one alone gets.
const RATE: f64 = 0.9;
const ALONE: f64 = 1.6;
/// Steps of K that a block has at least where K is cut into slabs, and slabs at most.
const LEAST_STEPS: u64 = 8;
const MOST_SLABS: u64 = 32;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    Problem::new(op, caps).map(|problem| problem.candidates()).unwrap_or_default()
}

struct Problem<'a> {
    sides: Sides<'a>,
    w: Source,
    element: Element,
    ending: Ending<'a>,
    caps: &'a Caps,
}

impl<'a> Problem<'a> {
    fn new(op: &'a Op, caps: &'a Caps) -> Option<Problem<'a>> {
        let sides = Sides::of(op, u64::from(VECTORS))?;
        let element = match sides.op.a.dtype {
            DType::F16 => Element::F16,
            DType::BF16 => Element::BF16,
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 => Element::U8,
            _ => return None,
        };
        if !caps.tensor_maps || sides.op.a.dtype != sides.op.b.dtype {
            return None;
        }
        let w = Source::of(sides.w, element, sides.w.element_bytes == 2, 0)?;
        Some(Problem { ending: Ending::of(sides.op, caps)?, sides, w, element, caps })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let usable = |instance: &&Instance| {
            instance.operands == self.sides.op.a.dtype
                && instance.major == self.w.major
                && instance.shared_bytes() <= self.caps.max_shared_bytes
        };
        INSTANCES.iter().filter(usable).flat_map(|instance| self.of(instance)).collect()
    }

    /// One launch, and with slabs of K where blocks are few.
    fn of(&self, instance: &Instance) -> Vec<Candidate> {
        let tiles = self.sides.w.rows.div_ceil(u64::from(instance.rows)) * self.sides.op.dims().batch;
        let blocks = tiles * u64::from(instance.cluster);
        let steps = self.sides.w.k.div_ceil(u64::from(instance.step()) * u64::from(instance.cluster));
        let most = (u64::from(self.caps.multiprocessors) / blocks.max(1)).min(steps / LEAST_STEPS).min(MOST_SLABS);
        let slabs = if most > 1 { vec![1, most] } else { vec![1] };
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, tiles, slabs)).collect()
    }

    fn candidate(&self, instance: &Instance, tiles: u64, slabs: u64) -> Option<Candidate> {
        let (k, step) = (self.sides.w.k, u64::from(instance.step()));
        let mut prepared = Prepared::default();
        let mut name = instance.symbol.clone();
        let slab_k = k.div_ceil(slabs).next_multiple_of(step);
        let slabs = k.div_ceil(slab_k);
        let x = match Source::of(self.sides.x, self.element, false, 0) {
            Some(x) => x,
            None => {
                name.push_str("_packx");
                let x = prepared.pack(Mode::Copy(self.sides.x.element_bytes), &self.sides.x, self.caps)?;
                Source::of(x, self.element, false, 0)?
            }
        };
        let Prepared { mut plan, mut estimate_ns } = prepared;
        estimate_ns += self.stream_ns(instance, tiles * u64::from(instance.cluster) * slabs, slab_k);
        let tiles = u32::try_from(tiles).ok().filter(|&tiles| tiles <= i32::MAX as u32)?;
        let grid = [tiles, slabs as u32, instance.cluster];
        let product = |to: Written| {
            if self.sides.op.a.dtype.is_float8() && !to.is_f32 && self.sides.op.output.dtype != DType::F16 {
                return None; // its narrow results are f16
            }
            let word = |value: u64| Arg::U32(value as u32);
            let map = |source: &Source, rows| {
                let map = source.rows_map(rows, instance.step());
                let promotion = if instance.readers == Readers::Warps { map.promotion } else { Promotion::B128 };
                Arg::TensorMap(TensorMap { promotion, ..map })
            };
            let mut args = vec![map(&self.w, instance.rows), map(&x, VECTORS), to.d()];
            args.extend([word(self.sides.w.rows), word(x.operand.rows), word(k)]);
            args.extend([&self.w, &x].map(|source| Arg::U32(u32::from(source.operand.batch > 1))));
            args.extend([word(self.sides.x_is_a.into()), word(to.is_f32.into()), word(slab_k)]);
            args.extend(to.epilogue.args());
            Some(Launch { kernel: find(&instance.symbol)?, grid, args })
        };
        let summed = self.ending.add(&mut plan, slabs, Scales::Unknown, product)?;
        if slabs > 1 {
            estimate_ns += COMBINE_NS + self.caps.stream_ns(2 * summed);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Time of streaming the large operand through so many blocks, one on each multiprocessor at a time.
    fn stream_ns(&self, instance: &Instance, blocks: u64, slab_k: u64) -> f64 {
        let share_k = slab_k.div_ceil(u64::from(instance.cluster)).next_multiple_of(u64::from(instance.step()));
        let bytes = u64::from(instance.rows) * share_k * self.sides.w.element_bytes;
        // Clusters lie within a group of 16 or 18 multiprocessors, which larger ones do not fill (H200).
        let (of, fill) = match instance.cluster {
            1 | 2 => (1, 1),
            4 => (8, 7),
            _ => (4, 3),
        };
        let multiprocessors = (u64::from(self.caps.multiprocessors) * fill / of).max(1);
        let places = multiprocessors * u64::from(instance.blocks_at_once());
        // When few load, each gets more. Where a multiprocessor has several, the next begins when the first of them ends.
        let loading = (blocks.min(places) as f64).max(multiprocessors as f64 / ALONE);
        let rounds = if places > multiprocessors {
            (blocks as f64 / places as f64).max(1.0)
        } else {
            blocks.div_ceil(places) as f64
        };
        let stream = self.caps.stream_ns(bytes) * loading / RATE * rounds;
        let start = if instance.readers == Readers::Warps { START_WARPS_NS } else { START_WARPGROUPS_NS };
        start + stream + if instance.cluster > 1 { CLUSTER_NS } else { 0.0 }
    }
}

#[cfg(test)]
#[path = "gemv_tma_tests.rs"]
mod tests;
