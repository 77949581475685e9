//! Cases of arange: every dtype, steps of both signs, sizes at the edges; nothing to benchmark beyond `fill`.

use super::{add, dense_map, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, Level};
use crate::ops::Map;
use crate::tensor::ramp;
use crate::{DType, Result, Scalar};

/// The same expression as [`crate::Tensor::arange`].
fn arange(dtype: DType, start: Scalar, step: Scalar, count: u64) -> Result<Map> {
    dense_map("arange", &ramp(dtype, start, step)?, &[], &[count])
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype: DType, start: Scalar, step: Scalar, count| {
        let mut made = Vec::new();
        add(&mut made, "arange", arange(dtype, start, step, count), &[]);
        let number = |x: Scalar| x.as_f64();
        cases.extend(made.into_iter().map(|case| case.tagged(&format!("from{} by{}", number(start), number(step)))));
    };
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        push(dtype, Scalar::I(0), Scalar::I(1), 1025);
        push(dtype, Scalar::I(100), Scalar::I(if dtype.is_signed() { -3 } else { 7 }), 257);
    }
    for dtype in [DType::F16, DType::F32, DType::U8] {
        for count in sizes(level) {
            push(dtype, Scalar::I(3), Scalar::I(1), count);
        }
    }
    push(DType::F32, Scalar::F(-1.0), Scalar::F(0.1), 1023);
    push(DType::I64, Scalar::I(1 << 40), Scalar::I((1 << 33) + 1), 65);
    if level == Level::Full {
        push(DType::U32, Scalar::I(5), Scalar::I(3), super::BEYOND_ONE_GRID_ROW);
    }
    unique(cases)
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
