//! Cases of elements by position along an axis: every axis and dtype, positions that are none, that repeat along other axes, views.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Gather, Missing, Operation};
use crate::{DType, Op, Result, TensorSpec};

const FAMILY: &str = "gather";

#[inline(never)]
fn gather(input: Result<TensorSpec>, indices: Result<TensorSpec>, axis: usize, missing: Missing) -> Result<Op> {
    let op = Gather::new(input?, indices?, axis, missing)?;
    let output = output(op.output.dtype, op.output.layout.dims())?;
    Ok(op.with_output(0, output).unwrap_or(op.into()))
}

#[inline(never)]
fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(dtype, dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let around = |n: i32| [Values::RandomBits, Values::Integers(-n / 4 - 1, n + n / 4)];
    for dtype in DType::ALL {
        let op = gather(dense(dtype, &[3, 8, 5]), dense(DType::I32, &[3, 6, 5]), 1, Missing::Nan);
        add(&mut cases, FAMILY, op, &around(8));
        let op = gather(dense(dtype, &[3, 9]), dense(DType::U32, &[3, 7]), 1, Missing::Zero);
        add(&mut cases, FAMILY, op, &[Values::RandomBits, Values::Integers(0, 11)]);
    }
    for (axis, at) in [(0, [9, 3, 4]), (1, [5, 1, 4]), (2, [5, 3, 11]), (0, [0, 3, 4])] {
        let op = gather(dense(DType::F32, &[5, 3, 4]), dense(DType::I32, &at), axis, Missing::Nan);
        add(&mut cases, FAMILY, op, &around(5));
    }
    for count in sizes(level) {
        let op = gather(dense(DType::F32, &[300]), dense(DType::U32, &[count]), 0, Missing::Nan);
        add(&mut cases, FAMILY, op, &[Values::RandomBits, Values::Integers(0, 310)]);
    }
    for kind in LayoutKind::ALL {
        let op = gather(kind.spec(DType::F32, &[4, 6]), dense(DType::I32, &[4, 5]), 1, Missing::Nan);
        add(&mut cases, FAMILY, op, &around(6));
        let op = gather(dense(DType::F16, &[4, 6]), kind.spec(DType::I32, &[3, 6]), 0, Missing::Nan);
        add(&mut cases, FAMILY, op, &around(4));
    }
    // Nothing to take from, a single element, many axes.
    for (input, at) in
        [(&[0, 3][..], &[4, 3][..]), (&[1], &[1]), (&[2, 1, 2, 3, 1, 2, 2, 2], &[5, 1, 2, 3, 1, 2, 2, 2])]
    {
        let op = gather(dense(DType::F32, input), dense(DType::I32, at), 0, Missing::Nan);
        add(&mut cases, FAMILY, op, &around(2));
    }
    let op = gather(dense(DType::F32, &[7]), dense(DType::U32, &[64]), 0, Missing::Nan);
    add(&mut cases, FAMILY, op, &[Values::RandomBits; 2]);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = (size.elements() / 4096).max(1);
    let op = gather(dense(DType::F32, &[rows, 4096]), dense(DType::I32, &[rows, 1024]), 1, Missing::Nan).ok();
    op.map(|op| BenchCase::new("1024 of rows of 4096 f32", Suite::Elementwise, op, Metric::Bytes)).into_iter().collect()
}
