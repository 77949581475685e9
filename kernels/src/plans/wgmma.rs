//! Matrix products on Hopper's tensor cores: which instance of `catalogue/wgmma.rs`, on how many blocks.
//!
//! Operands are tensor maps (`wgmma_source.rs`). f32 products run as tf32 at `Medium` and `Low`, and as three products of
//! f16 parts at `High` (`wgmma_split.rs`); never at `Highest`. Where tiles are few and K is long, the blocks of a cluster share K, or slabs of
//! K are summed apart and added by a second launch (`splitk.rs`). What each takes is guessed in `wgmma_estimate.rs`; products of
//! groups of rows are planned in `wgmma_grouped.rs`, those of a 2:4 compressed A in `wgmma_sparse.rs`, those with scales that
//! change along K in `wgmma_blocks.rs`, transposed ones in `wgmma_transposed.rs`, those of which rows or columns give a number in
//! `wgmma_reduced.rs`.

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op};

use super::compressed::behind_metadata;
use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use super::source::{Source, reaches};
use crate::catalogue::wgmma::{Instance, Shape, instances};
use crate::{Arg, Candidate, Caps, Element, Launch, Promotion, Slot, Swizzle, TensorMap, find};

#[path = "wgmma_blocks.rs"]
mod blocks;
#[path = "wgmma_estimate.rs"]
mod estimate;
#[path = "wgmma_grouped.rs"]
mod grouped;
#[path = "wgmma_reduced.rs"]
mod reduced;
#[path = "wgmma_source.rs"]
mod source;
#[path = "wgmma_sparse.rs"]
mod sparse;
#[path = "wgmma_split.rs"]
mod split;
#[path = "wgmma_transposed.rs"]
mod transposed;

use source::Way;

/// Tile rows that blocks walk together before moving along N. Of 2 to 32, 12 was the best or as good as it for large products of
/// f16 (docs/gemm.md).
const RASTER_ROWS: u32 = 12;
/// Where D is at least so many times as large as both operands, blocks walk along D's rows, which are written one after the other
/// then; operands stay in the second-level cache anyway. At 16 times, both ways take the same.
const MOSTLY_RESULTS: u64 = 20;
/// Bytes of K of a small product: eight stages.
const SHORT_K_BYTES: u64 = 1024;
/// Tiles of K that each block of a slab has at least; slabs that a product has at most, and blocks that share them: sums of
/// more cost the second launch more than they save.
const LEAST_SLAB_TILES: u64 = 4;
const MOST_SLABS: u64 = 32;
const MOST_SLAB_BLOCKS: u64 = 64;
/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.6;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    if caps.sm != 90 || !caps.tensor_maps {
        return Vec::new();
    }
    let dense = |op: &Matmul| {
        if op.scale_blocks.is_some() {
            return blocks::products(op, caps);
        }
        let all = [products(op, caps), transposed::products(op, caps), split::products(op, caps)];
        Some(all.into_iter().flatten().flatten().collect())
    };
    let found = op.get().and_then(dense);
    let found = found.or_else(|| grouped::products(op.get()?, caps));
    let found = found.or_else(|| reduced::products(op.get()?, caps));
    found.or_else(|| sparse::products(op.get()?, caps)).unwrap_or_default()
}

fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let way = Way::of(op)?;
    let ending = Ending::of(op, caps)?;
    let mut prepared = Prepared::default();
    let a = way.operand(&mut prepared, Operand::a(op)?, caps)?;
    let b = way.operand(&mut prepared, Operand::b(op)?, caps)?;
    let problem = Problem::new(op, a, b, ending, caps);
    let matches = |instance: &&Instance| {
        instance.operands() == op.a.dtype && (instance.major_a, instance.major_b) == (problem.a.major, problem.b.major)
    };
    let ends = |instance: &Instance| instance.output == op.output.dtype;
    // Sums of slabs, or of operands whose scales no instance takes (u8): f32, or i32 of integers.
    let sums = |instance: &Instance| instance.output == if op.a.dtype.is_float() { DType::F32 } else { DType::I32 };
    let behind = !instances().iter().filter(matches).any(ends);
    let mut found = Vec::new();
    for instance in instances().iter().filter(matches) {
        if ends(instance) || (behind && sums(instance)) {
            found.extend(problem.candidate(instance, 1, &prepared));
        }
        if sums(instance) {
            found.extend(problem.by_slabs(instance, &prepared));
        }
    }
    Some(found)
}

