//! What the CPU says of memory is true.

use crate::support;
use polywarp_core::Device;
use polywarp_core::harness::broken::{Fault, broken};
use polywarp_core::harness::fit;

#[test]
fn cpu_foretells_memory_and_batches_shrink() {
    let rows = fit::run(&Device::cpu());
    support::assert_rows("cpu", &rows, 10);
}

/// What updates twice, or not at all, when memory ran out on the way does not pass.
#[test]
fn faults_of_updates_are_found_where_memory_runs_out() {
    for fault in [Fault::UpdatedTwice, Fault::UpdateIgnored] {
        let rows = fit::run(&broken(Device::cpu(), fault));
        let row = rows.iter().find(|row| row.name.starts_with("an update")).expect("a row of updates");
        assert!(row.result.is_err(), "{fault:?} is not seen");
    }
}
