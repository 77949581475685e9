//! Cases of log sum exp: every float, axis and layout, lengths at the edges, infinities and NaN.

use super::*;
use crate::ops::LogSumExp;

const FAMILY: &str = "logsumexp";

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype, kind: LayoutKind, dims: &[u64], axis, values| {
        add(&mut cases, FAMILY, kind.spec(dtype, dims).and_then(|input| LogSumExp::new(input, axis)), &[values]);
    };
    for dtype in DType::FLOATS {
        push(dtype, LayoutKind::Dense, &[5, 37], 1, Values::Uniform(-10.0, 10.0));
        push(dtype, LayoutKind::Dense, &[6, 50], 0, Values::Special);
    }
    for kind in LayoutKind::ALL {
        push(DType::F32, kind, &[5, 3, 7], 1, Values::Uniform(-100.0, 100.0));
    }
    for extent in extents(level) {
        push(DType::F32, LayoutKind::Dense, &[3, extent], 1, Values::Uniform(900.0, 1000.0));
    }
    // Rows that start anywhere, with whole blocks of a thread and without; in slabs; of elements that lie apart.
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F8E5M2, DType::F64] {
        for dims in [[5, 4097], [37, 61], [1, 40_003]] {
            push(dtype, LayoutKind::Dense, &dims, 1, Values::Uniform(-3.0, 3.0));
        }
        push(dtype, LayoutKind::Dense, &[7, 70], 1, Values::Special);
    }
    push(DType::F32, LayoutKind::Offset, &[3, 2055], 1, Values::Special);
    for value in [f64::NEG_INFINITY, f64::INFINITY, f64::NAN] {
        push(DType::F32, LayoutKind::Dense, &[3, 5], 1, Values::Constant(value));
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let op = LayoutKind::Dense.spec(DType::F32, &[size.elements() / 1024, 1024]).and_then(|x| LogSumExp::new(x, 1));
    op.map(|op| BenchCase::new("logsumexp rows f32", Suite::Reduce, op, Metric::Bytes)).into_iter().collect()
}
