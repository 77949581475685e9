//! polywarp on CUDA: the same WGSL as everywhere, compiled to PTX by polywarp and run by NVIDIA's driver alone.
//!
//! It runs the launches that `polywarp_kernels` and `polywarp_shaders` plan, and users' own kernels. It knows no operation.
//!
//! | to find | look in |
//! |---|---|
//! | which cards there are, and their names | [`cards`], [`CardEntry`] |
//! | the slices that cards are cut into | [`slices`] |
//! | what a device consists of; opening one | [`CudaBackend`] (`state.rs`); `open.rs`, [`Options`] |
//! | each call of a backend, and the file that does it | `device.rs` |
//! | what planners and users are told of a card | `info.rs` |
//! | an application's own context, addresses, events, copies between cards | `interop.rs` |
//! | the driver library, and what is said when it is missing or old | `driver.rs`, [`versions`] |
//! | every call into it, and almost every `unsafe` block | `native/` |
//! | faults that stay: poisoned and lost devices; what each status means | `fault.rs`, `status.rs` |
//! | memory | `polywarp_core::pool`, `native/memory.rs` |
//! | WGSL to machine code; the cache on disk; kernels compiled before | `kernels.rs`, `cache.rs`, `prepared.rs` |
//! | polywarp's own CUDA kernels (`polywarp-kernels`), loaded | `machine.rs` |
//! | which of several ways computes an op; several in turn | `candidates.rs`; `composed.rs`, `work.rs` |
//! | a launch's parameters | `params.rs` |
//! | launching, recording | `run.rs`, `recording.rs`; what they note `tape.rs` |
//! | users' WGSL and SPIR-V; their PTX, machine code and CUDA C++ | `launch.rs`; `launch/`, `user/`, `native/nvrtc.rs` |
//! | reading and writing | `transfer.rs`; `uploads.rs`, `waiter.rs`, `staging.rs` |
//! | cuBLASLt beside it, for benchmarks alone (feature `vendor`) | `vendor/` |
//!
//! The one decision to know: a device is one stream. Work runs in the order of the calls, so freed memory can be handed
//! out at once, and nothing waits but a read, and the tuner at the first op of a kind.

mod cache;
mod candidates;
mod cards;
mod composed;
mod device;
mod driver;
mod fault;
mod info;
mod interop;
mod kernels;
mod launch;
mod machine;
mod native;
mod open;
mod options;
mod params;
mod prepared;
mod recording;
mod run;
mod slices;
mod staging;
mod state;
mod status;
mod tape;
mod transfer;
mod uploads;
mod user;
#[cfg(feature = "vendor")]
pub mod vendor;
pub mod versions;
mod waiter;
mod work;

pub use cards::{CardEntry, card, cards};
pub use interop::DeviceEvent;
pub use open::Options;
pub use slices::{Slice, slices};
pub use state::CudaBackend;
pub use work::Work;

/// What `fuzz/` calls; no part of the library.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::cache::fuzzing::fuzz as cache;
}

/// The cudarc whose types the functions for sharing use.
pub use cudarc;
