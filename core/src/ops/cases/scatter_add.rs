//! Cases of sums of rows by place: every float, many rows in one place, places that are no row, rows beyond one workgroup's columns.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::ScatterAdd;
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "scatter_add";

#[inline(never)]
fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(dtype, dims)
}

/// Dense values [at..., row...] into `rows` rows.
#[inline(never)]
fn sum(dtype: DType, index: DType, at: &[u64], row: &[u64], rows: u64) -> Result<ScatterAdd> {
    ScatterAdd::new(dense(dtype, &[at, row].concat())?, dense(index, at)?, rows)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let around = |rows: i32| [Values::Normal, Values::Integers(-rows / 8 - 1, rows + rows / 8)];
    for dtype in DType::FLOATS {
        for row in [1, 7, 64] {
            add(&mut cases, FAMILY, sum(dtype, DType::I32, &[300], &[row], 40), &around(40));
        }
    }
    for count in sizes(level).into_iter().filter(|&count| count < 5000) {
        let op = sum(DType::F32, DType::U32, &[count], &[3], 17);
        add(&mut cases, FAMILY, op, &[Values::Normal, Values::Integers(0, 16)]);
    }
    // All in one place; each in its own; special values.
    for place in [0.0, 4.0, 5.0, -1.0] {
        let op = sum(DType::F32, DType::I32, &[700], &[5], 5);
        add(&mut cases, FAMILY, op, &[Values::Uniform(-1.0, 1.0), Values::Constant(place)]);
    }
    let op = sum(DType::F32, DType::I32, &[121], &[5], 130);
    add(&mut cases, FAMILY, op, &[Values::Special, Values::Ramp]);
    for (at, row, rows) in [
        (&[2, 3][..], &[4, 4][..], 9),
        (&[6], &[], 4),
        (&[6], &[0], 4),
        (&[0, 2], &[3], 4),
        (&[6], &[3], 0),
        (&[40], &[2050], 3),
        (&[], &[5], 3),
    ] {
        for dtype in [DType::F32, DType::BF16] {
            add(&mut cases, FAMILY, sum(dtype, DType::I32, at, row, rows), &around(4));
        }
    }
    // So many positions that they are sorted digit by digit, of one, two and three digits.
    for (dtype, row, rows) in [(DType::F32, 3, 200), (DType::BF16, 1, 300), (DType::F16, 5, 70_000)] {
        let op = sum(dtype, DType::I32, &[2500], &[row], rows);
        add(&mut cases, FAMILY, op, &around(rows as i32));
    }
    // Rows within wider ones, and one row for all.
    for (strides, offset) in [([20, 1], 5), ([-12, 1], 348), ([0, 1], 3)] {
        let op = || {
            let values = Layout::strided(Shape::new(&[30, 12])?, &strides, offset)?;
            ScatterAdd::new(TensorSpec::new(DType::F16, values), dense(DType::I32, &[30])?, 10)
        };
        add(&mut cases, FAMILY, op(), &around(10));
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let positions = (size.elements() / 4096).max(1);
    let rows = (size.elements() / 256).max(1);
    let wanted = [
        ("rows of 768 f32 by place", true, sum(DType::F32, DType::I32, &[positions], &[768], 30_522)),
        ("rows of 1 KB by place", false, sum(DType::F32, DType::I32, &[rows], &[256], rows)),
    ];
    let case = |(name, in_overview, op): (&'static str, bool, Result<ScatterAdd>)| {
        let case = BenchCase::new(name, Suite::Elementwise, op.ok()?, Metric::Bytes);
        Some(if in_overview { case } else { case.beside() })
    };
    wanted.into_iter().filter_map(case).collect()
}
