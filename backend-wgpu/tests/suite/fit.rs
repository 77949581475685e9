//! What `fits` says of every adapter, rich and poor, is true; batches shrink until they fit.

use crate::common;
use polywarp_core::Device;
use polywarp_core::harness::fit;
use polywarp_wgpu::Options;

#[test]
fn every_adapter_foretells_memory_and_batches_shrink() {
    for entry in common::entries_of_today() {
        for options in [Options::default(), common::POOREST] {
            let device = Device::new(entry.open(options).expect("open"));
            let rows = fit::run(&device);
            common::assert_rows(&format!("{device:?} with {options:?}"), &rows, 10);
        }
    }
}
