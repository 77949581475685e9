//! Clipping gradients by their global norm.
//!
//! The norm is over all parameters together, as PyTorch's `clip_grad_norm_` has it, not of each alone. The decision to know: nothing is
//! clipped here. [`Optimiser::step`](crate::Optimiser::step) multiplies by the coefficient in the launch that reads the gradients anyway.

use polywarp_core::{Device, Expr, Result, Tensor};

use crate::{Flat, constant, invalid, number};

/// The largest global norm, and what the last step measured.
///
/// norm = sqrt(sum g^2), of gradients after unscaling and division by the count, f32: the sum of squares of each bucket, then of these. The
/// coefficient is min(1, max_norm / (norm + 1e-6)). A norm over 1.8e19 overflows to infinity, and its coefficient is 0; a NaN among the
/// gradients makes both NaN.
#[derive(Debug)]
pub struct Clip {
    most: Tensor,
    norm: Tensor,
    coefficient: Tensor,
}

impl Clip {
    /// To a norm of `max_norm`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for a norm that is not positive and finite; memory errors of the device.
    pub fn new(device: &Device, max_norm: f64) -> Result<Clip> {
        if !(max_norm > 0.0 && max_norm.is_finite()) {
            return invalid("largest norm", format!("{max_norm}"));
        }
        Ok(Clip { most: number(device, max_norm)?, norm: number(device, 0.0)?, coefficient: number(device, 1.0)? })
    }

    /// The global norm of the last step's gradients before clipping, f32 `[1]`; of a skipped step it means nothing.
    pub fn norm(&self) -> &Tensor {
        &self.norm
    }

    /// What the last step's gradients were multiplied by for it, f32 `[1]`.
    pub fn coefficient(&self) -> &Tensor {
        &self.coefficient
    }

    /// Measures `gradients` times `factor`.
    pub(crate) fn measure(&self, gradients: &Flat, factor: &Tensor) -> Result<()> {
        let mut sum: Option<Tensor> = None;
        for bucket in gradients.buckets() {
            let of_bucket = bucket.mul(bucket)?.sum(..)?.reshape([1])?;
            sum = Some(match sum {
                Some(sum) => sum.add(&of_bucket)?,
                None => of_bucket,
            });
        }
        let Some(sum) = sum else { return Ok(()) };
        let [sum_of_squares, factor_before, most] = [0, 1, 2].map(Expr::input);
        let norm = sum_of_squares.sqrt() * factor_before;
        let coefficient = most / (norm.clone() + constant(1e-6));
        let coefficient = coefficient.binary(polywarp_core::BinaryFn::Min, constant(1.0));
        Tensor::update(&[norm, coefficient], &[&sum, factor, &self.most], &[&self.norm, &self.coefficient]).map(drop)
    }
}
