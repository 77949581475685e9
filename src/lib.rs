//! polywarp: GPU math for Rust on every GPU, with nothing to install but the driver.
//!
//! ```
//! use polywarp::Tensor;
//!
//! let device = polywarp::best()?;
//! let a = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let b = a.matmul(&a)?.exp()?.sum(0)?;
//! assert_eq!(b.dims(), [2]);
//! println!("{:?} on {}", b.to_vec::<f32>()?, device.info().name);
//! # Ok::<(), polywarp::Error>(())
//! ```
//!
//! This crate joins the others: it re-exports the vocabulary of `polywarp-core` and chooses devices. It computes nothing itself.
//!
//! | to find | look in |
//! |---|---|
//! | a device | [`best`], [`device()`], [`devices`] |
//! | tensors and their methods | [`Tensor`], [`Expr`] |
//! | your own shader on a device | [`Kernel`], [`Backend::launch`] |
//! | the same work again and again, at a small part of the host's cost | [`Device::record`], [`Recording`] |
//! | whether an operation fits, and batches that shrink until they do | [`Device::fits`], [`in_batches`] |
//! | training: parameters, optimisers, schedules, checkpoints | [`Tape`], [`nn`] |
//! | .npy and .npz files | `files` (feature `files`) |
//! | the proof that a device computes rightly | [`harness`] |
//! | wgpu devices only: your own `wgpu::Device`, buffers in and out | `wgpu` (feature `wgpu`) |
//! | CUDA devices only: your own context, addresses in and out, events, copies between cards | `cuda` (feature `cuda`) |
//! | shaders to SPIR-V, MSL, HLSL, GLSL | `compiler` (feature `compiler`) |
//! | the speedup tables | `bench` (feature `bench`) |
//!
//! Features: `cpu`, `cuda` and `wgpu` are the devices. `cli`, on by default, adds what the program `polywarp` needs, so
//! a library user writes `default-features = false, features = ["cpu", "cuda", "wgpu"]`. A program that uses crate
//! cudarc itself takes `cuda-unpinned` instead of `cuda`, and chooses cudarc's CUDA version.

mod devices;

#[cfg(feature = "bench")]
pub mod bench;

pub use devices::{
    Choice, DEVICE_VARIABLE, DeviceEntry, Opening, Rejected, Rejection, best, best_with, best_with_reasons, device,
    device_with, devices,
};
pub use polywarp_core::*;
pub use polywarp_nn as nn;

/// Tensors from and to NumPy's files.
#[cfg(feature = "files")]
pub use polywarp_files as files;

/// The offline shader compiler.
#[cfg(feature = "compiler")]
pub use polywarp_shaders::compiler;

/// The CUDA backend itself.
#[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
pub use polywarp_cuda as cuda;

/// The wgpu backend itself.
#[cfg(feature = "wgpu")]
pub use polywarp_wgpu as wgpu;

/// Reading shaders: limits, errors with their place, overrides, reflection.
#[cfg(feature = "compiler")]
pub use polywarp_shaders::wgsl as shader;

/// The README's example is compiled and run with the documented ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So are those of the guide, here and below.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/tensors.md")]
struct Tensors;

/// Their calls, ours.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/from-numpy-and-pytorch.md")]
struct FromNumpyAndPytorch;

/// Users' own WGSL.
#[cfg(all(doctest, feature = "compiler"))]
#[doc = include_str!("../docs/guide/shader.md")]
struct Shader;

/// Threads, waiting, errors, devices of applications.
#[cfg(all(doctest, feature = "cuda-unpinned", feature = "wgpu"))]
#[doc = include_str!("../docs/guide/embedding.md")]
struct Embedding;

/// The accuracy that results promise.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/numerics.md")]
struct Numerics;

/// How to find where time and memory go.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/operating.md")]
struct Operating;

/// So is that of the guide to training.
#[cfg(doctest)]
#[doc = include_str!("../docs/training.md")]
struct Training;
