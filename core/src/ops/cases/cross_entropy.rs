//! Cases of cross-entropy: every float, class counts, layouts, weights and smoothing, targets that are ignored and that are no class.

use super::{add, extents, unique};
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
        Some(BenchCase::new(format!("cross-entropy of 30522 {dtype}"), Suite::Reduce, op, Metric::Bytes))
    };
    [DType::F32, DType::BF16].into_iter().filter_map(case).collect()
}