/// A product whose operands are ready.
struct Problem<'a> {
    op: &'a Matmul,
    /// Its extents as the kernel has them: those of D^T where it computes that.
    dims: MatmulDims,
    /// What the kernel calls A and B.
    a: Source,
    b: Source,
    terms: u64,
    ending: Ending<'a>,
    caps: &'a Caps,
    /// Of a compressed A, the last arguments: arranged metadata, and slabs of rows in each of its stages.
    metadata: Option<[Arg; 2]>,
    /// Where scales change along K, the last arguments: those scales.
    block_scales: Vec<Arg>,
    /// Of operands that were split in f16 parts, the last argument: what products are to be multiplied with.
    factors: Option<Arg>,
}

/// Where a launch writes, and how much of K it adds up there.
struct Target {
    slot: Slot,
    offset_bytes: u64,
    dtype: DType,
    slabs: u64,
    slab_tiles: u64,
}

impl<'a> Problem<'a> {
    fn new(op: &'a Matmul, a: Source, b: Source, ending: Ending<'a>, caps: &'a Caps) -> Problem<'a> {
        let (metadata, block_scales, factors) = (None, Vec::new(), None);
        Problem { op, dims: op.dims(), a, b, terms: 1, ending, caps, metadata, block_scales, factors }
    }
}

impl Problem<'_> {
    /// D by one launch behind those that prepare the operands, or by one launch for sums of slabs and one that ends them.
    fn candidate(&self, instance: &Instance, slabs: u64, prepared: &Prepared) -> Option<Candidate> {
        let slab_tiles = self.k_tiles(instance).div_ceil(slabs);
        let mut plan = prepared.plan.clone();
        let scales = if instance.is_scaled() { Scales::Taken } else { Scales::Unknown };
        let sums_bytes =
            self.ending.add(&mut plan, slabs, scales, |Written { slot, offset_bytes, epilogue, .. }| {
                let dtype = instance.output;
                self.launch(instance, &Target { slot, offset_bytes, dtype, slabs, slab_tiles }, epilogue.args())
            })?;
        let name = if sums_bytes == 0 { instance.symbol.clone() } else { format!("{}_slabs{slabs}", instance.symbol) };
        let estimate_ns = prepared.estimate_ns + self.estimate_ns(instance, slabs, slab_tiles, sums_bytes);
        Some(Candidate { name, plan, estimate_ns })
    }

    /// D by slabs of K, where they help.
    fn by_slabs(&self, instance: &Instance, prepared: &Prepared) -> Option<Candidate> {
        let slabs = self.slabs(instance);
        if slabs > 1 { self.candidate(instance, slabs, prepared) } else { None }
    }

    /// Slabs that keep the card busy where tiles alone leave multiprocessors idle.
    fn slabs(&self, instance: &Instance) -> u64 {
        let k_tiles = self.k_tiles(instance);
        let sharers = u64::from(instance.shape.cluster_k);
        let most = (self.caps.clusters(instance.shape.cluster()) / self.clusters(instance).max(1))
            .min(k_tiles / (LEAST_SLAB_TILES * sharers))
            .min(MOST_SLABS.min(MOST_SLAB_BLOCKS / sharers));
        // As many as whole tiles of K make.
        k_tiles.div_ceil(k_tiles.div_ceil(most.max(1)))
    }

    /// Stages that one output adds up.
    fn k_tiles(&self, instance: &Instance) -> u64 {
        self.dims.k.div_ceil(u64::from(instance.block_k())) * self.terms
    }

