//! Unary functions: one operand, one result of the same dtype.
//!
//! Everything about a function is here: its name, where it is defined, its float64 meaning ([`UnaryFn::eval`]) and the
//! error every backend promises ([`UnaryFn::error`]). It runs as one step of an expression ([`crate::Program`]).

use serde::{Deserialize, Serialize};

use crate::erfinv::{CENTRE, TAIL};
use crate::{DType, Scalar};

/// A function of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnaryFn {
    /// Absolute value. Integers wrap: |i32::MIN| = i32::MIN.
    Abs,
    /// Arc cosine, 0 to pi; NaN beyond -1 and 1.
    Acos,
    /// Inverse hyperbolic cosine; NaN below 1.
    Acosh,
    /// Arc sine, -pi/2 to pi/2; NaN beyond -1 and 1.
    Asin,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Arc tangent, -pi/2 to pi/2.
    Atan,
    /// Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    Atanh,
    /// Cube root, of negative numbers too.
    Cbrt,
    /// Smallest integer not below x.
    Ceil,
    /// Cosine of x radians.
    Cos,
    /// Hyperbolic cosine.
    Cosh,
    /// How many bits of an integer are set, of the width of its dtype.
    CountOnes,
    /// Gauss error function.
    Erf,
    /// 1 - erf x, which keeps its digits where erf x is near 1.
    Erfc,
    /// The number whose erf is x; infinite at -1 and 1, NaN beyond.
    Erfinv,
    /// e^x.
    Exp,
    /// 2^x.
    Exp2,
    /// Largest integer not above x.
    Floor,
    /// x/2 (1 + erf(x/sqrt 2)), the exact form (Hendrycks & Gimpel, arXiv 1606.08415).
    Gelu,
    /// How many bits of an integer are zero from the highest of its dtype down; of 0 all.
    LeadingZeros,
    /// ln |gamma(x)|; infinite at 0, at the negative whole numbers and at both infinities.
    Lgamma,
    /// Natural logarithm; NaN below 0, -inf at 0.
    Log,
    /// Base-2 logarithm; NaN below 0, -inf at 0.
    Log2,
    /// -x. Integers wrap.
    Neg,
    /// Bitwise complement; logical not for bool.
    Not,
    /// 1/x.
    Reciprocal,
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// Nearest integer, halves to even.
    Round,
    /// 1/sqrt(x); NaN below 0, inf at 0.
    Rsqrt,
    /// 1/(1 + e^-x).
    Sigmoid,
    /// -1, 0 or 1 by the sign of x; NaN stays NaN, zeros keep their sign.
    Sign,
    /// x sigmoid(x).
    Silu,
    /// Sine of x radians.
    Sin,
    /// Hyperbolic sine.
    Sinh,
    /// Square root; NaN below 0.
    Sqrt,
    /// Tangent of x radians.
    Tan,
    /// Hyperbolic tangent.
    Tanh,
    /// How many bits of an integer are zero from the lowest up; of 0 all of its dtype's.
    TrailingZeros,
}

impl UnaryFn {
    /// Every function, alphabetically.
    pub const ALL: [UnaryFn; 38] = [
        UnaryFn::Abs,
        UnaryFn::Acos,
        UnaryFn::Acosh,
        UnaryFn::Asin,
        UnaryFn::Asinh,
        UnaryFn::Atan,
        UnaryFn::Atanh,
        UnaryFn::Cbrt,
        UnaryFn::Ceil,
        UnaryFn::Cos,
        UnaryFn::Cosh,
        UnaryFn::CountOnes,
        UnaryFn::Erf,
        UnaryFn::Erfc,
        UnaryFn::Erfinv,
        UnaryFn::Exp,
        UnaryFn::Exp2,
        UnaryFn::Floor,
        UnaryFn::Gelu,
        UnaryFn::LeadingZeros,
        UnaryFn::Lgamma,
        UnaryFn::Log,
        UnaryFn::Log2,
        UnaryFn::Neg,
        UnaryFn::Not,
        UnaryFn::Reciprocal,
        UnaryFn::Relu,
        UnaryFn::Round,
        UnaryFn::Rsqrt,
        UnaryFn::Sigmoid,
        UnaryFn::Sign,
        UnaryFn::Silu,
        UnaryFn::Sin,
        UnaryFn::Sinh,
        UnaryFn::Sqrt,
        UnaryFn::Tan,
        UnaryFn::Tanh,
        UnaryFn::TrailingZeros,
    ];

