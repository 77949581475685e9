//! The tuner's shipped table names kernels that there are: an answer for one that was renamed or taken out would be passed
//! over, and its product tuned anew by every user. Needs no card.

use std::collections::HashMap;

use polywarp_core::harness::BenchSize;
use polywarp_core::ops::REGISTRY;
use polywarp_core::ops::ReducedMatmul;
use polywarp_core::tuner::{Key, Table, find};
use polywarp_kernels::{Caps, every};

#[test]
fn shipped_winners_are_kernels_that_are_offered() {
    let table = Table::from_json(include_str!("../../../core/src/tuner/shipped.json")).unwrap();
    let of_card = |caps: &Caps, name: &str| {
        let answers = table.answers().filter(|answer| answer.identity.device == name && answer.identity.api == "cuda");
        let winners: HashMap<&str, &str> =
            answers.map(|answer| (answer.key.as_str(), answer.winner.as_str())).collect();
        let mut stale = Vec::new();
        for case in REGISTRY.iter().flat_map(|family| (family.benches)(BenchSize::Large)) {
            let Some(key) = Key::of(&case.op).map(|key| key.to_string()) else { continue };
            let Some(winner) = winners.get(key.as_str()) else { continue };
            // Of a composed way the product is native.
            let (native, kernel) = match (case.op.get::<ReducedMatmul>(), winner.strip_prefix("composed_")) {
                (Some(op), Some(kernel)) => (every(&op.product.clone().into(), caps), kernel),
                _ => (every(&case.op, caps), *winner),
            };
            // Portable kernels are the shaders' crate's, and called after the op.
            let portable = ["matmul", "grouped_matmul", "reduced_"].iter().any(|op| winner.starts_with(op));
            if find(native.iter().map(|found| found.name.as_str()), kernel).is_none() && !portable {
                stale.push(format!("{}: {winner}", case.name));
            }
        }
        assert!(stale.is_empty(), "make the table anew (docs/tuner.md):\n{}", stale.join("\n"));
    };
    of_card(&Caps::h200(), "NVIDIA H200");
}
