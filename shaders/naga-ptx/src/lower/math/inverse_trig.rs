//! `asin`, `acos`, `atan`, `atan2`.
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
/// The same of f64: 2^-59.8.
const ASIN_F64: [f64; 13] = [
    0.16666666666666763,
    0.07499999999970129,
    0.04464285717525372,
    0.030381942676973094,
    0.02237221585454107,
    0.017351596482657876,
    0.013981006095791164,
    0.011397399838576811,
    0.010788696425163353,
    0.0036746377589239433,
    0.021784465268929493,
    -0.021107681410386332,
    0.032696335922774634,
];
/// The same of f64: 2^-56.4.
const ATAN_F64: [f64; 20] = [
    -0.33333333333333093,
    0.19999999999955462,
    -0.14285714282803497,
    0.1111111101368332,
    -0.09090907119762531,
    0.07692281192020807,
    -0.0666641503604418,
    0.05880592762661228,
    -0.052538064035226255,
    0.047232960310468045,
    -0.042217243081296214,
    0.03669364940292367,
    -0.029985748768154134,
    0.02208535345869713,
    -0.013995166132806752,
    0.0072634791073721405,
    -0.002919402694306013,
    0.0008435057244138146,
    -0.00015480159126565288,
    1.3489732853394471e-05,
];

/// A number as f64, and what that leaves of it.
type Exact = (f64, f64);
const PI: Exact = (std::f64::consts::PI, 1.2246467991473532e-16);
const HALF_PI: Exact = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);

/// `value - x`, where `value` is no float but nearly one.
fn minus_from(f: &mut Float, (value, rest): Exact, x: Operand) -> Operand {
    let nearest = if f.ty == Ty::F64 { value } else { f64::from(value as f32) };
    let difference = f.sub(f.c(nearest), x);
    f.add(difference, f.c(value - nearest + rest))
}

/// `x + x z P(z)` of asin or atan, for the type that is computed in.
fn odd(f: &mut Float, single: &[f64], double: &[f64], x: Operand, z: Operand) -> Operand {
    f.odd(if f.ty == Ty::F64 { double } else { single }, x, z)
}

pub(super) fn asin(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, asin_wide),
        _ => asin_wide(&mut Float::new(b, ty), x),
    }
}

pub(super) fn acos(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, acos_wide),
        _ => acos_wide(&mut Float::new(b, ty), x),
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
    (near, odd(f, &ASIN, &ASIN_F64, a, z))
}

fn asin_wide(f: &mut Float, x: Operand) -> Operand {
    let (near, a) = asin_core(f, x);
    let twice = f.add(a, a);
    let far = minus_from(f, HALF_PI, twice);
    let value = f.select(near, a, far);
    f.with_sign(x, value)
}

fn acos_wide(f: &mut Float, x: Operand) -> Operand {
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
        Ty::F16 => half(b, x, atan_wide),
        _ => atan_wide(&mut Float::new(b, ty), x),
    }
}

fn atan_wide(f: &mut Float, x: Operand) -> Operand {
    let magnitude = f.abs(x);
    let one = f.c(1.0);
    let steep = f.cmp(Compare::Gt, magnitude, one);
    let reciprocal = f.div(one, magnitude);
    let t = f.select(steep, reciprocal, magnitude);
    let z = f.mul(t, t);
    let a = odd(f, &ATAN, &ATAN_F64, t, z);
    let complement = minus_from(f, HALF_PI, a);
    let value = f.select(steep, complement, a);
    f.with_sign(x, value)
}

pub(super) fn atan2(b: &mut Builder, ty: Ty, y: Operand, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half2(b, y, x, atan2_wide),
        _ => atan2_wide(&mut Float::new(b, ty), y, x),
    }
}

fn atan2_wide(f: &mut Float, y: Operand, x: Operand) -> Operand {
    let (ax, ay) = (f.abs(x), f.abs(y));
    let (small, large) = (f.min(ax, ay), f.max(ax, ay));
    let t = f.div(small, large);
    // 0/0 counts as 0, infinity/infinity as 1; a NaN among the two must show.
    let origin = f.cmp(Compare::Eq, large, f.c(0.0));
    let t = f.select(origin, f.c(0.0), t);
    let corner = f.cmp(Compare::Eq, small, f.c(f64::INFINITY));
    let t = f.select(corner, f.c(1.0), t);
    let z = f.mul(t, t);
    let a = odd(f, &ATAN, &ATAN_F64, t, z);
    let steep = f.cmp(Compare::Gt, ay, ax);
    let complement = minus_from(f, HALF_PI, a);
    let a = f.select(steep, complement, a);
    // By the sign bit: -0 is on the left.
    let bits = if f.ty == Ty::F64 { Ty::S64 } else { Ty::S32 };
    let left = f.b.setp(Compare::Lt, bits, x, Operand::Imm(0));
    let reflected = minus_from(f, PI, a);
    let a = f.select(left, reflected, a);
    let value = f.with_sign(y, a);
    let unordered = f.cmp(Compare::Nan, x, y);
    f.select(unordered, f.c(f64::NAN), value)
}
