//! Cases of sorting: every dtype, order, axis and layout, lines at the edges of blocks, of merges and of digits, ties, NaN, zeros of both signs.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, OUTPUT_OFFSET_BYTES, Suite, Values};
use crate::ops::{Sort, SortOrder};
use crate::{DType, Result, TensorSpec};

const FAMILY: &str = "sort";
const DENSE: LayoutKind = LayoutKind::Dense;

/// Outputs behind guard bytes, as every case has them.
#[inline(never)]
fn sort(order: SortOrder, dtype: DType, kind: LayoutKind, dims: &[u64], axis: usize) -> Result<Sort> {
    first(order, dtype, kind, dims, axis, dims[axis])
}

/// The same of the first `kept` of each line.
#[inline(never)]
fn first(order: SortOrder, dtype: DType, kind: LayoutKind, dims: &[u64], axis: usize, kept: u64) -> Result<Sort> {
    let op = Sort::first(order, kind.spec(dtype, dims)?, axis, kept)?;
    let guarded = |spec: TensorSpec| {
        let offset = OUTPUT_OFFSET_BYTES / spec.dtype.size_bytes();
        TensorSpec { layout: spec.layout.with_offset(offset), ..spec }
    };
    Ok(Sort { values: guarded(op.values), indices: guarded(op.indices), ..op })
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let [up, down] = SortOrder::ALL;
    // Few distinct values: ties everywhere.
    const TIES: &[Values] = &[Values::Integers(-3, 3)];
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        for (order, dims) in [(up, [2, 70]), (down, [3, 33])] {
            add(&mut cases, FAMILY, sort(order, dtype, DENSE, &dims, 1), &[Values::Special]);
        }
        add(&mut cases, FAMILY, sort(up, dtype, DENSE, &[1100], 0), &[Values::RandomBits]);
    }
    for extent in level.list(&[1, 2, 31, 257, 1023, 1024, 1025, 3000], &[3, 64, 255, 256, 2047, 2048, 2049, 4097]) {
        for (dims, axis, order) in [([3, extent], 1, up), ([extent, 3], 0, down)] {
            add(&mut cases, FAMILY, sort(order, DType::F32, DENSE, &dims, axis), &[Values::Normal]);
        }
        add(&mut cases, FAMILY, sort(down, DType::I32, DENSE, &[2, extent], 1), TIES);
    }
    for axis in 0..3 {
        for kind in level.list(&[DENSE, LayoutKind::Transposed], &LayoutKind::ALL) {
            add(&mut cases, FAMILY, sort(down, DType::F32, kind, &[5, 33, 7], axis), TIES);
        }
    }
    for kind in LayoutKind::ALL {
        add(&mut cases, FAMILY, sort(up, DType::F32, kind, &[9, 65], 1), TIES);
    }
    for dims in [[0, 5], [5, 0]] {
        add(&mut cases, FAMILY, sort(up, DType::F32, DENSE, &dims, 1), TIES);
    }
    for order in SortOrder::ALL {
        for values in [Values::Constant(0.0), Values::Constant(f64::NAN), Values::Planted(Plant::Nan, Where::TileEnd)] {
            add(&mut cases, FAMILY, sort(order, DType::F32, DENSE, &[2500], 0), &[values]);
        }
        add(&mut cases, FAMILY, sort(order, DType::F32, DENSE, &[2, 5000], 1), &[Values::Special]);
        add(&mut cases, FAMILY, sort(order, DType::F16, DENSE, &[3, 3001], 1), &[Values::AllBits]);
    }
    // Lines so long that they are sorted digit by digit.
    for (number, dtype) in DType::ALL.into_iter().enumerate() {
        let order = SortOrder::ALL[number % 2];
        add(&mut cases, FAMILY, sort(order, dtype, DENSE, &[17_003], 0), &[Values::RandomBits]);
    }
    for (dims, axis) in [([2, 16_385], 1), ([20_481, 3], 0)] {
        for values in [Values::Special, TIES[0]] {
            add(&mut cases, FAMILY, sort(down, DType::F32, LayoutKind::Transposed, &dims, axis), &[values]);
        }
    }
    add(&mut cases, FAMILY, sort(up, DType::I64, DENSE, &[16_401], 0), TIES);
    // The first few: of one block, of blocks of blocks, of merges and of digits.
    for (dims, axis, kept) in [
        ([3, 70], 1, 5),
        ([70, 3], 0, 70),
        ([2, 1025], 1, 1),
        ([5000, 3], 0, 64),
        ([1, 40_003], 1, 200),
        ([3, 2049], 1, 256),
        ([2049, 2], 0, 257),
        ([2, 17_003], 1, 3000),
        ([3, 7], 1, 0),
    ] {
        for (order, values) in [(up, Values::Special), (down, TIES[0])] {
            let kind = LayoutKind::Transposed;
            add(&mut cases, FAMILY, first(order, DType::F32, kind, &dims, axis, kept), &[values]);
        }
        add(&mut cases, FAMILY, first(down, DType::F16, DENSE, &dims, axis, kept), &[Values::RandomBits]);
    }
    add(&mut cases, FAMILY, first(down, DType::I64, DENSE, &[3000], 0, 17), &[Values::RandomBits]);
    if level == Level::Full {
        add(&mut cases, FAMILY, sort(up, DType::F32, DENSE, &[1_048_583], 0), &[Values::Normal]);
        add(&mut cases, FAMILY, sort(down, DType::U8, DENSE, &[300_007], 0), &[Values::RandomBits]);
        add(&mut cases, FAMILY, sort(up, DType::I32, DENSE, &[70_001, 5], 1), &[Values::RandomBits]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let wanted = [
        ("sort all f32", DType::F32, vec![size.elements() / 4], 0),
        ("sort rows f32", DType::F32, vec![side, side / 4], 1),
    ];
    let sorts = wanted.into_iter().filter_map(|(name, dtype, dims, axis)| {
        let op = sort(SortOrder::Ascending, dtype, DENSE, &dims, axis).ok()?;
        Some(BenchCase::new(name, Suite::Reduce, op, Metric::Bytes))
    });
    let best = [("top 64 of rows f32", size.elements() / 16, true), ("top 64 of rows of 2^20 f32", 1 << 20, false)];
    let best = best.into_iter().filter_map(|(name, row, in_overview)| {
        let rows = (size.elements() / row).max(1);
        let op = first(SortOrder::Descending, DType::F32, DENSE, &[rows, row], 1, 64).ok()?;
        let case = BenchCase::new(name, Suite::Reduce, op, Metric::Bytes);
        Some(if in_overview { case } else { case.beside() })
    });
    sorts.chain(best).collect()
}
