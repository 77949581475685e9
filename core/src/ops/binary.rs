//! Binary functions and comparisons: two operands of one dtype, broadcast together.
//!
//! A binary function gives the operands' dtype, a comparison gives bool. Both run as one step of an expression
//! ([`crate::Program`]).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::{DType, Scalar};

/// A function of two operands of one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BinaryFn {
    /// a + b. Integers wrap.
    Add,
    /// Bitwise (bool: logical) and.
    And,
    /// The angle of the point (b, a), from -pi to pi: the arc tangent of a / b in the quadrant that both signs name. Of zeros and infinities C's
    /// values: atan2(+-0, -0) is +-pi, atan2(inf, inf) pi/4.
    Atan2,
    /// The size of a with the sign of b, those of zeros and NaN included.
    Copysign,
    /// a / b. Integers truncate; a / 0 = a and MIN / -1 = MIN, as WGSL defines them.
    Div,
    /// sqrt(a^2 + b^2), whose squares neither overflow nor vanish; infinite if either is, even beside NaN.
    Hypot,
    /// The larger; NaN if either is NaN; +0 is larger than -0.
    Max,
    /// The smaller; NaN if either is NaN; -0 is smaller than +0.
    Min,
    /// a * b. Integers wrap.
    Mul,
    /// Bitwise (bool: logical) or.
    Or,
    /// a^b, floats only, with IEEE 754's special cases (pow(x, 0) = pow(1, y) = 1).
    Pow,
    /// Integer remainder with the sign of a; a % 0 = 0, MIN % -1 = 0. Not of floats: WGSL's is a - b trunc(a / b) with the
    /// error of that quotient, which for a large one is more than b, so that no bound could be kept on every device.
    Rem,
    /// a - b. Integers wrap.
    Sub,
    /// Bitwise (bool: logical) exclusive or.
    Xor,
}

impl BinaryFn {
    /// Every function, alphabetically.
    pub const ALL: [BinaryFn; 14] = [
        BinaryFn::Add,
        BinaryFn::And,
        BinaryFn::Atan2,
        BinaryFn::Copysign,
        BinaryFn::Div,
        BinaryFn::Hypot,
        BinaryFn::Max,
        BinaryFn::Min,
        BinaryFn::Mul,
        BinaryFn::Or,
        BinaryFn::Pow,
        BinaryFn::Rem,
        BinaryFn::Sub,
        BinaryFn::Xor,
    ];

