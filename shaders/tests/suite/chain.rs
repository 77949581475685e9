//! The scan in one pass (`core/wgsl/scan_chain.wgsl`), interpreted: a workgroup that waits for nobody, one that publishes nothing, and each
//! part that the result hangs on.

use crate::interpreted::Interpreted;
use naga_ptx::Target;
use polywarp_core::Device;
use polywarp_core::harness::{Case, Level, Outcome, run_case};
use polywarp_core::ops::REGISTRY;
use ptx_interpreter::RunOptions;

/// Forty tiles, so more than a block: quads, from the end, without the element itself.
const CASE: &str = "scan/cumsum f32 [40004]";

fn case() -> Case {
    let family = REGISTRY.iter().find(|family| family.name == "scan").expect("scan");
    let found = (family.cases)(Level::Quick).into_iter().find(|case| case.name.starts_with(CASE));
    found.unwrap_or_else(|| panic!("no case {CASE}"))
}

fn patient(wgsl: String) -> String {
    wgsl
}

/// Every total and every prefix is computed by each workgroup itself.
fn impatient(wgsl: String) -> String {
    wgsl.replace("const SPINS = 128u;", "const SPINS = 0u;")
}

/// How often a part was found, and what came of the case with something else `instead`.
fn outcome(spins: fn(String) -> String, part: &'static str, instead: &'static str) -> (usize, Outcome) {
    let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
    (backend.change_wgsl, backend.change_part) = (spins, Some((part, instead)));
    let device = Device::new(backend);
    let outcome = run_case(&device, &case(), 0);
    (device.backend_as::<Interpreted>().expect("the interpreter").changed(), outcome)
}

#[test]
fn chain_does_not_need_what_others_publish() {
    for (spins, part, instead, count) in [
        (impatient as fn(String) -> String, "const SPINS = 0u;", "const SPINS = 0u;", 1),
        (patient, "if thread == 0u { publish(place_of_total(row, tile), all); }", "", 1),
        (patient, "if thread == i { publish(place_of_prefix(row, next + 1u), carry); }", "", 1),
    ] {
        let (changed, outcome) = outcome(spins, part, instead);
        assert!(changed == count && matches!(outcome, Outcome::Pass { .. }), "{part}, {changed} times: {outcome:?}");
    }
}

/// Of barriers, what their comments begin with: the line is left out.
#[test]
fn chain_without_one_of_its_parts_is_caught() {
    for (spins, part, instead) in [
        (patient as fn(String) -> String, "workgroupBarrier(); // every vector's total", "//"),
        (patient, "workgroupBarrier(); // every thread's fold", "//"),
        (patient, "workgroupBarrier(); // folds of 2 * step", "//"),
        (patient, "workgroupBarrier(); // what precedes each vector", "//"),
        (patient, "workgroupBarrier(); // blocks' sums", "//"),
        // A half of a value, the tiles of the own block, the blocks before it, the row's first block.
        (patient, "READY | (bits >> 16u)", "READY | (bits >> 17u)"),
        (patient, "local = sums[i];", ""),
        (patient, "carry = known[past - found];", ""),
        (impatient, "carry = combine(carry, sums[i]);", ""),
        (patient, "(words.x & words.y) >= READY", "true"),
    ] {
        let (changed, outcome) = outcome(spins, part, instead);
        assert!(changed > 0 && matches!(outcome, Outcome::Fail(_)), "without {part}, {changed} times: {outcome:?}");
    }
}
