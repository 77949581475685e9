//! Functions of tensors that core has no operation for: RMS normalisation, and GELU in its tanh form.
//!
//! Each is a map or a few, so that gradients come from the tape. The decision to know: operands of 16 bits are computed in f32 throughout,
//! and rounded once at the end.

use std::f64::consts::FRAC_2_PI;

use polywarp_core::{Error, Expr, KeepDims, ReduceFn, Result, Shape, Tensor};

use crate::invalid;

/// x / sqrt(mean(x^2) + epsilon) weight of each row of the last axis (Zhang and Sennrich, arXiv 1910.07467): `x` `[..., n]` and `weight` `[n]`
/// of one dtype -> `[..., n]` of it. Three launches. Squares must fit f32 (f64 for f64).
///
/// # Errors
/// [`Error::ShapeMismatch`] for a weight that is no row, [`Error::DTypeMismatch`], [`Error::UndefinedForDType`] for integers and bool,
/// [`Error::InvalidArgument`] for a scalar and for an epsilon that is not positive; memory errors of the device.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    const OP: &str = "rms_norm";
    let Some(&n) = x.dims().last() else {
        return invalid("operand", format!("{OP} of a scalar, which has no rows"));
    };
    let dtype = x.dtype();
    if !dtype.is_float() {
        return Err(Error::UndefinedForDType { op: OP, dtype });
    }
    if weight.dims() != [n] {
        return Err(Error::shape_mismatch(OP, weight.shape(), &Shape::new(&[n])?, None));
    }
    if weight.dtype() != dtype {
        return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: weight.dtype() });
    }
    if !(epsilon > 0.0 && epsilon.is_finite()) {
        return invalid("epsilon", format!("{epsilon} is not positive: a row of zeros has no mean square"));
    }
    let [of_x, of_weight, of_mean] = [0, 1, 2].map(|number| Expr::input(number).cast(dtype.compute()));
    let squares = Tensor::map(&(of_x.clone() * &of_x), &[x])?;
    let mean = squares.reduce(ReduceFn::Mean, [x.rank() - 1], KeepDims::Yes)?;
    let normal = of_x * (of_mean + epsilon).rsqrt() * of_weight;
    Tensor::map(&normal.cast(dtype), &[x, weight, &mean])
}

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) of every element: GELU as GPT-2 has it, PyTorch's `approximate='tanh'` (Hendrycks and
/// Gimpel, arXiv 1606.08415). It is within 5e-4 of the erf form, [`Tensor::gelu`]. One launch.
///
/// It is computed as x sigmoid(2 u) with u the argument of tanh, which keeps its digits where 1 + tanh cancels: within 0.52 units in the last place
/// in f16 and bf16. As [`Tensor::silu`] it may lose its far tail, where e^x leaves the normal range.
///
/// # Errors
/// [`Error::UndefinedForDType`] for integers and bool; memory errors of the device.
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    let dtype = x.dtype();
    if !dtype.is_float() {
        return Err(Error::UndefinedForDType { op: "gelu_tanh", dtype });
    }
    let of_x = Expr::input(0).cast(dtype.compute());
    let twice = (of_x.clone() + of_x.clone() * &of_x * &of_x * 0.044715) * (2.0 * FRAC_2_PI.sqrt());
    Tensor::map(&(of_x * twice.sigmoid()).cast(dtype), &[x])
}
