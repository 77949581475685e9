//! Cases of the comparisons: special values in all pairs, NaN and both zeros among them, broadcasting and layouts.

use super::{add, sizes, strided_map, unique};
use crate::case::values::special;
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
use crate::ops::Map;
use crate::{CompareFn, DType, Expr, Result};

const FAMILY: &str = "compare";

fn compare(f: CompareFn, dtype: DType, kinds: [LayoutKind; 2], dims: &[u64]) -> Result<Map> {
    strided_map(f.name(), &Expr::input(0).compare(f, Expr::input(1)), &[dtype, dtype], &kinds, dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: [LayoutKind; 2] = [LayoutKind::Dense; 2];
    let mut cases = Vec::new();
    for f in CompareFn::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| f.defined_for(dtype)) {
            let often = matches!(dtype, DType::F16 | DType::F32 | DType::I32 | DType::U8);
            if level == Level::Full || often || matches!(f, CompareFn::Eq | CompareFn::Lt) {
                let pairs = (special(dtype).len() as u64).pow(2).max(65);
                let values = [Values::PairsLeft, Values::PairsRight];
                add(&mut cases, FAMILY, compare(f, dtype, DENSE, &[pairs]), &values);
            }
        }
    }
    for count in sizes(level) {
        add(&mut cases, FAMILY, compare(CompareFn::Le, DType::F32, DENSE, &[count]), &[Values::Integers(-2, 2); 2]);
    }
    for kind in LayoutKind::ALL {
        let kinds = [kind, LayoutKind::Dense];
        add(&mut cases, FAMILY, compare(CompareFn::Ge, DType::F32, kinds, &[3, 17, 9]), &[Values::Integers(-2, 2); 2]);
    }
    with_numbers(&mut cases);
    unique(cases)
}

/// Numbers that dtypes cannot hold, or only rounded: beyond their range, between their values, NaN and infinities.
fn with_numbers(cases: &mut Vec<Case>) {
    for dtype in
        [DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F16, DType::F8E5M2, DType::F32, DType::F64]
    {
        for number in [-1.0, 2.5, 256.0, 65_519.0, 1e10, 1e-8, 1e39, f64::INFINITY, f64::NAN] {
            for f in [CompareFn::Eq, CompareFn::Lt, CompareFn::Ge] {
                let mut made = Vec::new();
                let expr = Expr::input(0).compare(f, number);
                add(&mut made, FAMILY, super::dense_map(f.name(), &expr, &[dtype], &[1031]), &[Values::Special]);
                cases.extend(made.into_iter().map(|case| case.tagged(&format!("number{number:e}"))));
            }
        }
    }
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
