//! Cases of searches: every dtype and side, lines of no and one element, equal elements, NaN, what is not sorted.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Operation, SearchSide, SearchSorted};
use crate::{DType, Op, Result, TensorSpec};

const FAMILY: &str = "searchsorted";

#[inline(never)]
fn search(sorted: Result<TensorSpec>, values: Result<TensorSpec>, side: SearchSide) -> Result<Op> {
    let op = SearchSorted::new(sorted?, values?, side)?;
    let output = output(DType::U32, op.output.layout.dims())?;
    Ok(op.with_output(0, output).unwrap_or(op.into()))
}

#[inline(never)]
fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(dtype, dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for side in [SearchSide::Left, SearchSide::Right] {
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
            // From 0 to 90, many of them equal.
            let op = search(dense(dtype, &[130]), dense(dtype, &[70]), side);
            add(&mut cases, FAMILY, op, &[Values::Rising(90), Values::Integers(-3, 95)]);
        }
        for dtype in [DType::F32, DType::F16, DType::I64] {
            let op = search(dense(dtype, &[40]), dense(dtype, &[40]), side);
            add(&mut cases, FAMILY, op, &[Values::Rising(90), Values::Special]);
        }
        for n in sizes(level) {
            let op = search(dense(DType::F32, &[n]), dense(DType::F32, &[33]), side);
            add(&mut cases, FAMILY, op, &[Values::Rising(100), Values::Uniform(-5.0, 105.0)]);
        }
        // Lines of their own, one for all, views; what is not sorted, NaN among it.
        let op = search(dense(DType::F32, &[3, 4, 17]), dense(DType::F32, &[3, 4, 5]), side);
        add(&mut cases, FAMILY, op, &[Values::Constant(2.0), Values::Integers(1, 3)]);
        for kind in LayoutKind::ALL.into_iter().skip(if side == SearchSide::Left { 6 } else { 0 }) {
            let op = search(kind.spec(DType::F32, &[4, 6]), kind.spec(DType::F32, &[4, 9]), side);
            add(&mut cases, FAMILY, op, &[Values::Special, Values::Special]);
        }
        let op = search(dense(DType::I32, &[4, 0]), dense(DType::I32, &[4, 3]), side);
        add(&mut cases, FAMILY, op, &[Values::Ramp, Values::Ramp]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let values = (size.elements() / 4).max(1);
    let op = search(dense(DType::F32, &[1 << 16]), dense(DType::F32, &[values]), SearchSide::Left).ok();
    op.map(|op| BenchCase::new("among 65536 f32", Suite::Elementwise, op, Metric::Elements)).into_iter().collect()
}
