//! Every candidate can be had for an op small enough to be checked with before its first use: what cannot is never chosen.

use polywarp_core::Op;
use polywarp_core::harness::products::{products, unchecked};
use polywarp_kernels::{Candidate, Caps, candidates, every};

#[test]
fn every_candidate_is_had_for_an_op_small_enough_to_check_it() {
    let ops = products().unwrap();
    let names = |all: Vec<Candidate>| all.into_iter().map(|candidate| candidate.name).collect();
    for caps in [Caps::h200(), Caps::a100(), Caps::rtx_4090()] {
        let (seen, missing) =
            unchecked(&ops, |op: &Op| names(candidates(op, &caps)), |op: &Op| names(every(op, &caps)));
        println!("sm_{}: {seen} candidates", caps.sm);
        assert!(
            seen > 1000 && missing.is_empty(),
            "{} of {seen} cannot be checked: {:?}",
            missing.len(),
            missing.first()
        );
    }
}
