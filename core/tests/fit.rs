//! What the CPU says of memory is true.

#![cfg(feature = "cpu")]

use polywarp_core::Device;
use polywarp_core::harness::fit;

#[test]
fn cpu_foretells_memory_and_batches_shrink() {
    let rows = fit::run(&Device::cpu());
    let wrong = rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.result.as_ref().err()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(rows.len() >= 10 && wrong.is_empty(), "{wrong:#?}");
}
