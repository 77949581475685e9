//! Batch normalisation as a layer, with running statistics.
//!
//! Numbers and names are PyTorch's: momentum weighs the new statistics, and the running variance is the unbiased one, n / (n - 1) times that
//! by which the batch is normalised. The decision to know: running statistics are buffers on the device that a forward pass in training
//! changes in place, so a recorded step changes them at every replay; a stretch that a tape computes twice
//! ([`Tape::checkpoint`](polywarp_core::Tape::checkpoint)) counts twice, as in PyTorch.

use polywarp_core::ops::BatchNormEnd;
use polywarp_core::{DType, Expr, Result, Tensor};

use crate::group_norm::Channels;
use crate::{Affine, Builder, Init, Watched, constant, invalid};

/// Whether a network is being trained or used: what layers do that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By statistics of the batch, which go into the running ones.
    Training,
    /// By running statistics, which stay as they are.
    Evaluation,
}

/// What a [`BatchNorm`] keeps of the batches that it has seen in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Running {
    /// Mean and variance that each batch moves by this share of the way to its own, 0 to 1: PyTorch's `momentum`.
    Share(f64),
    /// The means of all batches' statistics, each batch counting once: PyTorch's `momentum=None`.
    Average,
    /// Nothing: a network in use, too, normalises by the batch that it is given, as with PyTorch's `track_running_stats=False`.
    Absent,
}

/// How a [`BatchNorm`] differs from PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormOptions {
    /// What is added to variances, 1e-5 if nothing else is said.
    pub epsilon: f64,
    /// [`Running::Share`] of 0.1 if nothing else is said.
    pub running: Running,
    /// Whether channels have gamma and beta, as they have if nothing else is said.
    pub affine: Affine,
}

impl Default for BatchNormOptions {
    fn default() -> BatchNormOptions {
        BatchNormOptions { epsilon: 1e-5, running: Running::Share(0.1), affine: Affine::Yes }
    }
}

/// Normalisation of each channel, the last axis of [..., channels]: gamma `[channels]` at `<prefix>.weight`, 1 at first, and beta at
/// `<prefix>.bias`, 0 at first, neither of which decays; buffers `<prefix>.running_mean` (0 at first), `<prefix>.running_var` (1) and
/// `<prefix>.num_batches_tracked`, a count. Without gamma and beta, or without running statistics, there are none of that name.
///
/// ```
/// use polywarp_core::{Device, Tensor};
/// use polywarp_nn::{BatchNorm, BatchNormOptions, Builder, Mode, Running};
///
/// let device = Device::cpu();
/// let mut builder = Builder::new(0);
/// let options = BatchNormOptions { running: Running::Average, ..BatchNormOptions::default() };
/// let layer = BatchNorm::with_options(&mut builder, "norm", 1, options)?;
/// let parameters = builder.build(&device)?;
/// for batch in [[1.0f32, 3.0], [5.0, 7.0]] {
///     layer.forward(&parameters.unwatched(), &Tensor::from_slice(&device, &batch, [2, 1])?, Mode::Training)?;
/// }
/// assert_eq!(parameters.get("norm.running_mean")?.to_vec::<f32>()?, [4.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchNorm {
    channels: u64,
    affine: Option<Channels>,
    running: Option<Statistics>,
    epsilon: f64,
}

/// Buffers of running statistics by name.
#[derive(Clone, Debug)]
struct Statistics {
    mean: String,
    variance: String,
    count: String,
    /// Of a batch; `None` for one part of as many as there were.
    share: Option<f64>,
}

impl Statistics {
    fn new(builder: &mut Builder, prefix: &str, channels: u64, share: Option<f64>) -> Result<Statistics> {
        let [mean, variance, count] =
            ["running_mean", "running_var", "num_batches_tracked"].map(|part| format!("{prefix}.{part}"));
        builder.add_buffer(mean.as_str(), [channels], Init::Zeros)?;
        builder.add_buffer(variance.as_str(), [channels], Init::Ones)?;
        builder.add_count(count.as_str())?;
        Ok(Statistics { mean, variance, count, share })
    }