    /// Lower-case name, also the stem of its shader function.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryFn::Add => "add",
            BinaryFn::And => "and",
            BinaryFn::Atan2 => "atan2",
            BinaryFn::Copysign => "copysign",
            BinaryFn::Div => "div",
            BinaryFn::Hypot => "hypot",
            BinaryFn::Max => "max",
            BinaryFn::Min => "min",
            BinaryFn::Mul => "mul",
            BinaryFn::Or => "or",
            BinaryFn::Pow => "pow",
            BinaryFn::Rem => "rem",
            BinaryFn::Sub => "sub",
            BinaryFn::Xor => "xor",
        }
    }

    /// Whether the function exists for `dtype`: arithmetic for numbers, atan2, copysign, hypot and pow for floats, rem for integers, and, or and xor for
    /// integers and bool. max and min of bool are or and and.
    pub const fn defined_for(self, dtype: DType) -> bool {
        match self {
            BinaryFn::Add | BinaryFn::Sub | BinaryFn::Mul | BinaryFn::Div | BinaryFn::Max | BinaryFn::Min => {
                dtype.is_float() || dtype.is_integer()
            }
            BinaryFn::Atan2 | BinaryFn::Copysign | BinaryFn::Hypot | BinaryFn::Pow => dtype.is_float(),
            BinaryFn::Rem => dtype.is_integer(),
            BinaryFn::And | BinaryFn::Or | BinaryFn::Xor => !dtype.is_float(),
        }
    }

    /// Whether the result is one of the operands.
    pub(crate) const fn chooses(self) -> bool {
        matches!(self, BinaryFn::Max | BinaryFn::Min)
    }

    /// The value in float64, or exactly for integers, wrapped to `dtype`. Call only where [`BinaryFn::defined_for`].
    pub fn eval(self, a: Scalar, b: Scalar, dtype: DType) -> Scalar {
        match (a, b) {
            (Scalar::I(a), Scalar::I(b)) => Scalar::I(self.eval_i64(a, b)).cast(dtype),
            (a, b) => Scalar::F(self.eval_f64(a.as_f64(), b.as_f64())),
        }
    }

    fn eval_i64(self, a: i64, b: i64) -> i64 {
        match self {
            BinaryFn::Add => a.wrapping_add(b),
            BinaryFn::And => a & b,
            BinaryFn::Div if b == 0 => a,
            BinaryFn::Div => a.wrapping_div(b),
            BinaryFn::Max => a.max(b),
            BinaryFn::Min => a.min(b),
            BinaryFn::Mul => a.wrapping_mul(b),
            BinaryFn::Or => a | b,
            BinaryFn::Rem if b == 0 => 0,
            BinaryFn::Rem => a.wrapping_rem(b),
            BinaryFn::Sub => a.wrapping_sub(b),
            BinaryFn::Xor => a ^ b,
            // Not defined for integers.
            BinaryFn::Atan2 | BinaryFn::Copysign | BinaryFn::Hypot | BinaryFn::Pow => a,
        }
    }

    fn eval_f64(self, a: f64, b: f64) -> f64 {
        match self {
            BinaryFn::Add => a + b,
            BinaryFn::Atan2 => a.atan2(b),
            BinaryFn::Copysign => a.copysign(b),
            BinaryFn::Div => a / b,
            BinaryFn::Hypot => a.hypot(b),
            BinaryFn::Max => extremum(a, b, |a, b| a > b),
            BinaryFn::Min => extremum(a, b, |a, b| a < b),
            BinaryFn::Mul => a * b,
            BinaryFn::Pow => a.powf(b),
            BinaryFn::Sub => a - b,
            // Not defined for floats.
            BinaryFn::And | BinaryFn::Or | BinaryFn::Rem | BinaryFn::Xor => f64::NAN,
        }
    }

    /// Largest absolute error promised for arithmetic in `compute` (f32 or f64), result `y`; 0 means exact.
    ///
    /// pow inherits the error of its logarithm, scaled by the exponent: WGSL defines it as exp2(b log2 a).
    pub fn error(self, a: f64, b: f64, y: f64, compute: DType) -> f64 {
        let ulp = 2.0 * compute.unit_roundoff();
        match self {
            BinaryFn::Add | BinaryFn::Sub | BinaryFn::Mul => 0.5 * ulp * y.abs(),
            BinaryFn::Atan2 => 6.0 * ulp * y.abs(),
            BinaryFn::Div => 2.5 * ulp * y.abs(),
            BinaryFn::Hypot => 4.0 * ulp * y.abs(),
            BinaryFn::Pow => {
                let exponent = (b * a.abs().log2()).abs();
                // What is far out of every range is 0 or infinite, and exact: no error of it may be infinity times 0.
                let exponent = if exponent.is_finite() { exponent.min(1e300) } else { 0.0 };
                (16.0 + 4.0 * exponent) * ulp * y.abs()
            }
            _ => 0.0,
        }
    }
}

/// The operand that `wins`; NaN if either is; of two zeros the sign decides as if -0 < +0.
fn extremum(a: f64, b: f64, wins: fn(f64, f64) -> bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if wins(1f64.copysign(a), 1f64.copysign(b)) { a } else { b }
    } else if wins(a, b) {
        a
    } else {
        b
    }
}

/// A comparison of two operands of one dtype, giving bool. With a NaN all but `Ne` are false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompareFn {
    /// a = b
    Eq,
    /// a >= b
    Ge,
    /// a > b
    Gt,
    /// a <= b
    Le,
    /// a < b
    Lt,
    /// a != b
    Ne,
}

