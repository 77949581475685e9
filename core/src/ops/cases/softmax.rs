//! Cases of softmax and log-softmax: every axis and layout, row lengths at the edges, fully masked rows, NaN and infinity.

use super::{add, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Softmax, SoftmaxFn};
use crate::{DType, Result};

const FAMILY: &str = "softmax";

#[inline(never)]
fn softmax(f: SoftmaxFn, dtype: DType, kind: LayoutKind, dims: &[u64], axis: usize) -> Result<Softmax> {
    Softmax::new(f, kind.spec(dtype, dims)?, axis, output(dtype, dims)?)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const SPREAD: &[Values] = &[Values::Uniform(-10.0, 10.0)];
    let mut cases = Vec::new();
    for f in SoftmaxFn::ALL {
        for dtype in DType::FLOATS {
            for (dims, axis) in [([33, 257], 1), ([257, 33], 0)] {
                add(&mut cases, FAMILY, softmax(f, dtype, LayoutKind::Dense, &dims, axis), SPREAD);
            }
        }
        for axis in 0..3 {
            for kind in level.list(&[LayoutKind::Dense, LayoutKind::Transposed], &LayoutKind::ALL) {
                add(&mut cases, FAMILY, softmax(f, DType::F32, kind, &[5, 33, 7], axis), SPREAD);
            }
        }
    }
    let f = SoftmaxFn::Softmax;
    for extent in extents(level) {
        for (dims, axis) in [([3, extent], 1), ([extent, 3], 0)] {
            add(&mut cases, FAMILY, softmax(f, DType::F32, LayoutKind::Dense, &dims, axis), SPREAD);
        }
    }
    for kind in LayoutKind::ALL {
        add(&mut cases, FAMILY, softmax(f, DType::F32, kind, &[9, 65], 1), SPREAD);
    }
    for dims in [[0, 5], [5, 0]] {
        add(&mut cases, FAMILY, softmax(f, DType::F32, LayoutKind::Dense, &dims, 1), SPREAD);
    }
    add(&mut cases, FAMILY, softmax(f, DType::F32, LayoutKind::Dense, &[2, 1, 3, 1, 2, 5, 1, 4], 5), SPREAD);
    for f in SoftmaxFn::ALL {
        let special = [
            Values::Constant(f64::NEG_INFINITY), // masked
            Values::Constant(f64::INFINITY),
            Values::Constant(80.0),
            Values::Uniform(-100.0, 100.0),
            Values::Uniform(-60000.0, 60000.0),
            Values::Special,
            Values::Planted(Plant::Nan, Where::First),
            Values::Planted(Plant::Nan, Where::Last),
            Values::Planted(Plant::Inf, Where::TileStart),
        ];
        for values in special {
            add(&mut cases, FAMILY, softmax(f, DType::F32, LayoutKind::Dense, &[3, 259], 1), &[values]);
            add(&mut cases, FAMILY, softmax(f, DType::F16, LayoutKind::Dense, &[259, 3], 0), &[values]);
        }
    }
    let long = level.list(&[(2, 65_537)], &[(1, 1_048_583), (4099, 5), (65_537, 2)]);
    for (rows, columns) in long {
        add(&mut cases, FAMILY, softmax(f, DType::F32, LayoutKind::Dense, &[rows, columns], 1), SPREAD);
    }
    unique(cases)
}

/// Rows whose largest element and sum of exponentials are found in one walk: lengths at the edges, rows that start anywhere, with whole blocks of
/// a thread and without, in slabs; infinities and NaN.
pub(super) fn rows(level: Level) -> Vec<(DType, LayoutKind, [u64; 2], Values)> {
    let dense = |dtype, dims, values| (dtype, LayoutKind::Dense, dims, values);
    let edges = extents(level).into_iter().map(|n| dense(DType::F32, [3, n], Values::Uniform(900.0, 1000.0)));
    let floats = [DType::F32, DType::F16, DType::BF16, DType::F8E5M2, DType::F64].into_iter().flat_map(|dtype| {
        let blocks = [[5, 4097], [37, 61], [1, 40_003]].map(|dims| dense(dtype, dims, Values::Uniform(-3.0, 3.0)));
        blocks.into_iter().chain([dense(dtype, [7, 70], Values::Special)])
    });
    let constants = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN].map(Values::Constant);
    let constants = constants.map(|values| dense(DType::F32, [3, 5], values));
    let apart = (DType::F32, LayoutKind::Offset, [3, 2055], Values::Special);
    edges.chain(floats).chain([apart]).chain(constants).collect()
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let wanted = [("softmax rows", DType::F32, 1), ("softmax rows", DType::F16, 1), ("softmax columns", DType::F32, 0)];
    wanted
        .into_iter()
        .filter_map(|(name, dtype, axis)| {
            let op = softmax(SoftmaxFn::Softmax, dtype, LayoutKind::Dense, &[side, side], axis).ok()?;
            Some(BenchCase::new(format!("{name} {dtype}"), Suite::Softmax, op, Metric::Bytes))
        })
        .collect()
}
