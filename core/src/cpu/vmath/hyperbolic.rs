//! Hyperbolic tangent.

use super::exp::exp;
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

map1! {
    /// [`tanh`] for a loop.
    Tanh = tanh::<M>;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_special};
    use super::*;

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
}
