//! Planners: from an op to candidates. One file per family of kernels; [`FAMILIES`] holds one sorted line for each.
//!
//! A family returns what it can do for the op on the card, with an honest estimate, and leaves out what it cannot. Here
//! they are put in order. No family knows another; what several need (packing an operand) is a function beside them.

mod attention;
mod compressed;
mod convolution;
mod dmma;
mod ending;
mod epilogue;
mod gemv;
mod gemv_tma;
mod mma_sparse;
mod mma_sync;
mod operand;
mod pack;
mod simt;
mod source;
mod sparse24;
mod split_f16;
mod splitk;
mod wgmma;

use polywarp_core::Op;

use crate::{Candidate, Caps};

/// What a family can do for an op.
type Family = fn(&Op, &Caps) -> Vec<Candidate>;

/// The families that plan, sorted by name. The number drops candidates whose estimate is slower than the family's best
/// by more than this factor: they are not worth timing.
const FAMILIES: &[(Family, f64)] = &[
    (attention::candidates, attention::WORTH_TIMING),
    (convolution::candidates, convolution::WORTH_TIMING),
    (dmma::candidates, dmma::WORTH_TIMING),
    (gemv::candidates, f64::INFINITY),
    (gemv_tma::candidates, gemv_tma::WORTH_TIMING),
    (mma_sparse::candidates, mma_sparse::WORTH_TIMING),
    (mma_sync::candidates, mma_sync::WORTH_TIMING),
    (simt::candidates, simt::WORTH_TIMING),
    (sparse24::candidates, sparse24::WORTH_TIMING),
    (wgmma::candidates, wgmma::WORTH_TIMING),
];

/// Scales that change along K are one family's.
const OF_SCALED_BLOCKS: &[(Family, f64)] = &[(wgmma::candidates, wgmma::WORTH_TIMING)];

fn families(op: &Op) -> &'static [(Family, f64)] {
    if op.product().is_some_and(|product| product.scale_blocks.is_some()) { OF_SCALED_BLOCKS } else { FAMILIES }
}

pub(crate) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let promising = |&(family, worth): &(Family, f64)| {
        let mut found = family(op, caps);
        // The best that there is on this card.
        found.retain(|candidate| candidate.plan.runs_on(caps.sm));
        let best = found.iter().map(|candidate| candidate.estimate_ns).fold(f64::INFINITY, f64::min);
        found.retain(|candidate| candidate.estimate_ns <= best * worth);
        found
    };
    in_order(families(op).iter().flat_map(promising).collect(), op, caps)
}

pub(crate) fn every(op: &Op, caps: &Caps) -> Vec<Candidate> {
    in_order(families(op).iter().flat_map(|(family, _)| family(op, caps)).collect(), op, caps)
}

fn in_order(mut found: Vec<Candidate>, op: &Op, caps: &Caps) -> Vec<Candidate> {
    debug_assert!(found.iter().all(|candidate| candidate.plan.check(op.inputs().len()) == Ok(())), "{found:?}");
    found.retain(|candidate| candidate.plan.runs_on(caps.sm));
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns).then_with(|| a.name.cmp(&b.name)));
    found
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
