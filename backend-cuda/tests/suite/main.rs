//! Tests on the first card, in one program: linked once, and run side by side.
//!
//! One file per subject. Programs of their own are those that need the card or the process for themselves: the driver's calls
//! failing (`faults.rs`), a card filled (`memory.rs`), what the process has loaded (`driver_only.rs`, `missing.rs`), times
//! (`cost.rs`, `order.rs`), two cards; and those that run longest, the harness and the kernels in CUDA C++.

#[path = "../common/mod.rs"]
mod common;

mod accuracy;
mod candidates;
#[cfg(unix)]
mod disk_cache;
mod foreign;
mod interop;
mod peers;
mod poison;
mod prepared;
mod recording;
mod refusals;
mod shaders;
mod shipped;
mod training;
mod tuner;
mod user;
