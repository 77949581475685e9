//! `exp`, `exp2`, `log`, `log2`, `pow` of f32 and f16; those of f64 are in `double.rs`.
//!
//! The decision to know: `ex2.approx` is good everywhere, so exponentials only prepare its argument, in two parts where
//! one would lose bits; `lg2.approx` is not good near 1 (its error is absolute there), so logarithms are polynomials,
//! except for halves, which it serves well enough. Coefficients and constants: `minimax.py`.

use super::float::{Float, half, half2};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty, UnaryOp};

/// log(1 + f) = f + f^2 P(f), |f| <= 1/3: 2^-26.6.
const LOG: [f64; 9] = [
    -5.00000000e-01,
    3.33332092e-01,
    -2.49997169e-01,
    2.00107470e-01,
    -1.66823089e-01,
    1.40011638e-01,
    -1.21671133e-01,
    1.40047386e-01,
    -1.29491374e-01,
];
/// log2(1 + f) = LOG2_E f + f P(f), |f| <= 1/3: 2^-26.6.
const LOG2: [f64; 10] = [
    2.49439580e-08,
    -7.21347570e-01,
    4.80895817e-01,
    -3.60668778e-01,
    2.88718313e-01,
    -2.40699828e-01,
    2.01698646e-01,
    -1.75262183e-01,
    2.03238860e-01,
    -1.87833875e-01,
];
/// log((2 + u) / (2 - u)) = u + u^3 P(u^2), |u| <= 0.344: 2^-35.2.
const POW_LOG: [f64; 4] = [8.33333284e-02, 1.25003038e-02, 2.22646818e-03, 4.74195607e-04];

/// 1 / ln 2, and what f32 leaves of it.
pub(super) const LOG2_E: f64 = std::f64::consts::LOG2_E;
const LOG2_E_REST: f64 = LOG2_E - LOG2_E as f32 as f64;
/// What f64 leaves of it.
const LOG2_E_REST_F64: f64 = 2.0355273740931033e-17;
const LN_2: f64 = std::f64::consts::LN_2;

/// 1.5 * 2^23: a float to which an integer is added as is, in its low bits.
pub(super) const INTEGERS: f64 = 12582912.0;

/// The integer n nearest `p`, within -126..=127, as a float; and 2^(n + bias), a bias of 0 or -1.
///
/// Beyond these n the fraction passed to `ex2.approx` grows instead, which overflows and underflows as it should.
fn power(f: &mut Float, p: Operand, bias: i32) -> (Operand, Operand) {
    let p = f.max(p, f.c(-126.0));
    let p = f.min(p, f.c(127.0));
    let integers = f.c(INTEGERS + 127.0);
    let sum = f.add(p, integers);
    let n = f.sub(sum, integers);
    let exponent = f.b.add(Ty::U32, sum, Operand::i32(bias));
    (n, f.b.binary(BinaryOp::Shl, Ty::B32, exponent, Operand::u32(23)))
}

/// e^x 2^bias of an f32; the bias is 0 or, for non-negative x only, -1.
pub(super) fn exp_biased(f: &mut Float, x: Operand, bias: i32) -> Operand {
    let p = f.mul(x, f.c(LOG2_E));
    let (n, scale) = power(f, p, bias);
    let n = f.neg(n);
    let fraction = f.fma(x, f.c(LOG2_E), n);
    let fraction = f.fma(x, f.c(LOG2_E_REST), fraction);
    let e = f.unary(UnaryOp::Ex2ApproxFtz, fraction);
    f.mul(e, scale)
}

pub(super) fn exp(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        // The product is off by at most 2^-19 where the result is a half.
        Ty::F16 => half(b, x, |f, x| {
            let p = f.mul(x, f.c(LOG2_E));
            f.unary(UnaryOp::Ex2Approx, p)
        }),
        _ => exp_biased(&mut Float::new(b, Ty::F32), x, 0),
    }
}

pub(super) fn exp2(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| f.unary(UnaryOp::Ex2Approx, x)),
        _ => b.unary(UnaryOp::Ex2Approx, Ty::F32, x),
    }
}

/// Bits of 2/3: where mantissas start that lie round 1.
const TWO_THIRDS: u32 = 0x3f2a_aaab;
/// Bits of sqrt(1/2).
const SQRT_HALF: u32 = 0x3f35_04f3;

