//! Tensor methods for the functions that [`Expr`] composes of other steps: one kernel each.

use crate::{Expr, Result, Scalar, Tensor};

macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`Expr::", stringify!($name), "`] of every element.\n\n# Errors\nAs [`Tensor::unary`].")]
            pub fn $name(&self) -> Result<Tensor> {
                Tensor::map_named(stringify!($name), &Expr::input(0).$name(), &[self])
            }
        )*}
    };
}
functions!(digamma, expm1, fract, hardsigmoid, hardswish, is_finite, is_inf, is_nan, log1p, mish, softplus, trunc);

impl Tensor {
    /// [`Expr::nan_to_num`] of every element.
    ///
    /// # Errors
    /// As [`Tensor::unary`]; [`crate::Error::NumberOutOfRange`] for a number that the dtype cannot hold.
    pub fn nan_to_num(
        &self,
        nan: impl Into<Scalar>,
        above: impl Into<Scalar>,
        below: impl Into<Scalar>,
    ) -> Result<Tensor> {
        Tensor::map_named("nan_to_num", &Expr::input(0).nan_to_num(nan, above, below), &[self])
    }

    /// [`Expr::elu`] of every element.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    pub fn elu(&self, alpha: f64) -> Result<Tensor> {
        Tensor::map_named("elu", &Expr::input(0).elu(alpha), &[self])
    }

    /// [`Expr::leaky_relu`] of every element.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    pub fn leaky_relu(&self, slope: f64) -> Result<Tensor> {
        Tensor::map_named("leaky_relu", &Expr::input(0).leaky_relu(slope), &[self])
    }

    /// [`Expr::lerp`] of every element, broadcast; `weight` is a tensor, such as one of a single number.
    ///
    /// # Errors
    /// As [`Tensor::binary`].
    pub fn lerp(&self, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let way = Expr::input(0).lerp(Expr::input(1), Expr::input(2));
        Tensor::map_named("lerp", &way, &[self, end, weight])
    }

    /// [`Expr::fmax`] of every pair of elements, broadcast.
    ///
    /// # Errors
    /// As [`Tensor::binary`].
    pub fn fmax(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::map_named("fmax", &Expr::input(0).fmax(Expr::input(1)), &[self, other])
    }

    /// [`Expr::fmin`] of every pair of elements, broadcast.
    ///
    /// # Errors
    /// As [`Tensor::binary`].
    pub fn fmin(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::map_named("fmin", &Expr::input(0).fmin(Expr::input(1)), &[self, other])
    }
}
