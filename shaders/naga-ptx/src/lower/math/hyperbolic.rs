//! `sinh`, `cosh`, `tanh`, `asinh`, `acosh`, `atanh`.
//!
//! The decision to know: near 0, where the exponentials cancel, sinh and tanh are polynomials; the inverses go through
//! log(1 + x), which keeps small results exact. Coefficients: `minimax.py`.

use super::double;
use super::exp_log::{self, LOG2_E, exp_biased};
use super::float::{Float, half};
use crate::ir::{Builder, Compare, Operand, Ty, UnaryOp};

/// tanh(x) = x + x^3 P(x^2), |x| <= 0.6: 2^-28.5.
const TANH: [f64; 5] = [-3.33332986e-01, 1.33319363e-01, -5.37846312e-02, 2.07980163e-02, -5.89692779e-03];
/// sinh(x) = x + x^3 P(x^2), |x| <= 1: 2^-31.5.
const SINH: [f64; 4] = [1.66666672e-01, 8.33331142e-03, 1.98426351e-04, 2.78392577e-06];
/// The same of f64: 2^-57.8.
const TANH_F64: [f64; 11] = [
    -0.3333333333333313,
    0.13333333333300523,
    -0.0539682539496834,
    0.02186948801120218,
    -0.008863226887912993,
    0.0035920382513923627,
    -0.0014552197566205,
    0.0005872025554973466,
    -0.0002304249928622842,
    7.934555495768895e-05,
    -1.719397785327415e-05,
];
/// The same of f64: 2^-62.9.
const SINH_F64: [f64; 8] = [
    0.16666666666666666,
    0.00833333333333357,
    0.0001984126984106656,
    2.755731930707495e-06,
    2.5052090219677496e-08,
    1.6061227205453537e-10,
    7.511037503021124e-13,
    6.261852705963326e-15,
];

/// One of the functions below; halves are computed in f32.
fn on(b: &mut Builder, ty: Ty, x: Operand, function: fn(&mut Float, Operand) -> Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, function),
        _ => function(&mut Float::new(b, ty), x),
    }
}

/// `x + x z P(z)` with the coefficients for the type that is computed in.
fn odd(f: &mut Float, single: &[f64], double: &[f64], x: Operand, z: Operand) -> Operand {
    f.odd(if f.ty == Ty::F64 { double } else { single }, x, z)
}

pub(super) fn tanh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        let magnitude = f.abs(x);
        let z = f.mul(x, x);
        let near = odd(f, &TANH, &TANH_F64, magnitude, z);
        // 1 - 2 / (e^(2|x|) + 1)
        let e = if f.ty == Ty::F64 {
            let doubled = f.add(magnitude, magnitude);
            double::exp_scaled(f, doubled, 0.0)
        } else {
            let doubled = f.mul(magnitude, f.c(2.0 * LOG2_E));
            f.unary(UnaryOp::Ex2ApproxFtz, doubled)
        };
        let denominator = f.add(e, f.c(1.0));
        let reciprocal = reciprocal(f, denominator);
        let far = f.fma(reciprocal, f.c(-2.0), f.c(1.0));
        let is_near = f.lt(magnitude, f.c(0.6));
        let value = f.select(is_near, near, far);
        f.with_sign(x, value)
    })
}

pub(super) fn sinh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        let magnitude = f.abs(x);
        let z = f.mul(x, x);
        let near = odd(f, &SINH, &SINH_F64, magnitude, z);
        let (grown, shrunk) = half_exponentials(f, magnitude);
        let far = f.sub(grown, shrunk);
        let is_near = f.lt(magnitude, f.c(1.0));
        let value = f.select(is_near, near, far);
        f.with_sign(x, value)
    })
}

pub(super) fn cosh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        let magnitude = f.abs(x);
        let (grown, shrunk) = half_exponentials(f, magnitude);
        f.add(grown, shrunk)
    })
}

/// e^x / 2 and e^-x / 2 of a non-negative x; halved in the exponent, so that they overflow no sooner than their sum.
fn half_exponentials(f: &mut Float, x: Operand) -> (Operand, Operand) {
    let grown = if f.ty == Ty::F64 { double::exp_scaled(f, x, -1.0) } else { exp_biased(f, x, -1) };
    let reciprocal = reciprocal(f, grown);
    (grown, f.mul(reciprocal, f.c(0.25)))
}

/// `1 / x`, of one approximation where there is one.
fn reciprocal(f: &mut Float, x: Operand) -> Operand {
    f.unary(if f.ty == Ty::F64 { UnaryOp::Rcp } else { UnaryOp::RcpApprox }, x)
}

/// log(1 + x) + extra ln 2, for x >= 0.
fn log1p(f: &mut Float, x: Operand, extra: Operand) -> Operand {
    if f.ty == Ty::F64 { double::log1p(f, x, extra) } else { exp_log::log1p(f, x, extra) }
}

pub(super) fn asinh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        // log(1 + (a + a^2 / (1 + sqrt(1 + a^2))))
        let a = f.abs(x);
        let one = f.c(1.0);
        let square = f.fma(a, a, one);
        let root = f.sqrt(square);
        let denominator = f.add(root, one);
        let fraction = f.div(a, denominator);
        let v = f.fma(a, fraction, a);
        let value = log1p_or_log(f, a, v);
        f.with_sign(x, value)
    })
}

pub(super) fn acosh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        // log(1 + (t + sqrt(2 t + t^2))), t = x - 1
        let t = f.sub(x, f.c(1.0));
        let twice = f.add(t, t);
        let square = f.fma(t, t, twice);
        let root = f.sqrt(square);
        let v = f.add(t, root);
        let value = log1p_or_log(f, x, v);
        let inside = f.cmp(Compare::Ge, x, f.c(1.0));
        f.select(inside, value, f.c(f64::NAN))
    })
}

/// log(1 + v); where x is so large that v may overflow, log(2 x), which is log(1 + x / 4) + 3 ln 2 then.
fn log1p_or_log(f: &mut Float, x: Operand, v: Operand) -> Operand {
    // 2^30 and 2^60: the 1 beside x / 4 is far below the last place of the result.
    let limit = if f.ty == Ty::F64 { 1152921504606846976.0 } else { 1073741824.0 };
    let large = f.cmp(Compare::Gt, x, f.c(limit));
    let quarter = f.mul(x, f.c(0.25));
    let v = f.select(large, quarter, v);
    let extra = f.select(large, f.c(3.0), f.c(0.0));
    log1p(f, v, extra)
}

pub(super) fn atanh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        // log(1 + 2 a / (1 - a)) / 2
        let a = f.abs(x);
        let twice = f.add(a, a);
        let rest = f.sub(f.c(1.0), a);
        let v = f.div(twice, rest);
        let log = log1p(f, v, f.c(0.0));
        let value = f.mul(log, f.c(0.5));
        let inside = f.cmp(Compare::Le, a, f.c(1.0));
        let value = f.select(inside, value, f.c(f64::NAN));
        f.with_sign(x, value)
    })
}
