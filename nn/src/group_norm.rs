//! Group and instance normalisation as layers, with PyTorch's names and defaults.
//!
//! Neither has running statistics, which PyTorch's instance normalisation has only where they are asked for: training and use are the same.

use polywarp_core::{Result, Tensor};

use crate::{Builder, Decay, Init, Watched, invalid};

/// Whether a normalisation has a factor and an addend for each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affine {
    /// It has.
    Yes,
    /// It has not, and no parameters.
    No,
}

/// Gamma and beta by their names.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    weight: String,
    bias: String,
}

impl Channels {
    pub(crate) fn new(builder: &mut Builder, prefix: &str, channels: u64, affine: Affine) -> Result<Option<Channels>> {
        if affine == Affine::No {
            return Ok(None);
        }
        let (weight, bias) = (format!("{prefix}.weight"), format!("{prefix}.bias"));
        builder.add(weight.as_str(), [channels], Init::Ones, Decay::No)?;
        builder.add(bias.as_str(), [channels], Init::Zeros, Decay::No)?;
        Ok(Some(Channels { weight, bias }))
    }

    pub(crate) fn of(channels: Option<&Channels>, parameters: &Watched) -> Result<Option<[Tensor; 2]>> {
        let Some(Channels { weight, bias }) = channels else { return Ok(None) };
        Ok(Some([parameters.get(weight)?.clone(), parameters.get(bias)?.clone()]))
    }
}

/// Normalisation of groups of channels, the last axis of [n, ..., channels], in each of the n: [`Tensor::group_norm`] with gamma `[channels]` at
/// `<prefix>.weight`, 1 at first, and beta `[channels]` at `<prefix>.bias`, 0 at first. Neither decays.
///
/// ```
/// use polywarp_core::{Device, Tensor};
/// use polywarp_nn::{Builder, GroupNorm};
///
/// let device = Device::cpu();
/// let mut builder = Builder::new(0);
/// let layer = GroupNorm::new(&mut builder, "norm", 2, 4)?;
/// let parameters = builder.build(&device)?;
/// let x = Tensor::from_slice(&device, &[100.0f32, 300.0, 1000.0, 3000.0], [1, 1, 4])?;
/// let y = layer.forward(&parameters.unwatched(), &x)?.to_vec::<f32>()?;
/// assert!(y.iter().zip([-1.0, 1.0, -1.0, 1.0]).all(|(y, want)| (y - want).abs() < 1e-6));
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupNorm {
    channels: Option<Channels>,
    groups: u64,
    epsilon: f64,
}

impl GroupNorm {
    /// Registers gamma and beta, with PyTorch's epsilon of 1e-5.
    ///
    /// # Errors
    /// As [`GroupNorm::with_options`].
    pub fn new(builder: &mut Builder, prefix: &str, groups: u64, channels: u64) -> Result<GroupNorm> {
        GroupNorm::with_options(builder, prefix, groups, channels, 1e-5, Affine::Yes)
    }

    /// The same with another `epsilon`, or without parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for `groups` that do not divide `channels`; as [`Builder::add`].
    pub fn with_options(
        builder: &mut Builder,
        prefix: &str,
        groups: u64,
        channels: u64,
        epsilon: f64,
        affine: Affine,
    ) -> Result<GroupNorm> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            return invalid(
                "groups",
                format!("`{prefix}`: {channels} channels are not cut into {groups} groups of one size"),
            );
        }
        Ok(GroupNorm { channels: Channels::new(builder, prefix, channels, affine)?, groups, epsilon })
    }

    /// `[n, ..., channels]` -> `[n, ..., channels]`.
    ///
    /// # Errors
    /// As [`Tensor::group_norm`].
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        let affine = Channels::of(self.channels.as_ref(), parameters)?;
        x.group_norm(self.groups, affine.as_ref().map(|[gamma, beta]| [gamma, beta]), self.epsilon)
    }
}

/// Normalisation of each channel, the last axis of [n, ..., channels], in each of the n: [`Tensor::instance_norm`]. Where it is affine, gamma and
/// beta are those of [`GroupNorm`].
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    channels: Option<Channels>,
    epsilon: f64,
}

impl InstanceNorm {
    /// As PyTorch's by default: without parameters, with an epsilon of 1e-5.
    pub fn new() -> InstanceNorm {
        InstanceNorm { channels: None, epsilon: 1e-5 }
    }

    /// The same with another `epsilon`, and with gamma and beta where it is affine.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn with_options(
        builder: &mut Builder,
        prefix: &str,
        channels: u64,
        epsilon: f64,
        affine: Affine,
    ) -> Result<InstanceNorm> {
        Ok(InstanceNorm { channels: Channels::new(builder, prefix, channels, affine)?, epsilon })
    }

    /// `[n, ..., channels]` -> `[n, ..., channels]`.
    ///
    /// # Errors
    /// As [`Tensor::instance_norm`], such as for one place.
    pub fn forward(&self, parameters: &Watched, x: &Tensor) -> Result<Tensor> {
        let affine = Channels::of(self.channels.as_ref(), parameters)?;
        x.instance_norm(affine.as_ref().map(|[gamma, beta]| [gamma, beta]), self.epsilon)
    }
}

impl Default for InstanceNorm {
    fn default() -> InstanceNorm {
        InstanceNorm::new()
    }
}
