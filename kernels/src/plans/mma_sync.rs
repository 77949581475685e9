//! Matrix products by warp-level tensor instructions: which instance of `catalogue/mma_sync.rs`, with how many slabs of K.
//!
//! Operands are taken as they lie wherever one of their strides is 1, and how their starts are aligned decides which
//! instances may read them; those that are not on a 16-byte grid may also be packed first (`plans/pack.rs`), which pays when
//! they are read often. f32 products run as tf32 at `Medium` and `Low`, also as bf16 at `Low`; never at `High`
//! and `Highest`. The estimate counts tensor clocks and rounds of blocks; an instance's rate is measured (docs/gemm.md), that
//! of cards not measured follows from their data sheets. Where tiles are few and K is long, K is cut into slabs whose sums
//! a second launch adds in order (`cuda/splitk.cu`).

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op, Precision};

use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use crate::catalogue::Major;
use crate::catalogue::mma_sync::{Access, INSTANCES, Instance, Shape, operations_per_clock};
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Launch, find};

/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 2.0;
/// Clocks from launch to the first tile of K, and from the last to the end.
const START_CLOCKS: f64 = 4500.0;
/// Clocks for filling the ring and for the epilogue, per round of blocks.
const ROUND_CLOCKS: f64 = 1500.0;
/// How much of its rate a multiprocessor reaches with one block of several: blocks hide each other's waiting.
const HIDDEN: f64 = 0.85;
/// Slabs of K that are shorter than so many tiles of K spend their time on starting and ending.
const SLAB_TILES: u64 = 6;
/// Clocks that a multiprocessor takes for a result which an activation or C changes, sums of few terms: 1x1 convolutions of ResNet-50 on
/// an H100, whose tiles are all ending (benches/results/h100-2026-11-28f/profile-f16-before.txt).
const ACTIVATED_CLOCKS: f64 = 0.7;
const ADDED_CLOCKS: f64 = 1.2;
/// What a second launch costs beside its traffic.
pub(super) const COMBINE_NS: f64 = 2500.0;
/// Most slabs: each is written and read again.
const MOST_SLABS: u64 = 32;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Some(op) = op.get::<Matmul>() else { return Vec::new() };
    ways(op).iter().filter_map(|way| on_way(op, caps, *way)).flatten().collect()
}

/// What happens to operands before they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    /// They are read as they lie.
    Nothing,
    /// Those that are not on a 16-byte grid are copied onto one.
    Unaligned,
    /// Both are converted.
    All(Mode),
}

/// Types of operands that serve `op`, and how they come by them.
fn ways(op: &Matmul) -> Vec<(DType, Packing)> {
    let operands = op.a.dtype;
    if operands == DType::F32 && matches!(op.precision, Precision::Highest | Precision::High) {
        return Vec::new();
    }
    let mut ways = vec![(operands, Packing::Nothing), (operands, Packing::Unaligned)];
    if (operands, op.precision) == (DType::F32, Precision::Low) {
        ways.push((DType::BF16, Packing::All(Mode::Bf16)));
    }
    ways
}

/// An operand as an instance may read it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct View {
    operand: Operand,
    major: Major,
    /// Elements from one line of neighbours to the next.
    pitch: i64,
    /// Bytes to which the starts of all lines are aligned; 16 at most.
    alignment: u64,
}

impl View {
    /// The better aligned of the ways in which `operand` has neighbours.
    fn of(operand: Operand) -> Option<View> {
        let along_k = (operand.k_stride == 1 || operand.k == 1)
            .then(|| View::new(operand, Major::K, operand.row_stride, operand.rows));
        let along_rows = (operand.row_stride == 1 || operand.rows == 1)
            .then(|| View::new(operand, Major::Mn, operand.k_stride, operand.k));
        // The first of equals is taken: K-major.
        [along_rows, along_k].into_iter().flatten().max_by_key(|view| view.alignment)
    }

    fn new(operand: Operand, major: Major, stride: i64, lines: u64) -> View {
        let pitch = if lines == 1 { 0 } else { stride };
        let steps = [operand.offset, pitch.unsigned_abs(), operand.batch_stride.unsigned_abs()];
        let bits = steps.iter().fold(16, |bits, step| bits | (step * operand.element_bytes));
        View { operand, major, pitch, alignment: 1 << bits.trailing_zeros() }
    }

    fn args(&self) -> [Arg; 3] {
        let Operand { slot, batch_stride, .. } = self.operand;
        let at = Arg::Address { slot, offset_bytes: self.operand.offset_bytes() };
        [at, Arg::I64(self.pitch), Arg::I64(batch_stride)]
    }
}

