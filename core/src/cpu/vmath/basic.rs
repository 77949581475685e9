//! Functions of one or two instructions: rounding, signs, roots. Exact, or rounded once ([`rsqrt`]: twice).

use super::map1;

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
        check("reciprocal", Reciprocal, |x| 1.0 / x, 0.5);
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
