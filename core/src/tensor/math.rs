//! Elementwise arithmetic: each method is a one-step expression; [`Tensor::map`] fuses several.

use std::cmp::Ordering;

use crate::expr::number;
use crate::ops::Map;
use crate::{BinaryFn, CompareFn, DType, Error, Expr, Program, Result, Scalar, Shape, Tensor, TensorSpec, UnaryFn};

impl Tensor {
    /// One kernel for a whole expression: `Expr::input(i)` is `inputs[i]`, all broadcast to one shape.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DeviceMismatch`], and as [`Program::compile`].
    pub fn map(expr: &Expr, inputs: &[&Tensor]) -> Result<Tensor> {
        Tensor::map_named("expr", expr, inputs)
    }

    pub(crate) fn map_named(label: &'static str, expr: &Expr, inputs: &[&Tensor]) -> Result<Tensor> {
        let Some(&first) = inputs.first() else {
            let reason = "an expression needs at least one input tensor; use Tensor::full or arange".to_owned();
            return Err(Error::InvalidArgument { what: "inputs", reason });
        };
        let mut shape = *first.shape();
        for input in &inputs[1..] {
            first.expect_device(label, input)?;
            shape = Shape::broadcast(label, &shape, input.shape())?;
        }
        let dtypes: Vec<DType> = inputs.iter().map(|t| t.dtype).collect();
        let program = Program::compile(expr, &dtypes)?;
        let specs = inputs.iter().map(|t| Ok(TensorSpec::new(t.dtype, t.layout.broadcast_to(shape)?)));
        let specs: Vec<TensorSpec> = specs.collect::<Result<_>>()?;
        let out = Tensor::empty(&first.device, program.dtype(), shape)?;
        out.fill_by(&Map::new(label, program, specs, out.spec())?.into(), inputs)?;
        Ok(out)
    }

    /// `f` of every element.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`], [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn unary(&self, f: UnaryFn) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).unary(f), &[self])
    }

    /// `f` of every pair of elements, broadcast.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::DeviceMismatch`], [`Error::UndefinedForDType`].
    pub fn binary(&self, f: BinaryFn, rhs: &Tensor) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).binary(f, Expr::input(1)), &[self, rhs])
    }

    /// `f` of every element and one number, which is what [`Expr::constant`] says: the larger and the smaller answer for the
    /// number itself, whatever the dtype; the rest computes with it in f32 for floats of 8 and 16 bits, else in the dtype.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`]; [`Error::NumberOutOfRange`] for a number that the dtype cannot hold.
    pub fn binary_scalar(&self, f: BinaryFn, rhs: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).binary(f, rhs.into()), &[self])
    }

    /// The comparison of every pair of elements, broadcast, as bool.
    ///
    /// # Errors
    /// As [`Tensor::binary`].
    pub fn compare(&self, f: CompareFn, rhs: &Tensor) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).compare(f, Expr::input(1)), &[self, rhs])
    }

    /// The comparison of every element with one number, as bool: the answer of mathematics, whatever the dtype can hold. An f64 is
    /// compared as such with f32 as well, so that none equals 0.1; 0.1f32 is a number of f32.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`].
    pub fn compare_scalar(&self, f: CompareFn, rhs: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).compare(f, rhs.into()), &[self])
    }

    /// `yes` where this (bool) is true, else `no`, broadcast.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] when this is not bool or the branches differ; as [`Tensor::binary`].
    pub fn where_(&self, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
        let choice = Expr::input(0).select(Expr::input(1), Expr::input(2));
        Tensor::map_named("where", &choice, &[self, yes, no])
    }

    /// Every element limited to `low..=high`, integers to those of the range; NaN stays NaN. A bound that the dtype does not
    /// reach bounds nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `low` is above `high`, either is NaN, or no integer of the dtype lies between them;
    /// [`Error::UndefinedForDType`] for bool.
    pub fn clamp(&self, low: impl Into<Scalar>, high: impl Into<Scalar>) -> Result<Tensor> {
        let (low, high) = (low.into(), high.into());
        if !number::compared(low, high).is_some_and(Ordering::is_le) {
            let reason = format!("low {low} is above high {high}");
            return Err(Error::InvalidArgument { what: "clamp range", reason });
        }
        Tensor::map_named("clamp", &Expr::input(0).clamp(low, high), &[self])
    }

    /// Every element converted to `dtype` by the rules of [`Scalar::cast`]; itself when it has that dtype.
    ///
    /// # Errors
    /// [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype == dtype {
            return Ok(self.clone());
        }
        Tensor::map_named("cast", &Expr::input(0).cast(dtype), &[self])
    }
}