/// Exponent (as a float) and mantissa of a positive finite number; the mantissa lies within a factor of two from
/// `start` on.
fn split(f: &mut Float, x: Operand, start: u32) -> (Operand, Operand) {
    let subnormal = f.lt(x, Operand::f32(f32::MIN_POSITIVE));
    let scaled = f.mul(x, f.c(8388608.0)); // 2^23
    let x = f.select(subnormal, scaled, x);
    let shift = f.select(subnormal, f.c(-23.0), f.c(0.0));
    let above = f.b.sub(Ty::U32, x, Operand::u32(start));
    let exponent = f.b.and(Ty::U32, above, Operand::u32(0xff80_0000));
    let mantissa = f.b.sub(Ty::U32, x, exponent);
    (exponent_float(f, exponent, shift), mantissa)
}

/// An exponent in the place where floats have theirs, plus `shift`.
fn exponent_float(f: &mut Float, exponent: Operand, shift: Operand) -> Operand {
    let k = f.b.cvt(Ty::F32, Ty::S32, Round::Rn, exponent);
    f.fma(k, f.c(f64::from(f32::EPSILON)), shift) // 2^-23
}

/// log(1 + m) + k ln 2
fn log_core(f: &mut Float, m: Operand, k: Operand) -> Operand {
    let square = f.mul(m, m);
    let p = f.horner(&LOG, m);
    let log = f.fma(square, p, m);
    f.fma(k, f.c(LN_2), log)
}

/// The logarithm's values where it has no finite one; `value` elsewhere.
fn log_specials(f: &mut Float, x: Operand, value: Operand) -> Operand {
    // Positive and finite: one comparison, unsigned, of what lies above 0.
    let above = f.b.sub(Ty::U32, x, Operand::u32(1));
    let ordinary = f.b.setp(Compare::Lt, Ty::U32, above, Operand::u32(0x7f7f_ffff));
    let infinity = f.c(f64::INFINITY);
    // Infinity and NaN stay; what is negative becomes NaN.
    let other = f.fma(x, infinity, infinity);
    let zero = f.cmp(Compare::Eq, x, f.c(0.0));
    let other = f.select(zero, f.c(f64::NEG_INFINITY), other);
    f.select(ordinary, value, other)
}

pub(super) fn log(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    if ty == Ty::F16 {
        // lg2.approx is off by 2^-22 near 1, where halves are 2^-11 apart and their logarithms no closer.
        return half(b, x, |f, x| {
            let l = f.unary(UnaryOp::Lg2Approx, x);
            f.mul(l, f.c(LN_2))
        });
    }
    let f = &mut Float::new(b, Ty::F32);
    let (k, m) = split(f, x, TWO_THIRDS);
    let m = f.sub(m, f.c(1.0));
    let value = log_core(f, m, k);
    log_specials(f, x, value)
}

pub(super) fn log2(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    if ty == Ty::F16 {
        return half(b, x, |f, x| f.unary(UnaryOp::Lg2Approx, x));
    }
    let f = &mut Float::new(b, Ty::F32);
    let (k, m) = split(f, x, TWO_THIRDS);
    let m = f.sub(m, f.c(1.0));
    let p = f.horner(&LOG2, m);
    let sum = f.fma(m, f.c(LOG2_E), k);
    let value = f.fma(m, p, sum);
    log_specials(f, x, value)
}

/// log(1 + x) + extra ln 2, for x >= 0; infinity and NaN stay.
pub(super) fn log1p(f: &mut Float, x: Operand, extra: Operand) -> Operand {
    let one = f.c(1.0);
    let u = f.add(x, one);
    let above = f.b.sub(Ty::U32, u, Operand::u32(TWO_THIRDS));
    let exponent = f.b.and(Ty::U32, above, Operand::u32(0xff80_0000));
    // (1 + x) 2^-k - 1 with one rounding: the rounding of u only chose k.
    let scale = f.b.sub(Ty::U32, Operand::f32(1.0), exponent);
    let rest = f.sub(scale, one);
    let m = f.fma(x, scale, rest);
    let k = exponent_float(f, exponent, extra);
    let value = log_core(f, m, k);
    let finite = f.lt(x, f.c(f64::INFINITY));
    f.select(finite, value, x)
}

/// Powers as of IEEE 754 `pow`, negative bases included.
///
/// 2^(y log2 |x|) with log2 in two floats: up to 2^-28 of it is lost, which an exponent near the ends of the range, 127,
/// turns into five ULP.
pub(super) fn pow(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    match ty {
        Ty::F16 => half2(b, x, y, pow_f32),
        _ => pow_f32(&mut Float::new(b, Ty::F32), x, y),
    }
}

fn pow_f32(f: &mut Float, x: Operand, y: Operand) -> Operand {
    let magnitude = f.abs(x);
    let (k, m) = split(f, magnitude, SQRT_HALF);
    let denominator = f.add(m, f.c(1.0));
    let reciprocal = f.unary(UnaryOp::RcpApprox, denominator);
    let log = log2_extended(f, &POW_LOG, k, m, reciprocal);
    power_of_two(f, x, y, log, |f, p, rest| {
        let (n, scale) = power(f, p, 0);
        let fraction = f.sub(p, n);
        let fraction = f.add(fraction, rest);
        let e = f.unary(UnaryOp::Ex2ApproxFtz, fraction);
        f.mul(e, scale)
    })
}

