//! Expressions: several elementwise steps that one kernel runs.
//!
//! A caller builds an [`Expr`] from inputs and constants with ordinary operators. [`Program::compile`] gives every step
//! a dtype and flattens the tree to plain data, shared subtrees once; that is what ops carry and backends translate.
//! All elementwise ops are programs: `a.exp()` is a program of one step.
//!
//! Arithmetic: steps in floats of 8 and 16 bits are computed in f32 and rounded once, where the program ends or casts; 8-bit
//! integers wrap after every step. What is only chosen is not rounded. Constants are kept apart from the steps, so kernels that
//! differ only in them are the same.

mod binary;
mod derivative;
mod functions;
pub(crate) mod number;
mod program;
mod unary;

use std::ops;
use std::sync::Arc;

pub use binary::{BinaryFn, CompareFn};
pub use program::{Program, Step, StepId, StepSet};
pub use unary::UnaryFn;

use crate::{DType, Scalar};

/// Most inputs of one expression: WebGPU guarantees 8 storage buffers, one holds the result.
pub const MAX_INPUTS: usize = 7;

/// Most inputs, and most results, of expressions that are compiled together ([`Program::compile_all`]). Devices may have fewer buffers.
pub const MAX_OPERANDS: usize = 15;

/// Most steps of one compiled expression.
pub const MAX_STEPS: usize = 256;

/// An elementwise computation under construction.
///
/// ```
/// use polywarp_core::Expr;
/// let (x, y) = (Expr::input(0), Expr::input(1));
/// let smooth = (x.clone() * 2.0 + y).tanh() - x; // one kernel, one pass over memory
/// # let _ = smooth;
/// ```
#[derive(Clone, Debug)]
pub struct Expr(Arc<Node>);

#[derive(Debug)]
struct Node {
    kind: Kind,
    depth: usize,
    /// What the expression is computed in when no input or cast decides: i32 for integers alone, else f32.
    fallback: DType,
    /// Whether values are computed and not only taken, chosen, converted or compared.
    is_arithmetic: bool,
    /// Whether this is a constant, the position, or a choice between such: nothing that is computed in a dtype.
    is_literal: bool,
}

#[derive(Debug)]
enum Kind {
    Input(usize),
    Constant(Scalar),
    Index,
    Unary(UnaryFn, Expr),
    Binary(BinaryFn, Expr, Expr),
    Compare(CompareFn, Expr, Expr),
    Select(Expr, Expr, Expr),
    Cast(DType, Expr),
    Random([Expr; 4]),
    /// Replaces a node nested deeper than [`MAX_STEPS`], so that neither compiling nor dropping can exhaust the stack.
    TooDeep,
}

impl Expr {
    /// The element of input number `index`.
    pub fn input(index: usize) -> Expr {
        Expr::leaf(Kind::Input(index))
    }

    /// A constant, which has no dtype of its own. Three rules say what it means beside an operand:
    ///
    /// * Comparisons are exact, whatever the dtype: every u8 is below 256, no i32 equals 2.5, and no f32 equals 0.1,
    ///   which is an f64 (0.1f32 is a number of f32). Integers beyond 2^53 are compared exactly, too.
    /// * The larger of an integer x and 2.5 is the least integer that is below neither (3 for 2), the smaller likewise,
    ///   so that a clamp stays in its range.
    /// * Everything else takes the constant in the type that the program computes in. Floats take the nearest number:
    ///   f32 for floats of 8 and 16 bits, so that f16 + 1e-8 adds 1e-8 before it rounds. u8 + 256, i32 + 2.5 and
    ///   f32 * 1e300 are refused by [`Error::NumberOutOfRange`](crate::Error::NumberOutOfRange).
    ///
    /// [`Expr::cast`] converts a constant by the rules of [`Scalar::cast`] instead; an infinity stays one in f8e5m2.
    pub fn constant(value: impl Into<Scalar>) -> Expr {
        Expr::leaf(Kind::Constant(value.into()))
    }

