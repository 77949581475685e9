//! The harness's table of bad requests on every adapter: each is refused by its typed error, and the device computes on.

mod common;

use polywarp_core::Device;
use polywarp_core::harness::bad_input;
use polywarp_wgpu::Options;

#[test]
fn every_adapter_refuses_every_bad_request() {
    for entry in common::entries() {
        for options in [Options::default(), common::POOREST] {
            let device = Device::new(entry.open(options).expect("open"));
            let rows = bad_input::run(&device);
            let faults = rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.result.as_ref().err()?)));
            let faults: Vec<String> = faults.collect();
            assert!(rows.len() >= 30 && faults.is_empty(), "{}: {faults:#?}", device.id());
        }
    }
}
