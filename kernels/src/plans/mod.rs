//! Planners: from an op to candidates. One file per family of kernels; [`FAMILIES`] holds one sorted line for each.
//!
//! A family returns what it can do for the op on the card, with an honest estimate, and leaves out what it cannot. Here
//! they are put in order. No family knows another; what several need (packing an operand) is a function beside them.

mod gemv;
mod mma_sync;
mod operand;
mod pack;
mod simt;
mod splitk;
mod wgmma;

use polywarp_core::Op;

use crate::{Candidate, Caps};

/// The families that plan, by name.
const FAMILIES: &[fn(&Op, &Caps) -> Vec<Candidate>] =
    &[gemv::candidates, mma_sync::candidates, simt::candidates, wgmma::candidates];

pub(crate) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = FAMILIES.iter().flat_map(|family| family(op, caps)).collect();
    debug_assert!(found.iter().all(|candidate| candidate.plan.check(op.inputs().len()) == Ok(())), "{found:?}");
    found.retain(|candidate| candidate.plan.runs_on(caps.sm));
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns).then_with(|| a.name.cmp(&b.name)));
    found
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
