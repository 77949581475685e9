//! Cases of elements put along an axis: every function and dtype, all positions at one place, positions that are none, views.

use super::{add, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Operation, Scatter, ScatterFn};
use crate::{DType, Op, Result, TensorSpec};

const FAMILY: &str = "scatter";

#[inline(never)]
fn scatter(
    function: ScatterFn,
    input: Result<TensorSpec>,
    indices: Result<TensorSpec>,
    source: Result<TensorSpec>,
    axis: usize,
) -> Result<Op> {
    let op = Scatter::new(function, input?, indices?, source?, axis)?;
    let output = output(op.output.dtype, op.output.layout.dims())?;
    Ok(op.with_output(0, output).unwrap_or(op.into()))
}

#[inline(never)]
fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(dtype, dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let values = |function: ScatterFn, places: Values| {
        let numbers = match function {
            ScatterFn::Set => Values::RandomBits,
            ScatterFn::Prod => Values::NearOne,
            ScatterFn::Sum | ScatterFn::Max | ScatterFn::Min => Values::Normal,
        };
        [numbers, places, numbers]
    };
    let around = |n: i32| Values::Integers(-n / 4 - 1, n + n / 4);
    for function in ScatterFn::ALL {
        // Sums and extrema of every dtype; the others of some that are computed as something else.
        let is_some = |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::I8 | DType::F64);
        let is_all = matches!(function, ScatterFn::Sum | ScatterFn::Max);
        let is_set = function == ScatterFn::Set;
        let takes = |&dtype: &DType| if dtype == DType::Bool { is_set } else { is_all || is_some(dtype) };
        for dtype in DType::ALL.into_iter().filter(takes) {
            let at = [3, 6, 5];
            let op = scatter(function, dense(dtype, &[3, 8, 5]), dense(DType::I32, &at), dense(dtype, &at), 1);
            add(&mut cases, FAMILY, op, &values(function, around(8)));
        }
        let f32 = DType::F32;
        for (axis, at) in [(0, [40, 3, 4]), (2, [5, 3, 11]), (0, [0, 3, 4]), (1, [5, 1, 4])] {
            let op = scatter(function, dense(f32, &[5, 3, 4]), dense(DType::I32, &at), dense(f32, &at), axis);
            add(&mut cases, FAMILY, op, &values(function, around(5)));
        }
        // All at one place; each at its own; special values.
        for places in [Values::Constant(4.0), Values::Constant(-1.0), Values::Constant(7.0), Values::Ramp] {
            let op = scatter(function, dense(f32, &[7]), dense(DType::I32, &[130]), dense(f32, &[130]), 0);
            add(&mut cases, FAMILY, op, &values(function, places));
        }
        let op = scatter(function, dense(f32, &[90]), dense(DType::U32, &[90]), dense(f32, &[90]), 0);
        add(&mut cases, FAMILY, op, &[Values::Special, Values::Ramp, Values::Special]);
        // Lines so long that their positions are sorted digit by digit.
        for (dtype, at, kind) in
            [(f32, [2, 1500, 3], LayoutKind::Dense), (DType::U8, [3, 1100, 2], LayoutKind::Transposed)]
        {
            let spec = |dtype, dims: &[u64]| kind.spec(dtype, dims);
            let op = scatter(function, spec(dtype, &[at[0], 400, at[2]]), spec(DType::I32, &at), spec(dtype, &at), 1);
            add(&mut cases, FAMILY, op, &values(function, around(400)));
        }
        let kinds = level.list(&[LayoutKind::Transposed, LayoutKind::BroadcastInner], &LayoutKind::ALL);
        for kind in kinds {
            let spec = |dtype, dims: &[u64]| kind.spec(dtype, dims);
            let op = scatter(function, spec(f32, &[4, 6]), spec(DType::I32, &[4, 5]), spec(f32, &[4, 5]), 1);
            add(&mut cases, FAMILY, op, &values(function, around(6)));
        }
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = (size.elements() / 4096).max(1);
    let case = |function: ScatterFn| {
        let at = [rows, 16];
        let source = dense(DType::F32, &at);
        let op = scatter(function, dense(DType::F32, &[rows, 1024]), dense(DType::I32, &at), source, 1).ok()?;
        let name = format!("{} 16 into rows of 1024 f32", function.name());
        Some(BenchCase::new(name, Suite::Elementwise, op, Metric::Bytes))
    };
    [ScatterFn::Set, ScatterFn::Sum].into_iter().filter_map(case).collect()
}
