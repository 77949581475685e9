//! polywarp on wgpu: one backend for every GPU that Vulkan, Metal, DX12, GL or WebGPU reaches.
//!
//! It runs the launches that `polywarp_core::ops::plan` asks for, and users' own WGSL. It knows no operation.
//!
//! | to find | look in |
//! |---|---|
//! | which adapters there are, and their names | [`adapters`], [`AdapterEntry`] |
//! | opening a device, or taking an application's own | `open.rs`, [`Options`] |
//! | one thread at a time makes or destroys a device | `driver.rs` |
//! | whether a driver ends loops | `loops.rs` |
//! | memory | `polywarp_core::pool`, `memory.rs` |
//! | kernels of the library and their pipelines | `pipelines.rs` |
//! | users' WGSL: guards, reflection, checks | `polywarp_shaders::wgsl`, `user.rs` |
//! | gathering and submitting | `stream.rs` |
//! | what a device consists of; the door into it | `state.rs`; `device.rs` |
//! | launching plans and users' kernels | `run.rs` |
//! | recording once, replaying often | `tape.rs`, `recording.rs` |
//! | reading, writing, timing, waiting | `transfer.rs`, `timing.rs`, `wait.rs` |
//! | choosing among kernels | `polywarp_core::tuner`, `tune.rs` |
//! | `wgpu::Buffer`s in and out | `interop.rs` |
//! | every `unsafe` block | `native.rs` |
//!
//! The one decision to know: an operation records into a shared command encoder and returns; work is submitted when
//! enough of it has gathered, or something is read. wgpu orders commands and inserts barriers per whole buffer, so a
//! tensor is a whole buffer, never a part of one.

mod adapters;
mod device;
mod driver;
mod fault;
mod gl;
mod info;
mod interop;
mod loops;
mod memory;
mod native;
mod open;
mod patch;
mod pipelines;
mod recording;
mod run;
mod shared_bool;
mod state;
mod stream;
mod tape;
mod timing;
mod transfer;
mod tune;
mod user;
mod wait;

#[cfg(not(target_arch = "wasm32"))]
pub use adapters::adapters;
pub use adapters::{AdapterEntry, adapters_async};
pub use open::{FeatureChoice, LimitChoice, Options};
pub use state::WgpuBackend;

/// The wgpu this backend is built with, for applications that share a device with it.
pub use wgpu;
