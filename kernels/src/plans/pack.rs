//! Packing: the launch that copies operands of any strides into rows along K, on a 128-byte grid, converted if wanted.
//!
//! What families need whose kernels take only such rows (tensor maps of 8-bit and tf32 operands, odd pitches), or only
//! 16-byte loads. Rows and K of the operand are a matter of view: [`Operand::transposed`] packs rows along M or N. Both operands
//! of a product go through one launch.

use super::operand::Operand;
use crate::catalogue::pack::{Form, Mode, OPERAND_PARAMS, THREADS, UNROLL, symbol};
use crate::{Arg, Caps, Launch, Param, Plan, Slot, find};

/// Bytes that pitches and matrices are multiples of: a line, and the widest row of a tensor map's swizzle.
const GRID_BYTES: u64 = 128;
/// Share of the promised memory rate that packing reaches, by form (H200; docs/gemm.md).
const RATE: f64 = 0.75;
/// What a launch costs beside its traffic.
const LAUNCH_NS: f64 = 2000.0;

/// What comes before a product: launches, and the scratch buffers that they fill.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    pub plan: Plan,
    /// What its launches take.
    pub estimate_ns: f64,
}

impl Prepared {
    /// Adds `source` to what a launch packs, the one before where that has room; where it lies then. `None` for sizes beyond 32
    /// bits.
    pub fn pack(&mut self, mode: Mode, source: &Operand, caps: &Caps) -> Option<Operand> {
        let Packed { args, blocks, operand, bytes, moved } = packed(mode, source, self.plan.scratch_bytes.len())?;
        let kernel = find(&symbol(mode))?;
        let last = self.plan.launches.last_mut().filter(|launch| launch.kernel.symbol == kernel.symbol);
        match last.filter(|launch| launch.args[OPERAND_PARAMS.len()] == Arg::Null) {
            Some(launch) => {
                launch.grid[0] = grid(u64::from(launch.grid[0]) + blocks)?;
                launch.args.splice(OPERAND_PARAMS.len()..2 * OPERAND_PARAMS.len(), args);
            }
            None => {
                let (x, none) = (grid(blocks)?, OPERAND_PARAMS.map(nothing));
                let args = args.into_iter().chain(none).chain([Arg::U32(x)]).collect();
                self.plan.launches.push(Launch { kernel, grid: [x, 1, 1], args });
                self.estimate_ns += LAUNCH_NS;
            }
        }
        self.plan.scratch_bytes.push(bytes);
        self.estimate_ns += caps.stream_ns(moved) / RATE;
        Some(operand)
    }
}

/// So many blocks, if a grid has them.
fn grid(blocks: u64) -> Option<u32> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)
}

/// What stands for an argument of an operand that there is not.
fn nothing(param: Param) -> Arg {
    match param {
        Param::I64 => Arg::I64(0),
        Param::U32 => Arg::U32(0),
        _ => Arg::Null,
    }
}

/// An operand that is packed.
struct Packed {
    /// As [`OPERAND_PARAMS`] says.
    args: Vec<Arg>,
    blocks: u64,
    /// Neighbours along K, rows of whole 128 bytes, zeros in between.
    operand: Operand,
    /// Size of the scratch buffer, and bytes read and written.
    bytes: u64,
    moved: u64,
}

