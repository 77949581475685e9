//! Tensor methods for the functions that [`Expr`] composes of other steps: one kernel each.

use super::TensorOrNumber;
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

    /// [`Expr::lerp`] of every element to `end` by `weight`, each a tensor, broadcast, or one number.
    ///
    /// # Errors
    /// As [`Tensor::binary`] and [`Tensor::binary_scalar`].
    pub fn lerp<'a>(
        &'a self,
        end: impl Into<TensorOrNumber<'a>>,
        weight: impl Into<TensorOrNumber<'a>>,
    ) -> Result<Tensor> {
        let mut inputs = vec![self];
        let [end, weight] = [end.into(), weight.into()].map(|operand| operand.among(&mut inputs));
        Tensor::map_named("lerp", &Expr::input(0).lerp(end, weight), &inputs)
    }

    /// [`Expr::fmax`] of every pair of elements, broadcast, or of every element and one number.
    ///
    /// # Errors
    /// As [`Tensor::binary`] and [`Tensor::binary_scalar`].
    pub fn fmax<'a>(&'a self, other: impl Into<TensorOrNumber<'a>>) -> Result<Tensor> {
        let mut inputs = vec![self];
        let other = other.into().among(&mut inputs);
        Tensor::map_named("fmax", &Expr::input(0).fmax(other), &inputs)
    }

    /// [`Expr::fmin`] of every pair of elements, broadcast, or of every element and one number.
    ///
    /// # Errors
    /// As [`Tensor::binary`] and [`Tensor::binary_scalar`].
    pub fn fmin<'a>(&'a self, other: impl Into<TensorOrNumber<'a>>) -> Result<Tensor> {
        let mut inputs = vec![self];
        let other = other.into().among(&mut inputs);
        Tensor::map_named("fmin", &Expr::input(0).fmin(other), &inputs)
    }
}
