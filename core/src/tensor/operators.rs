//! Rust's operators: `(&a + &b)?`, `-&a`, `&a * 2.0`, `1 - &a`, `&mask & &other`, `!mask`.
//!
//! A tensor stands on either side by reference or by value; numbers are f64 or i64, so that literals have one meaning.
//! The decision to know: an operator gives a `Result`, because shapes and dtypes may not fit, and `?` follows each:
//! `(&(&a * &b)? + 1.0)?`. [`Tensor::binary_scalar`] says how numbers count.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::{BinaryFn, Expr, Result, Scalar, Tensor, UnaryFn};

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
    ($($trait:ident $method:ident $variant:ident, [$($number:ty),*]);* $(;)?) => {$(
        between_tensors!($trait $method $variant: &Tensor, &Tensor; &Tensor, Tensor; Tensor, &Tensor; Tensor, Tensor);
        $(beside_numbers!($trait $method $variant: &Tensor, $number; Tensor, $number);)*
    )*};
}
operators!(
    Add add Add, [f64, i64]; Sub sub Sub, [f64, i64]; Mul mul Mul, [f64, i64]; Div div Div, [f64, i64]; Rem rem Rem, [f64, i64];
    BitAnd bitand And, [i64]; BitOr bitor Or, [i64]; BitXor bitxor Xor, [i64]; Shl shl Shl, [i64]; Shr shr Shr, [i64];
);

/// The operator before each owner.
macro_rules! signs {
    ($($trait:ident $method:ident $variant:ident: $($tensor:ty),*);* $(;)?) => {$($(
        impl $trait for $tensor {
            type Output = Result<Tensor>;

            fn $method(self) -> Result<Tensor> {
                self.unary(UnaryFn::$variant)
            }
        }
    )*)*};
}
signs!(Neg neg Neg: &Tensor, Tensor; Not not Not: &Tensor, Tensor);
