//! What backends promise of memory, order and users' kernels, on the CPU and on the device that is right by construction.

#![cfg(feature = "cpu")]

use polywarp_core::Device;
use polywarp_core::harness::{ReferenceBackend, contract};

mod support;

#[test]
fn cpu_and_reference_keep_their_promises() {
    for device in [Device::cpu(), Device::new(ReferenceBackend::default())] {
        let rows = contract::run(&device);
        support::assert_rows(device.id(), &rows, 11);
    }
}
