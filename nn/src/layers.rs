//! Two layers: as many as examples need.
//!
//! A layer holds names and sizes, no tensors: it registers its parameters when it is made, and asks a [`Watched`] for them when it is used. The
//! decision to know: names, shapes and starting values are PyTorch's, so that a `state_dict` fits.

use polywarp_core::{Error, MatmulOptions, Result, Tensor};

use crate::{Builder, Decay, Init, Watched};

/// Whether a layer adds a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// y = x W^T + b: W `[outputs, inputs]` at `<prefix>.weight` (decays), b `[outputs]` at `<prefix>.bias` (does not).
#[derive(Clone, Debug)]
pub struct Linear {
    weight: String,
    bias: Option<String>,
    inputs: u64,
    outputs: u64,
}

impl Linear {
    /// Registers the parameters, both U(-1/sqrt(inputs), 1/sqrt(inputs)) at first.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(builder: &mut Builder, prefix: &str, inputs: u64, outputs: u64, bias: Bias) -> Result<Linear> {
        let (weight, init) = (format!("{prefix}.weight"), Init::Linear { fan_in: inputs });
        builder.add(weight.as_str(), [outputs, inputs], init, Decay::Yes)?;
        let bias = (bias == Bias::Yes).then(|| format!("{prefix}.bias"));
        if let Some(bias) = &bias {
            builder.add(bias.as_str(), [outputs], init, Decay::No)?;
        }
        Ok(Linear { weight, bias, inputs, outputs })
    }

    /// `[..., inputs]` -> `[..., outputs]`, one product for all rows.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for another last extent; as [`Tensor::matmul_with`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        let weight = parameters.get(&self.weight)?;
        let Some((&last, rows)) = x.dims().split_last().filter(|(last, _)| **last == self.inputs) else {
            return Err(Error::shape_mismatch("linear", x.shape(), weight.shape(), None));
        };
        let bias = self.bias.as_ref().map(|name| parameters.get(name)).transpose()?;
        let matrix = if rows.len() == 1 { x.clone() } else { x.reshape([rows.iter().product(), last])? };
        let y = matrix.matmul_with(&weight.t()?, &MatmulOptions { bias, ..MatmulOptions::default() })?;
        if rows.len() == 1 { Ok(y) } else { y.reshape([rows, &[self.outputs]].concat()) }
    }
}

/// Layer normalisation over the last axis, of n elements: [`Tensor::layer_norm`] with gamma `[n]` at `<prefix>.weight`, 1 at first, and beta `[n]`
/// at `<prefix>.bias`, 0 at first. Neither decays.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: String,
    bias: String,
    epsilon: f64,
}

impl LayerNorm {
    /// Registers the parameters. PyTorch's `epsilon` is 1e-5.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(builder: &mut Builder, prefix: &str, n: u64, epsilon: f64) -> Result<LayerNorm> {
        let (weight, bias) = (format!("{prefix}.weight"), format!("{prefix}.bias"));
        builder.add(weight.as_str(), [n], Init::Ones, Decay::No)?;
        builder.add(bias.as_str(), [n], Init::Zeros, Decay::No)?;
        Ok(LayerNorm { weight, bias, epsilon })
    }

    /// `[..., n]` -> `[..., n]`.
    ///
    /// # Errors
    /// As [`Tensor::layer_norm`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(parameters.get(&self.weight)?, parameters.get(&self.bias)?, self.epsilon)
    }
}
