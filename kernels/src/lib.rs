//! polywarp's own NVIDIA kernels: CUDA C++ sources, their machine code, and which [`Op`] each one serves.
//!
//! It knows core and nothing else: no CUDA API, no shader. [`candidates`] is a pure function of an op and a card's
//! [`Caps`]; what it returns is data that `polywarp-cuda` runs. Nothing here needs a GPU, and nothing here is compiled on a
//! user's machine: the machine code is embedded ([`prepared`]), made by `cargo xtask kernels`.
//!
//! | to find | look in |
//! |---|---|
//! | the kernels | `cuda/`, inline PTX only in `cuda/ptx/` |
//! | what each kernel is: threads, memory, parameters | `src/catalogue/<family>.rs` |
//! | which op it serves, in which order | `src/plans/<family>.rs` |
//! | plans as data, what makes one sound | [`Plan`], `src/plan.rs` |
//! | architectures | [`Target`] |
//! | the archive of machine code | [`archive`], `prepared/` |
//! | what ties the archive to the sources | `src/make.rs` |
//!
//! How to add a kernel is in `kernels/README.md`.

#![forbid(unsafe_code)]

pub mod archive;
mod caps;
mod catalogue;
#[cfg(any(test, feature = "make"))]
mod in_flight;
#[cfg(any(test, feature = "make"))]
pub mod make;
mod param;
mod plan;
mod plans;
pub mod prepared;
mod target;

pub use caps::Caps;
pub use catalogue::{KernelInfo, Tile, find, kernels};
pub use param::{Block, Param};
pub use plan::{Arg, Candidate, Element, Launch, Pixels, Plan, Promotion, Slot, Swizzle, TensorMap};
pub use target::{Form, Target};

use polywarp_core::Op;

/// Every way in which these kernels compute `op` on a card with `caps`, the most promising first.
///
/// Empty where there is none. Names are unique. Each plan keeps inside of the op's operands and of its own scratch space,
/// gives the same bits on every run, and is sound ([`Plan::check`]).
pub fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    plans::candidates(op, caps)
}

/// [`candidates`], and those that are not worth timing for `op`: a small op stands for a large one where kernels are checked.
pub fn every(op: &Op, caps: &Caps) -> Vec<Candidate> {
    plans::every(op, caps)
}
