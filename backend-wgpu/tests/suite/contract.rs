//! What every backend promises of memory, order and users' kernels, on every adapter, rich and poor.

use crate::common::{POOREST, assert_rows, entries};
use polywarp_core::Device;
use polywarp_core::harness::contract;
use polywarp_wgpu::{Options, WgpuBackend};

#[test]
fn every_adapter_keeps_its_promises() {
    for entry in entries() {
        for options in [Options::default(), POOREST] {
            let device = Device::new(entry.open(options).expect("open"));
            let mut rows = contract::run(&device);
            let backend = device.backend_as::<WgpuBackend>().expect("wgpu");
            rows.push(contract::driver_out_of_memory(&device, &|count| backend.inject_out_of_memory(count)));
            rows.push(contract::outlived(&|| Ok(Device::new(entry.open(options)?))));
            assert_rows(&format!("{device:?} with {options:?}"), &rows, 34);
        }
    }
}
