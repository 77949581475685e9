//! How many rounds the loops of a launch make, and what becomes of plans where the driver ends loops after so many
//! ([`Caps::max_loop_rounds`]).
//!
//! Every kernel says how many rounds its loops make at most in one invocation, given the words of its launch
//! ([`KernelKey::loop_rounds`](super::KernelKey::loop_rounds)). Planners cut long sums into more slabs, or write steps out; what
//! is too long all the same is left out of the candidates here, for every op alike. The round that finds a loop at its end
//! counts, as it does for such drivers; loops that a compiler writes out do not, for them.

use polywarp_core::{DType, Error, Result, Step, UnaryFn};

use crate::{Candidate, Caps, Plan};

/// The rounds of a loop of `rounds`, each of which makes `inner` in loops of its own.
pub(super) fn looped(rounds: u64, inner: u64) -> u64 {
    rounds.saturating_mul(inner.saturating_add(1)).saturating_add(1)
}

/// The most rounds that the loops of a step in `dtype` make: those that reduce the arguments of sin and cos
/// (`math.wgsl`, `math_f64.wgsl`). Of f64 a round takes 19 bits off a quotient of up to 1024, until 20 are left.
pub(super) fn of_step(step: Step, dtype: DType) -> u64 {
    match step {
        Step::Unary(UnaryFn::Cos | UnaryFn::Sin, _) if dtype == DType::F64 => 56,
        Step::Unary(UnaryFn::Cos | UnaryFn::Sin, _) => looped(3, 0),
        _ => 0,
    }
}

impl Plan {
    /// The most rounds that all loops of an invocation of one of its launches make together.
    pub fn loop_rounds(&self) -> u64 {
        self.launches.iter().map(|launch| launch.kernel.loop_rounds(&launch.params)).max().unwrap_or(0)
    }
}

impl Caps {
    /// The rounds that loops may make; no end where the driver knows none.
    pub(super) fn loop_limit(&self) -> u64 {
        self.max_loop_rounds.map_or(u64::MAX, u64::from)
    }

    fn runs_to_the_end(&self, plan: &Plan) -> bool {
        self.max_loop_rounds.is_none() || plan.loop_rounds() <= self.loop_limit()
    }

    /// Those of the `candidates` for the op called `name` whose loops the driver does not end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there are none.
    pub(super) fn that_run_to_the_end(&self, name: &str, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
        let least = candidates.iter().map(|candidate| candidate.plan.loop_rounds()).min();
        candidates.retain(|candidate| self.runs_to_the_end(&candidate.plan));
        if candidates.is_empty() { Err(self.ends_loops(name, least.unwrap_or(0))) } else { Ok(candidates) }
    }

    /// `plan` where the driver does not end its loops, else the first such of all the ways.
    pub(super) fn or_shorter(
        &self,
        name: &str,
        plan: Plan,
        all: impl FnOnce() -> Result<Vec<Candidate>>,
    ) -> Result<Plan> {
        if self.runs_to_the_end(&plan) {
            return Ok(plan);
        }
        let found = self.that_run_to_the_end(name, all()?)?.into_iter().next();
        found.map(|candidate| candidate.plan).ok_or_else(|| self.ends_loops(name, plan.loop_rounds()))
    }

    fn ends_loops(&self, name: &str, rounds: u64) -> Error {
        let limit = self.loop_limit();
        let reason = format!(
            "its loops make {rounds} rounds, and the driver ends loops after {limit}, returning what there is by then; \
             compute it in parts, or on another device"
        );
        self.unsupported(format!("{name} of this size"), reason)
    }
}

#[cfg(test)]
#[path = "rounds/tests.rs"]
mod tests;
