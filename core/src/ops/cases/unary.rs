//! Cases of the unary functions: all bit patterns of the floats of 8 and 16 bits, special values and the whole range of the
//! wider ones, every kind of layout, every rank.

use super::{add, dense_map, ranks, sizes, strided_map, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::Map;
use crate::{DType, Expr, Result, UnaryFn};

const FAMILY: &str = "unary";

fn unary(f: UnaryFn, dtype: DType, kind: LayoutKind, dims: &[u64]) -> Result<Map> {
    strided_map(f.name(), &Expr::input(0).unary(f), &[dtype], &[kind], dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for f in UnaryFn::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| f.defined_for(dtype)) {
            let (count, values) = match dtype {
                DType::F8E4M3 | DType::F8E5M2 => (259, Values::AllBits),
                DType::F16 | DType::BF16 => (65_536, Values::AllBits),
                DType::F32 => (4099, Values::Special),
                _ => (1031, Values::Special),
            };
            add(&mut cases, FAMILY, unary(f, dtype, LayoutKind::Dense, &[count]), &[values]);
            if dtype.is_float() && dtype.size_bytes() > 2 {
                // Around 0, and to where exponentials overflow; the same kernel again, so it costs little.
                for count in level.list(&[4099], &[500_009]) {
                    for values in [Values::Special, Values::Uniform(-4.0, 4.0), Values::Uniform(-110.0, 110.0)] {
                        add(&mut cases, FAMILY, unary(f, dtype, LayoutKind::Dense, &[count]), &[values]);
                    }
                }
            }
        }
    }
    // One function per width of element.
    let widths = [
        (UnaryFn::Not, DType::U8),
        (UnaryFn::Neg, DType::F16),
        (UnaryFn::Neg, DType::F32),
        (UnaryFn::Neg, DType::I64),
        (UnaryFn::Not, DType::Bool),
    ];
    for (f, dtype) in widths {
        for count in sizes(level) {
            add(&mut cases, FAMILY, unary(f, dtype, LayoutKind::Dense, &[count]), &[Values::Special]);
        }
        for kind in LayoutKind::ALL {
            for dims in level.list(&[[5, 33, 7]], &[[2, 3, 257], [65, 1, 31], [1, 129, 2]]) {
                add(&mut cases, FAMILY, unary(f, dtype, kind, &dims), &[Values::Special]);
            }
        }
    }
    for dims in ranks() {
        for kind in [LayoutKind::Dense, LayoutKind::Transposed, LayoutKind::Reversed] {
            add(&mut cases, FAMILY, unary(UnaryFn::Abs, DType::F32, kind, &dims), &[Values::Special]);
        }
    }
    if level == Level::Full {
        let dims = [super::BEYOND_ONE_GRID_ROW];
        add(&mut cases, FAMILY, unary(UnaryFn::Neg, DType::F32, LayoutKind::Dense, &dims), &[Values::Ramp]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let functions = [UnaryFn::Exp, UnaryFn::Gelu, UnaryFn::Sin, UnaryFn::Tanh];
    let wanted = functions.map(|f| (f, DType::F32)).into_iter().chain([(UnaryFn::Exp, DType::F16)]);
    wanted
        .filter_map(|(f, dtype)| {
            let op = dense_map(f.name(), &Expr::input(0).unary(f), &[dtype], &[size.elements()]).ok()?;
            Some(BenchCase::new(format!("{} {dtype}", f.name()), Suite::Elementwise, op, Metric::Bytes))
        })
        .collect()
}
