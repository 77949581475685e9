//! polywarp's vocabulary and its reference: what a tensor is, what an operation is, what a device must do, and the
//! proof that it does.
//!
//! | to find | look in |
//! |---|---|
//! | element types, shapes, strides | [`DType`], [`Shape`], [`Layout`] |
//! | what users hold | [`Tensor`], [`Device`], [`Expr`] |
//! | what an operation is, your own too | [`operation`], [`plan`] |
//! | one operation: checks, oracle, bound, cost, cases | [`ops`] |
//! | what a device implements | [`Backend`] |
//! | memory kept for reuse, for backends that allocate from a driver | [`pool`] |
//! | a sequence of operations recorded once and replayed | [`Device::record`], [`Recording`] |
//! | whether it fits, and what to do when not | [`Device::fits`], [`in_batches`] |
//! | which of several kernels serves an op | [`tuner`] |
//! | the CPU device | `cpu` (feature `cpu`) |
//! | the proof | [`oracle`], [`harness`] |
//!
//! Knows no GPU API. Next: [`ops`], then [`Backend`].

#![deny(unsafe_code)] // but for `cpu/gemm/float.rs`, which calls crate `gemm`, and `cpu/parallel.rs`, which hands out chunks of slices

mod axis;
mod backend;
mod batches;
mod buffer;
pub mod case;
#[cfg(feature = "cpu")]
pub mod cpu;
mod device;
mod dtype;
mod element;
mod erfinv;
mod error;
mod expr;
mod faults;
mod fit;
mod float8;
mod generator;
pub mod gradient;
pub mod graph;
pub mod harness;
mod info;
mod kernel;
mod largest;
mod layout;
mod ledger;
mod live;
pub mod operation;
pub mod ops;
pub mod oracle;
pub mod plan;
pub mod pool;
mod precision;
mod profile;
mod recorders;
mod recording;
mod replace_file;
mod requests;
mod retry;
mod rounding;
mod scalar;
mod shape;
mod spec;
pub mod tape;
mod tensor;
mod tuned;
pub mod tuner;
mod user_dir;
mod wgsl;

pub use axis::{Axes, AxisList, Kept, Position, Stretch, keep};
pub use backend::{Backend, ReadFuture};
pub use batches::in_batches;
pub use buffer::{Binding, Buffer, foreign_buffer};
pub use device::Device;
pub use dtype::DType;
pub use element::Element;
pub use error::{Error, Result};
pub use expr::{
    BinaryFn, CompareFn, Expr, MAX_INPUTS, MAX_OPERANDS, MAX_STEPS, Program, Step, StepId, StepSet, UnaryFn,
};
pub use fit::{Fit, Inputs, Split};
pub use float8::{F8E4M3, F8E5M2};
pub use generator::{Generator, Replacement};
pub use info::{Clock, DeviceInfo, DeviceKind, Elapsed, Limits, Memory, MemoryStats};
pub use kernel::{Argument, Code, CudaCode, Kernel, Signature};
pub use largest::{Largest, LiveTensor, LiveTensors, TagMemory};
pub use layout::{Layout, collapse_together};
pub use operation::{Cost, Op, Operation};
pub use ops::{
    Attended, AttentionForm, AttentionOptions, CrossEntropyOptions, Distribution, Losses, Missing, ReduceFn,
    ScaleBlocks,
};
pub use precision::Precision;
pub use profile::{KernelTime, Profile};
pub use recorders::{Recorded, Recorders, foreign_recording};
pub use recording::Recording;
pub use replace_file::replace_file;
pub use requests::{Launched, Part, Profiler, Request, Requests};
pub use scalar::Scalar;
pub use shape::{IntoShape, KeepDims, MAX_RANK, Shape};
pub use spec::TensorSpec;
pub use tape::{Gradients, Tape};
pub use tensor::{
    FourBit, Granularity, GroupedMatmulOptions, MatmulOptions, MeshOrder, Nibbles, Norm, QuantizeScales, Quantized,
    Quantized4, RandomKey, Sparse24, Tensor, TensorOrNumber, Unique,
};
pub use user_dir::{CACHE_VARIABLE, LIMIT_VARIABLE, UserDir, read_trusted};

/// The half-precision element types.
pub use half::{bf16, f16};
