//! Products with at most 16 rows or columns: the large operand is streamed once past the vectors of the small one.
//!
//! Vectors need neighbours along K; others are packed first, which costs little, as they are small. The large operand is
//! taken as it lies wherever one of its strides is 1. K is cut into slabs where there are too few blocks to keep the memory
//! busy. The estimate is traffic over the rate that each method reaches on an H200 (docs/gemm.md).

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op};

use super::ending::{Ending, Scales, Written};
use super::operand::Operand;
use super::pack::Prepared;
use crate::catalogue::gemv::{INSTANCES, Instance, Method};
use crate::catalogue::pack::Mode;
use crate::{Arg, Candidate, Caps, Launch, find};

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
    Problem::new(op, caps).map(|problem| problem.candidates()).unwrap_or_default()
}

/// A product as a large operand and some vectors.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub op: &'a Matmul,
    /// The large operand, and the vectors.
    pub w: Operand,
    pub x: Operand,
    pub x_is_a: bool,
}

impl<'a> Sides<'a> {
    /// `None` for what is no product, or has more than `most` rows and columns. Of two small dimensions the vectors run along
    /// the smaller one.
    pub fn of(op: &'a Op, most: u64) -> Option<Sides<'a>> {
        let op = op.get::<Matmul>()?;
        let MatmulDims { m, n, .. } = op.dims();
        let (a, b, x_is_a) = (Operand::a(op)?, Operand::b(op)?, m <= n);
        let (w, x) = if x_is_a { (b, a) } else { (a, b) };
        (m.min(n) <= most).then_some(Sides { op, w, x, x_is_a })
    }
}

struct Problem<'a> {
    sides: Sides<'a>,
    ending: Ending<'a>,
    caps: &'a Caps,
}

/// Whether all rows of `operand` start on a 16-byte grid, `pitch` apart.
fn on_grid(operand: &Operand, pitch: i64) -> bool {
    let steps = [operand.offset, pitch.unsigned_abs(), operand.batch_stride.unsigned_abs()];
    steps.iter().all(|step| (step * operand.element_bytes).is_multiple_of(16))
}

impl<'a> Problem<'a> {
    fn new(op: &'a Op, caps: &'a Caps) -> Option<Problem<'a>> {
        let sides = Sides::of(op, MOST_VECTORS)?;
        Some(Problem { sides, ending: Ending::of(sides.op, caps)?, caps })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let usable = INSTANCES.iter().filter(|instance| {
            let stride = if instance.along_k() { self.sides.w.k_stride } else { self.sides.w.row_stride };
            let extent = if instance.along_k() { self.sides.w.k } else { self.sides.w.rows };
            let pitch = if instance.along_k() { self.sides.w.row_stride } else { self.sides.w.k_stride };
            [self.sides.op.a.dtype, self.sides.op.b.dtype] == [instance.operands; 2]
                && u64::from(instance.vectors) >= self.sides.x.rows
                && (stride == 1 || extent == 1)
                && instance.aligned == on_grid(&self.sides.w, pitch)
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
        let MatmulDims { batch, k, .. } = self.sides.op.dims();
        let blocks = self.sides.w.rows.div_ceil(instance.rows_per_block()) * batch;
        let wanted = ENOUGH_BLOCKS * u64::from(self.caps.multiprocessors);
        let most = wanted.div_ceil(blocks.max(1)).min(k / LEAST_SLAB).min(MOST_SLABS);
        let slabs = if most > 1 { vec![1, most] } else { vec![1] };
        slabs.into_iter().filter_map(|slabs| self.candidate(instance, blocks, slabs)).collect()
    }

    fn candidate(&self, instance: &Instance, blocks: u64, slabs: u64) -> Option<Candidate> {
        let k = self.sides.op.dims().k;
        let mut prepared = Prepared::default();
        let mut name = instance.symbol.clone();
        let mut x = self.sides.x;
        if (x.k_stride != 1 && x.k != 1) || (instance.aligned && !on_grid(&x, x.row_stride)) {
            name.push_str("_packx");
            x = prepared.pack(Mode::Copy(x.element_bytes), &x, self.caps)?;
        }
        let Prepared { mut plan, mut estimate_ns } = prepared;
        let slab_k =
            if slabs == 1 { k.next_multiple_of(SLAB_STEP) } else { k.div_ceil(slabs).next_multiple_of(SLAB_STEP) };
        let slabs = k.div_ceil(slab_k);
        estimate_ns += LAUNCH_NS + self.stream_ns(instance, blocks * slabs);

        let grid = [u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)?, slabs as u32, 1];
        let product = |to: Written| {
            if instance.operands.is_float8() && !to.is_f32 && self.sides.op.output.dtype != DType::F16 {
                return None; // its narrow results are f16
            }
            let at = |operand: &Operand| Arg::Address { slot: operand.slot, offset_bytes: operand.offset_bytes() };
            let word = |value: u64| Arg::U32(value as u32);
            let pitch = if instance.along_k() { self.sides.w.row_stride } else { self.sides.w.k_stride };
            let mut args = vec![at(&self.sides.w), at(&x), to.d(), word(self.sides.w.rows), word(x.rows), word(k)];
            args.extend([pitch, x.row_stride, self.sides.w.batch_stride, x.batch_stride].map(Arg::I64));
            args.extend([word(self.sides.x_is_a.into()), word(to.is_f32.into()), word(slab_k)]);
            args.extend(to.epilogue.args());
            Some(Launch { kernel: find(&instance.symbol)?, grid, args })
        };
        let summed = self.ending.add(&mut plan, slabs, Scales::Unknown, product)?;
        if summed > 0 {
            estimate_ns += LAUNCH_NS + self.caps.stream_ns(2 * summed);
            name = format!("{name}_slabs{slabs}");
        }
        Some(Candidate { name, plan, estimate_ns })
    }

    /// Time of streaming the large operand through so many blocks.
    fn stream_ns(&self, instance: &Instance, blocks: u64) -> f64 {
        let bytes = self.sides.w.batch * self.sides.w.rows * self.sides.w.k * self.sides.w.element_bytes;
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
