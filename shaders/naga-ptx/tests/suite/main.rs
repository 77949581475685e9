//! The tests of the compiler from outside, in one program: linked once, and run side by side. Their shaders and what comes of
//! them are in the folders beside this one.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod device;
mod executed;
mod features;
mod loops;
mod order;
mod ptxas;
mod semantics;
mod snapshots;
