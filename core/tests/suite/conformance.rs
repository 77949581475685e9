//! The conformance suite on the CPU backend.
//!
//! `POLYWARP_CHECK` may hold a filter, and `POLYWARP_LEVEL=full` runs everything. Without either, one quarter of the quick cases runs a day, and some
//! of f32 and of other dtypes of each family every day.

use polywarp_core::harness::{self, Level, Part, Selection};
use polywarp_core::{DType, Device};

#[test]
fn cpu_passes_the_conformance_suite() {
    let level =
        if std::env::var("POLYWARP_LEVEL").is_ok_and(|level| level == "full") { Level::Full } else { Level::Quick };
    let filter = std::env::var("POLYWARP_CHECK").ok();
    let whole = level == Level::Full || filter.is_some();
    let part = if whole { Part::ALL } else { Part::today(4) };
    let selection = Selection { filter, part, in_full: Some(DType::F32), ..Selection::level(level) };
    let report = harness::run(&Device::cpu(), &selection, &mut |_| {});
    println!("{report}");
    assert!(report.ok(), "{report}");
    assert!(report.unsupported.is_empty(), "the CPU computes everything");
}
