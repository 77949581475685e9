//! Hyperbolic functions and their inverses.
//!
//! The inverses are ln(1 + u) of a u that keeps its digits near 0 (Muller, "Elementary Functions", chapter 12), by
//! [`log1p_doubled`].

use super::exp::{exp, exp_parts};
use super::log::log1p_doubled;
use super::{map1, polynomial};
use crate::cpu::simd::MulAdd;

/// tanh x: odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above, both computed and one selected.
#[inline(always)]
pub fn tanh<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    // (tanh x - x) / x^3 in x^2 on [0, 0.625], error 2^-27.7 of tanh x
    let c = [-0.333_332_8, 0.133_314_1, -0.053_737_268, 0.020_631_723, -0.005_697_346];
    let near = M::mul_add(a * s, polynomial::<M, 5>(s, c), a);
    // tanh 10 rounds to 1
    let bounded = if a > 10.0 { 10.0 } else { a };
    let far = 1.0 - 2.0 / (exp::<M>(2.0 * bounded) + 1.0);
    let t = if a < 0.625 { near } else { far };
    t.copysign(x)
}

/// e^a / 2 as e^(a - 1) e/2, which overflows where the result does and not where e^a would.
#[inline(always)]
fn half_exp<M: MulAdd>(a: f32) -> f32 {
    let parts = exp_parts::<M>(a - 1.0, 0.0);
    parts.scale(parts.p * (0.5 * std::f32::consts::E))
}

/// sinh x: odd polynomial below 1, (e^x - e^-x) / 2 above.
#[inline(always)]
pub fn sinh<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    // (sinh x - x) / x^3 in x^2 on [0, 1], error 2^-29 of sinh x
    let c = [0.166_666_672, 0.008_333_311_42, 0.000_198_426_351, 2.783_925_77e-6];
    let near = M::mul_add(a * s, polynomial::<M, 4>(s, c), a);
    let half = half_exp::<M>(a);
    let y = if a < 1.0 { near } else { half - 0.25 / half };
    y.copysign(x)
}

/// cosh x = e^|x| / 2 + e^-|x| / 2.
#[inline(always)]
pub fn cosh<M: MulAdd>(x: f32) -> f32 {
    let half = half_exp::<M>(x.abs());
    half + 0.25 / half
}

/// From here on 1 beside the square of the operand, and 1 beside the operand's double, are less than a rounding.
const LARGE: f32 = 4096.0;
/// A part of it, whose double cannot overflow, and the doublings from the part to the double.
const PART: [f32; 2] = [1.0 / 64.0, 7.0];

/// asinh x = ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|, with the sign of x; ln 2a where a is large.
#[inline(always)]
pub fn asinh<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let s = a * a;
    let u = if a > LARGE { a * PART[0] - 1.0 } else { a + s / (1.0 + (s + 1.0).sqrt()) };
    let y = log1p_doubled::<M>(u, if a > LARGE { PART[1] } else { 0.0 });
    (if a < f32::INFINITY { y } else { a }).copysign(x)
}

/// acosh x = ln(1 + t + sqrt(t (t + 2))), t = x - 1; ln 2x where x is large.
#[inline(always)]
pub fn acosh<M: MulAdd>(x: f32) -> f32 {
    let t = x - 1.0;
    let u = if x > LARGE { x * PART[0] - 1.0 } else { t + (t * (t + 2.0)).sqrt() };
    let y = log1p_doubled::<M>(u, if x > LARGE { PART[1] } else { 0.0 });
    let y = if x < f32::INFINITY { y } else { x };
    if x < 1.0 { f32::NAN } else { y }
}

/// atanh x = ln(1 + 2a / (1 - a)) / 2, a = |x|, with the sign of x.
#[inline(always)]
pub fn atanh<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let y = 0.5 * log1p_doubled::<M>(2.0 * a / (1.0 - a), 0.0);
    let end = if a == 1.0 { f32::INFINITY } else { f32::NAN };
    (if a < 1.0 { y } else { end }).copysign(x)
}

map1! {
    /// [`tanh`] for a loop.
    Tanh = tanh::<M>;
    /// [`sinh`] for a loop.
    Sinh = sinh::<M>;
    /// [`cosh`] for a loop.
    Cosh = cosh::<M>;
    /// [`asinh`] for a loop.
    Asinh = asinh::<M>;
    /// [`acosh`] for a loop.
    Acosh = acosh::<M>;
    /// [`atanh`] for a loop.
    Atanh = atanh::<M>;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;

    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;

    #[test]
    fn tanh_within_bound_everywhere() {
        check("tanh", Tanh, f64::tanh, 1.5);
        let inf = f32::INFINITY;
        check_special(
            "tanh",
            Tanh,
            &[(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (f32::NAN, f32::NAN), (1e-45, 1e-45)],
        );
    }

    #[test]
    fn hyperbolic_functions_within_bound_everywhere() {
        check("sinh", Sinh, f64::sinh, 3.4);
        check("cosh", Cosh, f64::cosh, 3.4);
        check("asinh", Asinh, libm::asinh, 3.4);
        check("acosh", Acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 3.4);
        check("atanh", Atanh, libm::atanh, 3.4);
    }

    #[test]
    fn hyperbolic_functions_special_values_exact() {
        let odd = [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (1e-45, 1e-45), (-1e-45, -1e-45)];
        check_special("sinh", Sinh, &odd);
        check_special("sinh", Sinh, &[(INF, INF), (-INF, -INF), (90.0, INF)]);
        check_special("cosh", Cosh, &[(0.0, 1.0), (INF, INF), (-INF, INF), (-90.0, INF), (NAN, NAN)]);
        check_special("asinh", Asinh, &odd);
        check_special("asinh", Asinh, &[(INF, INF), (-INF, -INF)]);
        check_special(
            "acosh",
            Acosh,
            &[(1.0, 0.0), (0.999_999_94, NAN), (-5.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
        );
        check_special("atanh", Atanh, &odd);
        check_special("atanh", Atanh, &[(1.0, INF), (-1.0, -INF), (1.000_000_1, NAN), (-INF, NAN)]);
    }
}
