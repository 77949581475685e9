//! Sine, cosine and tangent.
//!
//! x = k pi/2 + r with |r| <= pi/4. The reduction is done in f64, where it is exact enough for every f32 up to 2^20
//! without relying on a fused multiply-add; polynomials are f32. Larger arguments are left to `f64::sin`, which reduces by
//! as many digits of pi as they need; the loop of [`crate::cpu::simd::map1`] patches them in one by one.

use super::polynomial;
use crate::cpu::simd::{Map1, MulAdd};

/// Above this, [`Sin`], [`Cos`] and [`Tan`] call those of f64. k < 2^20 keeps k * PI_2_HI exact.
const VECTOR_LIMIT: f32 = 1_048_576.0;

/// r as f32, and k modulo 4 in the low two bits.
#[inline(always)]
fn reduce<M: MulAdd>(x: f32) -> (f32, i32) {
    /// 1.5 * 2^52: adding it rounds to an integer that then stands in the low mantissa bits
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// the first 33 bits of pi/2, and the rest
    const PI_2_HI: f64 = 1.570_796_326_734_125_6;
    const PI_2_LO: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let rounded = M::mul_add_f64(x, std::f64::consts::FRAC_2_PI, ROUND);
    let k = rounded - ROUND;
    let r = M::mul_add_f64(k, -PI_2_LO, M::mul_add_f64(k, -PI_2_HI, x));
    (r as f32, rounded.to_bits() as i32)
}

/// sin(r + k pi/2) for |r| <= pi/4.
#[inline(always)]
fn sin_quadrant<M: MulAdd>(r: f32, k: i32) -> f32 {
    let s = r * r;
    // (sin r - r) / r^3 in r^2, error 2^-27.9 of sin r
    let sin = M::mul_add(r * s, polynomial::<M, 3>(s, [-0.166_666_55, 0.008_332_188, -0.000_195_181]), r);
    // (cos r - 1 + r^2/2) / r^4 in r^2, error 2^-33 of cos r; 1 - r^2/2 with what its rounding lost
    let c = polynomial::<M, 3>(s, [0.041_666_646, -0.001_388_731_1, 2.443_255_3e-5]);
    let half = 0.5 * s;
    let w = 1.0 - half;
    let cos = w + M::mul_add(s * s, c, (1.0 - w) - half);
    let v = if k & 1 == 0 { sin } else { cos };
    f32::from_bits(v.to_bits() ^ (((k & 2) as u32) << 30))
}

/// sin x for |x| <= 2^20; [`Sin`] serves all x.
#[inline(always)]
pub fn sin<M: MulAdd>(x: f32) -> f32 {
    let (r, k) = reduce::<M>(x);
    let y = sin_quadrant::<M>(r, k);
    // keeps the sign of -0
    if x == 0.0 { x } else { y }
}

/// cos x for |x| <= 2^20; [`Cos`] serves all x.
#[inline(always)]
pub fn cos<M: MulAdd>(x: f32) -> f32 {
    let (r, k) = reduce::<M>(x);
    sin_quadrant::<M>(r, k.wrapping_add(1))
}

/// tan x for |x| <= 2^20; [`Tan`] serves all x.
#[inline(always)]
pub fn tan<M: MulAdd>(x: f32) -> f32 {
    let (r, k) = reduce::<M>(x);
    let y = sin_quadrant::<M>(r, k) / sin_quadrant::<M>(r, k.wrapping_add(1));
    // keeps the sign of -0
    if x == 0.0 { x } else { y }
}

/// (sin, cos) of 2 pi t / 2^24 for t in [0, 2^24): the reduction is exact, in integers.
#[inline(always)]
pub(crate) fn sin_cos_turns<M: MulAdd>(t: i32) -> (f32, f32) {
    // quadrants of 2^22, rounded to nearest; the rest is in [-2^21, 2^21)
    let k = (t + (1 << 21)) >> 22;
    let r = (t - (k << 22)) as f32 * (std::f32::consts::FRAC_PI_2 / 4_194_304.0);
    (sin_quadrant::<M>(r, k), sin_quadrant::<M>(r, k + 1))
}

macro_rules! map1_with_slow {
    ($(#[$doc:meta])* $name:ident, $function:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Map1<f32> for $name {
            const HAS_SLOW: bool = true;
            const WIDE: bool = true;

            #[inline(always)]
            fn call<M: MulAdd>(self, x: f32) -> f32 {
                $function::<M>(x)
            }
            #[inline(always)]
            fn is_slow(self, x: &f32) -> bool {
                x.abs() > VECTOR_LIMIT
            }
            fn slow(self, x: f32) -> f32 {
                f64::from(x).$function() as f32
            }
        }
    };
}

map1_with_slow! {
    /// [`sin`] for a loop, for every x.
    Sin, sin
}
map1_with_slow! {
    /// [`cos`] for a loop, for every x.
    Cos, cos
}
map1_with_slow! {
    /// [`tan`] for a loop, for every x.
    Tan, tan
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;

    #[test]
    fn sine_and_cosine_within_bound_everywhere() {
        check("sin", Sin, f64::sin, 1.6);
        check("cos", Cos, f64::cos, 1.6);
        check("tan", Tan, f64::tan, 3.2);
    }

    #[test]
    fn sine_special_values_exact() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        check_special("sin", Sin, &[(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan), (1e-45, 1e-45)]);
        check_special("tan", Tan, &[(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan), (1e-45, 1e-45)]);
        check_special("cos", Cos, &[(0.0, 1.0), (-0.0, 1.0), (inf, nan), (nan, nan)]);
    }

    #[test]
    fn sine_near_multiples_of_pi_keeps_relative_accuracy() {
        for k in 1..40_000 {
            let near = (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32;
            for x in [near.next_down(), near, near.next_up()] {
                let r = f64::from(x).sin();
                let y = sin::<crate::cpu::simd::Separate>(x);
                assert!(crate::cpu::ulp::ulp_error(y, r) <= 1.6, "sin({x:e}) = {y:e}, not {r:e}");
            }
        }
    }

    #[test]
    fn huge_arguments_in_any_place_are_patched() {
        for n in [1usize, 255, 256, 257, 600] {
            for at in [0, n / 2, n - 1] {
                let mut x = vec![0.25f32; n];
                x[at] = 1e30;
                let mut y = vec![0.0; n];
                crate::cpu::simd::map1(Sin, &x, &mut y);
                for (x, y) in x.iter().zip(&y) {
                    assert!(crate::cpu::ulp::ulp_error(*y, f64::from(*x).sin()) <= 1.6);
                }
            }
        }
    }
}
