//! Cases of cross-entropy: every float, class counts, layouts, weights and smoothing, targets that are ignored and that are no class.

use super::{Backward, add, extents, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::CrossEntropy;
use crate::{DType, Result};

const FAMILY: &str = "cross_entropy";

fn loss(
    dtype: DType,
    kind: LayoutKind,
    dims: &[u64],
    index: DType,
    weighted: bool,
    smoothing: f64,
) -> Result<CrossEntropy> {
    let (&classes, rows) = dims.split_last().unwrap_or((&0, &[]));
    let weights = if weighted { Some(LayoutKind::Dense.spec(dtype.compute(), &[classes])?) } else { None };
    let ignored = if index == DType::I32 { Some(-1) } else { None };
    CrossEntropy::new(kind.spec(dtype, dims)?, LayoutKind::Dense.spec(index, rows)?, weights, smoothing, ignored)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: LayoutKind = LayoutKind::Dense;
    let mut cases = Vec::new();
    // Targets from the ignored -1 to the first number that is no class.
    let values = |logits: Values, classes: i32| [logits, Values::Integers(-1, classes), Values::Uniform(0.5, 2.0)];
    let of = |values: [Values; 3], weighted: bool| values[..if weighted { 3 } else { 2 }].to_vec();
    for dtype in DType::FLOATS {
        for (weighted, smoothing) in [(false, 0.0), (true, 0.0), (false, 0.1), (true, 0.25)] {
            let op = loss(dtype, DENSE, &[37, 10], DType::I32, weighted, smoothing);
            add(&mut cases, FAMILY, op, &of(values(Values::Normal, 10), weighted));
        }
    }
    for classes in extents(level) {
        let op = loss(DType::F32, DENSE, &[5, classes], DType::I32, false, 0.1);
        add(&mut cases, FAMILY, op, &of(values(Values::Uniform(-20.0, 20.0), classes as i32), false));
    }
    for kind in level.list(&[DENSE, LayoutKind::Transposed], &LayoutKind::ALL) {
        let op = loss(DType::F32, kind, &[3, 4, 9], DType::U32, true, 0.1);
        add(&mut cases, FAMILY, op, &[Values::Normal, Values::Integers(0, 8), Values::Uniform(0.5, 2.0)]);
    }
    for dims in [&[0, 4][..], &[6], &[3, 1]] {
        let op = loss(DType::F32, DENSE, dims, DType::U32, false, 0.0);
        add(&mut cases, FAMILY, op, &[Values::Normal, Values::Integers(0, 1)]);
    }
    // Rows that start anywhere, walked 16 bytes at a time, alone and several to a workgroup, with whole blocks of a thread and without.
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F8E4M3] {
        for (dims, smoothing) in [([5, 4097], 0.1), ([2, 16_411], 0.0), ([37, 61], 0.1)] {
            let op = loss(dtype, DENSE, &dims, DType::I32, smoothing == 0.0, smoothing);
            add(&mut cases, FAMILY, op, &of(values(Values::Uniform(-3.0, 3.0), dims[1] as i32), smoothing == 0.0));
        }
    }
    // One row, in slabs that are joined.
    for weighted in [false, true] {
        let op = loss(DType::F32, DENSE, &[1, 40_003], DType::I32, weighted, 0.0);
        add(&mut cases, FAMILY, op, &of(values(Values::Uniform(-3.0, 3.0), 40_003), weighted));
    }
    for value in [f64::NEG_INFINITY, f64::INFINITY, f64::NAN] {
        let op = loss(DType::F32, DENSE, &[3, 5], DType::U32, false, 0.0);
        add(&mut cases, FAMILY, op, &[Values::Constant(value), Values::Integers(0, 4)]);
    }
    for dtype in [DType::F32, DType::BF16] {
        let op = loss(dtype, DENSE, &[6, 50], DType::U32, false, 0.0);
        add(&mut cases, FAMILY, op, &[Values::Special, Values::Integers(0, 49)]);
    }
    // Logits far from zero, where only differences count.
    for (low, high) in [(1e4, 1.0001e4), (-3e4, -2.9e4)] {
        let op = loss(DType::F32, DENSE, &[9, 33], DType::U32, false, 0.0);
        add(&mut cases, FAMILY, op, &[Values::Uniform(low, high), Values::Integers(0, 32)]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = (size.elements() / 32_768).max(1);
    let case = |dtype: DType| {
        let op = loss(dtype, LayoutKind::Dense, &[rows, 30_522], DType::I32, false, 0.0).ok()?;
        let (name, back) = (format!("cross-entropy of 30522 {dtype}"), Backward::new(op.clone()).ok()?);
        let backward = BenchCase::new(format!("{name}, backward"), Suite::Reduce, back, Metric::Bytes);
        Some([BenchCase::new(name, Suite::Reduce, op, Metric::Bytes), backward])
    };
    [DType::F32, DType::BF16].into_iter().filter_map(case).flatten().collect()
}
