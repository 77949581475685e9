//! Products with at most 16 rows or columns: the large operand is streamed once past the vectors of the small one.
//!
//! Vectors need neighbours along K; others are packed first, which costs little, as they are small. The large operand is
//! taken as it lies wherever one of its strides is 1. K is cut into slabs where there are too few blocks to keep the memory
//! busy. The estimate is traffic over the rate that each method reaches on an H200 (docs/gemm.md).

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op};

use super::operand::{Addends, Operand, activation};
use super::pack::pack;
use crate::catalogue::gemv::{INSTANCES, Instance, Method, Operands};
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Launch, Plan, Slot, find};

/// Most vectors that any instance takes.
const MOST_VECTORS: u64 = 16;
/// What a launch costs.
const LAUNCH_NS: f64 = 2500.0;
/// Blocks for each multiprocessor below which K is cut.
const ENOUGH_BLOCKS: u64 = 2;
/// Slabs of K are at least so long, multiples of the second, and at most so many.
const LEAST_SLAB: u64 = 512;
const SLAB_STEP: u64 = 64;
const MOST_SLABS: u64 = 32;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Op::Matmul(op) = op else { return Vec::new() };
    let MatmulDims { m, n, .. } = op.dims();
    let mut found = Vec::new();
    for (small, x_is_a) in [(m, true), (n, false)] {
        // Of two small dimensions the vectors run along the smaller one.
        if small <= MOST_VECTORS && (small < m.max(n) || x_is_a) && small == m.min(n) {
            found.extend(Problem::new(op, x_is_a, caps).map(|problem| problem.candidates()).unwrap_or_default());
            break;
        }
    }
    found
}

struct Problem<'a> {
    op: &'a Matmul,
    operands: Operands,
    /// The large operand, and the vectors.
    w: Operand,
    x: Operand,
    x_is_a: bool,
    addends: Addends,
    activation: u32,
    caps: &'a Caps,
}

/// Whether all rows of `operand` start on a 16-byte grid, `pitch` apart.
fn on_grid(operand: &Operand, pitch: i64) -> bool {
    let steps = [operand.offset, pitch.unsigned_abs(), operand.batch_stride.unsigned_abs()];
    steps.iter().all(|step| (step * operand.element_bytes).is_multiple_of(16))
}

