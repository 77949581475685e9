//! The tests of the interpreter from outside, in one program: linked once, and run side by side.

#[path = "../common/mod.rs"]
mod common;

mod asynchronous;
mod cluster;
mod faults;
mod float;
mod integer;
mod matrix;
mod memory;
mod snapshots;
mod warp;
mod wgmma;
