//! Rust's operators: `(&a + &b)?`, `-&a`, `&a * 2.0`, `1 - &a`.
//!
//! A tensor stands on either side by reference or by value; numbers are f64 or i64, so that literals have one meaning.
//! The decision to know: an operator gives a `Result`, because shapes and dtypes may not fit, and `?` follows each:
//! `(&(&a * &b)? + 1.0)?`. [`Tensor::binary_scalar`] says how numbers count.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use crate::{BinaryFn, Expr, Result, Scalar, Tensor};

/// Implements the operator for each pair of owned and borrowed tensors.
macro_rules! between_tensors {
    ($trait:ident $method:ident $variant:ident: $($left:ty, $right:ty);*) => {$(
        impl $trait<$right> for $left {
            type Output = Result<Tensor>;

            fn $method(self, right: $right) -> Result<Tensor> {
                let (left, right): (&Tensor, &Tensor) = (std::borrow::Borrow::borrow(&self), std::borrow::Borrow::borrow(&right));
                left.binary(BinaryFn::$variant, right)
            }
        }
    )*};
}

/// Implements the operator for a tensor and a number on either side.
macro_rules! beside_numbers {
    ($trait:ident $method:ident $variant:ident: $($tensor:ty, $number:ty);*) => {$(
        impl $trait<$number> for $tensor {
            type Output = Result<Tensor>;

            fn $method(self, right: $number) -> Result<Tensor> {
                let tensor: &Tensor = std::borrow::Borrow::borrow(&self);
                tensor.binary_scalar(BinaryFn::$variant, right)
            }
        }

        impl $trait<$tensor> for $number {
            type Output = Result<Tensor>;

            fn $method(self, right: $tensor) -> Result<Tensor> {
                let tensor: &Tensor = std::borrow::Borrow::borrow(&right);
                let number = Expr::constant(Scalar::from(self));
                Tensor::map_named(BinaryFn::$variant.name(), &number.binary(BinaryFn::$variant, Expr::input(0)), &[tensor])
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident $method:ident $variant:ident),* $(,)?) => {$(
        between_tensors!($trait $method $variant: &Tensor, &Tensor; &Tensor, Tensor; Tensor, &Tensor; Tensor, Tensor);
        beside_numbers!($trait $method $variant: &Tensor, f64; Tensor, f64; &Tensor, i64; Tensor, i64);
    )*};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
