//! Cases of programs with several results and of updates in place: every dtype, layouts of inputs, results of other dtypes, and the
//! step of an optimiser.

use super::{add, several, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::Map;
use crate::{CompareFn, DType, Expr, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "update";

#[inline(never)]
fn dense(dtypes: &[DType], dims: &[u64]) -> Result<Vec<TensorSpec>> {
    dtypes.iter().map(|&dtype| LayoutKind::Dense.spec(dtype, dims)).collect()
}

/// One number for all elements, as device scalars are read.
#[inline(never)]
fn scalar(dims: &[u64]) -> Result<TensorSpec> {
    Ok(TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[1])?).broadcast_to(Shape::new(dims)?)?))
}

/// AdamW (Loshchilov and Hutter, 2019) as PyTorch computes it, with a 16-bit copy of the parameters as a fourth result: over the
/// gradient, the learning rate and the corrections 1 - beta^t; parameters and both moments are updated.
#[inline(never)]
fn adamw(dims: &[u64]) -> Result<Map> {
    let [g, rate, first, second, p, m, v] = std::array::from_fn(Expr::input);
    let m = m * 0.9 + g.clone() * 0.1;
    let v = v * 0.999 + g.clone() * g * 0.001;
    let step = m.clone() / &first / ((v.clone() / &second).sqrt() + 1e-8);
    let p = p.clone() - (step + p * 0.01) * &rate;
    let copy = p.cast(DType::BF16);
    let inputs = [dense(&[DType::F32], dims)?, vec![scalar(dims)?; 3]].concat();
    several(FAMILY, &[p, m, v, copy], inputs, &[DType::F32; 3], dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let (x, y) = (Expr::input(0), Expr::input(1));
    // In place, whatever the dtype: what is read lies where the result goes.
    let sum = [y.clone() + &x];
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        let op = dense(&[dtype], &[1031]).and_then(|inputs| several(FAMILY, &sum, inputs, &[dtype], &[1031]));
        add(&mut cases, FAMILY, op, &[Values::Uniform(-3.0, 3.0); 2]);
        let op = dense(&[dtype], &[4099]).and_then(|inputs| several(FAMILY, &sum, inputs, &[dtype], &[4099]));
        add(&mut cases, FAMILY, op, &[Values::Special; 2]);
    }
    let flipped = [y.binary(crate::BinaryFn::Xor, &x)];
    let op =
        dense(&[DType::Bool], &[1031]).and_then(|inputs| several(FAMILY, &flipped, inputs, &[DType::Bool], &[1031]));
    add(&mut cases, FAMILY, op, &[Values::Uniform(0.0, 1.0); 2]);
    for count in sizes(level) {
        let op =
            dense(&[DType::F32], &[count]).and_then(|inputs| several(FAMILY, &sum, inputs, &[DType::F32], &[count]));
        add(&mut cases, FAMILY, op, &[Values::Normal; 2]);
    }
    // Both are read before either is written.
    for dtype in [DType::F32, DType::I64, DType::U8] {
        let op = several(FAMILY, &[y.clone(), x.clone()], Vec::new(), &[dtype; 2], &[7, 149]);
        add(&mut cases, FAMILY, op, &[Values::Uniform(-9.0, 9.0); 2]);
    }
    // Inputs by their own layouts, rows that end inside of quads among them.
    for kind in LayoutKind::ALL {
        for dims in [&[3, 17, 9][..], &[4, 6, 8]] {
            let product = [y.clone() * 0.5 + &x];
            let op = kind
                .spec(DType::F32, dims)
                .and_then(|input| several(FAMILY, &product, vec![input], &[DType::F32], dims));
            add(&mut cases, FAMILY, op, &[Values::Normal; 2]);
            let two = [x.clone() + &y, x.clone() - &y];
            let inputs = || Ok(vec![kind.spec(DType::F32, dims)?, LayoutKind::Transposed.spec(DType::F32, dims)?]);
            add(
                &mut cases,
                FAMILY,
                inputs().and_then(|inputs| several(FAMILY, &two, inputs, &[], dims)),
                &[Values::Normal; 2],
            );
        }
    }
    // Results of several dtypes: a narrow copy, a mask, and where elements stand.
    let wide = x.clone() * 3.0 - &y;
    let four = [wide.clone(), wide.cast(DType::F16), wide.compare(CompareFn::Gt, 0.5), Expr::index().cast(DType::U32)];
    for updated in [&[][..], &[DType::F32]] {
        let inputs = if updated.is_empty() { &[DType::F32; 2][..] } else { &[DType::F32] };
        let op = dense(inputs, &[1031]).and_then(|inputs| several(FAMILY, &four, inputs, updated, &[1031]));
        add(&mut cases, FAMILY, op, &[Values::Normal; 2]);
    }
    let narrow = [x.clone().sqrt(), x.cast(DType::I32).cast(DType::U8), x.cast(DType::I32).cast(DType::F64)];
    let op = dense(&[DType::BF16], &[517]).and_then(|inputs| several(FAMILY, &narrow, inputs, &[], &[517]));
    add(&mut cases, FAMILY, op, &[Values::Uniform(0.0, 100.0)]);
    for dims in [&[1031][..], &[3, 70]] {
        let mut values = vec![Values::Normal, Values::Uniform(1e-3, 1e-2)];
        values.extend([Values::Uniform(0.1, 1.0), Values::Uniform(0.01, 1.0), Values::Normal, Values::Normal]);
        values.push(Values::Uniform(0.0, 2.0));
        add(&mut cases, FAMILY, adamw(dims), &values);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let dims = [size.elements() / 4];
    let moved = |spec: &TensorSpec| TensorSpec { layout: spec.layout.with_offset(0), ..*spec };
    let step = adamw(&dims).map(|op| Map { others: op.others.iter().map(moved).collect(), ..op });
    let sum = dense(&[DType::F32], &[size.elements()]).and_then(|inputs| {
        several(FAMILY, &[Expr::input(1) + Expr::input(0)], inputs, &[DType::F32], &[size.elements()])
    });
    let named = |name, op| BenchCase::new(name, Suite::Elementwise, op, Metric::Bytes);
    let step = step.map(|op| named("adamw f32 + bf16 copy", op));
    step.into_iter().chain(sum.map(|op| named("add in place f32", op))).collect()
}
