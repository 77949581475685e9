//! The conformance suite on the CPU backend.
//!
//! `POLYWARP_CHECK` may hold a filter, and `POLYWARP_LEVEL=full` runs everything.

use polywarp_core::Device;
use polywarp_core::harness::{self, Level, Selection};

#[test]
fn cpu_passes_the_conformance_suite() {
    let level =
        if std::env::var("POLYWARP_LEVEL").is_ok_and(|level| level == "full") { Level::Full } else { Level::Quick };
    let filter = std::env::var("POLYWARP_CHECK").ok();
    let selection = Selection { filter, ..Selection::level(level) };
    let report = harness::run(&Device::cpu(), &selection, &mut |_| {});
    println!("{report}");
    assert!(report.ok(), "{report}");
    assert!(report.unsupported.is_empty(), "the CPU computes everything");
}
