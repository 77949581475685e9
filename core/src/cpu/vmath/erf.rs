//! Error function, its complement and inverse, and the exact (erf) form of GELU.

use super::exp::{exp, exp_parts};
use super::log::log;
use super::{map1, polynomial};
use crate::cpu::simd::MulAdd;
use crate::erfinv::{CENTRE, TAIL};

/// erf x: odd polynomial below 0.92, 1 - e^(log erfc x) above, both computed and one selected.
#[inline(always)]
pub fn erf<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    // erf(x) / x - 1 in x^2 on [0, 0.92], error 2^-30 of erf x
    let c =
        [0.128_379_17, -0.376_126_3, 0.112_836_257, -0.026_855_728, 0.005_192_376_7, -0.000_804_915_2, 7.992_574e-5];
    let near = M::mul_add(a, polynomial::<M, 7>(s, c), a);
    // -log erfc(x) on [0.9, 4], error 2^-33.8 of erf x; erf 4 rounds to 1
    let bounded = if a > 4.0 { 4.0 } else { a };
    let c = [
        -0.000_169_205_17,
        1.129_488_3,
        0.633_401_1,
        0.108_219_96,
        -0.025_080_232,
        0.004_156_063_8,
        -0.000_431_343_97,
        2.082_335e-5,
    ];
    let far = 1.0 - exp::<M>(-polynomial::<M, 8>(bounded, c));
    let y = if a < 0.92 { near } else { far };
    y.copysign(x)
}

/// Q of [`gelu`] for t >= 0 and t <= 15: Phi(-t) e^(t^2/2).
#[inline(always)]
fn normal_tail<M: MulAdd>(t: f32) -> f32 {
    // (1 + t) Phi(-t) e^(t^2/2) on [0, 14.5], relative error 2^-27
    let c = [
        0.486_055_8,
        -0.096_526_77,
        -0.016_432_24,
        0.045_164_47,
        -0.022_727_571,
        0.001_155_665,
        0.002_993_881,
        -0.000_340_475_73,
        -0.000_472_764_75,
        1.119_544_4e-5,
        4.699_049e-5,
    ];
    // two divisions: with t + 3 in both places one would do, but u near -1 then costs 3 ULP
    polynomial::<M, 11>((t - 3.0) / (t + 3.0), c) / (1.0 + t)
}

/// 1 - erf x = 2 Phi(-sqrt(2) x) above 0 and 2 - erfc(-x) below, relative accuracy kept in the tail.
#[inline(always)]
pub fn erfc<M: MulAdd>(x: f32) -> f32 {
    // at 10.1 the result is below the smallest subnormal number
    let a = x.abs();
    let a = if a > 10.5 { 10.5 } else { a };
    // as in gelu, rounded to 12 bits so that the rest is small
    let head = f32::from_bits((a.to_bits().wrapping_add(0x800)) & 0xffff_f000);
    let e = exp_parts::<M>(-head * head, (head - a) * (a + head));
    let tail = e.scale(2.0 * normal_tail::<M>(std::f32::consts::SQRT_2 * a) * e.p);
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// x P(w), w = -ln(1 - x^2): P of w below 5, of sqrt w above ([`erfinv`](crate::erfinv)).
#[inline(always)]
pub fn erfinv<M: MulAdd>(x: f32) -> f32 {
    let a = x.abs();
    let w = -log::<M>((1.0 - a) * (1.0 + a));
    let centre = polynomial::<M, 10>(w - 2.5, CENTRE);
    let tail = polynomial::<M, 10>(w.sqrt() - 3.0, TAIL);
    let y = x * if w < 5.0 { centre } else { tail };
    let end = if a == 1.0 { f32::INFINITY.copysign(x) } else { f32::NAN };
    if a < 1.0 { y } else { end }
}

/// x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, relative accuracy kept in the negative tail.
///
/// With t = |x|: t Phi(-t) = t e^(-t^2/2) Q(t), where Q(t) (1 + t) is a polynomial in (t - 3) / (t + 3) (the change of variable of
/// Shepherd and Laframboise, Math. Comp. 36 (1981) 249); x >= 0 gives x minus that, x < 0 its negative.
#[inline(always)]
pub fn gelu<M: MulAdd>(x: f32) -> f32 {
    // at 15 the result is below the smallest subnormal number
    let t = x.abs();
    let t = if t > 15.0 { 15.0 } else { t };
    let q = normal_tail::<M>(t);
    // -t^2/2 as the exact square of 12 leading bits and a small rest: rounded t^2/2 would cost 100 ULP at t = 14
    let head = f32::from_bits(t.to_bits() & 0xffff_f000);
    let e = exp_parts::<M>(-0.5 * head * head, -0.5 * (t - head) * (t + head));
    let tail = e.scale(t * q * e.p);
    // the sign of x is kept where everything has underflowed
    if x < 0.0 { -tail } else { x - tail }
}

map1! {
    /// [`erf`] for a loop.
    Erf = erf::<M>;
    /// [`erfc`] for a loop.
    Erfc = erfc::<M>;
    /// [`erfinv`] for a loop.
    Erfinv = erfinv::<M>;
    /// [`gelu`] for a loop.
    Gelu = gelu::<M>;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;
    use crate::cpu::ulp::gelu_reference;
    use crate::{DType, Scalar, UnaryFn};

    #[test]
    fn erf_and_gelu_within_bound_everywhere() {
        check("erf", Erf, libm::erf, 2.0);
        check("erfc", Erfc, libm::erfc, 5.0);
        check("erfinv", Erfinv, |x| UnaryFn::Erfinv.eval(Scalar::F(x), DType::F64).as_f64(), 4.0);
        check("gelu", Gelu, gelu_reference, 4.0);
    }

    #[test]
    fn erf_and_gelu_special_values_exact() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        check_special("erf", Erf, &[(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan)]);
        check_special("erfc", Erfc, &[(-inf, 2.0), (inf, 0.0), (nan, nan), (-5.0, 2.0), (11.0, 0.0)]);
        check_special(
            "erfinv",
            Erfinv,
            &[(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.000_000_1, nan), (nan, nan), (inf, nan)],
        );
        check_special(
            "gelu",
            Gelu,
            &[(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (nan, nan), (20.0, 20.0), (-20.0, -0.0)],
        );
    }
}