/// `source` in scratch buffer number `scratch`.
fn packed(mode: Mode, source: &Operand, scratch: usize) -> Option<Packed> {
    let (src_bytes, dst_bytes) = mode.sizes();
    debug_assert_eq!(src_bytes, source.element_bytes);
    let pitch = source.k.checked_mul(dst_bytes)?.checked_next_multiple_of(GRID_BYTES)? / dst_bytes;
    let matrix = source.rows.checked_mul(pitch)?;
    let bytes = source.batch.checked_mul(matrix)?.checked_mul(dst_bytes)?;
    let stride = |elements: u64| i64::try_from(elements).ok();
    let word = |value: u64| u32::try_from(value).ok();

    let form = form(source);
    let ([x, y], lanes_log2) = if form == Form::Mn {
        let [tile_k, tile_rows] = mode.tile();
        ([pitch.div_ceil(tile_k), source.rows.div_ceil(tile_rows)], 0)
    } else {
        // Lanes along K: whole lines where there are that many units, and no more than reach the end.
        let least = if form == Form::KWide { 8 } else { 32 };
        let unit = if form == Form::KWide { 16 / src_bytes } else { (4 / dst_bytes).max(1) };
        let units = pitch / unit;
        let enough = units.div_ceil(u64::from(UNROLL)).max(units.min(least)).min(u64::from(THREADS));
        let lanes_log2 = enough.next_power_of_two().trailing_zeros();
        let rows = source.rows.div_ceil(u64::from(THREADS >> lanes_log2));
        ([rows, units.div_ceil(u64::from(UNROLL) << lanes_log2)], lanes_log2)
    };
    let args = vec![
        Arg::Address { slot: source.slot, offset_bytes: source.offset_bytes() },
        Arg::Address { slot: Slot::Scratch(scratch), offset_bytes: 0 },
        Arg::U32(word(source.rows)?),
        Arg::U32(word(source.k)?),
        Arg::I64(source.row_stride),
        Arg::I64(source.k_stride),
        Arg::I64(source.batch_stride),
        Arg::I64(stride(pitch)?),
        Arg::U32(form as u32),
        Arg::U32(word(x)?),
        Arg::U32(word(y)?),
        Arg::U32(lanes_log2),
    ];
    let operand = Operand {
        slot: Slot::Scratch(scratch),
        element_bytes: dst_bytes,
        offset: 0,
        row_stride: stride(pitch)?,
        k_stride: 1,
        batch_stride: if source.batch_stride == 0 { 0 } else { stride(matrix)? },
        ..*source
    };
    let read = [source.rows, source.k, src_bytes].into_iter().try_fold(source.batch, u64::checked_mul)?;
    let moved = read.checked_add(bytes)?;
    let blocks = x.checked_mul(y)?.checked_mul(source.batch)?;
    Some(Packed { args, blocks, operand, bytes, moved })
}