impl CompareFn {
    /// Every comparison, alphabetically.
    pub const ALL: [CompareFn; 6] =
        [CompareFn::Eq, CompareFn::Ge, CompareFn::Gt, CompareFn::Le, CompareFn::Lt, CompareFn::Ne];

    /// Lower-case name, also the stem of its shader function.
    pub const fn name(self) -> &'static str {
        match self {
            CompareFn::Eq => "eq",
            CompareFn::Ge => "ge",
            CompareFn::Gt => "gt",
            CompareFn::Le => "le",
            CompareFn::Lt => "lt",
            CompareFn::Ne => "ne",
        }
    }

    /// Whether the comparison exists for `dtype`: bool has no order.
    pub const fn defined_for(self, dtype: DType) -> bool {
        matches!(self, CompareFn::Eq | CompareFn::Ne) || !matches!(dtype, DType::Bool)
    }

    /// The truth value.
    pub fn eval(self, a: Scalar, b: Scalar) -> bool {
        match (a, b) {
            (Scalar::I(a), Scalar::I(b)) => self.holds(&a, &b),
            (a, b) => self.holds(&a.as_f64(), &b.as_f64()),
        }
    }

    /// The truth value where a stands to b as `order` says; `None` where one of them is NaN.
    pub(crate) fn of(self, order: Option<Ordering>) -> bool {
        match self {
            CompareFn::Eq => order.is_some_and(Ordering::is_eq),
            CompareFn::Ge => order.is_some_and(Ordering::is_ge),
            CompareFn::Gt => order.is_some_and(Ordering::is_gt),
            CompareFn::Le => order.is_some_and(Ordering::is_le),
            CompareFn::Lt => order.is_some_and(Ordering::is_lt),
            CompareFn::Ne => order.is_none_or(Ordering::is_ne),
        }
    }

    /// The comparison that b stands in to a.
    pub(crate) const fn swapped(self) -> CompareFn {
        match self {
            CompareFn::Ge => CompareFn::Le,
            CompareFn::Gt => CompareFn::Lt,
            CompareFn::Le => CompareFn::Ge,
            CompareFn::Lt => CompareFn::Gt,
            CompareFn::Eq | CompareFn::Ne => self,
        }
    }

    /// The truth value for any ordered type.
    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            CompareFn::Eq => a == b,
            CompareFn::Ge => a >= b,
            CompareFn::Gt => a > b,
            CompareFn::Le => a <= b,
            CompareFn::Lt => a < b,
            CompareFn::Ne => a != b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_division_follows_wgsl_at_its_edges() {
        let min = Scalar::I(i32::MIN.into());
        assert_eq!(BinaryFn::Div.eval(Scalar::I(7), Scalar::I(0), DType::I32), Scalar::I(7));
        assert_eq!(BinaryFn::Rem.eval(Scalar::I(7), Scalar::I(0), DType::I32), Scalar::I(0));
        assert_eq!(BinaryFn::Div.eval(min, Scalar::I(-1), DType::I32), min);
        assert_eq!(BinaryFn::Rem.eval(min, Scalar::I(-1), DType::I32), Scalar::I(0));
    }

    #[test]
    fn extrema_propagate_nan_and_order_zeros() {
        assert!(BinaryFn::Max.eval_f64(f64::NAN, 1.0).is_nan());
        assert!(BinaryFn::Min.eval_f64(1.0, f64::NAN).is_nan());
        assert!(BinaryFn::Max.eval_f64(-0.0, 0.0).is_sign_positive());
        assert!(BinaryFn::Min.eval_f64(0.0, -0.0).is_sign_negative());
    }

    #[test]
    fn nan_compares_unequal_to_all() {
        let nan = Scalar::F(f64::NAN);
        for f in CompareFn::ALL {
            assert_eq!(f.eval(nan, nan), f == CompareFn::Ne);
        }
    }
}
