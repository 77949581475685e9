//! Cases of joining: every axis and dtype, operands of no and of one index, views, more operands than a device binds.

use super::{add, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Cat, Operation};
use crate::{DType, Op, Result, TensorSpec};

const FAMILY: &str = "cat";

fn cat(inputs: Result<Vec<TensorSpec>>, axis: usize) -> Result<Op> {
    let op = Cat::new(inputs?, axis)?;
    let output = output(op.output.dtype, op.output.layout.dims())?;
    Ok(op.with_output(0, output).unwrap_or(op.into()))
}

/// Dense operands of shape `dims`, but for their extents along `axis`.
fn dense(dtype: DType, dims: &[u64], axis: usize, extents: &[u64]) -> Result<Vec<TensorSpec>> {
    let of = |&extent: &u64| {
        let mut dims = dims.to_vec();
        dims[axis] = extent;
        LayoutKind::Dense.spec(dtype, &dims)
    };
    extents.iter().map(of).collect()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |op: Result<Op>| {
        let count = op.as_ref().map_or(0, |op| op.inputs().len());
        add(&mut cases, FAMILY, op, &vec![Values::RandomBits; count]);
    };
    let lists = level.list(
        &[vec![3], vec![2, 5], vec![1, 1, 1], vec![0, 4, 0, 3], vec![4, 8, 12]],
        &[vec![1, 2, 3, 4, 5, 6, 7], vec![100, 1, 257], vec![0, 0]],
    );
    for extents in &lists {
        for axis in 0..3 {
            push(cat(dense(DType::F32, &[3, 2, 5], axis, extents), axis));
        }
        push(cat(dense(DType::U8, &[3, 2, 5], 2, extents), 2));
    }
    for dtype in DType::ALL {
        push(cat(dense(dtype, &[5, 3], 1, &[3, 1, 6]), 1));
        push(cat(dense(dtype, &[5, 3], 0, &[2, 1]), 0));
    }
    for kind in LayoutKind::ALL {
        for axis in [0, 2] {
            let inputs =
                || Ok(vec![kind.spec(DType::F16, &[4, 3, 6])?, LayoutKind::Dense.spec(DType::F16, &[4, 3, 6])?]);
            push(cat(inputs(), axis));
        }
    }
    // One more than the smallest devices take at once, and more than any: in groups.
    for count in [7, 8, 15, 16, 50] {
        push(cat(dense(DType::F32, &[2, 3], 0, &vec![2; count]), 0));
        push(cat(dense(DType::BF16, &[2, 3], 1, &vec![3; count]), 1));
    }
    push(cat(dense(DType::F32, &[2, 3, 1, 2, 2, 1, 2, 3], 3, &[2, 1]), 3));
    push(cat(dense(DType::F32, &[40, 257], 1, &[257, 1025]), 1));
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = (size.elements() / 4096).max(1);
    let case = |axis: usize| {
        let op = cat(dense(DType::F32, &[rows, 1024], axis, &[[rows; 4], [1024; 4]][axis]), axis).ok()?;
        Some(BenchCase::new(
            format!("4 matrices of 1024 columns f32 axis {axis}"),
            Suite::Elementwise,
            op,
            Metric::Bytes,
        ))
    };
    [0, 1].into_iter().filter_map(case).collect()
}
