//! Binary functions and comparisons: two operands of one dtype, broadcast together.
//!
//! A binary function gives the operands' dtype, a comparison gives bool. Both run as one step of an expression
//! ([`crate::Program`]).

use std::cmp::Ordering;

use half::{bf16, f16};
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
    /// The largest whole number that is not above a / b, whatever the quotient: of floats exact up to 2^24 (f64: 2^53), where every whole number
    /// is one of the dtype, and as [`BinaryFn::Div`] beyond; a / 0 is infinite or NaN, of an infinite a it is NaN, and a zero has the sign of the
    /// quotient. Of integers a / 0 = a and MIN / -1 = MIN.
    FloorDivide,
    /// sqrt(a^2 + b^2), whose squares neither overflow nor vanish; infinite if either is, even beside NaN.
    Hypot,
    /// The larger; NaN if either is NaN; +0 is larger than -0.
    Max,
    /// The smaller; NaN if either is NaN; -0 is smaller than +0.
    Min,
    /// a * b. Integers wrap.
    Mul,
    /// The neighbour of a towards b among the numbers of the dtype, an infinity behind the largest; b where both are equal. Of f16, bf16, f32 and
    /// f64; what a program has not rounded yet is rounded first.
    Nextafter,
    /// Bitwise (bool: logical) or.
    Or,
    /// a^b, floats only, with IEEE 754's special cases (pow(x, 0) = pow(1, y) = 1).
    Pow,
    /// What a - b trunc(a / b) is exactly, with the sign of a: C's `fmod`, Rust's `%`. Of floats exact, whatever the quotient; NaN for b = 0 and for
    /// an infinite a, a for an infinite b. Of integers a % 0 = 0, MIN % -1 = 0.
    Rem,
    /// What a - b floor(a / b) is, with the sign of b: Python's `%`. Of floats the exact [`BinaryFn::Rem`], plus b, rounded, where the signs differ;
    /// a zero has the sign of b. Of integers 0 for b = 0.
    Remainder,
    /// a 2^b: bits of an integer moved up by b, and out; 0 where b is negative or not below the width of the dtype.
    Shl,
    /// floor(a / 2^b): bits of an integer moved down by b, copies of the sign behind them; nothing but the sign where b is negative or not below
    /// the width of the dtype.
    Shr,
    /// a - b. Integers wrap.
    Sub,
    /// Bitwise (bool: logical) exclusive or.
    Xor,
}

