//! f32 operands of a product as high and low parts of f16 (`cuda/split_f16.cu`): two launches for both operands, which go through
//! scratch space, along whichever dimension their neighbours lie.

use super::operand::Operand;
use super::pack::Prepared;
use crate::catalogue::split_f16::{MAXIMA, PARTS, THREADS, UNIT};
use crate::{Arg, Caps, Launch, Plan, Slot, find};

/// Bytes that lines of parts are multiples of: a row of the widest swizzle of tensor maps.
const LINE_BYTES: u64 = 128;
const PART_BYTES: u64 = 2;
/// Units of a thread at least, where there are as many; blocks that leave maxima, which every block behind them reads, and blocks
/// that split (H200; more of either are as fast or slower).
const UNITS_A_THREAD: u64 = 2;
const MOST_MAXIMA: u64 = 512;
const MOST_BLOCKS: u64 = 792;
/// Matrices of a batch: what a grid takes along z.
const MOST_BATCHES: u64 = 65_535;
/// Share of the promised memory rate that both launches reach, and what each costs beside its traffic (H200).
const RATE: f64 = 0.8;
const LAUNCH_NS: f64 = 1800.0;

/// An operand that was split.
pub(super) struct Parts {
    /// The high plane.
    pub operand: Operand,
    /// Elements from it to the low plane.
    pub plane_stride: i64,
}

/// Both operands, and what their product is to be multiplied with.
pub(super) struct Split {
    /// Two launches, that fill the parts of A and of B, maxima, factors.
    pub prepared: Prepared,
    pub operands: [Parts; 2],
    /// Two for each product of the batch.
    pub factors: Arg,
}

/// An operand as the kernels see it.
struct Lines {
    lines: u64,
    length: u64,
    line_stride: i64,
    step: i64,
    along_k: bool,
}

impl Lines {
    fn of(operand: &Operand) -> Lines {
        let Operand { rows, k, row_stride, k_stride, .. } = *operand;
        // A dimension of one element has a stride of 0. Each element of a single row would be a line.
        let along_rows = k_stride != 1 && k > 1 && row_stride == 1 && rows > 1;
        if along_rows {
            Lines { lines: k, length: rows, line_stride: k_stride, step: row_stride, along_k: false }
        } else {
            Lines { lines: rows, length: k, line_stride: row_stride, step: k_stride, along_k: true }
        }
    }

    fn pitch(&self) -> u64 {
        self.length.next_multiple_of(LINE_BYTES / PART_BYTES)
    }

    /// Units that a thread each splits; `None` for more than the kernel counts.
    fn units(&self) -> Option<u64> {
        let units = self.lines.checked_mul(self.pitch() / UNIT)?;
        u32::try_from(units).is_ok().then_some(units)
    }

    /// Elements of the parts of one plane.
    fn plane(&self, operand: &Operand) -> Option<u64> {
        operand.batch.checked_mul(self.lines)?.checked_mul(self.pitch())
    }
}

/// Splits `operands` of `batch` products; `None` for sizes beyond what the kernels count.
pub(super) fn split(operands: [Operand; 2], batch: u64, caps: &Caps) -> Option<Split> {
    if batch > MOST_BATCHES {
        return None;
    }
    let lines = [Lines::of(&operands[0]), Lines::of(&operands[1])];
    let units = lines[0].units()?.max(lines[1].units()?);
    let blocks = units.div_ceil(u64::from(THREADS) * UNITS_A_THREAD);
    let maxima = blocks.min((MOST_MAXIMA / batch).max(1));
    let grid = |blocks: u64| [blocks as u32, 2, batch as u32];

    let address = |number: usize| Arg::Address { slot: Slot::Scratch(number), offset_bytes: 0 };
    let word = |value: u64| u32::try_from(value).ok().map(Arg::U32);
    let mut args = Vec::new();
    let (mut scratch_bytes, mut parts, mut read) = (Vec::new(), Vec::new(), 0);
    for (number, (operand, lines)) in operands.iter().zip(&lines).enumerate() {
        let plane = lines.plane(operand)?;
        let plane_stride = i64::try_from(plane).ok()?;
        args.push(Arg::Address { slot: operand.slot, offset_bytes: operand.offset_bytes() });
        args.extend([word(lines.lines)?, word(lines.length)?, Arg::I64(lines.line_stride), Arg::I64(lines.step)]);
        args.extend([word(operand.batch)?, Arg::I64(operand.batch_stride)]);
        scratch_bytes.push(plane.checked_mul(2 * PART_BYTES)?);
        read += operand.batch * lines.lines * lines.length * operand.element_bytes;
        let pitch = i64::try_from(lines.pitch()).ok()?;
        let [row_stride, k_stride] = if lines.along_k { [pitch, 1] } else { [1, pitch] };
        parts.push(Parts {
            operand: Operand {
                slot: Slot::Scratch(number),
                element_bytes: PART_BYTES,
                offset: 0,
                row_stride,
                k_stride,
                batch_stride: if operand.batch_stride == 0 { 0 } else { i64::try_from(lines.lines).ok()? * pitch },
                ..*operand
            },
            plane_stride,
        });
    }
    let written: u64 = scratch_bytes.iter().sum();
    scratch_bytes.extend([2 * batch * maxima * 4, 2 * batch * 4]);
    let (maxima_at, factors) = (address(2), address(3));
    let find_maxima =
        Launch { kernel: find(MAXIMA)?, grid: grid(maxima), args: [args.clone(), vec![maxima_at.clone()]].concat() };
    args.extend([maxima_at, word(maxima)?]);
    for (number, lines) in lines.iter().enumerate() {
        args.extend([address(number), word(lines.pitch())?]);
    }
    args.push(factors.clone());
    let split = Launch { kernel: find(PARTS)?, grid: grid(blocks.min((MOST_BLOCKS / batch).max(1))), args };
    let operands = <[Parts; 2]>::try_from(parts).ok()?;
    let estimate_ns = 2.0 * LAUNCH_NS + caps.stream_ns(2 * read + written) / RATE;
    let plan = Plan { launches: vec![find_maxima, split], scratch_bytes };
    Some(Split { prepared: Prepared { plan, estimate_ns }, operands, factors })
}