    /// Clusters of tiles in one slab.
    fn clusters(&self, instance: &Instance) -> u64 {
        let MatmulDims { batch, m, n, .. } = self.dims;
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = instance.shape;
        let clusters =
            |extent: u64, block: u32, cluster: u32| extent.div_ceil(u64::from(block)).div_ceil(u64::from(cluster));
        clusters(m, block_m, cluster_m) * clusters(n, block_n, cluster_n) * batch
    }

    fn launch(&self, instance: &Instance, target: &Target, epilogue: Vec<Arg>) -> Option<Launch> {
        let MatmulDims { batch, m, n, k } = self.dims;
        let Shape { block_m, block_n, cluster_m, cluster_k, .. } = instance.shape;
        let clusters = self.clusters(instance).checked_mul(target.slabs)?;
        // Blocks that share K have one tile, others as many as there are.
        let grid = if cluster_k > 1 { clusters } else { clusters.min(self.caps.clusters(instance.shape.cluster())) };
        let grid = u32::try_from(grid.checked_mul(u64::from(instance.shape.cluster()))?).ok()?;
        // Tiles are counted in 32 bits.
        u32::try_from(clusters.checked_mul(u64::from(instance.shape.cluster()))?).ok().filter(|&n| n < 1 << 31)?;
        let tiles = [m.div_ceil(u64::from(block_m)), n.div_ceil(u64::from(block_n))];
        let raster = match (self.is_mostly_results(instance, target), instance.is_transposed()) {
            (false, _) => (RASTER_ROWS / cluster_m).max(1),
            (true, false) => 1,
            // D's rows are the kernel's columns.
            (true, true) => u32::try_from(tiles[0].div_ceil(u64::from(cluster_m))).ok()?,
        };
        let walk = Walk { tiles, batch, raster };
        let mut args = self.args(instance, target, [batch, m, n, k], &walk)?;
        match self.metadata.clone() {
            None => args.extend(epilogue),
            Some(metadata) => args.extend(epilogue.into_iter().map(behind_metadata).chain(metadata)),
        }
        args.extend(self.block_scales.iter().chain(&self.factors).cloned());
        Some(Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args })
    }

    fn is_mostly_results(&self, instance: &Instance, target: &Target) -> bool {
        let MatmulDims { m, n, k, .. } = self.dims;
        let read = (m + n).saturating_mul(k * self.terms).saturating_mul(self.a.operand.element_bytes);
        let written = m.saturating_mul(n).saturating_mul(target.dtype.size_bytes());
        !instance.is_reduced() && target.slabs == 1 && written >= read.saturating_mul(MOSTLY_RESULTS)
    }

    /// Whether the cache is told to keep operands: of many small products, whose results are more than it holds and than what they
    /// are made of, and push it out before the next tile reads it. Of one product it gained nothing, and cost up to 4 %
    /// (docs/gemm/warpgroup.md, what writing D costs).
    fn keeps_operands(&self, instance: &Instance, target: &Target) -> bool {
        let MatmulDims { batch, m, n, k } = self.dims;
        let k_bytes = (k * self.terms).saturating_mul(self.a.operand.element_bytes);
        let read = (m + n).saturating_mul(k_bytes);
        let written = [m, n, target.slabs, target.dtype.size_bytes()].into_iter().fold(1, u64::saturating_mul);
        let (small, many) =
            (k_bytes <= SHORT_K_BYTES && written >= read, written.saturating_mul(batch) > self.caps.l2_bytes);
        !instance.is_reduced() && batch > 1 && small && many
    }

    /// What a kernel takes before the epilogue's arguments (`GEMM_WGMMA_KERNEL` in the source); D has `layers` matrices.
    fn args(&self, instance: &Instance, target: &Target, [layers, m, n, k]: [u64; 4], walk: &Walk) -> Option<Vec<Arg>> {
        let bytes = target.dtype.size_bytes();
        // D's rows as they lie.
        let row = if instance.is_transposed() { m } else { n };
        let by_tma = (row * bytes).is_multiple_of(16) && target.offset_bytes.is_multiple_of(16);
        let [box_a, box_b] = instance.boxes();
        // Lines of 256 bytes were seen to cost what pitches that are not multiples of it read in vain, and to gain nothing.
        let promotion = Promotion::B128;
        let map_a = TensorMap { swizzle: instance.swizzle_a(), promotion, ..self.a.map(box_a) };
        let map_b = TensorMap { promotion, ..self.b.map(box_b) };
        let map_d = match instance.rows_a_store().filter(|_| by_tma) {
            Some(rows) if instance.is_transposed() => map_of_d(target, [layers, n, m], rows)?,
            Some(rows) => map_of_d(target, [layers, m, n], rows)?,
            // Not looked at.
            None => map_a.clone(),
        };
        let word = |value: u64| Arg::U32(value as u32);
        let mut args = vec![
            Arg::TensorMap(map_a),
            Arg::TensorMap(map_b),
            Arg::TensorMap(map_d),
            Arg::Address { slot: target.slot, offset_bytes: target.offset_bytes },
        ];
        let [tiles_m, tiles_n] = walk.tiles;
        args.extend([m, n, k, tiles_m, tiles_n, walk.batch].map(word));
        args.extend([target.slabs, target.slab_tiles].map(word));
        args.push(Arg::U32(walk.raster));
        args.extend(walk.inverses(instance).map(Arg::U32));
        let keeps = self.keeps_operands(instance, target);
        let flags = [self.a.operand.batch > 1, self.b.operand.batch > 1, by_tma, keeps];
        args.extend(flags.map(|yes| Arg::U32(u32::from(yes))));
        let [row_stride, column_stride] = if instance.is_transposed() { [1, row] } else { [row, 1] };
        args.extend([row_stride, column_stride, m * n].map(|stride| Arg::I64(stride as i64)));
        Some(args)
    }
}