/// The direction in which the source is read.
fn form(source: &Operand) -> Form {
    let steps = [source.offset, source.row_stride.unsigned_abs(), source.batch_stride.unsigned_abs()];
    let on_grid = steps.iter().all(|step| (step * source.element_bytes).is_multiple_of(16));
    match (source.row_stride, source.k_stride) {
        (_, 1) if on_grid => Form::KWide,
        (_, 1) => Form::K,
        (1, _) => Form::Mn,
        (row, k) if k.unsigned_abs() <= row.unsigned_abs() || source.rows == 1 => Form::K,
        _ => Form::Mn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(rows: u64, k: u64, row_stride: i64, k_stride: i64) -> Operand {
        Operand {
            slot: Slot::Input(0),
            element_bytes: 4,
            offset: 0,
            rows,
            k,
            row_stride,
            k_stride,
            batch: 1,
            batch_stride: 0,
        }
    }

    #[test]
    fn form_follows_the_denser_direction() {
        assert_eq!(form(&operand(8, 8, 8, 1)), Form::KWide);
        assert_eq!(form(&operand(8, 8, 9, 1)), Form::K);
        assert_eq!(form(&Operand { offset: 2, ..operand(8, 8, 8, 1) }), Form::K);
        assert_eq!(form(&operand(8, 8, 1, 8)), Form::Mn);
        assert_eq!(form(&operand(8, 8, 16, -2)), Form::K);
        assert_eq!(form(&operand(8, 8, 2, 16)), Form::Mn);
        assert_eq!(form(&operand(1, 8, 0, 16)), Form::K);
    }

    #[test]
    fn packed_rows_lie_on_the_grid_and_blocks_cover_them() {
        for (mode, rows, k) in
            [(Mode::Copy(4), 1, 1), (Mode::Tf32, 4097, 33), (Mode::Bf16, 1000, 4095), (Mode::Copy(4), 3, 70_000)]
        {
            let (_, dst_bytes) = mode.sizes();
            for source in [operand(rows, k, k as i64, 1), operand(rows, k, 1, rows as i64)] {
                let Packed { args, blocks, operand, bytes, .. } = packed(mode, &source, 0).unwrap();
                let pitch = operand.row_stride as u64;
                assert!(pitch >= k && (pitch * dst_bytes).is_multiple_of(128) && (pitch - k) * dst_bytes < 128);
                assert_eq!(bytes, rows * pitch * dst_bytes);
                let [Arg::U32(form), Arg::U32(x), Arg::U32(y), Arg::U32(lanes)] = args[8..] else { panic!("{args:?}") };
                assert_eq!(blocks, u64::from(x) * u64::from(y));
                let [x, y] = [x, y].map(u64::from);
                let covered = if form == Form::Mn as u32 {
                    [y * mode.tile()[1], x * mode.tile()[0]]
                } else {
                    let unit = if form == Form::KWide as u32 { 4 } else { 4 / dst_bytes };
                    [x * u64::from(THREADS >> lanes), ((y * u64::from(UNROLL)) << lanes) * unit]
                };
                assert!(covered[0] >= rows && covered[1] >= pitch, "{mode:?} {rows} x {k}: {covered:?}");
            }
        }
    }

    #[test]
    fn two_operands_go_through_one_launch() {
        let caps = Caps::h200();
        let mut prepared = Prepared::default();
        let along = |operand: Operand, number| Operand { slot: Slot::Input(number), ..operand };
        let first = prepared.pack(Mode::Copy(4), &along(operand(9, 5, 5, 1), 0), &caps).unwrap();
        let alone = prepared.plan.launches[0].clone();
        let second = prepared.pack(Mode::Copy(4), &along(operand(900, 500, 1, 900), 1), &caps).unwrap();
        let third = prepared.pack(Mode::Copy(4), &along(operand(9, 5, 5, 1), 2), &caps).unwrap();
        let other = prepared.pack(Mode::Tf32, &along(operand(9, 5, 5, 1), 3), &caps).unwrap();
        assert_eq!([first, second, third, other].map(|x| x.slot), [0, 1, 2, 3].map(Slot::Scratch));
        assert_eq!((prepared.plan.launches.len(), prepared.plan.scratch_bytes.len()), (3, 4));
        let both = &prepared.plan.launches[0];
        let blocks = packed(Mode::Copy(4), &operand(900, 500, 1, 900), 0).unwrap().blocks;
        assert_eq!(u64::from(both.grid[0]), u64::from(alone.grid[0]) + blocks);
        // The first keeps its arguments, the number of its blocks among them.
        assert_eq!((&both.args[..12], both.args.last()), (&alone.args[..12], Some(&Arg::U32(alone.grid[0]))));
        let behind = packed(Mode::Copy(4), &along(operand(900, 500, 1, 900), 1), 1).unwrap().args;
        assert_eq!((&both.args[12..24], both.args.len()), (&behind[..], both.kernel.params.len()));
        assert_eq!(prepared.plan.check(4), Err("its last launch has no output".to_owned()));
    }

    #[test]
    fn sizes_beyond_32_bits_are_refused() {
        let source = |k: u64| Operand { offset: 1, ..operand(2, k, k as i64, 1) };
        assert!(packed(Mode::Copy(4), &source(u64::from(u32::MAX)), 0).is_some());
        assert!(packed(Mode::Copy(4), &source(1 << 32), 0).is_none());
        assert_eq!([grid(i32::MAX as u64), grid(1 << 31)], [Some(i32::MAX as u32), None]);
    }
}
