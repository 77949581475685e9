//! Starting values of parameters.
//!
//! This is data: [`Builder::build`](crate::Builder::build) makes the numbers on the device. Each parameter draws from a stream of its own,
//! its registration number, so that one more parameter at the end changes none before it.

use polywarp_core::{DType, Device, Distribution, Result, Shape, Tensor};

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// 0.
    Zeros,
    /// 1.
    Ones,
    /// One number.
    Constant(f64),
    /// Normal numbers.
    Normal {
        /// Mean.
        mean: f32,
        /// Standard deviation.
        std: f32,
    },
    /// Uniform numbers in [low, high).
    Uniform {
        /// Smallest value.
        low: f32,
        /// Upper end.
        high: f32,
    },
    /// U(-1/sqrt(fan_in), 1/sqrt(fan_in)), for weights and biases alike: the default of PyTorch's Linear, which is
    /// `kaiming_uniform_(a = sqrt 5)`: a gain of sqrt(2/(1 + 5)) and a bound of gain sqrt(3/fan_in).
    Linear {
        /// Inputs of each output.
        fan_in: u64,
    },
}

impl Init {
    /// An f32 tensor of `shape` on `device`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for bounds out of order and a negative deviation; memory errors of the
    /// device.
    pub fn tensor(self, device: &Device, shape: Shape, seed: u64, stream: u64) -> Result<Tensor> {
        let random = |distribution| Tensor::random(device, DType::F32, shape, distribution, seed, stream);
        match self {
            Init::Zeros => Tensor::zeros(device, DType::F32, shape),
            Init::Ones => Tensor::full(device, DType::F32, shape, 1),
            Init::Constant(value) => Tensor::full(device, DType::F32, shape, value),
            Init::Normal { mean, std } => random(Distribution::Normal { mean, std }),
            Init::Uniform { low, high } => random(Distribution::Uniform { low, high }),
            Init::Linear { fan_in } => {
                let bound = (1.0 / (fan_in.max(1) as f64).sqrt()) as f32;
                random(Distribution::Uniform { low: -bound, high: bound })
            }
        }
    }
}
