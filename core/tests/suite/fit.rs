//! What the CPU says of memory is true.

use crate::support;
use polywarp_core::Device;
use polywarp_core::harness::fit;

#[test]
fn cpu_foretells_memory_and_batches_shrink() {
    let rows = fit::run(&Device::cpu());
    support::assert_rows("cpu", &rows, 10);
}
