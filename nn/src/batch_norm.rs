//! Batch normalisation as a layer, with running statistics.
//!
//! Numbers and names are PyTorch's: momentum weighs the new statistics, and the running variance is the unbiased one, n / (n - 1) times that
//! by which the batch is normalised. The decision to know: running statistics are buffers on the device that a forward pass in training
//! changes in place, so a recorded step changes them at every replay; a stretch that a tape computes twice
//! ([`Tape::checkpoint`](polywarp_core::Tape::checkpoint)) counts twice, as in PyTorch.

use polywarp_core::ops::BatchNormEnd;
use polywarp_core::{DType, Expr, Result, Tensor};

use crate::{Builder, Decay, Init, Watched, constant, invalid};

/// Whether a network is being trained or used: what layers do that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By statistics of the batch, which go into the running ones.
    Training,
    /// By running statistics, which stay as they are.
    Evaluation,
}

/// Normalisation of each channel, the last axis of [..., channels]: gamma `[channels]` at `<prefix>.weight`, 1 at first, and beta at
/// `<prefix>.bias`, 0 at first, neither of which decays; buffers `<prefix>.running_mean` (0 at first), `<prefix>.running_var` (1) and
/// `<prefix>.num_batches_tracked`, a count.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    weight: String,
    bias: String,
    running: [String; 2],
    count: String,
    epsilon: f64,
    momentum: f64,
}

impl BatchNorm {
    /// Registers parameters and buffers, with PyTorch's epsilon of 1e-5 and momentum of 0.1.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(builder: &mut Builder, prefix: &str, channels: u64) -> Result<BatchNorm> {
        BatchNorm::with_numbers(builder, prefix, channels, 1e-5, 0.1)
    }

    /// The same with another `epsilon`, and another `momentum`: the share of a batch in running statistics.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for a momentum that is not of 0 to 1; as [`Builder::add`].
    pub fn with_numbers(
        builder: &mut Builder,
        prefix: &str,
        channels: u64,
        epsilon: f64,
        momentum: f64,
    ) -> Result<BatchNorm> {
        if !(0.0..=1.0).contains(&momentum) {
            return invalid("momentum", format!("`{prefix}`: {momentum} is not of 0..=1"));
        }
        let name = |part: &str| format!("{prefix}.{part}");
        let (weight, bias, count) = (name("weight"), name("bias"), name("num_batches_tracked"));
        let running = [name("running_mean"), name("running_var")];
        builder.add(weight.as_str(), [channels], Init::Ones, Decay::No)?;
        builder.add(bias.as_str(), [channels], Init::Zeros, Decay::No)?;
        builder.add_buffer(running[0].as_str(), [channels], Init::Zeros)?;
        builder.add_buffer(running[1].as_str(), [channels], Init::Ones)?;
        builder.add_count(count.as_str())?;
        Ok(BatchNorm { weight, bias, running, count, epsilon, momentum })
    }

    /// What evaluation multiplies each channel by and then adds, `[channels]` of f32: gamma / sqrt(variance + epsilon), and beta less the mean
    /// times that.
    pub(crate) fn line(&self, parameters: &Watched) -> Result<[Tensor; 2]> {
        let (gamma, beta) = (parameters.get(&self.weight)?, parameters.get(&self.bias)?);
        let [mean, variance] = [parameters.buffer(&self.running[0])?, parameters.buffer(&self.running[1])?];
        let [x, y, z] = [0, 1, 2].map(|number| Expr::input(number).cast(DType::F32));
        let factor = Tensor::map(&(x.clone() / (y.clone() + constant(self.epsilon)).sqrt()), &[gamma, variance])?;
        let addend = Tensor::map(&(x - y * z), &[beta, mean, &factor])?;
        Ok([factor, addend])
    }

    /// `[..., channels]` -> `[..., channels]`. In training the running statistics move by this batch.
    ///
    /// # Errors
    /// As [`Tensor::batch_norm`] in training, such as for one value of a channel, and [`Tensor::batch_norm_with`] in evaluation.
    pub fn forward(&self, parameters: &Watched, x: &Tensor, mode: Mode) -> Result<Tensor> {
        self.forward_end(parameters, x, mode, &BatchNormEnd::default())
    }

    /// [`BatchNorm::forward`], then plus a residual and relu where `end` says so, in the same pass.
    ///
    /// # Errors
    /// As [`BatchNorm::forward`] and [`Tensor::batch_norm_end`].
    pub fn forward_end(&self, parameters: &Watched, x: &Tensor, mode: Mode, end: &BatchNormEnd<'_>) -> Result<Tensor> {
        let (gamma, beta) = (parameters.get(&self.weight)?, parameters.get(&self.bias)?);
        let [mean, variance] = [parameters.buffer(&self.running[0])?, parameters.buffer(&self.running[1])?];
        if mode == Mode::Evaluation {
            return x.batch_norm_with_end([mean, variance], gamma, beta, self.epsilon, end);
        }
        let normal = x.batch_norm_end(gamma, beta, self.epsilon, end)?;
        // At least two values of a channel: else it was refused.
        let n = x.elements() as f64 / mean.elements() as f64;
        let share = constant(self.momentum);
        let [new_mean, new_variance, old_mean, old_variance] = [0, 1, 2, 3].map(Expr::input);
        let moved = |old: Expr, new: Expr| old.clone() + (new - old) * &share;
        let next = [moved(old_mean, new_mean), moved(old_variance, new_variance * constant(n / (n - 1.0)))];
        // What a tape follows ends here on purpose: statistics of batches gone by have no gradient.
        Tensor::update(&next, &[&normal.mean.detach(), &normal.variance.detach()], &[mean, variance])?;
        parameters.buffer(&self.count)?.add_scalar_(1)?;
        Ok(normal.y)
    }
}
