//! Cases of the binary functions: special values in all pairs for every dtype, layouts on either side, broadcasting.

use super::{add, map, sizes, strided_map, unique};
use crate::case::values::special;
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::Map;
use crate::{BinaryFn, DType, Expr, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "binary";

#[inline(never)]
fn binary(f: BinaryFn, dtype: DType, kinds: [LayoutKind; 2], dims: &[u64]) -> Result<Map> {
    strided_map(f.name(), &Expr::input(0).binary(f, Expr::input(1)), &[dtype, dtype], &kinds, dims)
}

#[inline(never)]
fn broadcast(f: BinaryFn, dtype: DType, lhs: &[u64], rhs: &[u64]) -> Result<Map> {
    let (lhs, rhs) = (Shape::new(lhs)?, Shape::new(rhs)?);
    let shape = Shape::broadcast(f.name(), &lhs, &rhs)?;
    let spec = |from| Ok(TensorSpec::new(dtype, Layout::contiguous(from).broadcast_to(shape)?));
    map(f.name(), &Expr::input(0).binary(f, Expr::input(1)), vec![spec(lhs)?, spec(rhs)?], shape.dims())
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: [LayoutKind; 2] = [LayoutKind::Dense; 2];
    let mut cases = Vec::new();
    for f in BinaryFn::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| f.defined_for(dtype)) {
            let pairs = (special(dtype).len() as u64).pow(2).max(65);
            let values = [Values::PairsLeft, Values::PairsRight];
            add(&mut cases, FAMILY, binary(f, dtype, DENSE, &[pairs]), &values);
            if level == Level::Full {
                add(&mut cases, FAMILY, binary(f, dtype, DENSE, &[100_003]), &[Values::Special; 2]);
            }
        }
    }
    for (f, dtype) in [(BinaryFn::Add, DType::U8), (BinaryFn::Sub, DType::BF16), (BinaryFn::Sub, DType::F32)] {
        for count in sizes(level) {
            add(&mut cases, FAMILY, binary(f, dtype, DENSE, &[count]), &[Values::Special; 2]);
        }
        for kind in LayoutKind::ALL {
            let mut sides = vec![[kind, LayoutKind::Dense], [LayoutKind::Dense, kind]];
            if level == Level::Full {
                sides.extend(LayoutKind::ALL.map(|other| [kind, other]));
            }
            for kinds in sides {
                add(&mut cases, FAMILY, binary(f, dtype, kinds, &[3, 17, 9]), &[Values::Special; 2]);
            }
        }
    }
    // Numbers that floats of 8 and 16 bits cannot hold: what they are computed in can.
    for dtype in DType::FLOATS {
        for (f, number) in
            [(BinaryFn::Mul, 65_536.0), (BinaryFn::Add, 1e-8), (BinaryFn::Max, 2.7), (BinaryFn::Div, 1e-3)]
        {
            let mut made = Vec::new();
            let expr = Expr::input(0).binary(f, number);
            add(&mut made, FAMILY, super::dense_map(f.name(), &expr, &[dtype], &[1031]), &[Values::Special]);
            cases.extend(made.into_iter().map(|case| case.tagged(&format!("number{number:e}"))));
        }
    }
    let shapes: [(&[u64], &[u64]); 9] = [
        (&[257], &[1]),
        (&[], &[65]),
        (&[33, 1], &[1, 31]),
        (&[4, 1, 7], &[3, 1]),
        (&[5, 3, 7], &[7]),
        (&[5, 3, 7], &[5, 1, 1]),
        (&[2, 1, 3, 1, 2, 1, 3, 1], &[1, 2, 1, 3, 1, 2, 1, 3]),
        (&[0, 3], &[1]),
        (&[129, 65], &[129, 1]),
    ];
    for (lhs, rhs) in shapes {
        for dtype in [DType::F32, DType::I8] {
            add(&mut cases, FAMILY, broadcast(BinaryFn::Mul, dtype, lhs, rhs), &[Values::Special; 2]);
            add(&mut cases, FAMILY, broadcast(BinaryFn::Sub, dtype, rhs, lhs), &[Values::Special; 2]);
        }
    }
    if level == Level::Full {
        let dims = [super::BEYOND_ONE_GRID_ROW];
        add(&mut cases, FAMILY, binary(BinaryFn::Add, DType::U8, DENSE, &dims), &[Values::RandomBits; 2]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    [(BinaryFn::Add, DType::F32), (BinaryFn::Add, DType::F16), (BinaryFn::Mul, DType::F32)]
        .into_iter()
        .filter_map(|(f, dtype)| {
            Some(BenchCase::new(
                format!("{} {dtype}", f.name()),
                Suite::Elementwise,
                binary(f, dtype, [LayoutKind::Dense; 2], &[size.elements()]).ok()?,
                Metric::Bytes,
            ))
        })
        .collect()
}