impl BinaryFn {
    /// Every function, alphabetically.
    pub const ALL: [BinaryFn; 19] = [
        BinaryFn::Add,
        BinaryFn::And,
        BinaryFn::Atan2,
        BinaryFn::Copysign,
        BinaryFn::Div,
        BinaryFn::FloorDivide,
        BinaryFn::Hypot,
        BinaryFn::Max,
        BinaryFn::Min,
        BinaryFn::Mul,
        BinaryFn::Nextafter,
        BinaryFn::Or,
        BinaryFn::Pow,
        BinaryFn::Rem,
        BinaryFn::Remainder,
        BinaryFn::Shl,
        BinaryFn::Shr,
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
            BinaryFn::FloorDivide => "floor_divide",
            BinaryFn::Hypot => "hypot",
            BinaryFn::Max => "max",
            BinaryFn::Min => "min",
            BinaryFn::Mul => "mul",
            BinaryFn::Nextafter => "nextafter",
            BinaryFn::Or => "or",
            BinaryFn::Pow => "pow",
            BinaryFn::Rem => "rem",
            BinaryFn::Remainder => "remainder",
            BinaryFn::Shl => "shl",
            BinaryFn::Shr => "shr",
            BinaryFn::Sub => "sub",
            BinaryFn::Xor => "xor",
        }
    }

    /// Whether the function exists for `dtype`: arithmetic for numbers, atan2, copysign, hypot and pow for floats, nextafter for
    /// those of 16 bits and more, shifts for integers, and, or and xor for
    /// integers and bool. max and min of bool are or and and.
    pub const fn defined_for(self, dtype: DType) -> bool {
        match self {
            BinaryFn::Add | BinaryFn::Sub | BinaryFn::Mul | BinaryFn::Div | BinaryFn::Max | BinaryFn::Min => {
                dtype.is_float() || dtype.is_integer()
            }
            BinaryFn::FloorDivide | BinaryFn::Rem | BinaryFn::Remainder => dtype.is_float() || dtype.is_integer(),
            BinaryFn::Atan2 | BinaryFn::Copysign | BinaryFn::Hypot | BinaryFn::Pow => dtype.is_float(),
            BinaryFn::Nextafter => dtype.is_float() && !dtype.is_float8(),
            BinaryFn::Shl | BinaryFn::Shr => dtype.is_integer(),
            BinaryFn::And | BinaryFn::Or | BinaryFn::Xor => !dtype.is_float(),
        }
    }

    /// Whether the result is one of the operands.
    pub(crate) const fn chooses(self) -> bool {
        matches!(self, BinaryFn::Max | BinaryFn::Min)
    }

    /// The value in float64, or exactly for integers, wrapped to `dtype`. Call only where [`BinaryFn::defined_for`].
    pub fn eval(self, a: Scalar, b: Scalar, dtype: DType) -> Scalar {
        match (a.integer(), b.integer()) {
            (Some(_), Some(_)) if dtype == DType::U64 => Scalar::from(self.eval_u64(a.as_u64(), b.as_u64())),
            (Some(_), Some(_)) => Scalar::I(self.eval_i64(a.as_i64(), b.as_i64())).cast(dtype),
            _ if self == BinaryFn::Nextafter => Scalar::F(nextafter(a.as_f64(), b.as_f64(), dtype)),
            _ => Scalar::F(self.eval_f64(a.as_f64(), b.as_f64())),
        }
    }

    /// Where the sign of an i64 would be wrong; the low bits of the others are those of i64.
    fn eval_u64(self, a: u64, b: u64) -> u64 {
        match self {
            BinaryFn::Div | BinaryFn::FloorDivide => a.checked_div(b).unwrap_or(a),
            BinaryFn::Max => a.max(b),
            BinaryFn::Min => a.min(b),
            BinaryFn::Rem | BinaryFn::Remainder => a.checked_rem(b).unwrap_or(0),
            BinaryFn::Shr => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0),
            _ => self.eval_i64(a as i64, b as i64) as u64,
        }
    }

    fn eval_i64(self, a: i64, b: i64) -> i64 {
        match self {
            BinaryFn::Add => a.wrapping_add(b),
            BinaryFn::And => a & b,
            BinaryFn::Div if b == 0 => a,
            BinaryFn::Div => a.wrapping_div(b),
            BinaryFn::FloorDivide if b == 0 => a,
            BinaryFn::FloorDivide => {
                let quotient = a.wrapping_div(b);
                if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
            }
            BinaryFn::Max => a.max(b),
            BinaryFn::Min => a.min(b),
            BinaryFn::Mul => a.wrapping_mul(b),
            BinaryFn::Or => a | b,
            BinaryFn::Rem if b == 0 => 0,
            BinaryFn::Rem => a.wrapping_rem(b),
            BinaryFn::Remainder if b == 0 => 0,
            BinaryFn::Remainder => {
                let rest = a.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
            }
            BinaryFn::Shl if (0..64).contains(&b) => a << b,
            BinaryFn::Shl => 0,
            BinaryFn::Shr => a >> if (0..64).contains(&b) { b } else { 63 },
            BinaryFn::Sub => a.wrapping_sub(b),
            BinaryFn::Xor => a ^ b,
            // Not defined for integers.
            BinaryFn::Atan2 | BinaryFn::Copysign | BinaryFn::Hypot | BinaryFn::Nextafter | BinaryFn::Pow => a,
        }
    }

    fn eval_f64(self, a: f64, b: f64) -> f64 {
        match self {
            BinaryFn::Add => a + b,
            BinaryFn::Atan2 => a.atan2(b),
            BinaryFn::Copysign => a.copysign(b),
            BinaryFn::Div => a / b,
            BinaryFn::FloorDivide => floor_divide(a, b),
            BinaryFn::Hypot => a.hypot(b),
            BinaryFn::Max => extremum(a, b, |a, b| a > b),
            BinaryFn::Min => extremum(a, b, |a, b| a < b),
            BinaryFn::Mul => a * b,
            BinaryFn::Pow => a.powf(b),
            BinaryFn::Rem => a % b,
            BinaryFn::Remainder => remainder(a, b),
            BinaryFn::Sub => a - b,
            // Not defined for floats.
            BinaryFn::And | BinaryFn::Or | BinaryFn::Shl | BinaryFn::Shr | BinaryFn::Xor => f64::NAN,
            // By the dtype, in `eval`.
            BinaryFn::Nextafter => f64::NAN,
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
            // Below, every whole number is one of the dtype.
            BinaryFn::FloorDivide if y.abs() * compute.unit_roundoff() < 1.0 => 0.0,
            BinaryFn::FloorDivide => 3.0 * ulp * y.abs(),
            BinaryFn::Hypot => 4.0 * ulp * y.abs(),
            BinaryFn::Remainder => 0.5 * ulp * y.abs(),
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

/// The neighbour of a, rounded to `dtype`, towards b.
fn nextafter(a: f64, b: f64, dtype: DType) -> f64 {
    let a = Scalar::F(a).cast(dtype).as_f64();
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a == b {
        return b;
    }
    let is_up = b > a;
    // Bits of a sign and a size, which order numbers of one sign.
    let beside = |bits: u16| match (bits & 0x7fff == 0, (bits < 0x8000) == is_up) {
        (true, _) => {
            if is_up {
                1
            } else {
                0x8001
            }
        }
        (false, true) => bits + 1,
        (false, false) => bits - 1,
    };
    match dtype {
        DType::F16 => f16::from_bits(beside(f16::from_f64(a).to_bits())).to_f64(),
        DType::BF16 => bf16::from_bits(beside(bf16::from_f64(a).to_bits())).to_f64(),
        DType::F32 if is_up => f64::from((a as f32).next_up()),
        DType::F32 => f64::from((a as f32).next_down()),
        _ if is_up => a.next_up(),
        _ => a.next_down(),
    }
}

/// a - b floor(a / b), which rounds at most once.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        rest.copysign(b)
    } else if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

/// floor(a / b), exact up to 2^53: the rounded quotient of what b divides, put right by what is left of a.
pub(crate) fn floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_infinite() || a.is_nan() || b.is_nan() {
        return if a.is_infinite() { f64::NAN * b } else { a / b };
    }
    let rest = a % b;
    let below = if rest != 0.0 && (rest < 0.0) != (b < 0.0) { 1.0 } else { 0.0 };
    let near = ((a - rest) / b).round();
    let off = ((-near).mul_add(b, a) - rest) / b;
    // Neither an infinite quotient nor one by infinity is off.
    let quotient = near + if off.is_finite() { off.round() } else { 0.0 } - below;
    if quotient == 0.0 { 0f64.copysign(a / b) } else { quotient }
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
        match (a.integer(), b.integer()) {
            (Some(a), Some(b)) => self.holds(&a, &b),
            _ => self.holds(&a.as_f64(), &b.as_f64()),
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
    fn quotients_and_remainders_of_integers_are_pythons() {
        for dtype in [DType::I8, DType::I32, DType::I64] {
            let of = |f: BinaryFn, a: i64, b: i64| f.eval(Scalar::I(a), Scalar::I(b), dtype).as_i64();
            for (a, b, quotient, rest) in
                [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (-6, 2, -3, 0)]
            {
                assert_eq!((of(BinaryFn::FloorDivide, a, b), of(BinaryFn::Remainder, a, b)), (quotient, rest));
            }
            assert_eq!((of(BinaryFn::FloorDivide, -7, 0), of(BinaryFn::Remainder, -7, 0)), (-7, 0));
        }
        let (top, two) = (Scalar::from(u64::MAX - 1), Scalar::I(2));
        let of = |f: BinaryFn, a, b| f.eval(a, b, DType::U64);
        assert_eq!(of(BinaryFn::Div, top, two), Scalar::I(i64::MAX));
        assert_eq!(of(BinaryFn::Remainder, top, Scalar::I(10)), Scalar::I(4));
        assert_eq!(of(BinaryFn::Shr, top, Scalar::I(63)), Scalar::I(1));
        assert_eq!((of(BinaryFn::Shr, top, Scalar::I(64)), of(BinaryFn::Shl, top, top)), (Scalar::I(0), Scalar::I(0)));
        assert_eq!((of(BinaryFn::Max, top, two), of(BinaryFn::Min, top, two)), (top, two));
        assert_eq!(of(BinaryFn::Add, top, two), Scalar::I(0));
        assert!(CompareFn::Gt.eval(top, two) && CompareFn::Lt.eval(Scalar::I(i64::MAX), top));
        let min = Scalar::I(i64::MIN);
        assert_eq!(BinaryFn::FloorDivide.eval(min, Scalar::I(-1), DType::I64), min);
        assert_eq!(BinaryFn::FloorDivide.eval(Scalar::I(-128), Scalar::I(-1), DType::I8), Scalar::I(-128));
    }

    #[test]
    fn quotients_and_remainders_of_floats_are_exact_whatever_the_quotient() {
        let bits = |x: f64| x.to_bits();
        // Python 3.11: a // b, a % b, math.fmod(a, b); the quotient rounded is one more than the quotient.
        for (a, b, quotient, rest, fmod) in [
            (1.0, 0.1, 9.0, 0.09999999999999995, 0.09999999999999995),
            (-1.0, 0.1, -10.0, 5.551115123125783e-17, -0.09999999999999995),
            (6.0, -0.0, f64::NEG_INFINITY, f64::NAN, f64::NAN),
            (-7.5, 2.0, -4.0, 0.5, -1.5),
            (1.0, f64::NEG_INFINITY, -1.0, f64::NEG_INFINITY, 1.0),
            (0.0, -3.0, -0.0, -0.0, 0.0),
            (-6.0, 3.0, -2.0, 0.0, -0.0),
        ] {
            let found = [BinaryFn::FloorDivide, BinaryFn::Remainder, BinaryFn::Rem].map(|f| f.eval_f64(a, b));
            for (found, want) in found.into_iter().zip([quotient, rest, fmod]) {
                assert!(bits(found) == bits(want) || (found.is_nan() && want.is_nan()), "{a} {b}: {found}, not {want}");
            }
        }
        // As large as a multiple of 3 may be below 2^53.
        let (b, quotient) = (3.0, 3_002_399_751_580_330.0);
        assert_eq!(BinaryFn::FloorDivide.eval_f64(quotient * b, b), quotient);
        assert_eq!(BinaryFn::FloorDivide.eval_f64((quotient * b).next_down(), b), quotient - 1.0);
        assert_eq!(BinaryFn::Rem.eval_f64(1e300, 7.0), 1.0);
    }

    #[test]
    fn shifts_beyond_the_width_leave_nothing_but_the_sign() {
        for (dtype, width) in [
            (DType::I8, 8),
            (DType::U8, 8),
            (DType::I16, 16),
            (DType::U16, 16),
            (DType::I32, 32),
            (DType::U32, 32),
            (DType::I64, 64),
        ] {
            let of = |f: BinaryFn, a: i64, b: i64| f.eval(Scalar::I(a), Scalar::I(b), dtype).as_i64();
            assert_eq!((of(BinaryFn::Shl, 5, 2), of(BinaryFn::Shr, 21, 2)), (20, 5));
            for b in [width, 100] {
                assert_eq!((of(BinaryFn::Shl, 5, b), of(BinaryFn::Shr, 5, b)), (0, 0), "{dtype} by {b}");
            }
            if dtype.is_signed() {
                assert_eq!((of(BinaryFn::Shl, -1, width - 1), of(BinaryFn::Shr, -5, 1)), (-1 << (width - 1), -3));
                assert_eq!(
                    (of(BinaryFn::Shl, -5, -1), of(BinaryFn::Shr, -5, -1), of(BinaryFn::Shr, -5, width)),
                    (0, -1, -1)
                );
            }
        }
    }

    #[test]
    fn neighbours_are_those_of_the_dtype() {
        let of = |a: f64, b: f64, dtype: DType| BinaryFn::Nextafter.eval(Scalar::F(a), Scalar::F(b), dtype).as_f64();
        let infinity = f64::INFINITY;
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let (step, least) = (2.0 * dtype.unit_roundoff(), 2.0 * dtype.unit_roundoff() * dtype.min_normal());
            assert_eq!([of(1.0, 2.0, dtype), of(1.0, -2.0, dtype)], [1.0 + step, 1.0 - step / 2.0], "{dtype}");
            assert_eq!([of(0.0, 1.0, dtype), of(-0.0, -1.0, dtype)], [least, -least], "{dtype}");
            assert_eq!(
                [of(dtype.max_finite(), infinity, dtype), of(-infinity, 0.0, dtype)],
                [infinity, -dtype.max_finite()]
            );
            assert!(of(least, 0.0, dtype).is_sign_positive() && of(0.0, -0.0, dtype).is_sign_negative());
            assert!(of(f64::NAN, 0.0, dtype).is_nan() && of(0.0, f64::NAN, dtype).is_nan());
        }
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
