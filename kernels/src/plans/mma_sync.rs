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

use super::operand::{Addends, Operand, activation};
use super::{pack, splitk};
use crate::catalogue::mma_sync::{Access, INSTANCES, Instance, Major, Operands};
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Launch, Plan, Slot, find};

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
/// What a second launch costs beside its traffic.
const COMBINE_NS: f64 = 2500.0;
/// Most slabs: each is written and read again.
const MOST_SLABS: u64 = 32;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Op::Matmul(op) = op else { return Vec::new() };
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
fn ways(op: &Matmul) -> Vec<(Operands, Packing)> {
    let operands = match (op.a.dtype, op.precision) {
        (DType::F16, _) => Operands::F16,
        (DType::BF16, _) => Operands::BF16,
        (DType::F32, Precision::Medium | Precision::Low) => Operands::Tf32,
        (DType::F64, _) => Operands::F64,
        (DType::I8, _) => Operands::I8,
        (DType::U8, _) => Operands::U8,
        _ => return Vec::new(),
    };
    let mut ways = vec![(operands, Packing::Nothing), (operands, Packing::Unaligned)];
    if (op.a.dtype, op.precision) == (DType::F32, Precision::Low) {
        ways.push((Operands::BF16, Packing::All(Mode::Bf16)));
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
struct Prepared {
    a: View,
    b: View,
    launches: Vec<Launch>,
    scratch_bytes: Vec<u64>,
    estimate_ns: f64,
}

impl Prepared {
    /// `None` when an operand cannot be read so, or `Unaligned` finds nothing to do.
    fn new(op: &Matmul, packing: Packing, caps: &Caps) -> Option<Prepared> {
        let (mut launches, mut scratch_bytes, mut estimate_ns) = (Vec::new(), Vec::new(), 0.0);
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
            let (launch, packed) = pack::pack(mode, &source, scratch_bytes.len(), caps)?;
            launches.push(launch);
            scratch_bytes.push(packed.bytes);
            estimate_ns += packed.estimate_ns;
            View::of(if along_rows { packed.operand.transposed() } else { packed.operand })
        };
        let (a, b) = (ready(Operand::a(op)?)?, ready(Operand::b(op)?)?);
        if packing != Packing::Nothing && launches.is_empty() {
            return None;
        }
        Some(Prepared { a, b, launches, scratch_bytes, estimate_ns })
    }
}

fn on_way(op: &Matmul, caps: &Caps, (operands, packing): (Operands, Packing)) -> Option<Vec<Candidate>> {
    let MatmulDims { batch, m, n, k } = op.dims();
    let fits = [m, n, k, batch].iter().all(|&extent| (1..=1 << 30).contains(&extent));
    // Scales travel as f32: integers up to 2^24 are exact.
    let exact = op.output.dtype.is_float() || op.alpha.abs().max(op.beta.abs()) <= f64::from(1 << 24);
    if !fits || !exact || caps.sm < 80 {
        return None;
    }
    let prepared = Prepared::new(op, packing, caps)?;
    let (a, b) = (prepared.a, prepared.b);
    let problem = Problem { op, packing, prepared, addends: Addends::of(op)?, activation: activation(op)?, caps };
    let usable = |instance: &&Instance| {
        instance.operands == operands
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
    prepared: Prepared,
    addends: Addends,
    activation: u32,
    caps: &'a Caps,
}

impl Problem<'_> {
    /// One launch, and with slabs of K where they pay.
    fn candidates(&self, instance: &Instance) -> Vec<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let tile = instance.shape.tile;
        let blocks = m.div_ceil(u64::from(tile.m)) * n.div_ceil(u64::from(tile.n)) * batch;
        let k_tiles = k.div_ceil(u64::from(tile.k));
        let places = u64::from(self.caps.multiprocessors * self.resident(instance));
        let most = (places / blocks.max(1)).min(k_tiles / SLAB_TILES).min(MOST_SLABS);
        let mut slabs = vec![1];
        if most > 1 {
            // Evenly long, so that none is waited for.
            let tiles = k_tiles.div_ceil(most);
            slabs.push(k_tiles.div_ceil(tiles));
        }
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, blocks, k_tiles, slabs)).collect()
    }

    fn candidate(&self, instance: &Instance, blocks: u64, k_tiles: u64, slabs: u64) -> Option<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let grid = u32::try_from(blocks.checked_mul(slabs)?).ok().filter(|&grid| grid <= i32::MAX as u32)?;
        let slab_tiles = k_tiles.div_ceil(slabs);
        let slab_k = if slabs == 1 { k } else { slab_tiles * u64::from(instance.shape.tile.k) };
        let output = &self.op.output;
        let output_at =
            Arg::Address { slot: Slot::Output, offset_bytes: output.layout.offset() * output.dtype.size_bytes() };
        let wide = output.dtype == DType::F32 || slabs > 1;
        let product = |d: Arg, epilogue: Vec<Arg>| {
            let word = |value: u64| Arg::U32(value as u32);
            let sizes = [word(m), word(n), word(k), word(batch), word(slab_k)];
            let args =
                self.prepared.a.args().into_iter().chain(self.prepared.b.args()).chain([d, Arg::U32(u32::from(wide))]);
            let args = args.chain(sizes).chain(epilogue).collect();
            Some(Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args })
        };
        let mut launches = self.prepared.launches.clone();
        let mut scratch_bytes = self.prepared.scratch_bytes.clone();
        let product_ns = self.tensor_ns(instance, blocks * slabs, slab_tiles).max(self.stream_ns());
        let mut estimate_ns = self.prepared.estimate_ns + product_ns;
        let packed = match self.packing {
            Packing::Nothing => "",
            Packing::Unaligned => "_packed",
            Packing::All(_) => "_converted",
        };
        if slabs == 1 {
            launches.push(product(output_at, self.epilogue(true))?);
            let plan = Plan { launches, scratch_bytes };
            return Some(Candidate { name: format!("{}{packed}", instance.symbol), plan, estimate_ns });
        }
        let sums = batch * m * n;
        let sum_bytes = instance.operands.sum_bytes();
        let partial = Arg::Address { slot: Slot::Scratch(scratch_bytes.len()), offset_bytes: 0 };
        scratch_bytes.push(slabs.checked_mul(sums)?.checked_mul(sum_bytes)?);
        launches.push(product(partial.clone(), self.epilogue(false))?);
        launches.push(splitk::launch(self.op, partial, output_at, slabs as u32, self.epilogue(true))?);
        estimate_ns += COMBINE_NS + self.caps.stream_ns(2 * slabs * sums * sum_bytes);
        let name = format!("{}{packed}_slabs{slabs}", instance.symbol);
        Some(Candidate { name, plan: Plan { launches, scratch_bytes }, estimate_ns })
    }

    /// Alpha to activation; `false`: the sums alone.
    fn epilogue(&self, applied: bool) -> Vec<Arg> {
        let scalar = |x: f64| if self.op.a.dtype == DType::F64 { Arg::F64(x) } else { Arg::F32(x as f32) };
        if !applied {
            let (one, none) = (scalar(1.0), scalar(0.0));
            return vec![one, none, Arg::Null, Arg::I64(0), Arg::I64(0), Arg::Null, Arg::U32(0)];
        }
        let Addends { c, ldc, batch_stride_c, bias } = self.addends.clone();
        let (ldc, stride) = (Arg::I64(ldc), Arg::I64(batch_stride_c));
        vec![scalar(self.op.alpha), scalar(self.op.beta), c, ldc, stride, bias, Arg::U32(self.activation)]
    }

    /// Blocks that one multiprocessor holds.
    fn resident(&self, instance: &Instance) -> u32 {
        // Each block takes 1 KiB for the system (CUDA programming guide, "Technical Specifications").
        let by_memory = self.caps.shared_bytes_per_multiprocessor / (instance.shared_bytes() + 1024);
        instance.shape.blocks.min(by_memory).max(1)
    }

    /// Time of `blocks` blocks that each multiply `k_tiles` tiles of K.
    fn tensor_ns(&self, instance: &Instance, blocks: u64, k_tiles: u64) -> f64 {
        let tile = instance.shape.tile;
        let work = 2.0 * f64::from(tile.m) * f64::from(tile.n) * f64::from(tile.k) * k_tiles as f64;
        let rate = instance.operands.operations_per_clock(self.caps.sm) * instance.shape.efficiency;
        let resident = u64::from(self.resident(instance));
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

    /// Time of moving every operand once.
    fn stream_ns(&self) -> f64 {
        let bytes = |op: &Operand| op.batch * op.rows * op.k * op.element_bytes;
        let output = self.op.output.layout.elements() * self.op.output.dtype.size_bytes();
        self.caps.stream_ns(bytes(&self.prepared.a.operand) + bytes(&self.prepared.b.operand) + output)
    }
}

#[cfg(test)]
#[path = "mma_sync_tests.rs"]
mod tests;
