//! `sinh`, `cosh`, `tanh`, `asinh`, `acosh`, `atanh` of f32 and f16.
//!
//! The decision to know: near 0, where the exponentials cancel, sinh and tanh are polynomials; the inverses go through
//! log(1 + x), which keeps small results exact. Coefficients: `minimax.py`.

use super::exp_log::{LOG2_E, exp_biased, log1p};
use super::float::{Float, half};
use crate::ir::{Builder, Compare, Operand, Ty, UnaryOp};

/// tanh(x) = x + x^3 P(x^2), |x| <= 0.6: 2^-28.5.
const TANH: [f64; 5] = [-3.33332986e-01, 1.33319363e-01, -5.37846312e-02, 2.07980163e-02, -5.89692779e-03];
/// sinh(x) = x + x^3 P(x^2), |x| <= 1: 2^-31.5.
const SINH: [f64; 4] = [1.66666672e-01, 8.33331142e-03, 1.98426351e-04, 2.78392577e-06];

/// One of the functions below on f32 or f16.
fn on(b: &mut Builder, ty: Ty, x: Operand, function: fn(&mut Float, Operand) -> Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, function),
        _ => function(&mut Float::new(b, Ty::F32), x),
    }
}

pub(super) fn tanh(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    on(b, ty, x, |f, x| {
        let magnitude = f.abs(x);
        let z = f.mul(x, x);
        let near = f.odd(&TANH, magnitude, z);
        // 1 - 2 / (e^(2|x|) + 1)
        let doubled = f.mul(magnitude, f.c(2.0 * LOG2_E));
        let e = f.unary(UnaryOp::Ex2ApproxFtz, doubled);
        let denominator = f.add(e, f.c(1.0));
        let reciprocal = f.unary(UnaryOp::RcpApprox, denominator);
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
        let near = f.odd(&SINH, magnitude, z);
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
    let grown = exp_biased(f, x, -1);
    let reciprocal = f.unary(UnaryOp::RcpApprox, grown);
    (grown, f.mul(reciprocal, f.c(0.25)))
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
    let large = f.cmp(Compare::Gt, x, f.c(1073741824.0)); // 2^30
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
