//! Cases of where: the condition and both branches in every layout, special values on both sides.

use super::{add, map, sizes, strided_map, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
use crate::ops::Map;
use crate::{BinaryFn, CompareFn, DType, Expr, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "where";

fn choice() -> Expr {
    Expr::input(0).select(Expr::input(1), Expr::input(2))
}

#[inline(never)]
fn select(dtype: DType, kinds: [LayoutKind; 3], dims: &[u64]) -> Result<Map> {
    strided_map("where", &choice(), &[DType::Bool, dtype, dtype], &kinds, dims)
}

#[inline(never)]
fn broadcast(dtype: DType, from: [&[u64]; 3], dims: &[u64]) -> Result<Map> {
    let shape = Shape::new(dims)?;
    let dtypes = [DType::Bool, dtype, dtype];
    let spec = |(dims, dtype): (&[u64], DType)| {
        Ok(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?).broadcast_to(shape)?))
    };
    let inputs = from.into_iter().zip(dtypes).map(spec).collect::<Result<Vec<_>>>()?;
    map("where", &choice(), inputs, dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: [LayoutKind; 3] = [LayoutKind::Dense; 3];
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        add(&mut cases, FAMILY, select(dtype, DENSE, &[1031]), &[Values::Special; 3]);
    }
    for count in sizes(level) {
        add(&mut cases, FAMILY, select(DType::F16, DENSE, &[count]), &[Values::Special; 3]);
    }
    for kind in LayoutKind::ALL {
        for side in 0..3 {
            let mut kinds = DENSE;
            kinds[side] = kind;
            add(&mut cases, FAMILY, select(DType::F32, kinds, &[3, 17, 9]), &[Values::Special; 3]);
        }
    }
    add(&mut cases, FAMILY, broadcast(DType::F32, [&[5, 1], &[1, 33], &[]], &[5, 33]), &[Values::Special; 3]);
    add(&mut cases, FAMILY, broadcast(DType::U8, [&[33], &[5, 1], &[5, 33]], &[5, 33]), &[Values::Special; 3]);
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        chosen(&mut cases, dtype);
    }
    unique(cases)
}

/// Programs that choose among all codes of an 8-bit float, and such that choose among those and sums, which are clipped.
#[inline(never)]
fn chosen(cases: &mut Vec<Case>, dtype: DType) {
    let (x, y) = (Expr::input(0), Expr::input(1));
    let positive = x.compare(CompareFn::Gt, 0.0);
    let programs = [
        ("itself", x.clone()),
        ("cast", x.cast(dtype)),
        ("signs", -positive.select(x.clone(), -y.clone())),
        ("wide", x.binary(BinaryFn::Min, y.abs()).cast(DType::F32)),
        ("number", positive.select(f64::NEG_INFINITY, x.clone())),
        ("whole", x.binary(BinaryFn::Max, y.clone()).floor()),
        ("sums", x.binary(BinaryFn::Max, x.clone() * 1024.0 + y.clone())),
        ("clipped", positive.select(x.clone() + y.clone(), y).clamp(-30_000.0, f64::INFINITY)),
    ];
    for (tag, expr) in programs {
        let mut made = Vec::new();
        let op = super::dense_map("where", &expr, &[dtype; 2], &[65_539]);
        add(&mut made, FAMILY, op, &[Values::AllBits, Values::RandomBits]);
        cases.extend(made.into_iter().map(|case| case.tagged(tag)));
    }
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
