//! How many rounds the loops of a launch make, and what becomes of plans where the driver ends loops after so many
//! ([`Caps::max_loop_rounds`]).
//!
//! Every kernel says how many rounds its loops make at most in one invocation, given the words of its launch
//! ([`crate::plan::KernelText::loop_rounds`]). Planners cut long sums into more slabs, or write steps out; what
//! is too long all the same is left out of the candidates here, for every op alike. The round that finds a loop at its end
//! counts, as it does for such drivers; loops that a compiler writes out do not, for them.

use crate::plan::looped;
use crate::{BinaryFn, DType, Step, UnaryFn};

/// Rounds of Philox4x32-10.
pub(crate) const PHILOX_ROUNDS: u64 = 10;

/// The most rounds that the loops of a step in `dtype` make: those that reduce the arguments of sin, cos and tan
/// (`math.wgsl`, `math_f64.wgsl`), and those that divide one
/// float by another 20 or 48 bits at a time (`remainder.wgsl`), and the rounds of Philox. Of f64 the reduction of a round takes 19 bits off a quotient of up to 1024, until 20 are left.
pub(crate) fn of_step(step: Step, dtype: DType) -> u64 {
    match step {
        Step::Unary(UnaryFn::Cos | UnaryFn::Sin | UnaryFn::Tan, _) if dtype == DType::F64 => 56,
        Step::Unary(UnaryFn::Cos | UnaryFn::Sin | UnaryFn::Tan, _) => looped(3, 0),
        Step::Binary(BinaryFn::Rem | BinaryFn::Remainder, ..) if dtype == DType::F64 => looped(44, 0),
        Step::Binary(BinaryFn::Rem | BinaryFn::Remainder, ..) if dtype.is_float() => looped(14, 0),
        Step::Random(_) => looped(PHILOX_ROUNDS, 0),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "rounds/tests.rs"]
mod tests;
