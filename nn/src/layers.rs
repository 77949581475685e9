//! Layers of one operation: linear, embedding, layer and RMS normalisation. Attention is in `attention.rs`, dropout in `dropout.rs`.
//!
//! A layer holds names and sizes, no tensors: it registers its parameters when it is made, and asks a [`Watched`] for them when it is used. The
//! decision to know: names, shapes and starting values are PyTorch's, so that a `state_dict` fits.

use polywarp_core::{Error, Expr, MatmulOptions, Result, Tensor, UnaryFn};

use crate::flat::ALIGNMENT;
use crate::{Builder, Decay, Dropout, Init, Watched, rms_norm};

/// Whether a layer adds a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// y = x W^T + b, of x `[..., inputs]` and y `[..., outputs]`: W `[outputs, inputs]` at `<prefix>.weight` (decays), b `[outputs]` at `<prefix>.bias`
/// (does not). Formula, names and starting values are those of PyTorch's `nn.Linear` (`torch/nn/modules/linear.py`).
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
        let init = Init::Linear { fan_in: inputs };
        Linear::with_init(builder, prefix, inputs, outputs, init, (bias == Bias::Yes).then_some(init))
    }

    /// The same with other starting values of weights and, where there is one, bias.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn with_init(
        builder: &mut Builder,
        prefix: &str,
        inputs: u64,
        outputs: u64,
        weights: Init,
        bias: Option<Init>,
    ) -> Result<Linear> {
        let weight = format!("{prefix}.weight");
        builder.add(weight.as_str(), [outputs, inputs], weights, Decay::Yes)?;
        let name = bias.map(|_| format!("{prefix}.bias"));
        if let (Some(name), Some(init)) = (&name, bias) {
            builder.add(name.as_str(), [outputs], init, Decay::No)?;
        }
        Ok(Linear { weight, bias: name, inputs, outputs })
    }

    /// Weights [outputs, inputs] and bias `[outputs]`, of zeros where there is none.
    pub(crate) fn tensors(&self, parameters: &Watched) -> Result<[Tensor; 2]> {
        let weight = parameters.get(&self.weight)?;
        let bias = match &self.bias {
            Some(name) => parameters.get(name)?.clone(),
            None => Tensor::zeros(weight.device(), weight.dtype(), [self.outputs])?,
        };
        Ok([weight.clone(), bias])
    }

    /// `[..., inputs]` -> `[..., outputs]`, one product for all rows.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for another last extent; as [`Tensor::matmul_with`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        self.product(parameters, x, self.read(parameters)?, MatmulOptions::default())
    }

    /// [`Linear::forward`], then `activation`. Where no tape follows, in one pass; a tape keeps what the activation reads, so there it is one of
    /// its own.
    ///
    /// # Errors
    /// As [`Linear::forward`]; [`Error::InvalidArgument`] for a function that is no activation.
    pub fn forward_activated(&self, parameters: &Watched, x: &Tensor, activation: UnaryFn) -> Result<Tensor> {
        let weight = parameters.get(&self.weight)?;
        if x.is_watched() || weight.is_watched() {
            return Tensor::map(&Expr::input(0).unary(activation), &[&self.forward(parameters, x)?]);
        }
        self.product(
            parameters,
            x,
            self.read(parameters)?,
            MatmulOptions { activation: Some(activation), ..MatmulOptions::default() },
        )
    }

    /// [`Linear::forward`] with elements dropped at `rate`, plus `residual`. In one pass, and rounded once, where nothing is dropped and no tape
    /// follows; else as [`Dropout::forward_add`].
    ///
    /// # Errors
    /// As [`Linear::forward`] and [`Dropout::forward_add`].
    pub fn forward_add(
        &self,
        parameters: &Watched,
        x: &Tensor,
        (dropout, rate): (Dropout<'_>, f64),
        residual: &Tensor,
    ) -> Result<Tensor> {
        let weight = parameters.get(&self.weight)?;
        let is_whole =
            x.dims().split_last().is_some_and(|(_, rows)| residual.dims() == [rows, &[self.outputs]].concat());
        if !is_whole
            || dropout.drops(rate)
            || residual.dtype() != x.dtype()
            || [x, weight, residual].iter().any(|part| part.is_watched())
        {
            return dropout.forward_add(&self.forward(parameters, x)?, rate, residual);
        }
        let rows = residual.elements() / self.outputs.max(1);
        let residual = residual.reshape([rows, self.outputs])?;
        self.product(
            parameters,
            x,
            self.read(parameters)?,
            MatmulOptions { add: Some((&residual, 1.0)), ..MatmulOptions::default() },
        )
    }

    /// Weight and bias.
    fn read<'a>(&self, parameters: &'a Watched) -> Result<(&'a Tensor, Option<&'a Tensor>)> {
        Ok((parameters.get(&self.weight)?, self.bias.as_ref().map(|name| parameters.get(name)).transpose()?))
    }

    fn product(
        &self,
        parameters: &Watched,
        x: &Tensor,
        (weight, bias): (&Tensor, Option<&Tensor>),
        ends: MatmulOptions<'_>,
    ) -> Result<Tensor> {
        let Some((&last, rows)) = x.dims().split_last().filter(|(last, _)| **last == self.inputs) else {
            return Err(Error::shape_mismatch("linear", x.shape(), weight.shape(), None));
        };
        let matrix = if rows.len() == 1 { x.clone() } else { x.reshape([rows.iter().product(), last])? };
        let precision = parameters.policy().products;
        let options = MatmulOptions { bias, precision, ..ends };
        let y = matrix.matmul_with(&weight.t()?, &options)?;
        if rows.len() == 1 { Ok(y) } else { y.reshape([rows, &weight.dims()[..1]].concat()) }
    }

    /// Has layers of one input compute as one product where their sizes allow it: see [`Linear::forward_joined`].
    pub(crate) fn join(builder: &mut Builder, layers: &[&Linear]) -> Result<Joined> {
        let biases: Option<Vec<&str>> = layers.iter().map(|layer| layer.bias.as_deref()).collect();
        let weights: Vec<&str> = layers.iter().map(|layer| layer.weight.as_str()).collect();
        let Some(biases) = biases else { return Ok(Joined::No) };
        // Either both or none: a product reads a weight and a bias.
        let is_whole = layers.iter().all(|layer| layer.outputs.is_multiple_of(ALIGNMENT));
        Ok(if is_whole && builder.join(&biases)? && builder.join(&weights)? { Joined::Yes } else { Joined::No })
    }

    /// What each of `layers` gives for `x`, by one product where they are joined: views of its columns.
    pub(crate) fn forward_joined(
        layers: &[&Linear],
        joined: Joined,
        parameters: &Watched,
        x: &Tensor,
    ) -> Result<Vec<Tensor>> {
        let (Joined::Yes, Some(first)) = (joined, layers.first()) else {
            return layers.iter().map(|layer| layer.forward(parameters, x)).collect();
        };
        let bias = first.bias.as_ref().map(|name| parameters.unit(name)).transpose()?;
        let all = first.product(parameters, x, (parameters.unit(&first.weight)?, bias), MatmulOptions::default())?;
        let mut start = 0;
        let part = |layer: &&Linear| {
            let columns = start..start + layer.outputs;
            start = columns.end;
            all.slice(all.rank() - 1, columns)
        };
        layers.iter().map(part).collect()
    }
}

