//! Cases of log sum exp: every float, axis and layout, lengths at the edges, infinities and NaN.

use super::*;
use crate::ops::LogSumExp;

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype, kind: LayoutKind, dims: &[u64], axis, values| {
        add(&mut cases, "logsumexp", kind.spec(dtype, dims).and_then(|input| LogSumExp::new(input, axis)), &[values]);
    };
    for dtype in DType::FLOATS {
        push(dtype, LayoutKind::Dense, &[5, 37], 1, Values::Uniform(-10.0, 10.0));
        push(dtype, LayoutKind::Dense, &[6, 50], 0, Values::Special);
    }
    for kind in LayoutKind::ALL {
        push(DType::F32, kind, &[5, 3, 7], 1, Values::Uniform(-100.0, 100.0));
    }
    for (dtype, kind, dims, values) in softmax::rows(level) {
        push(dtype, kind, &dims, 1, values);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let op = LayoutKind::Dense.spec(DType::F32, &[size.elements() / 1024, 1024]).and_then(|x| LogSumExp::new(x, 1));
    op.map(|op| BenchCase::new("logsumexp rows f32", Suite::Reduce, op, Metric::Bytes)).into_iter().collect()
}