macro_rules! unary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`UnaryFn::", stringify!($variant), "`] of every element.\n\n# Errors\nAs [`Tensor::unary`].")]
            pub fn $name(&self) -> Result<Tensor> {
                self.unary(UnaryFn::$variant)
            }
        )*}
    };
}
unary_methods!(abs => Abs, acos => Acos, acosh => Acosh, asin => Asin, asinh => Asinh, atan => Atan, atanh => Atanh,
    cbrt => Cbrt, ceil => Ceil, cos => Cos, cosh => Cosh, count_ones => CountOnes, erf => Erf, erfc => Erfc, erfinv => Erfinv, exp => Exp, exp2 => Exp2, floor => Floor, gelu => Gelu,
    leading_zeros => LeadingZeros, lgamma => Lgamma, log => Log, log2 => Log2, neg => Neg, not => Not, reciprocal => Reciprocal, relu => Relu, round => Round,
    rsqrt => Rsqrt, sigmoid => Sigmoid, sign => Sign, silu => Silu, sin => Sin, sinh => Sinh, sqrt => Sqrt, tan => Tan, tanh => Tanh, trailing_zeros => TrailingZeros);

macro_rules! binary_methods {
    ($($name:ident => $method:ident $fn:ident $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`", stringify!($fn), "::", stringify!($variant), "`] of every pair of elements, broadcast.",
                "\n\n# Errors\nAs [`Tensor::", stringify!($method), "`].")]
            pub fn $name(&self, rhs: &Tensor) -> Result<Tensor> {
                self.$method($fn::$variant, rhs)
            }
        )*}
    };
}
binary_methods!(add => binary BinaryFn Add, and => binary BinaryFn And, atan2 => binary BinaryFn Atan2,
    copysign => binary BinaryFn Copysign, div => binary BinaryFn Div, floor_divide => binary BinaryFn FloorDivide, fmod => binary BinaryFn Rem,
    hypot => binary BinaryFn Hypot,
    maximum => binary BinaryFn Max, minimum => binary BinaryFn Min, mul => binary BinaryFn Mul, nextafter => binary BinaryFn Nextafter, or => binary BinaryFn Or,
    pow => binary BinaryFn Pow, rem => binary BinaryFn Rem, remainder => binary BinaryFn Remainder, shl => binary BinaryFn Shl,
    shr => binary BinaryFn Shr, sub => binary BinaryFn Sub, xor => binary BinaryFn Xor,
    eq => compare CompareFn Eq, ge => compare CompareFn Ge, gt => compare CompareFn Gt, le => compare CompareFn Le,
    lt => compare CompareFn Lt, ne => compare CompareFn Ne);

macro_rules! scalar_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of every element and one number.\n\n# Errors\nAs [`Tensor::binary_scalar`].")]
            pub fn $name(&self, rhs: impl Into<Scalar>) -> Result<Tensor> {
                self.binary_scalar(BinaryFn::$variant, rhs)
            }
        )*}
    };
}
scalar_methods!(add_scalar => Add, div_scalar => Div, floor_divide_scalar => FloorDivide, fmod_scalar => Rem, mul_scalar => Mul, pow_scalar => Pow,
    remainder_scalar => Remainder, shl_scalar => Shl, shr_scalar => Shr, sub_scalar => Sub);