/// Operands that are ready, and what makes them so.
struct Operands {
    a: View,
    b: View,
    prepared: Prepared,
}

impl Operands {
    /// `None` when an operand cannot be read so, or `Unaligned` finds nothing to do.
    fn new(op: &Matmul, packing: Packing, caps: &Caps) -> Option<Operands> {
        let mut prepared = Prepared::default();
        let mut ready = |operand: Operand| {
            let view = View::of(operand);
            let mode = match packing {
                Packing::Nothing => return view,
                Packing::Unaligned if view.is_some_and(|view| view.alignment == 16) => return view,
                Packing::Unaligned => Mode::Copy(operand.element_bytes),
                Packing::All(mode) => mode,
            };
            // Rows of the copy run along whatever has neighbours in the source.
            let along_rows = operand.row_stride.unsigned_abs() < operand.k_stride.unsigned_abs() && operand.rows > 1;
            let source = if along_rows { operand.transposed() } else { operand };
            let packed = prepared.pack(mode, &source, caps)?;
            View::of(if along_rows { packed.transposed() } else { packed })
        };
        let (a, b) = (ready(Operand::a(op)?)?, ready(Operand::b(op)?)?);
        if packing != Packing::Nothing && prepared.plan.launches.is_empty() {
            return None;
        }
        Some(Operands { a, b, prepared })
    }
}

fn on_way(op: &Matmul, caps: &Caps, (dtype, packing): (DType, Packing)) -> Option<Vec<Candidate>> {
    let ending = Ending::of(op, caps)?;
    let operands = Operands::new(op, packing, caps)?;
    let (a, b) = (operands.a, operands.b);
    let problem = Problem { op, packing, operands, ending, caps };
    let other = Some(op.b.dtype).filter(|&dtype| dtype != op.a.dtype);
    let usable = |instance: &&Instance| {
        (instance.operands(), instance.other()) == (dtype, other)
            && (instance.a, instance.b) == (a.major, b.major)
            && instance.shape.access.bytes() <= a.alignment.min(b.alignment)
            && instance.shared_bytes() <= caps.max_shared_bytes
            && find(&instance.symbol).is_some_and(|kernel| kernel.target(caps.sm).is_some())
    };
    let access: Access = INSTANCES.iter().filter(usable).map(|instance| instance.shape.access).max()?;
    let chosen = INSTANCES.iter().filter(usable).filter(|instance| instance.shape.access == access);
    Some(chosen.flat_map(|instance| problem.candidates(instance)).collect())
}

struct Problem<'a> {
    op: &'a Matmul,
    packing: Packing,
    operands: Operands,
    ending: Ending<'a>,
    caps: &'a Caps,
}

