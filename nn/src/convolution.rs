//! The convolution of images as a layer.
//!
//! Images are [images, height, width, channels], channels last, as all devices read them fastest. The decision to know: the weight's name and
//! shape are PyTorch's, `[outputs, inputs / groups, height, width]`, so that a `state_dict` loads and gradients compare by name; what lies in memory is
//! [outputs, height, width, inputs / groups], which the convolution reads and whose gradient it writes in place. Nothing is transposed in a
//! step: the shape of PyTorch is a view of that memory.

use polywarp_core::ops::ConvolutionOptions;
use polywarp_core::{Result, Tensor};

use crate::{Bias, Builder, Decay, Init, Watched, invalid};

/// Cross-correlation of images with filters W `[outputs, inputs / groups, height, width]` at `<prefix>.weight` (decays), plus b `[outputs]` at
/// `<prefix>.bias` (does not).
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: String,
    bias: Option<String>,
    options: ConvolutionOptions,
}

impl Conv2d {
    /// Registers the parameters, both U(-1/sqrt(n), 1/sqrt(n)) at first, n being the inputs of one output: inputs / groups times the window's
    /// elements. Stride, padding, dilation, groups and an activation are those of `options`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for groups that do not divide inputs and outputs; as [`Builder::add`].
    pub fn new(
        builder: &mut Builder,
        prefix: &str,
        [inputs, outputs]: [u64; 2],
        window: [u64; 2],
        options: ConvolutionOptions,
        bias: Bias,
    ) -> Result<Conv2d> {
        let of_group = inputs / options.groups.max(1);
        let fan_in = window.iter().fold(of_group, |fan, &taps| fan.saturating_mul(taps));
        let init = Init::Linear { fan_in };
        Conv2d::with_init(
            builder,
            prefix,
            [inputs, outputs],
            window,
            options,
            init,
            (bias == Bias::Yes).then_some(init),
        )
    }

    /// The same with other starting values of weights and, where there is one, bias.
    ///
    /// # Errors
    /// As [`Conv2d::new`].
    pub fn with_init(
        builder: &mut Builder,
        prefix: &str,
        [inputs, outputs]: [u64; 2],
        [height, width]: [u64; 2],
        options: ConvolutionOptions,
        weights: Init,
        bias: Option<Init>,
    ) -> Result<Conv2d> {
        let groups = options.groups;
        if groups == 0 || inputs % groups != 0 || outputs % groups != 0 {
            let reason = format!("`{prefix}`: {groups} groups do not divide {inputs} inputs and {outputs} outputs");
            return invalid("groups", reason);
        }
        let weight = format!("{prefix}.weight");
        builder.add_filters(weight.as_str(), [outputs, inputs / groups, height, width], weights, Decay::Yes)?;
        let name = bias.map(|_| format!("{prefix}.bias"));
        if let (Some(name), Some(init)) = (&name, bias) {
            builder.add(name.as_str(), [outputs], init, Decay::No)?;
        }
        Ok(Conv2d { weight, bias: name, options })
    }

    /// The filters as convolutions read them, [outputs, height, width, inputs / groups], and how windows move.
    pub(crate) fn filters<'a>(&self, parameters: &'a Watched) -> Result<(&'a Tensor, ConvolutionOptions)> {
        Ok((parameters.unit(&self.weight)?, self.options.clone()))
    }

    /// `[images, height, width, inputs]` -> `[images, height, width, outputs]`.
    ///
    /// # Errors
    /// As [`Tensor::conv_with`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|name| parameters.get(name)).transpose()?;
        x.conv_with(parameters.unit(&self.weight)?, None, bias, &self.options)
    }
}