/// Whether layers compute as one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Yes,
    No,
}

/// `y[..., :] = W[i[...], :]`: rows of a table W `[rows, width]` at `<prefix>.weight` (decays) by whole numbers i `[...]`, as PyTorch's `nn.Embedding`
/// gives them. The gradient of a row is the sum over the places that name it, in their order, so that its bits are the same on every run
/// ([`Tensor::scatter_add`]). Learned tables of words: Bengio et al., A Neural Probabilistic Language Model, JMLR 3 (2003).
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: String,
    padding: Option<u32>,
}

impl Embedding {
    /// Registers the table. The gradient of the row `padding`, if any, is zero.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(
        builder: &mut Builder,
        prefix: &str,
        [rows, width]: [u64; 2],
        init: Init,
        padding: Option<u32>,
    ) -> Result<Embedding> {
        Embedding::with_room(builder, prefix, [rows, width], 1, init, padding)
    }

    /// The same with room for a multiple of rows: see [`Builder::add_with_room`].
    pub(crate) fn with_room(
        builder: &mut Builder,
        prefix: &str,
        [rows, width]: [u64; 2],
        multiple: u64,
        init: Init,
        padding: Option<u32>,
    ) -> Result<Embedding> {
        let weight = format!("{prefix}.weight");
        builder.add_with_room(weight.as_str(), [rows, width], multiple, init, Decay::Yes)?;
        Ok(Embedding { weight, padding })
    }

    /// Whole numbers [...] -> [..., width]: [`Tensor::take`]. An index that is no row is an error of the next read.
    ///
    /// # Errors
    /// As [`Tensor::take`].
    pub fn forward(&self, parameters: &Watched, indices: &Tensor) -> Result<Tensor> {
        parameters.get(&self.weight)?.take_with(indices, None, self.padding)
    }

    /// The table's name, for layers that share it.
    pub fn weight(&self) -> &str {
        &self.weight
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

/// Root-mean-square normalisation over the last axis, of n elements: [`rms_norm`] with the weight `[n]` at `<prefix>.weight`, 1 at first, which
/// does not decay.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: String,
    epsilon: f64,
}

impl RmsNorm {
    /// Registers the parameter. Llama's `epsilon` is 1e-5 or 1e-6.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(builder: &mut Builder, prefix: &str, n: u64, epsilon: f64) -> Result<RmsNorm> {
        let weight = format!("{prefix}.weight");
        builder.add(weight.as_str(), [n], Init::Ones, Decay::No)?;
        Ok(RmsNorm { weight, epsilon })
    }

    /// `[..., n]` -> `[..., n]`.
    ///
    /// # Errors
    /// As [`rms_norm`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, parameters.get(&self.weight)?, self.epsilon)
    }
}
