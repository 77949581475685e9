//! Functions of one or two instructions: rounding, signs, roots. Exact, or rounded once ([`rsqrt`]: twice).

use super::map1;
use crate::cpu::simd::MulAdd;

/// Largest integer not above x.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    x.floor()
}

/// Smallest integer not below x.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    x.ceil()
}

/// Nearest integer, ties to even.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    x.round_ties_even()
}

/// 1, -1, or x itself where x is ±0 or NaN.
#[inline(always)]
pub fn sign(x: f32) -> f32 {
    let s = if x > 0.0 { 1.0 } else { x };
    if x < 0.0 { -1.0 } else { s }
}

/// x without its sign bit.
#[inline(always)]
pub fn abs(x: f32) -> f32 {
    x.abs()
}

/// x with its sign bit turned.
#[inline(always)]
pub fn neg(x: f32) -> f32 {
    -x
}

/// x where x > 0 or x is NaN, else +0.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// Square root, correctly rounded.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// Cube root: 1 <= m < 8 times a power of 8, a polynomial for m's leading bits, and one step of Halley's, which triples the digits.
#[inline(always)]
pub fn cbrt<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let small = a < f32::MIN_POSITIVE;
    let bits = if small { a * 16_777_216.0 } else { a }.to_bits();
    // 3 third + part - 129 is the exponent of a
    let shifted = (bits >> 23) + 2;
    let third = shifted / 3;
    let part = shifted - 3 * third;
    let one = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000);
    // the cube root on [1, 2], error 2^-13.7
    let root = M::mul_add(one, 0.023_104_9, -0.162_969_39);
    let root = M::mul_add(one, M::mul_add(one, root, 0.587_113_9), 0.552_823_6);
    let t = root
        * if part == 0 {
            1.0
        } else if part == 1 {
            1.259_921
        } else {
            1.587_401
        };
    let m = f32::from_bits((bits & 0x007f_ffff) | ((127 + part) << 23));
    let cube = t * t * t;
    let y = M::mul_add(t, (m - cube) / (m + 2.0 * cube), t);
    // 2^24 is 8^8
    let exponent = third.wrapping_sub(if small { 43 + 8 } else { 43 });
    let y = f32::from_bits(y.to_bits().wrapping_add(exponent << 23));
    // zeros, infinities and NaN are their own roots
    if (a > 0.0) & (a < f32::INFINITY) { y.copysign(x) } else { x }
}

/// The length of (a, b), in f64, where no square of an f32 overflows or vanishes.
#[inline(always)]
pub fn hypot(a: f32, b: f32) -> f32 {
    let (wide_a, wide_b) = (f64::from(a), f64::from(b));
    let y = (wide_a * wide_a + wide_b * wide_b).sqrt() as f32;
    if (a.abs() == f32::INFINITY) | (b.abs() == f32::INFINITY) { f32::INFINITY } else { y }
}

/// 1 / sqrt(x), each step correctly rounded.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn reciprocal(x: f32) -> f32 {
    1.0 / x
}

map1! {
    /// [`floor`] for a loop.
    Floor = floor;
    /// [`ceil`] for a loop.
    Ceil = ceil;
    /// [`round`] for a loop.
    Round = round;
    /// [`sign`] for a loop.
    Sign = sign;
    /// [`abs`] for a loop.
    Abs = abs;
    /// [`neg`] for a loop.
    Neg = neg;
    /// [`relu`] for a loop.
    Relu = relu;
    /// [`sqrt`] for a loop.
    Sqrt = sqrt;
    /// [`cbrt`] for a loop.
    Cbrt = cbrt::<M>;
    /// [`rsqrt`] for a loop.
    Rsqrt = rsqrt;
    /// [`reciprocal`] for a loop.
    Reciprocal = reciprocal;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;

    #[test]
    fn rounding_functions_are_exact() {
        check("floor", Floor, f64::floor, 0.0);
        check("ceil", Ceil, f64::ceil, 0.0);
        check("round", Round, f64::round_ties_even, 0.0);
        let halves = [(-2.5, -2.0), (-0.5, -0.0), (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-INF, -INF), (NAN, NAN)];
        check_special("round", Round, &halves);
    }

    #[test]
    fn roots_are_rounded_well() {
        check("sqrt", Sqrt, f64::sqrt, 0.5);
        // half an ULP of the root is up to one of the quotient, which adds half
        check("rsqrt", Rsqrt, |x| 1.0 / x.sqrt(), 1.5);
        check("cbrt", Cbrt, f64::cbrt, 1.2);
        check("reciprocal", Reciprocal, |x| 1.0 / x, 0.5);
        check_special(
            "cbrt",
            Cbrt,
            &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-8.0, -2.0), (27.0, 3.0)],
        );
        check_special("rsqrt", Rsqrt, &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (NAN, NAN)]);
    }

    #[test]
    fn sign_functions_keep_nan_and_zero() {
        check_special("sign", Sign, &[(0.0, 0.0), (-0.0, -0.0), (1e-45, 1.0), (-INF, -1.0), (NAN, NAN)]);
        check_special("relu", Relu, &[(0.0, 0.0), (-0.0, 0.0), (-INF, 0.0), (1e-45, 1e-45), (INF, INF), (NAN, NAN)]);
        check_special("abs", Abs, &[(-0.0, 0.0), (-INF, INF), (NAN, NAN)]);
        check_special("neg", Neg, &[(-0.0, 0.0), (0.0, -0.0), (NAN, NAN)]);
    }
}