impl Problem<'_> {
    /// One launch, and with slabs of K where they pay.
    fn candidates(&self, instance: &Instance) -> Vec<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let tile = instance.shape.tile;
        let blocks = m.div_ceil(u64::from(tile.m)) * n.div_ceil(u64::from(tile.n)) * batch;
        let k_tiles = k.div_ceil(u64::from(tile.k));
        let slabs = self.tiling(instance).slabs(blocks, k_tiles);
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, blocks, k_tiles, slabs)).collect()
    }

    fn tiling<'b>(&'b self, instance: &'b Instance) -> Tiling<'b> {
        let Instance { shape, .. } = instance;
        Tiling { shape, operands: instance.operands(), shared_bytes: instance.shared_bytes(), caps: self.caps }
    }

    fn candidate(&self, instance: &Instance, blocks: u64, k_tiles: u64, slabs: u64) -> Option<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let grid = u32::try_from(blocks.checked_mul(slabs)?).ok().filter(|&grid| grid <= i32::MAX as u32)?;
        let slab_tiles = k_tiles.div_ceil(slabs);
        let slab_k = if slabs == 1 { k } else { slab_tiles * u64::from(instance.shape.tile.k) };
        let product = |to: Written| {
            let word = |value: u64| Arg::U32(value as u32);
            let sizes = [word(m), word(n), word(k), word(batch), word(slab_k)];
            let form = match to.is_f32 {
                true => 1,
                false if self.op.a.dtype.is_float8() && self.op.output.dtype == DType::BF16 => 2,
                false => 0,
            };
            let args = self.operands.a.args().into_iter().chain(self.operands.b.args()).chain([to.d(), Arg::U32(form)]);
            let args = args.chain(sizes).chain(to.epilogue.args()).collect();
            Some(Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args })
        };
        let mut plan = self.operands.prepared.plan.clone();
        let summed = self.ending.add(&mut plan, slabs, Scales::Unknown, product)?;
        let ending_ns = if slabs == 1 { self.ending_ns(instance, blocks) } else { 0.0 };
        let product_ns =
            (self.tiling(instance).tensor_ns(blocks * slabs, slab_tiles) + ending_ns).max(self.stream_ns());
        let mut estimate_ns = self.operands.prepared.estimate_ns + product_ns;
        let packed = match self.packing {
            Packing::Nothing => "",
            Packing::Unaligned => "_packed",
            Packing::All(_) => "_converted",
        };
        let mut name = format!("{}{packed}", instance.symbol);
        if summed > 0 {
            estimate_ns += COMBINE_NS + self.caps.stream_ns(2 * summed);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Time of what is done to the sums of `blocks` tiles, which nothing else hides.
    fn ending_ns(&self, instance: &Instance, blocks: u64) -> f64 {
        let tile = instance.shape.tile;
        let outputs = blocks as f64 * f64::from(tile.m) * f64::from(tile.n);
        let activated = if self.op.activation.is_some() { ACTIVATED_CLOCKS } else { 0.0 };
        let clocks = if self.op.beta == 0.0 { activated } else { ADDED_CLOCKS.max(activated) };
        self.caps.clocks_ns(outputs * clocks / f64::from(self.caps.multiprocessors.max(1)))
    }

    /// Time of moving every operand once.
    fn stream_ns(&self) -> f64 {
        let bytes = |op: &Operand| op.batch * op.rows * op.k * op.element_bytes;
        let output = self.op.output.layout.elements() * self.op.output.dtype.size_bytes();
        let added = if self.op.beta == 0.0 { 0 } else { output };
        self.caps.stream_ns(bytes(&self.operands.a.operand) + bytes(&self.operands.b.operand) + output + added)
    }
}

/// Tiles of a shape on a card: what convolutions are planned by as well.
pub(super) struct Tiling<'a> {
    pub shape: &'a Shape,
    pub operands: DType,
    /// Of a block.
    pub shared_bytes: u32,
    pub caps: &'a Caps,
}

impl Tiling<'_> {
    /// Into how many slabs K may be cut: 1, and where `blocks` blocks leave places on the card, as many as fill it.
    pub fn slabs(&self, blocks: u64, k_tiles: u64) -> Vec<u64> {
        let places = u64::from(self.caps.multiprocessors * self.resident());
        let most = (places / blocks.max(1)).min(k_tiles / SLAB_TILES).min(MOST_SLABS);
        if most <= 1 {
            return vec![1];
        }
        // Evenly long, so that none is waited for.
        let tiles = k_tiles.div_ceil(most);
        vec![1, k_tiles.div_ceil(tiles)]
    }

    /// Blocks that one multiprocessor holds.
    fn resident(&self) -> u32 {
        // Each block takes 1 KiB for the system (CUDA programming guide, "Technical Specifications").
        let by_memory = self.caps.shared_bytes_per_multiprocessor / (self.shared_bytes + 1024);
        self.shape.blocks.min(by_memory).max(1)
    }

    /// Time of `blocks` blocks that each multiply `k_tiles` tiles of K.
    pub fn tensor_ns(&self, blocks: u64, k_tiles: u64) -> f64 {
        let tile = self.shape.tile;
        let work = 2.0 * f64::from(tile.m) * f64::from(tile.n) * f64::from(tile.k) * k_tiles as f64;
        let rate = operations_per_clock(self.operands, self.caps.sm) * self.shape.efficiency;
        let resident = u64::from(self.resident());
        let share = |blocks: u64| blocks as f64 / (blocks as f64 + HIDDEN);
        // Time of `blocks` blocks side by side on one multiprocessor.
        let round = |blocks: u64| {
            let rate = rate * share(blocks) / share(resident);
            blocks as f64 * work / rate + ROUND_CLOCKS
        };
        let multiprocessors = u64::from(self.caps.multiprocessors.max(1));
        let (rounds, rest) = (blocks / (multiprocessors * resident), blocks % (multiprocessors * resident));
        let last = if rest > 0 { round(rest.div_ceil(multiprocessors)) } else { 0.0 };
        self.caps.clocks_ns(START_CLOCKS + rounds as f64 * round(resident) + last)
    }
}

#[cfg(test)]
#[path = "mma_sync_tests.rs"]
mod tests;
