//! Training: parameters, optimisers, schedules, loss scaling and checkpoints, over tensors of any device.
//!
//! This crate adds no operation and knows no backend: it calls the methods of [`Tensor`] alone. Gradients come from
//! [`Tape`](polywarp_core::Tape); layers are here only as far as examples need them.
//!
//! The decision to know: everything that changes from step to step (learning rate, step number, loss scale, clip coefficient) is a tensor of
//! one element on the device, and no step reads a value back. So a whole step is recorded once by
//! [`Device::record`] and replayed without the host.
//!
//! ```
//! use polywarp_core::{Device, Tape, Tensor};
//! use polywarp_nn::{Adam, Bias, Builder, Linear, Method, Optimiser, Reduction, Schedule, StepOptions, mse_loss};
//!
//! let device = Device::cpu();
//! let mut builder = Builder::new(7);
//! let layer = Linear::new(&mut builder, "layer", 2, 1, Bias::Yes)?;
//! let parameters = builder.build(&device)?;
//! let optimiser = Optimiser::new(&parameters, Method::AdamW(Adam::default()), Schedule::Constant, 0.1)?;
//! let x = Tensor::from_slice(&device, &[0.0f32, 1.0, 1.0, 0.0, 1.0, 1.0], [3, 2])?;
//! let y = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3, 1])?;
//! let step = device.record(|| {
//!     let tape = Tape::new();
//!     let watched = parameters.watch(&tape)?;
//!     let loss = mse_loss(&layer.forward(&watched, &x)?, &y, Reduction::Mean)?;
//!     parameters.backward(tape, &watched, &loss)?;
//!     optimiser.step(&parameters, &StepOptions::default())?;
//!     Ok(loss)
//! })?;
//! let first = step.replay()?.item::<f32>()?;
//! for _ in 0..100 {
//!     step.replay()?;
//! }
//! assert!(step.outputs().item::<f32>()? < first / 100.0);
//! # Ok::<(), polywarp_core::Error>(())
//! ```
//!
//! | to find | look in |
//! |---|---|
//! | named parameters, their gradients | [`Builder`], [`Parameters`], [`Watched`], [`Init`] |
//! | a step | [`Optimiser`], [`Method`], [`StepOptions`] |
//! | learning rates | [`Schedule`] |
//! | clipping by the global norm | [`Clip`] |
//! | f16 gradients that must not underflow | [`LossScale`] |
//! | averaged weights | [`Average`] |
//! | files | [`mod@file`], [`Checkpoint`] |
//! | layers | [`Linear`], [`Embedding`], [`Conv2d`], [`BatchNorm`], [`GroupNorm`], [`InstanceNorm`], [`LayerNorm`], [`RmsNorm`], [`Dropout`], [`attention()`] |
//! | functions composed of operations | [`rms_norm`], [`gelu_tanh`] |
//! | two of four weights | [`Mask24`] |
//! | losses | [`Tensor::cross_entropy`], [`mse_loss`], [`binary_cross_entropy_with_logits`] |
//! | in what all of that computes | [`Policy`] |
//! | networks | [`models`] |

#![forbid(unsafe_code)]

mod attention;
mod average;
mod batch_norm;
mod buffers;
mod checkpoint;
mod clip;
mod convolution;
mod dropout;
pub mod file;
mod flat;
mod functions;
mod group_norm;
mod init;
mod lamb;
mod layers;
mod losses;
mod mask24;
mod method;
pub mod models;
mod optimiser;
mod parameters;
mod policy;
mod rules;
mod scale;
mod schedule;
mod watched;

pub use attention::{AttentionOptions, attention};
pub use average::{Average, Ramp};
pub use batch_norm::{BatchNorm, BatchNormOptions, Mode, Running};
pub use checkpoint::Checkpoint;
pub use clip::Clip;
pub use convolution::Conv2d;
pub use dropout::Dropout;
pub use flat::{Decay, Flat};
pub use functions::{gelu_tanh, rms_norm};
pub use group_norm::{Affine, GroupNorm, InstanceNorm};
pub use init::Init;
pub use layers::{Bias, Embedding, LayerNorm, Linear, RmsNorm};
pub use losses::{Reduction, binary_cross_entropy_with_logits, mse_loss};
pub use mask24::Mask24;
pub use method::{Adam, Lamb, Method, Sgd, TrustRatio};
pub use optimiser::{Optimiser, StepOptions};
pub use parameters::{Builder, Parameters};
pub use policy::Policy;
pub use scale::{LossScale, LossScaleOptions};
pub use schedule::Schedule;
pub use watched::Watched;

use polywarp_core::{DType, Device, Error, Expr, Result, Tensor};

/// A tensor of one f32 on `device`, `[1]`.
fn number(device: &Device, value: f64) -> Result<Tensor> {
    Tensor::full(device, DType::F32, [1], value)
}

/// A constant of f32, whatever it meets.
fn constant(value: f64) -> Expr {
    Expr::constant(value).cast(DType::F32)
}

/// [`Error::InvalidArgument`].
fn invalid<T>(what: &'static str, reason: impl Into<String>) -> Result<T> {
    Err(Error::InvalidArgument { what, reason: reason.into() })
}
