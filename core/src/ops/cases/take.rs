//! Cases of rows chosen by index: every dtype, odd and even rows, tables with distances between rows, positions that are no row.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::{Missing, Take};
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "take";

#[inline(never)]
fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(dtype, dims)
}

/// Rows of a dense table [table...] at [at...].
#[inline(never)]
fn take(dtype: DType, table: &[u64], index: DType, at: &[u64], missing: Missing) -> Result<Take> {
    Take::new(dense(dtype, table)?, dense(index, at)?, missing, None)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let inside = |rows: i32| [Values::RandomBits, Values::Integers(0, rows - 1)];
    // Of every ten positions about two are no row, below and above.
    let around = |rows: i32| [Values::RandomBits, Values::Integers(-rows / 8, rows + rows / 8)];
    for dtype in DType::ALL {
        for (row, missing) in [(7, Missing::Nan), (8, Missing::Zero), (64, Missing::Nan)] {
            add(&mut cases, FAMILY, take(dtype, &[40, row], DType::I32, &[33], missing), &around(40));
        }
    }
    for count in sizes(level) {
        let op = take(DType::F32, &[300, 3], DType::U32, &[count], Missing::Nan);
        add(&mut cases, FAMILY, op, &inside(300));
    }
    // Rows of several axes, of none, of none at all; positions of several axes.
    for (table, at) in [
        (&[9, 4, 4][..], &[2, 3][..]),
        (&[9], &[5, 2]),
        (&[9, 0], &[5]),
        (&[9, 3], &[0, 2]),
        (&[0, 3], &[4]),
        (&[1, 1030], &[3]),
        (&[9, 5], &[]),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::U8] {
            add(&mut cases, FAMILY, take(dtype, table, DType::I32, at, Missing::Nan), &around(9));
        }
    }
    // Every second row, rows within wider ones, and from the end.
    let apart = |dims: &[u64], strides: &[i64], offset: u64| {
        Ok(TensorSpec::new(DType::F16, Layout::strided(Shape::new(dims)?, strides, offset)?))
    };
    for (strides, offset) in [([24, 1], 0), ([20, 1], 5), ([-12, 1], 120), ([0, 1], 3)] {
        let op = apart(&[10, 12], &strides, offset)
            .and_then(|table| Take::new(table, dense(DType::I32, &[21])?, Missing::Nan, Some(3)));
        add(&mut cases, FAMILY, op, &around(10));
    }
    let op = take(DType::F32, &[7, 5], DType::U32, &[64], Missing::Nan);
    add(&mut cases, FAMILY, op, &[Values::RandomBits; 2]);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let positions = (size.elements() / 1024).max(1);
    let case = |dtype: DType| {
        let op = take(dtype, &[30_522, 768], DType::I32, &[positions], Missing::Nan).ok()?;
        Some(BenchCase::new(format!("rows of 768 {dtype}"), Suite::Elementwise, op, Metric::Bytes))
    };
    // As many rows as positions, so that few are read twice.
    let rows = (size.elements() / 256).max(1);
    let random = take(DType::F32, &[rows, 256], DType::I32, &[rows], Missing::Nan).ok();
    let random = random.map(|op| BenchCase::new("rows of 1 KB", Suite::Elementwise, op, Metric::Bytes).beside());
    [DType::F32, DType::BF16].into_iter().filter_map(case).chain(random).collect()
}
