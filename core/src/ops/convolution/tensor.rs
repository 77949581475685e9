//! Convolutions as methods of tensors.

use super::geometry::pixel_pitch;
use super::{Convolution, ConvolutionInput, ConvolutionOptions, Geometry};
use crate::{Error, Result, Tensor};

/// `tensor` where it lies as convolutions read it, else a copy.
fn as_pixels(tensor: &Tensor) -> Result<Tensor> {
    if pixel_pitch(&tensor.spec()).is_some() { Ok(tensor.clone()) } else { tensor.contiguous() }
}

impl Tensor {
    /// The convolution of this tensor, [batch, spatial..., channels] of one to three spatial axes, with `weights`, [filters, taps...,
    /// channels / groups]: [batch, outputs..., filters]. An axis of the output has `(in + before + after - dilation (taps - 1) - 1) / stride
    /// + 1` elements, rounded down.
    ///
    /// ```
    /// use polywarp_core::ops::ConvolutionOptions;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let image = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [1, 2, 2, 1])?;
    /// let sums = Tensor::from_slice(&device, &[1.0f32; 9], [1, 3, 3, 1])?;
    /// let y = image.conv(&sums, &ConvolutionOptions::default().padding(1))?;
    /// assert_eq!(y.dims(), [1, 2, 2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [10.0; 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Convolution::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn conv(&self, weights: &Tensor, options: &ConvolutionOptions) -> Result<Tensor> {
        self.conv_with(weights, None, None, options)
    }

    /// [`Tensor::conv`] plus a `residual` of the result's shape and a `bias` of one number for each filter, then the activation of
    /// `options`, all in one operation.
    ///
    /// # Errors
    /// As [`Tensor::conv`].
    pub fn conv_with(
        &self,
        weights: &Tensor,
        residual: Option<&Tensor>,
        bias: Option<&Tensor>,
        options: &ConvolutionOptions,
    ) -> Result<Tensor> {
        let (x, weights) = (as_pixels(self)?, as_pixels(weights)?);
        let residual = residual.map(as_pixels).transpose()?;
        let op = Convolution::new(x.spec(), weights.spec(), options)?;
        let op = Convolution { residual: residual.as_ref().map(Tensor::spec), bias: bias.map(Tensor::spec), ..op };
        let operands = [Some(&x), Some(&weights), residual.as_ref(), bias];
        let operands: Vec<&Tensor> = operands.into_iter().flatten().collect();
        Ok(Tensor::apply(self.device(), op.check()?, &operands)?.swap_remove(0))
    }

    /// The transposed convolution of this tensor, [batch, spatial..., filters], with the `weights` of the convolution that it turns round,
    /// [filters, taps..., channels / groups]: [batch, spatial..., channels]. An axis of the result has
    /// `(in - 1) stride - before - after + dilation (taps - 1) + 1 + output_padding` elements. It is the gradient of that convolution's input.
    ///
    /// ```
    /// use polywarp_core::ops::ConvolutionOptions;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0], [1, 2, 1])?;
    /// let weights = Tensor::from_slice(&device, &[1.0f32, 10.0, 100.0], [1, 3, 1])?;
    /// let y = x.conv_transpose(&weights, &ConvolutionOptions::default().stride(2))?;
    /// assert_eq!(y.dims(), [1, 5, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 102.0, 20.0, 200.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Geometry::transposed`]; [`Error::InvalidArgument`] for an activation; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn conv_transpose(&self, weights: &Tensor, options: &ConvolutionOptions) -> Result<Tensor> {
        const OP: &str = "conv_transpose";
        if let Some(activation) = options.activation {
            let reason = format!("{OP} has none; apply {} to its result", activation.name());
            return Err(Error::InvalidArgument { what: "activation", reason });
        }
        let (x, weights) = (as_pixels(self)?, as_pixels(weights)?);
        let geometry = Geometry::transposed(OP, x.shape(), weights.shape(), options)?;
        let op = ConvolutionInput::of(geometry, x.spec(), weights.spec())?;
        Ok(Tensor::apply(self.device(), op, &[&x, &weights])?.swap_remove(0))
    }
}
