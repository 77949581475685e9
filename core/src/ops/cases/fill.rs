//! Cases of fill: special values in every dtype, sizes at the edges, more elements than one row of a grid.

use super::{add, dense_map, ranks, sizes, unique};
use crate::case::values::special;
use crate::case::{BenchCase, BenchSize, Case, Level, Metric, Suite};
use crate::ops::Map;
use crate::{DType, Expr, Result, Scalar};

/// The same expression as [`crate::Tensor::full`].
fn fill(dtype: DType, value: Scalar, dims: &[u64]) -> Result<Map> {
    dense_map("fill", &Expr::constant(value).cast(dtype), &[], dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype, value: Scalar, dims: &[u64]| {
        let mut made = Vec::new();
        add(&mut made, "fill", fill(dtype, value, dims), &[]);
        let shown = match value {
            Scalar::F(x) => format!("{x:e}"),
            Scalar::I(_) | Scalar::U(_) => value.to_string(),
        };
        cases.extend(made.into_iter().map(|case| case.tagged(&format!("value{shown}"))));
    };
    for dtype in DType::ALL {
        let all = special(dtype);
        let step = if level == Level::Full { 1 } else { 5 };
        for value in all.iter().step_by(step).chain(all.last()) {
            push(dtype, *value, &[67]);
        }
    }
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I64] {
        for count in sizes(level) {
            push(dtype, Scalar::I(3), &[count]);
        }
    }
    for dims in ranks() {
        push(DType::F32, Scalar::F(1.5), &dims);
    }
    if level == Level::Full {
        push(DType::U8, Scalar::I(9), &[4 * super::BEYOND_ONE_GRID_ROW]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let op = fill(DType::F32, Scalar::F(1.0), &[size.elements()]);
    op.map(|op| BenchCase::new("fill f32", Suite::Copy, op, Metric::Bytes)).into_iter().collect()
}
