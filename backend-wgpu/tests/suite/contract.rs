//! What every backend promises of memory, order and users' kernels, on every adapter, rich and poor.

use crate::common::{POOREST, assert_rows, entries};
use polywarp_core::harness::{Part, contract};
use polywarp_core::{Device, DeviceKind};
use polywarp_wgpu::{Options, WgpuBackend};

#[test]
fn every_adapter_keeps_its_promises() {
    let today = Part::today(4);
    for (number, entry) in (0..).zip(entries()) {
        for (variant, options) in (0..).zip([Options::default(), POOREST]) {
            // Of software GPUs one way a day: their compilers take a minute and more for every way.
            if entry.kind == DeviceKind::Software && !today.is_turn_of(2 * number + variant) {
                continue;
            }
            let device = Device::new(entry.open(options).expect("open"));
            let part = if entry.kind == DeviceKind::Software { Part::today(3) } else { Part::ALL };
            let mut rows = contract::run_part(&device, part);
            let backend = device.backend_as::<WgpuBackend>().expect("wgpu");
            rows.push(contract::driver_out_of_memory(&device, &|count| backend.inject_out_of_memory(count)));
            rows.push(contract::outlived(&|| Ok(Device::new(entry.open(options)?))));
            assert_rows(&format!("{device:?} with {options:?}"), &rows, 34);
        }
    }
}
