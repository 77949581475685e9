//! Cases of scans: every function, dtype, axis and option, lines at the edges of tiles, long lines, NaN and ties.

use super::{add, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, OUTPUT_OFFSET_BYTES, Suite, Values};
use crate::ops::{Scan, ScanFn, ScanOptions};
use crate::{DType, Result, TensorSpec};

const FAMILY: &str = "scan";
const DENSE: LayoutKind = LayoutKind::Dense;

/// Outputs behind guard bytes, as every case has them.
#[inline(never)]
fn scan(f: ScanFn, dtype: DType, kind: LayoutKind, dims: &[u64], axis: usize, options: ScanOptions) -> Result<Scan> {
    let op = Scan::new(f, kind.spec(dtype, dims)?, axis, options)?;
    let guarded = |spec: TensorSpec| {
        let offset = OUTPUT_OFFSET_BYTES / spec.dtype.size_bytes();
        TensorSpec { layout: spec.layout.with_offset(offset), ..spec }
    };
    Ok(Scan { output: guarded(op.output), index: op.index.map(guarded), ..op })
}

/// Values whose scans stay in range.
fn mild(f: ScanFn) -> Values {
    match f {
        ScanFn::Prod => Values::NearOne,
        ScanFn::Max | ScanFn::Min => Values::Integers(-3, 3),
        ScanFn::LogSumExp => Values::Uniform(-10.0, 10.0),
        ScanFn::Sum => Values::Normal,
    }
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let plain = ScanOptions::default();
    let (exclusive, reversed) = (plain.exclusive(), plain.reversed());
    let mut cases = Vec::new();
    for f in ScanFn::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| f.output_dtype(dtype).is_some()) {
            // Every dtype by two functions, the others by a few; quads of the last axis, or single elements of another.
            let is_told =
                matches!(f, ScanFn::Max | ScanFn::Sum) || matches!(dtype, DType::F32 | DType::F16 | DType::F64);
            let is_all = dtype == DType::F32 || level == Level::Full;
            let is_even = dtype.size_bytes().is_multiple_of(2);
            if is_all || (is_told && is_even) {
                add(&mut cases, FAMILY, scan(f, dtype, DENSE, &[3, 20], 1, plain), &[mild(f)]);
            }
            if is_all || (is_told && !is_even) {
                add(&mut cases, FAMILY, scan(f, dtype, DENSE, &[2, 9, 5], 1, plain), &[mild(f)]);
            }
        }
        let options = if f.chooses() { vec![reversed] } else { vec![exclusive, reversed, exclusive.reversed()] };
        for (number, options) in options.into_iter().enumerate() {
            // The others' way is the sum's.
            if f == ScanFn::Sum || number == 0 || level == Level::Full {
                add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[3, 4100], 1, options), &[mild(f)]);
                add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[5, 66], 0, options), &[mild(f)]);
            }
        }
        // Several slabs, of rows and of columns.
        if f != ScanFn::Min || level == Level::Full {
            add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[70_001], 0, plain), &[mild(f)]);
        }
        if matches!(f, ScanFn::Sum | ScanFn::Min) || level == Level::Full {
            add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[2, 5003, 4], 1, plain), &[mild(f)]);
        }
    }
    for (f, dtype) in [(ScanFn::Sum, DType::F16), (ScanFn::Max, DType::F16)] {
        add(&mut cases, FAMILY, scan(f, dtype, DENSE, &[1, 40_004], 1, reversed), &[mild(f)]);
    }
    for extent in level.list(&[1, 65, 1025], &extents(Level::Full)) {
        for (dims, axis) in [([3, extent], 1), ([extent, 3], 0)] {
            add(&mut cases, FAMILY, scan(ScanFn::Sum, DType::F32, DENSE, &dims, axis, plain), &[Values::Normal]);
        }
    }
    for axis in 0..3 {
        for kind in level.list(&[LayoutKind::Transposed], &LayoutKind::ALL) {
            add(
                &mut cases,
                FAMILY,
                scan(ScanFn::Sum, DType::F32, kind, &[5, 33, 7], axis, exclusive),
                &[Values::Normal],
            );
            add(
                &mut cases,
                FAMILY,
                scan(ScanFn::Min, DType::I32, kind, &[5, 33, 7], axis, reversed),
                &[Values::Normal],
            );
        }
    }
    for kind in LayoutKind::ALL {
        add(&mut cases, FAMILY, scan(ScanFn::Sum, DType::F32, kind, &[9, 64], 1, reversed), &[Values::Normal]);
    }
    for dims in [[0, 5], [5, 0]] {
        add(&mut cases, FAMILY, scan(ScanFn::Max, DType::F32, DENSE, &dims, 1, plain), &[Values::Normal]);
    }
    add(
        &mut cases,
        FAMILY,
        scan(ScanFn::Sum, DType::F32, DENSE, &[2, 1, 3, 1, 2, 5, 1, 4], 5, plain),
        &[Values::Normal],
    );
    for f in [ScanFn::Max, ScanFn::Min, ScanFn::LogSumExp, ScanFn::Sum] {
        let special = [
            Values::Special,
            Values::Planted(Plant::Nan, Where::First),
            Values::Planted(Plant::Nan, Where::TileEnd),
            Values::Planted(Plant::Inf, Where::TileStart),
            Values::Planted(Plant::Top, Where::Twice),
            Values::Constant(f64::NEG_INFINITY),
        ];
        // Sums of special values overflow on the way; what one extremum does with them the other does.
        let few = [Values::Planted(Plant::Nan, Where::TileEnd), Values::Planted(Plant::Inf, Where::TileStart)];
        let is_brief = f == ScanFn::Sum || (f == ScanFn::Min && level == Level::Quick);
        for values in special.into_iter().filter(|values| !is_brief || few.contains(values)) {
            add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[1031], 0, plain), &[values]);
        }
        let f16 = scan(f, DType::F16, DENSE, &[4, 260], 1, reversed);
        add(&mut cases, FAMILY, f16, &[Values::Planted(Plant::Nan, Where::Middle)]);
    }
    // Sums that are exact, and sums of integers that wrap.
    cases.extend(
        scan(ScanFn::Sum, DType::F32, DENSE, &[20_000], 0, plain)
            .map(|op| Case::new(FAMILY, op, vec![Values::Integers(-8, 8)]).exact()),
    );
    for f in [ScanFn::Sum, ScanFn::Prod] {
        add(&mut cases, FAMILY, scan(f, DType::I32, DENSE, &[3, 257], 1, plain), &[Values::RandomBits]);
    }
    if level == Level::Full {
        for f in ScanFn::ALL {
            add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[1_048_583], 0, plain), &[mild(f)]);
            add(&mut cases, FAMILY, scan(f, DType::F32, DENSE, &[4099, 68], 0, plain), &[mild(f)]);
        }
        let beyond = super::BEYOND_ONE_GRID_ROW;
        add(&mut cases, FAMILY, scan(ScanFn::Sum, DType::U8, DENSE, &[beyond, 1], 1, plain), &[Values::RandomBits]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let wanted = [
        ("cumsum all f32", ScanFn::Sum, DType::F32, vec![size.elements()], 0),
        ("cumsum rows f32", ScanFn::Sum, DType::F32, vec![side, side], 1),
        ("cumsum columns f32", ScanFn::Sum, DType::F32, vec![side, side], 0),
        ("cummax rows f32", ScanFn::Max, DType::F32, vec![side, side], 1),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, f, dtype, dims, axis)| {
            let op = scan(f, dtype, DENSE, &dims, axis, ScanOptions::default()).ok()?;
            Some(BenchCase::new(name, Suite::Reduce, op, Metric::Bytes))
        })
        .collect()
}
