//! NVIDIA's own matrix products beside polywarp's, for tables and benchmarks alone (feature `vendor`).
//!
//! Where the machine has cuBLASLt it is opened at run time; nothing that computes for users ever asks for it. What is
//! compared takes turns on the same buffers in one process, as graphs of launches timed by the card, so that heat, clocks and
//! caches are the same for both.
//!
//! | to find | look in |
//! |---|---|
//! | the library: opening it, its heuristics for a product, launching one | [`CublasLt`], [`Plan`] |
//! | turns: short bursts, and long stretches at the clocks that the card can hold | [`Entrant`], [`rounds`], [`sustained`] |
//! | clock, power and heat of the card (NVML, where it is there) | [`Clocks`] |

mod clocks;
mod contest;
mod cublaslt;
mod plan;

pub use clocks::{Clocks, State};
pub use contest::{Entrant, Operands, Sampling, Sustained, rounds, sustained};
pub use cublaslt::{CublasLt, WORKSPACE_BYTES};
pub use plan::Plan;