    /// Lower-case name, also the stem of its shader function.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryFn::Abs => "abs",
            UnaryFn::Acos => "acos",
            UnaryFn::Acosh => "acosh",
            UnaryFn::Asin => "asin",
            UnaryFn::Asinh => "asinh",
            UnaryFn::Atan => "atan",
            UnaryFn::Atanh => "atanh",
            UnaryFn::Cbrt => "cbrt",
            UnaryFn::Ceil => "ceil",
            UnaryFn::Cos => "cos",
            UnaryFn::Cosh => "cosh",
            UnaryFn::CountOnes => "count_ones",
            UnaryFn::Erf => "erf",
            UnaryFn::Erfc => "erfc",
            UnaryFn::Erfinv => "erfinv",
            UnaryFn::Exp => "exp",
            UnaryFn::Exp2 => "exp2",
            UnaryFn::Floor => "floor",
            UnaryFn::Gelu => "gelu",
            UnaryFn::LeadingZeros => "leading_zeros",
            UnaryFn::Lgamma => "lgamma",
            UnaryFn::Log => "log",
            UnaryFn::Log2 => "log2",
            UnaryFn::Neg => "neg",
            UnaryFn::Not => "not",
            UnaryFn::Reciprocal => "reciprocal",
            UnaryFn::Relu => "relu",
            UnaryFn::Round => "round",
            UnaryFn::Rsqrt => "rsqrt",
            UnaryFn::Sigmoid => "sigmoid",
            UnaryFn::Sign => "sign",
            UnaryFn::Silu => "silu",
            UnaryFn::Sin => "sin",
            UnaryFn::Sinh => "sinh",
            UnaryFn::Sqrt => "sqrt",
            UnaryFn::Tan => "tan",
            UnaryFn::Tanh => "tanh",
            UnaryFn::TrailingZeros => "trailing_zeros",
        }
    }

    /// Whether the function exists for `dtype`: all but those of bits for floats; abs, neg, relu, sign, not and counts of bits for
    /// integers (neg only for signed ones); not for bool.
    ///
    /// ceil, floor and round would change nothing in an integer: a program that rounds one has most often the wrong dtype,
    /// and is told. The others have no integer results, so how they round is for a cast to say.
    pub const fn defined_for(self, dtype: DType) -> bool {
        match self {
            UnaryFn::Not => !dtype.is_float(),
            UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::TrailingZeros => dtype.is_integer(),
            UnaryFn::Abs | UnaryFn::Relu | UnaryFn::Sign => dtype.is_float() || dtype.is_integer(),
            UnaryFn::Neg => dtype.is_signed(),
            _ => dtype.is_float(),
        }
    }

    /// Whether the result is the operand, its whole number or 0, but for the sign: a number of every dtype that the operand is
    /// one of, without rounding.
    pub(crate) const fn chooses(self) -> bool {
        matches!(
            self,
            UnaryFn::Abs
                | UnaryFn::Ceil
                | UnaryFn::Floor
                | UnaryFn::Neg
                | UnaryFn::Relu
                | UnaryFn::Round
                | UnaryFn::Sign
        )
    }

    /// Whether this can be the activation of a fused epilogue.
    pub const fn is_activation(self) -> bool {
        matches!(self, UnaryFn::Relu | UnaryFn::Gelu | UnaryFn::Silu | UnaryFn::Tanh | UnaryFn::Sigmoid)
    }

    /// The value in float64, or exactly for integers, wrapped to `dtype`. Call only where [`UnaryFn::defined_for`].
    pub fn eval(self, x: Scalar, dtype: DType) -> Scalar {
        let bits = match x {
            Scalar::F(x) => return Scalar::F(self.eval_f64(x)),
            Scalar::I(_) | Scalar::U(_) => x.as_i64(),
        };
        Scalar::I(self.eval_bits(bits, dtype)).cast(dtype)
    }

    /// Of an integer's bits, those of u64 as i64.
    fn eval_bits(self, x: i64, dtype: DType) -> i64 {
        match self {
            UnaryFn::Abs | UnaryFn::Relu if !dtype.is_signed() => x,
            UnaryFn::Sign if !dtype.is_signed() => i64::from(x != 0),
            UnaryFn::Abs => x.wrapping_abs(),
            UnaryFn::Neg => x.wrapping_neg(),
            UnaryFn::Relu => x.max(0),
            UnaryFn::Sign => x.signum(),
            UnaryFn::CountOnes => bits_of(x, dtype).count_ones().into(),
            UnaryFn::LeadingZeros => (bits_of(x, dtype).leading_zeros() - (64 - width(dtype))).into(),
            UnaryFn::TrailingZeros => bits_of(x, dtype).trailing_zeros().min(width(dtype)).into(),
            UnaryFn::Not if dtype == DType::Bool => i64::from(x == 0),
            UnaryFn::Not => !x,
            _ => x,
        }
    }

    fn eval_f64(self, x: f64) -> f64 {
        match self {
            UnaryFn::Abs => x.abs(),
            UnaryFn::Acos => x.acos(),
            // libm's is a number far below -1.
            UnaryFn::Acosh if x < 1.0 => f64::NAN,
            UnaryFn::Acosh => libm::acosh(x),
            UnaryFn::Asin => x.asin(),
            UnaryFn::Asinh => libm::asinh(x),
            UnaryFn::Atan => x.atan(),
            UnaryFn::Atanh => libm::atanh(x),
            UnaryFn::Cbrt => x.cbrt(),
            UnaryFn::Ceil => x.ceil(),
            UnaryFn::Cos => x.cos(),
            UnaryFn::Cosh => x.cosh(),
            UnaryFn::Erf => libm::erf(x),
            UnaryFn::Erfc => libm::erfc(x),
            UnaryFn::Erfinv => erfinv(x),
            UnaryFn::Exp => x.exp(),
            UnaryFn::Exp2 => x.exp2(),
            UnaryFn::Floor => x.floor(),
            // By erfc, so that the negative tail keeps its digits; the limit at -inf is -0.
            UnaryFn::Gelu if x == f64::NEG_INFINITY => -0.0,
            UnaryFn::Gelu => gelu(x),
            UnaryFn::Lgamma if x == f64::NEG_INFINITY => f64::INFINITY,
            UnaryFn::Lgamma => libm::lgamma(x),
            UnaryFn::Log => x.ln(),
            UnaryFn::Log2 => x.log2(),
            UnaryFn::Neg => -x,
            // Of integers alone.
            UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::Not | UnaryFn::TrailingZeros => x,
            UnaryFn::Reciprocal => 1.0 / x,
            UnaryFn::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            UnaryFn::Round => x.round_ties_even(),
            UnaryFn::Rsqrt => 1.0 / x.sqrt(),
            UnaryFn::Sigmoid => sigmoid(x),
            UnaryFn::Sign => {
                if x == 0.0 || x.is_nan() {
                    x
                } else {
                    x.signum()
                }
            }
            UnaryFn::Silu if x == f64::NEG_INFINITY => -0.0,
            UnaryFn::Silu => x * sigmoid(x),
            UnaryFn::Sin => x.sin(),
            UnaryFn::Sinh => x.sinh(),
            UnaryFn::Sqrt => x.sqrt(),
            UnaryFn::Tan => x.tan(),
            UnaryFn::Tanh => x.tanh(),
        }
    }

    /// Largest absolute error promised at `x` for arithmetic in `compute` (f32 or f64), result `y`; 0 means exact.
    ///
    /// Relative errors are in units in the last place (2u) of the result. sin and cos promise their ULPs up to
    /// |x| = 2^15 and an absolute 2^-5 |x| 2u beyond, where the reduction to one period loses digits; tan promises what such errors of its
    /// argument make of it, 1 + tan^2 x times as much. silu and gelu may lose their far tail, where e^x leaves the normal range.
    pub fn error(self, x: f64, y: f64, compute: DType) -> f64 {
        let ulp = 2.0 * compute.unit_roundoff();
        let ulps = match self {
            UnaryFn::Abs
            | UnaryFn::Ceil
            | UnaryFn::CountOnes
            | UnaryFn::Floor
            | UnaryFn::LeadingZeros
            | UnaryFn::Neg
            | UnaryFn::Not
            | UnaryFn::Round
            | UnaryFn::Sign
            | UnaryFn::TrailingZeros => return 0.0,
            // The sign of relu(-0) is free: both max(x, 0) and a comparison are in use.
            UnaryFn::Relu => return if x == 0.0 { f64::MIN_POSITIVE } else { 0.0 },
            UnaryFn::Reciprocal | UnaryFn::Sqrt => 2.5,
            UnaryFn::Exp | UnaryFn::Exp2 | UnaryFn::Log | UnaryFn::Log2 | UnaryFn::Rsqrt => 4.0,
            UnaryFn::Sigmoid | UnaryFn::Silu => 6.0,
            UnaryFn::Tanh => 6.0,
            UnaryFn::Erf => 7.0,
            // In f64 both the oracle and a backend round x/sqrt 2, whose error the tail e^(-x^2/2) magnifies by x^2.
            // Beyond -64 nothing of it is left.
            UnaryFn::Gelu if compute == DType::F64 => 8.0 + if x < 0.0 { x.max(-64.0).powi(2) } else { 0.0 },
            UnaryFn::Gelu => 8.0,
            UnaryFn::Cbrt => 4.0,
            UnaryFn::Acos | UnaryFn::Asin | UnaryFn::Atan | UnaryFn::Cosh | UnaryFn::Sinh => 6.0,
            UnaryFn::Acosh | UnaryFn::Asinh | UnaryFn::Atanh | UnaryFn::Erfinv => 8.0,
            UnaryFn::Erfc => 8.0,
            // Below 0 a sum of terms that cancel around zeros of the function.
            UnaryFn::Lgamma if x < -0.5 => {
                let mirrored = libm::lgamma(-x);
                return 8.0 * ulp * (y.abs() + mirrored.abs() + (y + mirrored).abs());
            }
            UnaryFn::Lgamma => 8.0,
            // An absolute share too: near a zero of the function the result is far below the reduced argument.
            UnaryFn::Sin | UnaryFn::Cos => {
                return (4.0 * ulp * y.abs()).max(reduction_error(x, ulp)) + ulp * (-12f64).exp2();
            }
            UnaryFn::Tan => {
                let moved = (1.0 + y * y) * (reduction_error(x, ulp) + ulp * (-12f64).exp2());
                // Beyond a pole there is every number.
                return if moved > 0.25 * (1.0 + y.abs()) { f64::INFINITY } else { 6.0 * ulp * y.abs() + moved };
            }
        };
        // x / (1 + e^-x) is 0 as soon as e^-x overflows, before the product with x does.
        let tail = match self {
            UnaryFn::Silu | UnaryFn::Gelu if y.abs() < x.abs() * 4.0 * compute.min_normal() => {
                // In f64 the oracle is no better: its factor of x is a multiple of the smallest subnormal number, too.
                let oracle = if compute == DType::F64 && x.is_finite() { x.abs() * f64::from_bits(1) } else { 0.0 };
                y.abs() + oracle
            }
            _ => 0.0,
        };
        ulps * ulp * y.abs() + tail
    }
}