    /// The row-major position of the element in the result; like a constant, it takes the dtype of what it meets.
    pub fn index() -> Expr {
        Expr::leaf(Kind::Index)
    }

    /// 32 random bits for each element, as u32. The key is four u32: seed low, seed high, stream low, stream high.
    ///
    /// The element at row-major position i of the result takes word i mod 4 of the block of Philox4x32-10 (Salmon et al., SC'11) whose
    /// 128-bit counter has i div 4 in its low half and the stream in its high half, under the key `seed`: bit for bit what
    /// [`Tensor::random`](crate::Tensor::random) gives as [`Distribution::Bits`](crate::Distribution::Bits) there. A key may be
    /// read from a tensor, so that it changes from launch to launch ([`Generator::key`](crate::Generator::key)), and may differ from
    /// element to element. Numbers have no gradient.
    ///
    /// ```
    /// use polywarp_core::{Device, Distribution, DType, Expr, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::zeros(&device, DType::U32, [5])?;
    /// let bits = Expr::random([7, 0, 3, 0].map(Expr::constant)) ^ Expr::input(0);
    /// let same = Tensor::random(&device, DType::U32, [5], Distribution::Bits, 7, 3)?;
    /// assert_eq!(Tensor::map(&bits, &[&x])?.to_vec::<u32>()?, same.to_vec::<u32>()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn random(key: [Expr; 4]) -> Expr {
        Expr::node(Kind::Random(key))
    }

    /// Uniform f32 in [0, 1): (bits div 256) 2^-24 of [`Expr::random`], 24 random bits. Every step is exact: the bits are those of
    /// [`Distribution::Uniform`](crate::Distribution::Uniform) from 0 to 1.
    pub fn uniform(key: [Expr; 4]) -> Expr {
        const UNIT: f64 = 1.0 / 16_777_216.0; // 2^-24: 24 bits fill an f32 significand
        (Expr::random(key) / 256).cast(DType::F32) * UNIT
    }

    fn leaf(kind: Kind) -> Expr {
        let integer = matches!(kind, Kind::Constant(Scalar::I(_) | Scalar::U(_)) | Kind::Index);
        let fallback = if integer { DType::I32 } else { DType::F32 };
        let is_literal = matches!(kind, Kind::Constant(_) | Kind::Index);
        // The position is rounded like arithmetic.
        let is_arithmetic = matches!(kind, Kind::Index);
        Expr(Arc::new(Node { kind, depth: 1, fallback, is_arithmetic, is_literal }))
    }

    fn node(kind: Kind) -> Expr {
        // What decides the dtype; a choice is as deep as its condition, too.
        let (operands, condition): ([Option<&Expr>; 2], _) = match &kind {
            Kind::Unary(_, x) | Kind::Cast(_, x) => ([Some(x), None], None),
            Kind::Binary(_, a, b) | Kind::Compare(_, a, b) => ([Some(a), Some(b)], None),
            Kind::Select(condition, a, b) => ([Some(a), Some(b)], Some(condition)),
            // The words of a key decide nothing: bits are u32.
            Kind::Random(_) => ([None, None], None),
            Kind::Input(_) | Kind::Constant(_) | Kind::Index | Kind::TooDeep => ([None, None], None),
        };
        let key: &[Expr] = if let Kind::Random(key) = &kind { key } else { &[] };
        let below = operands.iter().flatten().chain(&condition).copied().chain(key);
        let depth = 1 + below.map(|x| x.0.depth).max().unwrap_or(0);
        let integer = operands.iter().flatten().all(|x| x.0.fallback == DType::I32);
        let fallback = if integer { DType::I32 } else { DType::F32 };
        let of_arithmetic = operands.iter().flatten().any(|x| x.0.is_arithmetic);
        let is_arithmetic = match kind {
            Kind::Unary(f, _) => !f.chooses() || of_arithmetic,
            Kind::Binary(f, ..) => !f.chooses() || of_arithmetic,
            Kind::Select(..) => of_arithmetic,
            Kind::Compare(..) | Kind::Cast(..) | Kind::Random(_) | Kind::TooDeep => false,
            Kind::Input(_) | Kind::Constant(_) | Kind::Index => false,
        };
        let is_literal = matches!(kind, Kind::Select(..)) && operands.iter().flatten().all(|x| x.0.is_literal);
        let kind = if depth > MAX_STEPS { Kind::TooDeep } else { kind };
        Expr(Arc::new(Node { kind, depth, fallback, is_arithmetic, is_literal }))
    }

    /// `f` of this.
    pub fn unary(&self, f: UnaryFn) -> Expr {
        Expr::node(Kind::Unary(f, self.clone()))
    }

    /// `f` of this and `rhs`.
    pub fn binary(&self, f: BinaryFn, rhs: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Binary(f, self.clone(), rhs.into()))
    }

    /// The comparison of this with `rhs`, as bool.
    pub fn compare(&self, f: CompareFn, rhs: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Compare(f, self.clone(), rhs.into()))
    }

    /// `yes` where this (bool) is true, else `no`.
    pub fn select(&self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Select(self.clone(), yes.into(), no.into()))
    }

    /// [`Expr::select`] under the name that [`Tensor::where_`](crate::Tensor::where_) has.
    pub fn where_(&self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        self.select(yes, no)
    }

    /// This limited to `low..=high`; NaN stays NaN. Integers are limited to those of the range.
    pub fn clamp(&self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.binary(BinaryFn::Max, low).binary(BinaryFn::Min, high)
    }

    /// This converted to `dtype` by the rules of [`Scalar::cast`].
    pub fn cast(&self, dtype: DType) -> Expr {
        Expr::node(Kind::Cast(dtype, self.clone()))
    }
}

