//! Tests on every adapter of the machine, in one program: linked once, and run side by side.
//!
//! One file per subject. Programs of their own are the conformance harness, which takes minutes, and what times the host.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod candidates;
mod contract;
mod fit;
mod interop;
mod loops;
mod lost;
mod memory;
mod order;
mod recording;
mod threads;
mod training;
mod tuner;
mod user;
mod values;
mod wakers;
