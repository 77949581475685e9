//! Every candidate can be had for an op small enough to be checked with before its first use: what cannot is never chosen.

use polywarp_core::Op;
use polywarp_core::harness::products::{products, unchecked};
use polywarp_core::ops::candidates;
use polywarp_core::plan::{Caps, Cooperative};

/// A card with everything, and one with nothing.
fn cards() -> [Caps; 2] {
    let poor = Caps::webgpu_defaults("poor");
    let rich = Caps {
        f16: true,
        f64: true,
        i64: true,
        subgroups: Some((32, 32)),
        max_invocations: 1024,
        max_workgroup_bytes: 48 << 10,
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        ..Caps::webgpu_defaults("rich")
    };
    [rich, poor]
}

#[test]
fn every_candidate_is_had_for_an_op_small_enough_to_check_it() {
    for caps in cards() {
        let able = |op: &Op| op.inputs().iter().all(|input| caps.require(input.dtype).is_ok());
        let ops: Vec<Op> = products().unwrap().into_iter().filter(able).collect();
        let names = |op: &Op| -> Vec<String> {
            candidates(op, &caps).map_or(Vec::new(), |all| all.into_iter().map(|found| found.name).collect())
        };
        let (seen, missing) = unchecked(&ops, names, names);
        println!("{}: {seen} candidates", caps.device);
        assert!(
            seen > 100 && missing.is_empty(),
            "{} of {seen} cannot be checked: {:?}",
            missing.len(),
            missing.first()
        );
    }
}