    fn get<'a>(&self, parameters: &'a Watched) -> Result<[&'a Tensor; 2]> {
        Ok([parameters.buffer(&self.mean)?, parameters.buffer(&self.variance)?])
    }

    /// Takes a batch's statistics in: `variance` is that of its `values` of a channel, at least two.
    fn take(&self, parameters: &Watched, [mean, variance]: [&Tensor; 2], values: f64) -> Result<()> {
        let count = parameters.buffer(&self.count)?;
        count.add_scalar_(1)?;
        // What a tape follows ends here on purpose: statistics of batches gone by have no gradient.
        let (mean, variance) = (mean.detach(), variance.detach());
        let mut inputs = vec![&mean, &variance];
        let share = match self.share {
            Some(share) => constant(share),
            None => {
                inputs.push(count);
                constant(1.0) / Expr::input(2).cast(DType::F32)
            }
        };
        let moved = |old: usize, new: Expr| {
            let old = Expr::input(inputs.len() + old);
            old.clone() + (new - old) * &share
        };
        let unbiased = Expr::input(1) * constant(values / (values - 1.0));
        Tensor::update(&[moved(0, Expr::input(0)), moved(1, unbiased)], &inputs, &self.get(parameters)?)?;
        Ok(())
    }
}

impl BatchNorm {
    /// Registers parameters and buffers, with PyTorch's epsilon of 1e-5 and momentum of 0.1.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn new(builder: &mut Builder, prefix: &str, channels: u64) -> Result<BatchNorm> {
        BatchNorm::with_options(builder, prefix, channels, BatchNormOptions::default())
    }

    /// The same with other numbers, without gamma and beta or without running statistics.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for a share that is not of 0 to 1; as [`Builder::add`].
    pub fn with_options(
        builder: &mut Builder,
        prefix: &str,
        channels: u64,
        options: BatchNormOptions,
    ) -> Result<BatchNorm> {
        let BatchNormOptions { epsilon, running, affine } = options;
        if let Running::Share(share) = running
            && !(0.0..=1.0).contains(&share)
        {
            return invalid("momentum", format!("`{prefix}`: {share} is not of 0..=1"));
        }
        let affine = Channels::new(builder, prefix, channels, affine)?;
        let running = match running {
            Running::Absent => None,
            Running::Share(share) => Some(Statistics::new(builder, prefix, channels, Some(share))?),
            Running::Average => Some(Statistics::new(builder, prefix, channels, None)?),
        };
        Ok(BatchNorm { channels, affine, running, epsilon })
    }

    /// Gamma and beta for `x`; ones and zeros where there are none.
    fn affine(&self, parameters: &Watched, x: &Tensor) -> Result<[Tensor; 2]> {
        match Channels::of(self.affine.as_ref(), parameters)? {
            Some(affine) => Ok(affine),
            None => {
                let full = |value: f32| Tensor::full(x.device(), x.dtype(), [self.channels], value);
                Ok([full(1.0)?, full(0.0)?])
            }
        }
    }

    /// What evaluation multiplies each channel by and then adds, `[channels]` of f32: gamma / sqrt(variance + epsilon), and beta less the mean
    /// times that.
    pub(crate) fn line(&self, parameters: &Watched) -> Result<[Tensor; 2]> {
        let Some(running) = &self.running else {
            return invalid("batch norm", "without running statistics each batch has another line");
        };
        let [mean, variance] = running.get(parameters)?;
        let [gamma, beta] = self.affine(parameters, mean)?;
        let [x, y, z] = [0, 1, 2].map(|number| Expr::input(number).cast(DType::F32));
        let factor = Tensor::map(&(x.clone() / (y.clone() + constant(self.epsilon)).sqrt()), &[&gamma, variance])?;
        let addend = Tensor::map(&(x - y * z), &[&beta, mean, &factor])?;
        Ok([factor, addend])
    }

    /// `[..., channels]` -> `[..., channels]`. In training the running statistics, where there are some, take this batch in.
    ///
    /// # Errors
    /// As [`Tensor::batch_norm`] where it normalises by the batch, such as for one value of a channel, and else as
    /// [`Tensor::batch_norm_with`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor, mode: Mode) -> Result<Tensor> {
        self.forward_end(parameters, x, mode, &BatchNormEnd::default())
    }

    /// [`BatchNorm::forward`], then plus a residual and relu where `end` says so, in the same pass.
    ///
    /// # Errors
    /// As [`BatchNorm::forward`] and [`Tensor::batch_norm_end`].
    pub fn forward_end(&self, parameters: &Watched, x: &Tensor, mode: Mode, end: &BatchNormEnd<'_>) -> Result<Tensor> {
        let [gamma, beta] = self.affine(parameters, x)?;
        if let (Mode::Evaluation, Some(running)) = (mode, &self.running) {
            return x.batch_norm_with_end(running.get(parameters)?, &gamma, &beta, self.epsilon, end);
        }
        let normal = x.batch_norm_end(&gamma, &beta, self.epsilon, end)?;
        if let Some(running) = &self.running {
            let values = x.elements() as f64 / self.channels as f64;
            running.take(parameters, [&normal.mean, &normal.variance], values)?;
        }
        Ok(normal.y)
    }
}
