//! Cases of clamp: every dtype, NaN kept, one-sided and infinite bounds.

use super::{add, strided_map, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
use crate::{DType, Expr, Scalar};

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype: DType, low: Scalar, high: Scalar, kind: LayoutKind, dims: &[u64]| {
        let mut made = Vec::new();
        let expr = Expr::input(0).clamp(low, high);
        add(&mut made, "clamp", strided_map("clamp", &expr, &[dtype], &[kind], dims), &[Values::Special]);
        cases.extend(made.into_iter().map(|case| case.tagged(&format!("[{},{}]", low.as_f64(), high.as_f64()))));
    };
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        push(dtype, Scalar::I(2), Scalar::I(60), LayoutKind::Dense, &[1031]);
        push(dtype, Scalar::I(5), Scalar::I(5), LayoutKind::Dense, &[257]);
        // Beyond the range of many, and between values.
        push(dtype, Scalar::F(-300.5), Scalar::F(5.5), LayoutKind::Dense, &[1031]);
        push(dtype, Scalar::F(2.5), Scalar::I(70_000), LayoutKind::Dense, &[1031]);
        if dtype.is_float() {
            push(dtype, Scalar::F(f64::NEG_INFINITY), Scalar::F(0.5), LayoutKind::Dense, &[1031]);
            push(dtype, Scalar::F(-0.0), Scalar::F(f64::INFINITY), LayoutKind::Dense, &[1031]);
        }
    }
    for kind in level.list(&[LayoutKind::Transposed, LayoutKind::Step], &LayoutKind::ALL) {
        push(DType::F32, Scalar::F(-1.0), Scalar::F(1.0), kind, &[9, 31]);
        push(DType::I8, Scalar::I(-10), Scalar::I(10), kind, &[9, 31]);
    }
    unique(cases)
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
