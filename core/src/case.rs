//! Cases as data: what is computed, on which numbers, and how a benchmark counts it.
//!
//! Operations give them ([`crate::ops::REGISTRY`]); how they run is [`crate::harness`]'s business, and the tuner checks its
//! candidates on operands made here.

mod bench;
mod conformance;
mod level;
mod operand;
pub mod values;

pub use bench::{BenchCase, BenchSize, Metric, Suite};
pub use conformance::{Case, Check, LayoutKind, OUTPUT_OFFSET_BYTES, output};
pub use level::Level;
pub(crate) use operand::{Operand, operand, positions};
pub use values::Values;
