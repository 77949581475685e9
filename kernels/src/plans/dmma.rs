//! f64 products on sm_90: which instance of `catalogue/dmma.rs`, with how many slabs of K.
//!
//! Operands that tensor maps cannot describe (starts or pitches off the 16-byte grid) are packed first. Blocks are
//! persistent, one on each multiprocessor, or clusters share the K of a tile each; the estimate counts rounds of tiles. Slabs of
//! K serve where they make the rounds fuller by more than adding them up costs (`cuda/splitk.cu`).

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op};

use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use super::source::Source;
use crate::catalogue::dmma::{BLOCK_K, INSTANCES, Instance};
use crate::catalogue::mma_sync::operations_per_clock;
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Element, Launch, find};

/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.5;
/// Clocks from launch to the first tile of K, and for storing a tile.
const START_CLOCKS: f64 = 8000.0;
const TILE_CLOCKS: f64 = 3000.0;
/// Clocks in which blocks of a cluster wait for each other and read what they left.
const SHARE_CLOCKS: f64 = 2000.0;
/// What a second launch costs beside its traffic.
const COMBINE_NS: f64 = 2500.0;
/// Tiles of K that a slab has at least, and slabs that a product has at most.
const LEAST_SLAB_TILES: u64 = 8;
const MOST_SLABS: u64 = 32;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Some(op) = op.get::<Matmul>() else { return Vec::new() };
    Problem::new(op, caps).map(|problem| problem.candidates()).unwrap_or_default()
}

struct Problem<'a> {
    op: &'a Matmul,
    a: Source,
    b: Source,
    /// What packs operands.
    prepared: Prepared,
    ending: Ending<'a>,
    caps: &'a Caps,
}

impl<'a> Problem<'a> {
    fn new(op: &'a Matmul, caps: &'a Caps) -> Option<Problem<'a>> {
        if op.a.dtype != DType::F64 || !caps.tensor_maps {
            return None;
        }
        let mut prepared = Prepared::default();
        let mut ready = |operand: Operand| {
            if let Some(source) = Source::of(operand, Element::F64, true, 0) {
                return Some(source);
            }
            Source::of(prepared.pack(Mode::Copy(8), &operand, caps)?, Element::F64, true, 0)
        };
        let (a, b) = (ready(Operand::a(op)?)?, ready(Operand::b(op)?)?);
        Some(Problem { op, a, b, prepared, ending: Ending::of(op, caps)?, caps })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let usable = |instance: &&Instance| {
            (instance.a, instance.b) == (self.a.major, self.b.major)
                && instance.shared_bytes() <= self.caps.max_shared_bytes
        };
        INSTANCES.iter().filter(usable).flat_map(|instance| self.of(instance)).collect()
    }

    /// One launch, and the number of slabs that seems best where that is more than one.
    fn of(&self, instance: &Instance) -> Vec<Candidate> {
        let k_tiles = self.op.dims().k.div_ceil(u64::from(BLOCK_K));
        let most = (k_tiles / LEAST_SLAB_TILES).clamp(1, MOST_SLABS);
        let whole = self.candidate(instance, 1);
        let cut = (2..=most).filter_map(|slabs| self.candidate(instance, slabs));
        let cut = cut.min_by(|x, y| x.estimate_ns.total_cmp(&y.estimate_ns));
        // Cutting that gains nothing is not worth timing.
        let gain = |cut: &Candidate| whole.as_ref().is_none_or(|whole| cut.estimate_ns < whole.estimate_ns);
        let cut = cut.filter(gain);
        whole.into_iter().chain(cut).collect()
    }

    fn candidate(&self, instance: &Instance, slabs: u64) -> Option<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let tile = instance.shape.tile;
        let k_tiles = k.div_ceil(u64::from(BLOCK_K)).div_ceil(slabs);
        let slab_k = if slabs == 1 { k } else { k_tiles * u64::from(BLOCK_K) };
        let slabs = k.div_ceil(slab_k);
        let planes = m.div_ceil(u64::from(tile.m)) * n.div_ceil(u64::from(tile.n));
        let tiles = planes.checked_mul(batch)?.checked_mul(slabs)?;
        // Tiles, and blocks of clusters that have one each, are counted in 32 bits.
        let blocks =
            tiles.checked_mul(u64::from(instance.shape.cluster_k)).filter(|&blocks| blocks <= i32::MAX as u64)?;
        let persistent = instance.shape.cluster_k == 1;
        let blocks = if persistent { blocks.min(u64::from(self.caps.multiprocessors.max(1))) } else { blocks };
        let product = |to: Written| {
            let word = |value: u64| Arg::U32(value as u32);
            let maps = [self.a.rows_map(tile.m, BLOCK_K), self.b.rows_map(tile.n, BLOCK_K)].map(Arg::TensorMap);
            let batches = [&self.a, &self.b].map(|source| Arg::U32(u32::from(source.operand.batch > 1)));
            let sizes = [m, n, k, batch, slabs, slab_k].map(word);
            let args = maps.into_iter().chain([to.d()]).chain(sizes).chain(batches).chain(to.epilogue.args()).collect();
            Some(Launch { kernel: find(&instance.symbol)?, grid: [blocks as u32, 1, 1], args })
        };
        let mut plan = self.prepared.plan.clone();
        let summed = self.ending.add(&mut plan, slabs, Scales::Unknown, product)?;
        let mut estimate_ns = self.prepared.estimate_ns + self.product_ns(instance, tiles, k_tiles);
        let packed = if self.prepared.plan.launches.is_empty() { "" } else { "_packed" };
        let mut name = format!("{}{packed}", instance.symbol);
        if slabs > 1 {
            estimate_ns += COMBINE_NS + self.caps.stream_ns(2 * summed);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Time of `tiles` tiles that each multiply `k_tiles` tiles of K.
    fn product_ns(&self, instance: &Instance, tiles: u64, k_tiles: u64) -> f64 {
        let tile = instance.shape.tile;
        let work = 2.0 * f64::from(tile.m) * f64::from(tile.n) * f64::from(BLOCK_K) * k_tiles as f64;
        let rate = operations_per_clock(DType::F64, self.caps.sm) * instance.shape.efficiency;
        let shared_by = u64::from(instance.shape.cluster_k);
        let rounds = tiles.div_ceil(self.caps.clusters(instance.shape.cluster_k)) as f64;
        let share = if shared_by > 1 { SHARE_CLOCKS } else { 0.0 };
        let tensor_ns =
            self.caps.clocks_ns(START_CLOCKS + rounds * (work / shared_by as f64 / rate + TILE_CLOCKS + share));
        let elements = |source: &Source| source.operand.batch * source.operand.rows * source.operand.k;
        let moved = elements(&self.a) + elements(&self.b) + self.op.output.layout.elements();
        tensor_ns.max(self.caps.stream_ns(8 * moved))
    }
}

#[cfg(test)]
#[path = "dmma_tests.rs"]
mod tests;
