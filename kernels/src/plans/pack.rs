//! Packing: the launch that copies an operand of any strides into rows along K, on a 128-byte grid, converted if wanted.
//!
//! What families need whose kernels take only such rows (tensor maps of 8-bit and tf32 operands, odd pitches), or only
//! 16-byte loads. Rows and K of the operand are a matter of view: [`Operand::transposed`] packs rows along M or N.

use super::operand::Operand;
use crate::catalogue::pack::{Form, Mode, THREADS, UNROLL, symbol};
use crate::{Arg, Caps, Launch, Slot, find};

/// Bytes that pitches and matrices are multiples of: a line, and the widest row of a tensor map's swizzle.
const GRID_BYTES: u64 = 128;
/// Blocks along y that a grid may have (CUDA programming guide, "Technical Specifications").
const MOST_BLOCKS_Y: u32 = 65_535;
/// Share of the promised memory rate that packing reaches, by form (H200; docs/gemm.md).
const RATE: f64 = 0.75;
/// What a launch costs beside its traffic.
const LAUNCH_NS: f64 = 2000.0;

/// An operand that was packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packed {
    /// Neighbours along K, rows of whole 128 bytes, zeros in between.
    pub operand: Operand,
    /// Size of the scratch buffer.
    pub bytes: u64,
    /// What packing takes.
    pub estimate_ns: f64,
}

/// The launch that packs `source` into scratch buffer `scratch`; `None` for sizes beyond 32 bits, and for rows
/// along K that are longer than a grid.
pub(crate) fn pack(mode: Mode, source: &Operand, scratch: usize, caps: &Caps) -> Option<(Launch, Packed)> {
    let (src_bytes, dst_bytes) = mode.sizes();
    debug_assert_eq!(src_bytes, source.element_bytes);
    let pitch = source.k.checked_mul(dst_bytes)?.checked_next_multiple_of(GRID_BYTES)? / dst_bytes;
    let matrix = source.rows.checked_mul(pitch)?;
    let bytes = source.batch.checked_mul(matrix)?.checked_mul(dst_bytes)?;
    let stride = |elements: u64| i64::try_from(elements).ok();
    let word = |value: u64| u32::try_from(value).ok();

    let form = form(source);
    let batch = word(source.batch)?;
    let mut args = vec![
        Arg::Address { slot: source.slot, offset_bytes: source.offset_bytes() },
        Arg::Address { slot: Slot::Scratch(scratch), offset_bytes: 0 },
        Arg::U32(word(source.rows)?),
        Arg::U32(word(source.k)?),
        Arg::I64(source.row_stride),
        Arg::I64(source.k_stride),
        Arg::U32(batch),
        Arg::U32(batch),
        Arg::I64(source.batch_stride),
        Arg::I64(0),
        Arg::I64(stride(pitch)?),
        Arg::I64(stride(matrix)?),
    ];
    let [x, y] = if form == Form::Mn {
        let [tile_k, tile_rows] = mode.tile();
        // The kernel goes on through rows that the grid does not reach.
        [word(pitch.div_ceil(tile_k))?, source.rows.div_ceil(tile_rows).min(u64::from(MOST_BLOCKS_Y)) as u32]
    } else {
        // Lanes along K: whole lines where there are that many units, and no more than reach the end.
        let least = if form == Form::KWide { 8 } else { 32 };
        let unit = if form == Form::KWide { 16 / src_bytes } else { (4 / dst_bytes).max(1) };
        let units = pitch / unit;
        let enough = units.div_ceil(u64::from(UNROLL)).max(units.min(least)).min(u64::from(THREADS));
        let lanes_log2 = enough.next_power_of_two().trailing_zeros();
        args.push(Arg::U32(lanes_log2));
        let rows = u64::from(THREADS >> lanes_log2);
        let along_k = word(units.div_ceil(u64::from(UNROLL) << lanes_log2))?;
        [word(source.rows.div_ceil(rows))?, Some(along_k).filter(|&blocks| blocks <= MOST_BLOCKS_Y)?]
    };
    let grid = [x, y, batch.min(65_535)];
    let moved = source.batch * source.rows * source.k * src_bytes + bytes;
    let packed = Packed {
        operand: Operand {
            slot: Slot::Scratch(scratch),
            element_bytes: dst_bytes,
            offset: 0,
            row_stride: stride(pitch)?,
            k_stride: 1,
            batch_stride: if source.batch_stride == 0 { 0 } else { stride(matrix)? },
            ..*source
        },
        bytes,
        estimate_ns: LAUNCH_NS + caps.stream_ns(moved) / RATE,
    };
    Some((Launch { kernel: find(&symbol(mode, form))?, grid, args }, packed))
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
    fn packed_rows_lie_on_the_grid_and_launches_cover_them() {
        let caps = Caps::h200();
        for (mode, rows, k) in
            [(Mode::Copy(4), 1, 1), (Mode::Tf32, 4097, 33), (Mode::Bf16, 1000, 4095), (Mode::Copy(4), 3, 70_000)]
        {
            let (_, dst_bytes) = mode.sizes();
            for source in [operand(rows, k, k as i64, 1), operand(rows, k, 1, rows as i64)] {
                let (launch, packed) = pack(mode, &source, 0, &caps).unwrap();
                let pitch = packed.operand.row_stride as u64;
                assert!(pitch >= k && (pitch * dst_bytes).is_multiple_of(128) && (pitch - k) * dst_bytes < 128);
                assert_eq!(packed.bytes, rows * pitch * dst_bytes);
                let plan = crate::Plan { launches: vec![launch.clone()], scratch_bytes: vec![packed.bytes] };
                assert_eq!(plan.check(1), Err("its last launch has no output".to_owned()));
                let [x, y, _] = launch.grid.map(u64::from);
                let covered = match launch.args.last() {
                    Some(&Arg::U32(lanes)) => {
                        let wide = launch.kernel.symbol.ends_with("wide");
                        let unit = if wide { 4 } else { 4 / dst_bytes };
                        [x * u64::from(THREADS >> lanes), ((y * u64::from(UNROLL)) << lanes) * unit]
                    }
                    _ => [y * mode.tile()[1], x * mode.tile()[0]],
                };
                assert!(covered[0] >= rows && covered[1] >= pitch, "{mode:?} {rows} x {k}: {covered:?}");
            }
        }
    }

    #[test]
    fn rows_longer_than_a_grid_are_refused() {
        // What 65,535 blocks of 256 threads move, four words each, or elements where those are larger.
        for (bytes, most) in [(1, 268_431_360), (2, 134_215_680), (4, 67_107_840), (8, 67_107_840)] {
            let packed = |k: u64| {
                let source = Operand { element_bytes: bytes, offset: 1, ..operand(2, k, k as i64, 1) };
                assert_eq!(form(&source), Form::K);
                pack(Mode::Copy(bytes), &source, 0, &Caps::h200())
            };
            assert_eq!(packed(most).map(|(launch, _)| launch.grid), Some([2, 65_535, 1]), "{bytes}");
            assert!(packed(most + 1).is_none(), "{bytes}");
        }
        // Wide units are 16 bytes.
        assert!(pack(Mode::Copy(4), &operand(2, 268_431_360, 268_431_360, 1), 0, &Caps::h200()).is_some());
        assert!(pack(Mode::Copy(4), &operand(2, 268_431_364, 268_431_364, 1), 0, &Caps::h200()).is_none());
    }
}
