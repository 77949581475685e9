//! Cases of the comparisons: special values in all pairs, NaN and both zeros among them, broadcasting and layouts.

use super::{add, sizes, strided_map, unique};
use crate::harness::values::special;
use crate::harness::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
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
    unique(cases)
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