/// The functions of one element that are steps: a method each of [`Expr`] and [`Tensor`](crate::Tensor).
macro_rules! unary_functions {
    ($methods:ident) => {
        $methods!(abs => Abs, acos => Acos, acosh => Acosh, asin => Asin, asinh => Asinh, atan => Atan, atanh => Atanh, cbrt => Cbrt, ceil => Ceil,
            cos => Cos, cosh => Cosh, count_ones => CountOnes, erf => Erf, erfc => Erfc, erfinv => Erfinv, exp => Exp, exp2 => Exp2, floor => Floor,
            gelu => Gelu, leading_zeros => LeadingZeros, lgamma => Lgamma, log => Log, log2 => Log2, neg => Neg, not => Not,
            reciprocal => Reciprocal, relu => Relu, round => Round, rsqrt => Rsqrt, sigmoid => Sigmoid, sign => Sign, silu => Silu, sin => Sin,
            sinh => Sinh, sqrt => Sqrt, tan => Tan, tanh => Tanh, trailing_zeros => TrailingZeros);
    };
}
pub(crate) use unary_functions;

/// The functions of two elements, likewise.
macro_rules! binary_functions {
    ($methods:ident) => {
        $methods!(add => Add, and => And, atan2 => Atan2, copysign => Copysign, div => Div, floor_divide => FloorDivide, fmod => Rem,
            hypot => Hypot, maximum => Max, minimum => Min, mul => Mul, nextafter => Nextafter, or => Or, pow => Pow, rem => Rem,
            remainder => Remainder, shl => Shl, shr => Shr, sub => Sub, xor => Xor);
    };
}
pub(crate) use binary_functions;

/// The comparisons, likewise.
macro_rules! comparisons {
    ($methods:ident) => {
        $methods!(eq => Eq, ge => Ge, gt => Gt, le => Le, lt => Lt, ne => Ne);
    };
}
pub(crate) use comparisons;

macro_rules! unary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Expr {$(
            #[doc = concat!("[`UnaryFn::", stringify!($variant), "`] of this.")]
            pub fn $name(&self) -> Expr {
                self.unary(UnaryFn::$variant)
            }
        )*}
    };
}
unary_functions!(unary_methods);

macro_rules! binary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Expr {$(
            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of this and `rhs`.")]
            pub fn $name(&self, rhs: impl Into<Expr>) -> Expr {
                self.binary(BinaryFn::$variant, rhs)
            }
        )*}
    };
}
binary_functions!(binary_methods);