/// 2^(y log) with the special values of `pow`, given log2 |x| in two parts and 2^(p + rest).
pub(super) fn power_of_two(
    f: &mut Float,
    x: Operand,
    y: Operand,
    log: (Operand, Operand),
    exp2: impl FnOnce(&mut Float, Operand, Operand) -> Operand,
) -> Operand {
    let (one, zero, infinity) = (f.c(1.0), f.c(0.0), f.c(f64::INFINITY));
    let magnitude = f.abs(x);
    // Infinity and NaN are their own logarithms.
    let at_zero = f.cmp(Compare::Eq, x, zero);
    let high = f.select(at_zero, f.c(f64::NEG_INFINITY), log.0);
    let finite = f.lt(magnitude, infinity);
    let high = f.select(finite, high, magnitude);
    // 1 to any power, NaN and infinities included, is 1.
    let unit = f.cmp(Compare::Eq, magnitude, one);
    let finite_y = f.select(unit, zero, y);
    let p = f.mul(high, finite_y);
    let minus_p = f.neg(p);
    let rest = f.fma(high, finite_y, minus_p);
    let rest = f.fma(log.1, finite_y, rest);
    // Beyond the range p decides alone, and its rest may be infinite, or NaN.
    let p_magnitude = f.abs(p);
    let near = f.lt(p_magnitude, f.c(if f.ty == Ty::F64 { 2048.0 } else { 256.0 }));
    let rest = f.select(near, rest, zero);
    let value = exp2(f, p, rest);
    // A negative base: odd exponents give its sign back, broken ones have no result unless the base is infinite.
    let whole_y = f.integral(Round::Rzi, y);
    let whole = f.cmp(Compare::Eq, whole_y, y);
    let half_y = f.mul(y, f.c(0.5));
    let whole_half = f.integral(Round::Rzi, half_y);
    let uneven = f.cmp(Compare::Neu, whole_half, half_y);
    let odd = f.b.and(Ty::Pred, whole, uneven);
    let signed = f.with_sign(x, value);
    let value = f.select(odd, signed, value);
    let negative = f.lt(x, zero);
    let negative = f.b.and(Ty::Pred, negative, finite);
    let broken = f.b.not(Ty::Pred, whole);
    let broken = f.b.and(Ty::Pred, negative, broken);
    let value = f.select(broken, f.c(f64::NAN), value);
    let y_zero = f.cmp(Compare::Eq, y, zero);
    f.select(y_zero, one, value)
}

/// k + log2 m as a sum of two, for sqrt(1/2) <= m < sqrt 2; `reciprocal` is nearly 1 / (m + 1).
pub(super) fn log2_extended(
    f: &mut Float,
    coefficients: &[f64],
    k: Operand,
    m: Operand,
    reciprocal: Operand,
) -> (Operand, Operand) {
    let one = f.c(1.0);
    // u = 2 (m - 1) / (m + 1), with its rest: the sum of the two denominators is m + 1 exactly.
    let above = f.sub(m, one);
    let numerator = f.add(above, above);
    let denominator = f.add(m, one);
    let left = f.sub(one, denominator);
    let denominator_rest = f.add(left, m);
    let u = f.mul(numerator, reciprocal);
    let residue = f.nfma(u, denominator, numerator);
    let residue = f.nfma(u, denominator_rest, residue);
    let u_rest = f.mul(residue, reciprocal);
    let square = f.mul(u, u);
    let p = f.horner(coefficients, square);
    let cube = f.mul(square, u);
    let tail = f.fma(cube, p, u_rest);
    // Times 1 / ln 2.
    let (log2_e, log2_e_rest) = if f.ty == Ty::F64 { (LOG2_E, LOG2_E_REST_F64) } else { (LOG2_E, LOG2_E_REST) };
    let high = f.mul(u, f.c(log2_e));
    let minus_high = f.neg(high);
    let low = f.fma(u, f.c(log2_e), minus_high);
    let low = f.fma(u, f.c(log2_e_rest), low);
    let low = f.fma(tail, f.c(log2_e), low);
    // Plus k, the larger unless it is 0; then once more, so that the second part is below the rounding of the first.
    let sum = f.add(k, high);
    let lost = f.sub(k, sum);
    let lost = f.add(lost, high);
    let low = f.add(lost, low);
    let high = f.add(sum, low);
    let lost = f.sub(sum, high);
    (high, f.add(lost, low))
}