/// Bits of an integer `dtype`.
fn width(dtype: DType) -> u32 {
    8 * dtype.size_bytes() as u32
}

/// The bits of an integer of `dtype`, without those of its sign above.
fn bits_of(x: i64, dtype: DType) -> u64 {
    x as u64 & (u64::MAX >> (64 - width(dtype)))
}

/// By a start within 2^-20 ([`erfinv_start`]) and one step of Halley's on erf(y) - x, or near 1 on erfc(y) - (1 - x), which is exact.
fn erfinv(x: f64) -> f64 {
    use std::f64::consts::FRAC_2_SQRT_PI;
    let a = x.abs();
    if a.is_nan() || a >= 1.0 {
        return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    let y = erfinv_start(a);
    let off = if a < 0.5 { a - libm::erf(y) } else { libm::erfc(y) - (1.0 - a) };
    let step = off / (FRAC_2_SQRT_PI * (-y * y).exp());
    (y + step / (1.0 - y * step)).copysign(x)
}

/// erfinv a for 0 <= a < 1, within 2^-20: as the CPU's floats have it ([`erfinv`](crate::erfinv)), and beyond those by a polynomial of sqrt w as well.
fn erfinv_start(a: f64) -> f64 {
    let horner = |t: f64, c: &[f64]| c.iter().rev().fold(0.0, |p, &c| p * t + c);
    let w = -((1.0 - a) * (1.0 + a)).ln();
    let root = w.sqrt();
    let p = if w < 5.0 {
        horner(w - 2.5, &CENTRE.map(f64::from))
    } else if root < 3.95 {
        horner(root - 3.0, &TAIL.map(f64::from))
    } else {
        const FAR: [f64; 5] = [
            4.849907462828125,
            1.0103104764548392,
            -0.00014766099094728458,
            -0.00024729911364132604,
            8.856418989783246e-5,
        ];
        horner(root - 5.0, &FAR)
    };
    a * p
}

/// How far the reduction of x radians to one period may be off.
fn reduction_error(x: f64, ulp: f64) -> f64 {
    if x.abs() > 32768.0 { (x.abs() * ulp * (-5f64).exp2()).min(2.0) } else { 0.0 }
}

/// By erfc at the rounded -x / sqrt 2 and one Newton step to the exact argument: in the far tail the rounding alone is
/// worth 50 ULP of the result.
fn gelu(x: f64) -> f64 {
    const LOW: f64 = -4.833646656726457e-17; // 1/sqrt 2 - FRAC_1_SQRT_2
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    if !x.is_finite() {
        return x;
    }
    let t = -x * FRAC_1_SQRT_2;
    let rest = (-x).mul_add(FRAC_1_SQRT_2, -t) - x * LOW;
    0.5 * x * (libm::erfc(t) - FRAC_2_SQRT_PI * (-t * t).exp() * rest)
}

fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(UnaryFn::ALL.windows(2).all(|w| w[0].name() < w[1].name()));
    }

    #[test]
    fn integer_results_wrap_to_their_dtype() {
        assert_eq!(UnaryFn::Abs.eval(Scalar::I(-128), DType::I8), Scalar::I(-128));
        assert_eq!(UnaryFn::Neg.eval(Scalar::I(i32::MIN.into()), DType::I32), Scalar::I(i32::MIN.into()));
        assert_eq!(UnaryFn::Not.eval(Scalar::I(5), DType::U8), Scalar::I(250));
        assert_eq!(UnaryFn::Not.eval(Scalar::I(1), DType::Bool), Scalar::I(0));
    }

    #[test]
    fn bits_are_counted_within_the_dtype() {
        let counts = [UnaryFn::CountOnes, UnaryFn::LeadingZeros, UnaryFn::TrailingZeros];
        for (dtype, bits) in [(DType::I8, 8), (DType::U8, 8), (DType::I32, 32), (DType::U32, 32), (DType::I64, 64)] {
            let of = |x: i64| counts.map(|f| f.eval(Scalar::I(x), dtype).as_i64());
            assert_eq!(of(0), [0, bits, bits]);
            assert_eq!(of(12), [2, bits - 4, 2]);
            if dtype.is_signed() {
                assert_eq!(of(-1), [bits, 0, 0]);
                assert_eq!(of(-4), [bits - 2, 0, 2]);
            }
        }
    }

    #[test]
    fn gelu_of_the_far_tail_may_be_better_than_the_oracle() {
        // 38.6 Phi(-38.6) is about 4e-323, and Phi(-38.6) below half of the smallest number.
        let (x, u) = (-38.6, f64::from_bits(1));
        let y = UnaryFn::Gelu.eval_f64(x);
        assert!(UnaryFn::Gelu.error(x, y, DType::F64) >= 8.0 * u);
        assert!(UnaryFn::Gelu.error(x, y, DType::F64) < 100.0 * u);
        assert_eq!(UnaryFn::Gelu.error(f64::NEG_INFINITY, -0.0, DType::F64), 0.0);
    }

    #[test]
    fn erfinv_and_lgamma_are_those_of_mpmath() {
        // mpmath 1.3, 30 digits, at the f64.
        let inverse = [
            (1e-300, 8.86226925452758e-301),
            (0.1, 0.08885599049425769),
            (0.5, 0.4769362762044699),
            (0.96, 1.4522197815622465),
            (0.999, 2.326753765513524),
            (-0.999_999_9, -3.766562581638471),
            (1.0 - f64::EPSILON / 2.0, 5.863584748755168),
        ];
        for (x, y) in inverse {
            let got = UnaryFn::Erfinv.eval_f64(x);
            assert!((got / y - 1.0).abs() < 3.0 * f64::EPSILON, "erfinv({x}) = {got}, not {y}");
        }
        assert_eq!(UnaryFn::Erfinv.eval_f64(1.0), f64::INFINITY);
        assert!(UnaryFn::Erfinv.eval_f64(-1.5).is_nan());
        for (x, y) in [(-0.0, f64::INFINITY), (-3.0, f64::INFINITY), (f64::NEG_INFINITY, f64::INFINITY), (2.0, 0.0)] {
            assert_eq!(UnaryFn::Lgamma.eval_f64(x), y, "lgamma({x})");
        }
    }

    #[test]
    fn gelu_keeps_digits_in_the_negative_tail() {
        let y = UnaryFn::Gelu.eval_f64(-10.0);
        assert!(y < 0.0 && y > -1e-20, "{y}");
        // mpmath, 50 digits.
        let exact = [(-10.0, -7.619853024160526e-23), (-20.5, -2.206758018052147e-92)];
        for (x, y) in exact {
            let got = UnaryFn::Gelu.eval_f64(x);
            assert!((got / y - 1.0).abs() < 4.0 * f64::EPSILON, "{got} {y}");
        }
    }
}
