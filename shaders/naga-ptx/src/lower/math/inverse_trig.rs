//! `asin`, `acos`, `atan`, `atan2` of f32 and f16.
//!
//! The decision to know: all come down to one polynomial on [0, 1/2] or [0, 1]; what is subtracted from pi or pi/2 is
//! subtracted from both of its halves, since one float of pi is off by a third of an ULP. Coefficients: `minimax.py`.

use super::float::{Float, half, half2};
use crate::ir::{Builder, Compare, Operand, Ty};

/// asin(x) = x + x^3 P(x^2), |x| <= 1/2: 2^-27.6.
const ASIN: [f64; 5] = [1.66667536e-01, 7.49525204e-02, 4.54760417e-02, 2.41520964e-02, 4.22117822e-02];
/// atan(x) = x + x^3 P(x^2), |x| <= 1: 2^-28.7.
const ATAN: [f64; 9] = [
    -3.33333015e-01,
    1.99986264e-01,
    -1.42650917e-01,
    1.09566577e-01,
    -8.41646045e-02,
    5.81780560e-02,
    -3.13944407e-02,
    1.10289538e-02,
    -1.81871105e-03,
];

const PI: f64 = std::f64::consts::PI;
const HALF_PI: f64 = std::f64::consts::FRAC_PI_2;

/// `value - x`, where `value` is no float but nearly one.
fn minus_from(f: &mut Float, value: f64, x: Operand) -> Operand {
    let nearest = value as f32;
    let difference = f.sub(Operand::f32(nearest), x);
    f.add(difference, f.c(value - f64::from(nearest)))
}

pub(super) fn asin(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, asin_f32),
        _ => asin_f32(&mut Float::new(b, Ty::F32), x),
    }
}

pub(super) fn acos(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, acos_f32),
        _ => acos_f32(&mut Float::new(b, Ty::F32), x),
    }
}

/// Whether |x| <= 1/2, and asin(|x|) if so; else half of acos(|x|), which is asin(sqrt((1 - |x|) / 2)).
fn asin_core(f: &mut Float, x: Operand) -> (Operand, Operand) {
    let magnitude = f.abs(x);
    let near = f.cmp(Compare::Le, magnitude, f.c(0.5));
    let half_rest = f.fma(magnitude, f.c(-0.5), f.c(0.5));
    let square = f.mul(x, x);
    let z = f.select(near, square, half_rest);
    let root = f.sqrt(half_rest);
    let a = f.select(near, magnitude, root);
    (near, f.odd(&ASIN, a, z))
}

fn asin_f32(f: &mut Float, x: Operand) -> Operand {
    let (near, a) = asin_core(f, x);
    let twice = f.add(a, a);
    let far = minus_from(f, HALF_PI, twice);
    let value = f.select(near, a, far);
    f.with_sign(x, value)
}

fn acos_f32(f: &mut Float, x: Operand) -> Operand {
    let (near, a) = asin_core(f, x);
    let signed = f.with_sign(x, a);
    let middle = minus_from(f, HALF_PI, signed);
    let twice = f.add(a, a);
    let reflected = minus_from(f, PI, twice);
    let negative = f.lt(x, f.c(0.0));
    let far = f.select(negative, reflected, twice);
    f.select(near, middle, far)
}

pub(super) fn atan(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, atan_f32),
        _ => atan_f32(&mut Float::new(b, Ty::F32), x),
    }
}

fn atan_f32(f: &mut Float, x: Operand) -> Operand {
    let magnitude = f.abs(x);
    let one = f.c(1.0);
    let steep = f.cmp(Compare::Gt, magnitude, one);
    let reciprocal = f.div(one, magnitude);
    let t = f.select(steep, reciprocal, magnitude);
    let z = f.mul(t, t);
    let a = f.odd(&ATAN, t, z);
    let complement = minus_from(f, HALF_PI, a);
    let value = f.select(steep, complement, a);
    f.with_sign(x, value)
}

pub(super) fn atan2(b: &mut Builder, ty: Ty, y: Operand, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half2(b, y, x, atan2_f32),
        _ => atan2_f32(&mut Float::new(b, Ty::F32), y, x),
    }
}

fn atan2_f32(f: &mut Float, y: Operand, x: Operand) -> Operand {
    let (ax, ay) = (f.abs(x), f.abs(y));
    let (small, large) = (f.min(ax, ay), f.max(ax, ay));
    let t = f.div(small, large);
    // 0/0 counts as 0, infinity/infinity as 1; a NaN among the two must show.
    let origin = f.cmp(Compare::Eq, large, f.c(0.0));
    let t = f.select(origin, f.c(0.0), t);
    let corner = f.cmp(Compare::Eq, small, f.c(f64::INFINITY));
    let t = f.select(corner, f.c(1.0), t);
    let z = f.mul(t, t);
    let a = f.odd(&ATAN, t, z);
    let steep = f.cmp(Compare::Gt, ay, ax);
    let complement = minus_from(f, HALF_PI, a);
    let a = f.select(steep, complement, a);
    // By the sign bit: -0 is on the left.
    let left = f.b.setp(Compare::Lt, Ty::S32, x, Operand::i32(0));
    let reflected = minus_from(f, PI, a);
    let a = f.select(left, reflected, a);
    let value = f.with_sign(y, a);
    let unordered = f.cmp(Compare::Nan, x, y);
    f.select(unordered, f.c(f64::NAN), value)
}
