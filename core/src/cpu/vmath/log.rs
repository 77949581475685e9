//! Natural and binary logarithm.
//!
//! x = 2^e m with m in [sqrt 1/2, sqrt 2); log(1 + f) = f - f^2/2 + f^3 P(f) with f = m - 1, which is exact.

use super::{map1, polynomial};
use crate::cpu::simd::MulAdd;

/// (log(1 + f) - f + f^2/2) / f^3 on [sqrt 1/2 - 1, sqrt 2 - 1], error 2^-30.3 of log(1 + f).
const P: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_020_72,
    -0.166_679_9,
    0.142_203_63,
    -0.124_062_084,
    0.118_834_71,
    -0.116_701_83,
    0.067_495_39,
];

/// Exponent e and f = m - 1 of a positive finite x; subnormal numbers are scaled first.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let small = x < f32::MIN_POSITIVE;
    let bits = if small { x * 8_388_608.0 } else { x }.to_bits();
    let bias = if small { 23 } else { 0 };
    let e = (bits.wrapping_sub(SQRT_HALF) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e << 23) as u32));
    (e.wrapping_sub(bias) as f32, m - 1.0)
}

/// `value` for positive finite x; what the standard asks of 0, negative numbers, infinity and NaN.
#[inline(always)]
fn with_special(x: f32, value: f32) -> f32 {
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    let value = if x < 0.0 { f32::NAN } else { value };
    // infinity and NaN are their own logarithms
    if x < f32::INFINITY { value } else { x }
}

/// log x.
#[inline(always)]
pub fn log<M: MulAdd>(x: f32) -> f32 {
    // ln 2 = 355/512 - 2.12e-4: the product with e is exact for the first part
    const LN_2_HI: f32 = 355.0 / 512.0; // 0.693359375: nine bits
    const LN_2_LO: f32 = -2.121_944_4e-4;
    let (e, f) = split(x);
    let s = f * f;
    let y = f * s * polynomial::<M, 9>(f, P);
    let y = M::mul_add(e, LN_2_LO, y);
    let y = M::mul_add(s, -0.5, y);
    with_special(x, M::mul_add(e, LN_2_HI, f + y))
}

/// ln(1 + u) + doublings ln 2 for 0 <= u < 2^126 and few doublings, relative accuracy kept near 0. (1 + u) 2^-e = 1 + f is reached by
/// f = u 2^-e - (1 - 2^-e), which rounds once, not by way of the rounded 1 + u.
#[inline(always)]
pub(crate) fn log1p_doubled<M: MulAdd>(u: f32, doublings: f32) -> f32 {
    const LN_2_HI: f32 = 355.0 / 512.0;
    const LN_2_LO: f32 = -2.121_944_4e-4;
    let e = ((1.0 + u).to_bits().wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let scale = f32::from_bits(((127 - e) as u32) << 23);
    let f = M::mul_add(u, scale, scale - 1.0);
    let e = e as f32 + doublings;
    let s = f * f;
    let y = f * s * polynomial::<M, 9>(f, P);
    let y = M::mul_add(e, LN_2_LO, y);
    let y = M::mul_add(s, -0.5, y);
    M::mul_add(e, LN_2_HI, f + y)
}

/// log2 x; exact at powers of two.
#[inline(always)]
pub fn log2<M: MulAdd>(x: f32) -> f32 {
    /// log2(e) - 1: multiplying by 1 + this, in parts, keeps more bits than the rounded product
    const LOG2_E_MINUS_1: f32 = 0.442_695_04;
    let (e, f) = split(x);
    let s = f * f;
    let y = f * s * polynomial::<M, 9>(f, P);
    let y = M::mul_add(s, -0.5, y);
    let z = M::mul_add(y, LOG2_E_MINUS_1, f * LOG2_E_MINUS_1) + y;
    with_special(x, (z + f) + e)
}

map1! {
    /// [`log`] for a loop.
    Log = log::<M>;
    /// [`log2`] for a loop.
    Log2 = log2::<M>;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;

    #[test]
    fn logarithms_within_bound_everywhere() {
        check("log", Log, f64::ln, 1.5);
        check("log2", Log2, f64::log2, 2.0);
    }

    #[test]
    fn logarithms_special_values_exact() {
        const INF: f32 = f32::INFINITY;
        let cases = [
            (0.0, -INF),
            (-0.0, -INF),
            (1.0, 0.0),
            (INF, INF),
            (-INF, f32::NAN),
            (-1e-45, f32::NAN),
            (f32::NAN, f32::NAN),
        ];
        check_special("log", Log, &cases);
        check_special("log2", Log2, &cases);
        let powers: Vec<_> = (-126..128).map(|e| (2f32.powi(e), e as f32)).collect();
        check_special("log2", Log2, &powers);
        check_special("log2", Log2, &[(1e-45, -149.0)]);
    }
}
