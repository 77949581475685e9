//! What `fits` says of every adapter, rich and poor, is true; batches shrink until they fit.

mod common;

use polywarp_core::Device;
use polywarp_core::harness::fit;
use polywarp_wgpu::Options;

#[test]
fn every_adapter_foretells_memory_and_batches_shrink() {
    for entry in common::entries() {
        for options in [Options::default(), common::POOREST] {
            let device = Device::new(entry.open(options).expect("open"));
            let rows = fit::run(&device);
            let wrong = rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.result.as_ref().err()?)));
            let wrong: Vec<String> = wrong.collect();
            assert!(rows.len() >= 10 && wrong.is_empty(), "{device:?} with {options:?}: {wrong:#?}");
        }
    }
}