macro_rules! comparison_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Expr {$(
            #[doc = concat!("[`CompareFn::", stringify!($variant), "`] of this and `rhs`, as bool.")]
            pub fn $name(&self, rhs: impl Into<Expr>) -> Expr {
                self.compare(CompareFn::$variant, rhs)
            }
        )*}
    };
}
comparisons!(comparison_methods);

macro_rules! operators {
    ($($trait:ident::$method:ident => $variant:ident, [$($number:ty),*]);* $(;)?) => {$(
        impl<R: Into<Expr>> ops::$trait<R> for Expr {
            type Output = Expr;

            fn $method(self, rhs: R) -> Expr {
                self.binary(BinaryFn::$variant, rhs)
            }
        }

        impl<R: Into<Expr>> ops::$trait<R> for &Expr {
            type Output = Expr;

            fn $method(self, rhs: R) -> Expr {
                self.binary(BinaryFn::$variant, rhs)
            }
        }

        $(
            impl ops::$trait<Expr> for $number {
                type Output = Expr;

                fn $method(self, rhs: Expr) -> Expr {
                    Expr::constant(self).binary(BinaryFn::$variant, rhs)
                }
            }

            impl ops::$trait<&Expr> for $number {
                type Output = Expr;

                fn $method(self, rhs: &Expr) -> Expr {
                    Expr::constant(self).binary(BinaryFn::$variant, rhs)
                }
            }
        )*
    )*};
}
// Numbers on the left are f64 or i64, as beside tensors, so that literals have one meaning.
operators!(
    Add::add => Add, [f64, i64]; Sub::sub => Sub, [f64, i64]; Mul::mul => Mul, [f64, i64]; Div::div => Div, [f64, i64];
    Rem::rem => Rem, [f64, i64]; BitAnd::bitand => And, [i64]; BitOr::bitor => Or, [i64]; BitXor::bitxor => Xor, [i64];
    Shl::shl => Shl, [i64]; Shr::shr => Shr, [i64];
);

macro_rules! signs {
    ($($trait:ident::$method:ident => $variant:ident for $($expr:ty),*);* $(;)?) => {$($(
        impl ops::$trait for $expr {
            type Output = Expr;

            fn $method(self) -> Expr {
                self.unary(UnaryFn::$variant)
            }
        }
    )*)*};
}
signs!(Neg::neg => Neg for Expr, &Expr; Not::not => Not for Expr, &Expr);

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Expr {
        expr.clone()
    }
}

impl<T: Into<Scalar>> From<T> for Expr {
    fn from(value: T) -> Expr {
        Expr::constant(value)
    }
}