impl<'a> Problem<'a> {
    fn new(op: &'a Matmul, x_is_a: bool, caps: &'a Caps) -> Option<Problem<'a>> {
        let MatmulDims { batch, m, n, k } = op.dims();
        let fits = [m, n, k, batch].iter().all(|&extent| (1..=1 << 30).contains(&extent));
        // Scales travel as f32: integers up to 2^24 are exact.
        let exact = op.output.dtype.is_float() || op.alpha.abs().max(op.beta.abs()) <= f64::from(1 << 24);
        if !fits || !exact || caps.sm < 80 {
            return None;
        }
        let operands = match op.a.dtype {
            DType::F32 => Operands::F32,
            DType::F16 => Operands::F16,
            DType::BF16 => Operands::BF16,
            DType::F64 => Operands::F64,
            DType::I8 => Operands::I8,
            DType::U8 => Operands::U8,
            _ => return None,
        };
        let (a, b) = (Operand::a(op)?, Operand::b(op)?);
        let (w, x) = if x_is_a { (b, a) } else { (a, b) };
        Some(Problem { op, operands, w, x, x_is_a, addends: Addends::of(op)?, activation: activation(op)?, caps })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let usable = INSTANCES.iter().filter(|instance| {
            let stride = if instance.along_k() { self.w.k_stride } else { self.w.row_stride };
            let extent = if instance.along_k() { self.w.k } else { self.w.rows };
            let pitch = if instance.along_k() { self.w.row_stride } else { self.w.k_stride };
            instance.operands == self.operands
                && u64::from(instance.vectors) >= self.x.rows
                && (stride == 1 || extent == 1)
                && instance.aligned == on_grid(&self.w, pitch)
        });
        // Of the instances of one method, those with the fewest vectors that are enough.
        let usable: Vec<&Instance> = usable.collect();
        let same = |x: &Instance, y: &Instance| std::mem::discriminant(&x.method) == std::mem::discriminant(&y.method);
        let least = |instance: &&&Instance| {
            usable.iter().all(|other| !same(other, instance) || other.vectors >= instance.vectors)
        };
        usable.iter().filter(least).flat_map(|instance| self.of(instance)).collect()
    }

    /// One launch, and with slabs of K where blocks are few.
    fn of(&self, instance: &Instance) -> Vec<Candidate> {
        let MatmulDims { batch, k, .. } = self.op.dims();
        let blocks = self.w.rows.div_ceil(instance.rows_per_block()) * batch;
        let wanted = ENOUGH_BLOCKS * u64::from(self.caps.multiprocessors);
        let most = wanted.div_ceil(blocks.max(1)).min(k / LEAST_SLAB).min(MOST_SLABS);
        let slabs = if most > 1 { vec![1, most] } else { vec![1] };
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, blocks, slabs)).collect()
    }

    fn candidate(&self, instance: &Instance, blocks: u64, slabs: u64) -> Option<Candidate> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let mut plan = Plan::default();
        let mut name = instance.symbol.clone();
        let mut estimate_ns = LAUNCH_NS;
        let mut x = self.x;
        if (x.k_stride != 1 && x.k != 1) || (instance.aligned && !on_grid(&x, x.row_stride)) {
            let (launch, packed) = pack(Mode::Copy(x.element_bytes), &x, 0, self.caps)?;
            plan.launches.push(launch);
            plan.scratch_bytes.push(packed.bytes);
            estimate_ns += packed.estimate_ns;
            name.push_str("_packx");
            x = packed.operand;
        }
        let slab_k =
            if slabs == 1 { k.next_multiple_of(SLAB_STEP) } else { k.div_ceil(slabs).next_multiple_of(SLAB_STEP) };
        let slabs = k.div_ceil(slab_k);
        estimate_ns += self.stream_ns(instance, blocks * slabs);

        let output = &self.op.output;
        let output_at =
            Arg::Address { slot: Slot::Output, offset_bytes: output.layout.offset() * output.dtype.size_bytes() };
        let grid = [u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)?, slabs as u32, 1];
        let wide = output.dtype == DType::F32 || slabs > 1;
        let product = |d: Arg, epilogue: Vec<Arg>| {
            let at = |operand: &Operand| Arg::Address { slot: operand.slot, offset_bytes: operand.offset_bytes() };
            let word = |value: u64| Arg::U32(value as u32);
            let pitch = if instance.along_k() { self.w.row_stride } else { self.w.k_stride };
            let mut args = vec![at(&self.w), at(&x), d, word(self.w.rows), word(x.rows), word(k)];
            args.extend([pitch, x.row_stride, self.w.batch_stride, x.batch_stride].map(Arg::I64));
            args.extend([word(self.x_is_a.into()), word(wide.into()), word(slab_k)]);
            args.extend(epilogue);
            Some(Launch { kernel: find(&instance.symbol)?, grid, args })
        };
        if slabs == 1 {
            plan.launches.push(product(output_at, self.epilogue(true))?);
        } else {
            let sums = Arg::Address { slot: Slot::Scratch(plan.scratch_bytes.len()), offset_bytes: 0 };
            let bytes = [slabs, batch, m, n, self.operands.sum_bytes()].into_iter().try_fold(1u64, u64::checked_mul)?;
            plan.launches.push(product(sums.clone(), self.epilogue(false))?);
            let end = super::splitk::launch(self.op, sums, output_at, slabs as u32, self.epilogue(true))?;
            plan.launches.push(end);
            plan.scratch_bytes.push(bytes);
            estimate_ns += LAUNCH_NS + self.caps.stream_ns(2 * bytes);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Alpha to activation; `false`: the sums alone.
    fn epilogue(&self, applied: bool) -> Vec<Arg> {
        let scalar = |x: f64| if self.operands == Operands::F64 { Arg::F64(x) } else { Arg::F32(x as f32) };
        if !applied {
            return vec![scalar(1.0), scalar(0.0), Arg::Null, Arg::I64(0), Arg::I64(0), Arg::Null, Arg::U32(0)];
        }
        let Addends { c, ldc, batch_stride_c, bias } = self.addends.clone();
        let (alpha, beta) = (scalar(self.op.alpha), scalar(self.op.beta));
        vec![alpha, beta, c, Arg::I64(ldc), Arg::I64(batch_stride_c), bias, Arg::U32(self.activation)]
    }

    /// Time of streaming the large operand through so many blocks.
    fn stream_ns(&self, instance: &Instance, blocks: u64) -> f64 {
        let bytes = self.w.batch * self.w.rows * self.w.k * self.w.element_bytes;
        // Shares of the promised memory rate with the card full of blocks, 2026-11-21.
        let rate = match (instance.method, instance.vectors) {
            (Method::Columns { lanes: 4 }, 1) => 0.62,
            (Method::Dot { .. } | Method::Columns { .. }, 1) => 0.90,
            (Method::Dot { .. } | Method::Columns { .. }, 4) => 0.86,
            (Method::Dot { .. }, 8) => 0.83,
            (Method::Columns { .. }, 8) => 0.64,
            (Method::Dot { .. } | Method::Columns { .. }, _) => 0.38,
            (Method::DotMma { .. }, _) => 0.75,
            (Method::ColumnsMma { .. }, _) => 0.71,
        };
        let aligned = match (instance.aligned, instance.vectors) {
            (true, _) => 1.0,
            (false, 1) => 0.80,
            (false, _) => 0.62,
        };
        let places = f64::from(self.caps.multiprocessors) * ENOUGH_BLOCKS as f64;
        let filled = (blocks as f64 / places).min(1.0).sqrt();
        self.caps.stream_ns(bytes) / (rate * aligned * filled)
    }
}

#[cfg(test)]
#[path = "gemv_tests.rs"]
mod tests;
