//! The tests of the planners' kernels, in one program. What counts the allocations of its process is one of its own
//! (`host_cost.rs`).

mod interpreted;

mod assembled;
mod checked;
mod ptx;