#[cfg(test)]
mod chosen_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn shared_subtree_is_one_step() {
        let t = Expr::input(0).tanh();
        let p = Program::compile(&(t.clone() * t), &[DType::F32]).unwrap();
        assert_eq!(p.steps().len(), 3);
        assert_eq!(p.operations(), 2);
    }

    #[test]
    fn constants_take_the_dtype_they_meet() {
        let p = Program::compile(&(Expr::input(0) * 2.0), &[DType::F16]).unwrap();
        assert!(p.steps().iter().all(|s| s.1 == DType::F16));
        let p = Program::compile(&Expr::constant(3), &[]).unwrap();
        assert_eq!(p.dtype(), DType::I32);
    }

    #[test]
    fn mixed_dtypes_are_refused() {
        let e = Expr::input(0) + Expr::input(1);
        let err = Program::compile(&e, &[DType::F32, DType::I32]).unwrap_err();
        assert!(matches!(err, Error::DTypeMismatch { op: "add", expected: DType::F32, got: DType::I32 }));
        let err = Program::compile(&Expr::input(0).exp(), &[DType::I32]).unwrap_err();
        assert!(matches!(err, Error::UndefinedForDType { op: "exp", dtype: DType::I32 }));
        let err = Program::compile(&Expr::input(0).select(1.0, 2.0), &[DType::F32]).unwrap_err();
        assert!(matches!(err, Error::DTypeMismatch { op: "where", expected: DType::Bool, .. }));
    }

    #[test]
    fn missing_input_and_endless_nesting_are_refused() {
        assert!(matches!(Program::compile(&Expr::input(1), &[DType::F32]), Err(Error::InvalidArgument { .. })));
        let mut deep = Expr::input(0);
        for _ in 0..100_000 {
            deep = -deep;
        }
        assert!(matches!(Program::compile(&deep, &[DType::F32]), Err(Error::InvalidArgument { .. })));
    }

    #[test]
    fn many_different_nodes_are_each_one_step() {
        // More than fit the list that short expressions are looked up in.
        let terms = (0..40).map(|i| Expr::input(0) * f64::from(i)).collect::<Vec<_>>();
        let sum = terms.iter().chain(&terms).fold(Expr::input(0), |sum, term| sum + term);
        let p = Program::compile(&sum, &[DType::F32]).unwrap();
        // Every `Expr::input(0)` is a node of its own; the second round of terms is the first one's.
        assert_eq!((p.operations(), p.steps().len()), (40 + 80, 1 + 3 * 40 + 80));
    }

    #[test]
    fn doubling_a_shared_node_stays_linear() {
        let mut sum = Expr::input(0);
        for _ in 0..100 {
            sum = sum.clone() + sum;
        }
        assert_eq!(Program::compile(&sum, &[DType::F32]).unwrap().steps().len(), 101);
    }

    /// A cast of a constant is the constant, not what f32 or i32 makes of it first.
    #[test]
    fn constants_are_exact_in_the_dtype_they_are_cast_to() {
        use crate::cpu::CpuBackend;
        use crate::harness::ReferenceBackend;
        use crate::{CompareFn, Device, Tensor};

        for device in [Device::new(CpuBackend::new()), Device::new(ReferenceBackend::default())] {
            let float = |value: f64| Tensor::full(&device, DType::F64, [1], value).unwrap().to_vec::<f64>().unwrap();
            let integer = |value: i64| Tensor::full(&device, DType::I64, [1], value).unwrap().to_vec::<i64>().unwrap();
            for value in [0.1, 1e300, -5e-324, f64::INFINITY] {
                assert_eq!(float(value), [value]);
            }
            for value in [5_000_000_000, i64::MAX, i64::MIN, -1] {
                assert_eq!(integer(value), [value]);
            }
            let x = Tensor::from_slice(&device, &[1.0f32, -1.0], [2]).unwrap();
            let chosen = Expr::input(0).compare(CompareFn::Gt, 0.0).select(0.1, 1e300).cast(DType::F64);
            assert_eq!(Tensor::map(&chosen, &[&x]).unwrap().to_vec::<f64>().unwrap(), [0.1, 1e300]);
        }
    }

    #[test]
    fn bounds_beyond_an_integer_type_bound_nothing() {
        let device = crate::Device::new(crate::cpu::CpuBackend::new());
        let x = crate::Tensor::from_slice(&device, &[1u8, 2, 3], [3]).unwrap();
        assert_eq!(x.clamp(-1, 10).unwrap().to_vec::<u8>().unwrap(), [1, 2, 3]);
        assert_eq!(x.clamp(2, 1000).unwrap().to_vec::<u8>().unwrap(), [2, 2, 3]);
    }

    /// Operands without a type of their own have one that holds both.
    #[test]
    fn position_is_compared_with_a_fraction() {
        let device = crate::Device::new(crate::cpu::CpuBackend::new());
        for expr in [
            Expr::index().compare(crate::CompareFn::Lt, 2.5),
            Expr::constant(2.5).compare(crate::CompareFn::Gt, Expr::index()),
        ] {
            let chosen = expr.select(Expr::input(0), 0.0);
            let ones = crate::Tensor::full(&device, DType::F32, [4], 1.0).unwrap();
            assert_eq!(crate::Tensor::map(&chosen, &[&ones]).unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0, 0.0]);
        }
    }
}
