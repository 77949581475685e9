//! Arc sine, arc cosine, arc tangent of one and of two operands.
//!
//! Polynomials are those of `shaders/naga-ptx/src/lower/math/minimax.py`, odd ones around 0; arguments beyond are brought there by
//! atan a = pi/2 - atan(1/a) and asin a = pi/2 - 2 asin(sqrt((1 - a) / 2)) (Muller, "Elementary Functions", chapter 11).

use super::{map1, polynomial};
use crate::cpu::simd::{Map2, MulAdd};

/// pi/2 and pi in two parts each: the nearest f32 and what it lacks.
const PI_2: [f32; 2] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8];
const PI: [f32; 2] = [std::f32::consts::PI, -8.742_278e-8];

/// atan t for 0 <= t <= 1: (atan t - t) / t^3 in t^2, error 2^-27 of atan t.
#[inline(always)]
fn atan_inside<M: MulAdd>(t: f32) -> f32 {
    let c = [
        -0.333_333_015,
        0.199_986_264,
        -0.142_650_917,
        0.109_566_577,
        -0.084_164_604_5,
        0.058_178_056,
        -0.031_394_440_7,
        0.011_028_953_8,
        -0.001_818_711_05,
    ];
    let z = t * t;
    M::mul_add(t * z, polynomial::<M, 9>(z, c), t)
}

/// atan x.
#[inline(always)]
pub fn atan<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let p = atan_inside::<M>(if a > 1.0 { 1.0 / a } else { a });
    let y = if a > 1.0 { (PI_2[0] - p) + PI_2[1] } else { p };
    y.copysign(x)
}

/// The angle of the point (x, y), -pi to pi.
#[inline(always)]
pub fn atan2<M: MulAdd>(y: f32, x: f32) -> f32 {
    let (ay, ax) = (y.abs(), x.abs());
    let steep = ay > ax;
    let (small, large) = if steep { (ax, ay) } else { (ay, ax) };
    // two zeros are a ratio of 0, two infinities one of 1
    let t = if small == large { 1.0 } else { small / large };
    let t = if large == 0.0 { small } else { t };
    let p = atan_inside::<M>(t);
    let p = if steep { (PI_2[0] - p) + PI_2[1] } else { p };
    let p = if x.is_sign_negative() { (PI[0] - p) + PI[1] } else { p };
    p.copysign(y)
}

/// asin a for 0 <= a <= 1/2, and asin(sqrt((1 - a) / 2)) above; NaN above 1.
#[inline(always)]
fn asin_inside<M: MulAdd>(a: f32) -> f32 {
    // (asin s - s) / s^3 in s^2 on [0, 1/2], error 2^-28 of asin s
    let c = [0.166_667_536, 0.074_952_520_4, 0.045_476_041_7, 0.024_152_096_4, 0.042_211_782_2];
    let z = if a > 0.5 { (1.0 - a) * 0.5 } else { a * a };
    let s = if a > 0.5 { z.sqrt() } else { a };
    M::mul_add(s * z, polynomial::<M, 5>(z, c), s)
}

/// asin x.
#[inline(always)]
pub fn asin<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let p = asin_inside::<M>(a);
    let y = if a > 0.5 { (PI_2[0] - 2.0 * p) + PI_2[1] } else { p };
    y.copysign(x)
}

/// acos x.
#[inline(always)]
pub fn acos<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let p = asin_inside::<M>(a);
    let near = (PI_2[0] - p.copysign(x)) + PI_2[1];
    let far = if x < 0.0 { (PI[0] - 2.0 * p) + PI[1] } else { 2.0 * p };
    if a > 0.5 { far } else { near }
}

map1! {
    /// [`asin`] for a loop.
    Asin = asin::<M>;
    /// [`acos`] for a loop.
    Acos = acos::<M>;
    /// [`atan`] for a loop.
    Atan = atan::<M>;
}

/// [`atan2`] for a loop.
#[derive(Clone, Copy, Debug)]
pub struct Atan2;

impl Map2<f32> for Atan2 {
    const WIDE: bool = true;
    #[inline(always)]
    fn call<M: MulAdd>(self, y: f32, x: f32) -> f32 {
        atan2::<M>(y, x)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;
    use crate::cpu::simd::{Fused, Separate};
    use crate::cpu::ulp::ulp_error;

    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;

    #[test]
    fn inverse_functions_within_bound_everywhere() {
        check("atan", Atan, f64::atan, 1.6);
        check("asin", Asin, f64::asin, 2.0);
        check("acos", Acos, f64::acos, 2.0);
    }

    #[test]
    fn inverse_functions_special_values_exact() {
        let half = std::f32::consts::FRAC_PI_2;
        check_special(
            "atan",
            Atan,
            &[(0.0, 0.0), (-0.0, -0.0), (INF, half), (-INF, -half), (NAN, NAN), (1e-45, 1e-45)],
        );
        check_special(
            "asin",
            Asin,
            &[(0.0, 0.0), (-0.0, -0.0), (1.0, half), (-1.0, -half), (1.000_000_1, NAN), (-INF, NAN)],
        );
        check_special(
            "acos",
            Acos,
            &[(0.0, half), (-0.0, half), (1.0, 0.0), (-1.0, 2.0 * half), (-2.0, NAN), (NAN, NAN)],
        );
    }

    #[test]
    fn atan2_within_bound_in_every_quadrant_and_octave() {
        let sizes = [0.0, 1e-45, 1e-39, 1e-20, 0.3, 0.99, 1.0, 1.01, 2.5, 7e10, 3e38, INF, NAN];
        for y in sizes.into_iter().flat_map(|y| [y, -y]) {
            for x in sizes.into_iter().flat_map(|x| [x, -x]) {
                let want = f64::from(y).atan2(f64::from(x));
                for found in [atan2::<Fused>(y, x), atan2::<Separate>(y, x)] {
                    assert!(ulp_error(found, want) <= 2.0, "atan2({y:e}, {x:e}) = {found:e}, not {want:e}");
                }
            }
        }
        for i in 0..100_000u32 {
            let angle = (f64::from(i) * 2e-5 - 1.0) * 3.1;
            let (y, x) = (angle.sin() as f32, angle.cos() as f32);
            let error = ulp_error(atan2::<Fused>(y, x), f64::from(y).atan2(f64::from(x)));
            assert!(error <= 2.0, "atan2({y:e}, {x:e}): {error} ULP");
        }
    }
}