/// How blocks go through tiles.
struct Walk {
    /// Rows and columns of tiles in a matrix.
    tiles: [u64; 2],
    /// Matrices or groups.
    batch: u64,
    raster: u32,
}

impl Walk {
    /// Of the numbers that kernels divide the number of a tile by (`divided` in `cuda/gemm_wgmma_config.cuh`): clusters in a matrix
    /// and in a band, rows of a band and of the last one.
    fn inverses(&self, instance: &Instance) -> [u32; 4] {
        let Shape { cluster_m, cluster_n, .. } = instance.shape;
        let (rows, columns) = (self.tiles[0].div_ceil(cluster_m.into()), self.tiles[1].div_ceil(cluster_n.into()));
        let raster = u64::from(self.raster);
        let last = rows - (rows.max(1) - 1) / raster * raster;
        [rows * columns, raster * columns, raster, last].map(inverse)
    }
}

/// 2^32 / `divisor` rounded down, as far as 32 bits go.
pub(super) fn inverse(divisor: u64) -> u32 {
    u32::try_from((1u64 << 32) / divisor.max(1)).unwrap_or(u32::MAX)
}

/// The map by which blocks store D, so many rows of 128 bytes at a time: all matrices, of all slabs. `None` for a D
/// that is larger than any card.
fn map_of_d(target: &Target, [batch, m, n]: [u64; 3], rows: u32) -> Option<TensorMap> {
    let element = match target.dtype {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        DType::I32 => Element::I32,
        _ => return None,
    };
    let bytes = target.dtype.size_bytes();
    let strides_bytes = vec![n * bytes, m * n * bytes];
    reaches(&strides_bytes).then(|| TensorMap {
        slot: target.slot,
        offset_bytes: target.offset_bytes,
        element,
        dims: vec![n, m, batch * target.slabs],
        strides_bytes,
        box_dims: vec![(128 / bytes) as u32, rows, 1],
        pixels: None,
        swizzle: Swizzle::B128,
        promotion: Promotion::None,
    })
}

#[cfg(test)]
#[path = "wgmma_tests.rs"]
mod tests;
