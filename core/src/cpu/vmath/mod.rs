//! Elementary f32 functions without branches, for loops that LLVM vectorises.
//!
//! Every function is `fn name<M: MulAdd>(x: f32) -> f32`, inlined into the loops of [`super::simd`] and
//! [`super::parallel`], which take it as the unit type of the same name in capitals: `map1(vmath::Exp, &x, &mut y)`.
//! What it is not: a replacement for scalar `std` calls, which are as exact and need no vector loop.
//!
//! The one decision a reader must know: results are those of IEEE 754 within the ULP below, special values included
//! (NaN in, NaN out; gradual underflow; the signs of zero and infinity), on every instruction set; the bits may differ
//! between CPUs with and without fused multiply-add. Polynomials are minimax fits made by `tools/minimax.py` from the
//! mathematical definition; range reductions follow Muller, "Elementary Functions" (3rd ed.), chapter 11.
//!
//! Largest error in ULP of the f32 result, against f64, over every 61st of the 2^32 bit patterns
//! (`cargo run --release --bin ulp -- 61`):
//!
//! | function | fused | separate | special values |
//! |---|---|---|---|
//! | exp | 0.86 | 0.88 | exp(-inf) = 0, overflow to inf above 88.7228 |
//! | exp2 | 0.87 | 1.06 | exact at integers |
//! | log | 0.77 | 0.78 | log(±0) = -inf, log(x < 0) = NaN |
//! | log2 | 1.33 | 1.34 | as log; exact at powers of two |
//! | sin, cos | 1.51 | 1.54 | \|x\| > 2^20 by `f64::sin`, one element at a time; sin(±inf) = NaN, sin(-0) = -0 |
//! | tan | 2.81 | 2.76 | as sin |
//! | asin, acos | 1.88 | 1.81 | NaN beyond -1 and 1 |
//! | atan | 1.36 | 1.37 | atan(±inf) = ±pi/2 |
//! | tanh | 1.26 | 1.26 | tanh(±inf) = ±1 |
//! | sinh, cosh | 3.06 | 2.83 | overflow above 89.4159 |
//! | asinh, acosh, atanh | 2.01 | 2.01 | atanh(±1) = ±inf; NaN beyond the domains |
//! | sigmoid | 1.45 | 1.87 | sigmoid(-inf) = 0; gradual underflow |
//! | silu | 1.54 | 2.51 | silu(-inf) = -0 (the limit) |
//! | erf | 1.06 | 1.25 | erf(±inf) = ±1 |
//! | gelu | 3.69 | 3.77 | x Phi(x), relative accuracy kept to x = -14; gelu(-inf) = -0 (the limit) |
//! | erfc | 3.68 | 3.68 | erfc(-inf) = 2; gradual underflow |
//! | erfinv | 2.47 | 2.47 | erfinv(±1) = ±inf, NaN beyond |
//! | cbrt | 0.96 | 0.95 | signs kept |
//! | rsqrt | 1.47 | 1.47 | rsqrt(±0) = ±inf |
//! | sqrt, reciprocal | 0.5 | 0.5 | IEEE 754 |
//! | floor, ceil, round, sign, abs, neg, relu | 0 | 0 | NaN stays NaN; relu(-0) = +0, sign(±0) = ±0 |

#![allow(clippy::excessive_precision, reason = "nine digits name an f32 exactly, eight do not always")]

mod basic;
mod erf;
mod exp;
mod hyperbolic;
mod inverse_trig;
mod log;
mod trig;

pub use basic::*;
pub use erf::*;
pub use exp::*;
pub use hyperbolic::*;
pub use inverse_trig::*;
pub use log::*;
pub use trig::*;

use super::simd::MulAdd;

/// Declares the unit type that carries a function into a loop.
macro_rules! map1 {
    ($($(#[$doc:meta])* $name:ident = $function:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl $crate::cpu::simd::Map1<f32> for $name {
            const WIDE: bool = true;
            #[inline(always)]
            fn call<M: $crate::cpu::simd::MulAdd>(self, x: f32) -> f32 {
                $function(x)
            }
        }
    )*};
}
use map1;

/// `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule.
#[inline(always)]
fn polynomial<M: MulAdd, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut p = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = M::mul_add(p, x, c[i]);
    }
    p
}

#[cfg(test)]
pub(crate) mod testing {
    //! Comparison with f64, shared by the files of this folder.
    use crate::cpu::simd::{Fused, Map1, Separate};
    use crate::cpu::ulp::ulp_error;

    /// Checks over strided bit patterns, both ways of multiply-add, that the error stays within `bound` ULP.
    pub fn check(name: &str, f: impl Map1<f32>, reference: impl Fn(f64) -> f64, bound: f64) {
        // 2039 is prime, so that every exponent sees varied mantissas: 2.1 million values
        for bits in (0..=u32::MAX).step_by(2039) {
            let x = f32::from_bits(bits);
            let r = reference(f64::from(x));
            let slow = f.is_slow(&x);
            for y in if slow { [f.slow(x); 2] } else { [f.call::<Fused>(x), f.call::<Separate>(x)] } {
                let e = ulp_error(y, r);
                assert!(e <= bound, "{name}({x:e} = {bits:#x}) = {y:e}, not {r:e}: {e} ULP");
            }
        }
    }

    /// Checks exact bits; NaN equals NaN.
    pub fn check_special(name: &str, f: impl Map1<f32>, cases: &[(f32, f32)]) {
        let (x, expected): (Vec<f32>, Vec<f32>) = cases.iter().copied().unzip();
        let mut y = vec![0.0; x.len()];
        crate::cpu::simd::map1(f, &x, &mut y);
        for ((x, y), e) in x.iter().zip(&y).zip(&expected) {
            let same = y.to_bits() == e.to_bits() || (y.is_nan() && e.is_nan());
            assert!(same, "{name}({x:e}) = {y:e}, not {e:e}");
        }
    }
}
