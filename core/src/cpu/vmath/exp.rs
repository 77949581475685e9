//! e^x, 2^x and what is built on e^x with full relative accuracy: sigmoid, SiLU.
//!
//! x = k ln 2 + r with |r| <= ln 2 / 2; e^x = e^r 2^k. The power of two is applied as two factors, so that both are normal
//! numbers and the last product alone rounds when the result is subnormal or overflows.

use super::{map1, polynomial};
use crate::cpu::simd::MulAdd;

/// 1.5 * 2^23: adding it rounds an f32 to an integer that then stands in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has 9 bits (355/512), so that its product with any exponent k is exact.
const LN_2_HI: f32 = 355.0 / 512.0; // 0.693359375: nine bits
const LN_2_LO: f32 = -2.121_944_4e-4;

/// e^x kept as `p * s1 * s2` with p in [0.7, 1.42] and s1, s2 powers of two, so that a caller can combine p before
/// anything underflows.
#[derive(Clone, Copy)]
pub(crate) struct Exp2Parts {
    pub p: f32,
    pub s1: f32,
    pub s2: f32,
}

impl Exp2Parts {
    #[inline(always)]
    pub fn value(self) -> f32 {
        self.scale(self.p)
    }

    /// `v * s1 * s2`
    #[inline(always)]
    pub fn scale(self, v: f32) -> f32 {
        v * self.s1 * self.s2
    }
}

/// 2^k from the bits of `k + ROUND`, as two factors. k in [-252, 254].
#[inline(always)]
fn two_to(rounded: f32) -> (f32, f32) {
    let k = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = k >> 1;
    let power = |k: i32| f32::from_bits((k.wrapping_add(127) as u32) << 23);
    (power(half), power(k.wrapping_sub(half)))
}

/// e^(x + low) for x in any range and |low| <= 0.04. Below -150 the parts stay at those of -150, whose value is 0.
#[inline(always)]
pub(crate) fn exp_parts<M: MulAdd>(x: f32, low: f32) -> Exp2Parts {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -150.0 { -150.0 } else { x };
    let rounded = M::mul_add(x, std::f32::consts::LOG2_E, ROUND);
    let k = rounded - ROUND;
    // r, and what its rounding lost, a quarter of an ULP
    let exact = M::mul_add(k, -LN_2_HI, x);
    let r = M::mul_add(k, -LN_2_LO, exact) + low;
    let lost = M::mul_add(k, -LN_2_LO, (exact - r) + low);
    // (e^r - 1 - r) / r^2, error 2^-28.2 of e^r
    let q = polynomial::<M, 5>(r, [0.499_999_94, 0.166_665_21, 0.041_668_274, 0.008_368_686, 0.001_382_013_8]);
    let p = (M::mul_add(r * r, q, lost) + r) + 1.0;
    let (s1, s2) = two_to(rounded);
    Exp2Parts { p, s1, s2 }
}

/// e^x.
#[inline(always)]
pub fn exp<M: MulAdd>(x: f32) -> f32 {
    exp_parts::<M>(x, 0.0).value()
}

/// 2^x.
#[inline(always)]
pub fn exp2<M: MulAdd>(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -180.0 { -180.0 } else { x };
    let rounded = x + ROUND;
    let f = x - (rounded - ROUND);
    // (2^f - 1) / f, error 2^-28.3 of 2^f
    let c = [std::f32::consts::LN_2, 0.240_226_48, 0.055_503_596, 0.009_618_503, 0.001_339_099_7, 0.000_153_278_03];
    let p = M::mul_add(f, polynomial::<M, 6>(f, c), 1.0);
    let (s1, s2) = two_to(rounded);
    p * s1 * s2
}

/// `(n + n_low) / (1 + e)` for e in [0, 1], as if rounded about once: the quotient of rounded values, plus what the sum 1 + e
/// and the division lost times a rough 1 / (1 + e). Without it one ULP is lost; in f64 the division costs twice as much.
#[inline(always)]
fn over_one_plus<M: MulAdd>(n: f32, n_low: f32, e: f32) -> f32 {
    let d = 1.0 + e;
    let d_low = e - (d - 1.0);
    let q = n / d;
    // the remainder is exact with one rounding, noise with two
    let remainder = if M::FUSED { M::mul_add(-q, d, n) } else { 0.0 };
    let lost = M::mul_add(-q, d_low, remainder + n_low);
    // 1/d within 5 % on [1, 2]
    M::mul_add(lost, M::mul_add(d, -0.5, 1.457), q)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid<M: MulAdd>(x: f32) -> f32 {
    let e = exp::<M>(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    over_one_plus::<M>(numerator, 0.0, e)
}

/// x / (1 + e^-x); as x e^x / (1 + e^x) where x < 0, scaled down last.
#[inline(always)]
pub fn silu<M: MulAdd>(x: f32) -> f32 {
    let e = exp_parts::<M>(-x.abs(), 0.0);
    // e^-150 is 0 in f32, and so is x e^x
    let bounded = if x < -150.0 { -150.0 } else { x };
    let factor = if x < 0.0 { e.p } else { 1.0 };
    let n = bounded * factor;
    // what the product lost; 0 with two roundings
    let n_low = M::mul_add(bounded, factor, -n);
    let q = over_one_plus::<M>(n, n_low, e.value());
    let scaled = e.scale(q);
    let y = if x < 0.0 { scaled } else { q };
    // 1 + e^-40 is 1; infinity would make the corrections NaN, and -0 would lose its sign in them
    if (x > 40.0) | (x == 0.0) { x } else { y }
}

map1! {
    /// [`exp`] for a loop.
    Exp = exp::<M>;
    /// [`exp2`] for a loop.
    Exp2 = exp2::<M>;
    /// [`sigmoid`] for a loop.
    Sigmoid = sigmoid::<M>;
    /// [`silu`] for a loop.
    Silu = silu::<M>;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;

    #[test]
    fn exponentials_within_bound_everywhere() {
        check("exp", Exp, f64::exp, 1.1);
        check("exp2", Exp2, f64::exp2, 1.1);
        check("sigmoid", Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.0);
        check("silu", Silu, |x| if x == f64::NEG_INFINITY { -0.0 } else { x / (1.0 + (-x).exp()) }, 2.6);
    }

    #[test]
    fn exponentials_special_values_exact() {
        let cases = [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (-NAN, NAN)];
        check_special("exp", Exp, &cases);
        check_special("exp2", Exp2, &cases);
        check_special(
            "exp2",
            Exp2,
            &[(-149.0, 1e-45), (-126.0, f32::MIN_POSITIVE), (127.0, 2f32.powi(127)), (128.0, INF)],
        );
        check_special("exp", Exp, &[(-103.97, 1e-45), (-104.0, 0.0), (88.722_84, INF)]);
        check_special("sigmoid", Sigmoid, &[(0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)]);
        check_special("silu", Silu, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)]);
    }
}
