//! What backends promise of memory, order and users' kernels, on the CPU and on the device that is right by construction.

use crate::support;
use polywarp_core::cpu::CpuBackend;
use polywarp_core::harness::broken::{Fault, broken};
use polywarp_core::harness::{ReferenceBackend, contract};
use polywarp_core::{Device, Error, Kernel};

#[test]
fn cpu_and_reference_keep_their_promises() {
    let opens: [fn() -> Device; 2] = [Device::cpu, || Device::new(ReferenceBackend::default())];
    for open in opens {
        let device = open();
        let mut rows = contract::run(&device);
        rows.push(contract::outlived(&|| Ok(open())));
        support::assert_rows(device.id(), &rows, 13);
    }
}

/// A look that finds nothing, and one that gets a word wrong.
#[test]
fn positions_that_a_look_misses_are_seen() {
    for fault in [Fault::UpdateIgnored, Fault::MiddleElement] {
        let rows = contract::positions_outside(&broken(Device::new(ReferenceBackend::default()), fault));
        let failed: Vec<&str> = rows.iter().filter(|row| row.result.is_err()).map(|row| row.name).collect();
        assert!(
            failed.iter().any(|name| name.ends_with("every call is named by the next read")),
            "{fault:?}: {failed:?}"
        );
    }
    let rows = contract::positions_outside(&broken(Device::new(ReferenceBackend::default()), Fault::None));
    support::assert_rows("as it is", &rows, 11);
}

#[test]
fn cpu_without_memory_gives_up_its_cache_and_says_what_is_held() {
    let device = Device::cpu();
    let backend = device.backend_as::<CpuBackend>().unwrap();
    let row = contract::driver_out_of_memory(&device, &|count| backend.inject_out_of_memory(count));
    support::assert_rows(device.id(), &[row], 1);
}

#[test]
fn cpu_runs_no_shaders_and_says_so() {
    let device = Device::cpu();
    match device.backend().launch(&Kernel::wgsl("@compute @workgroup_size(1) fn main() {}"), [1, 1, 1], &[]) {
        Err(Error::Unsupported { device: named, what, reason }) => {
            assert!(named == device.id() && !what.is_empty() && !reason.is_empty(), "{named}: {what}: {reason}");
        }
        other => panic!("{other:?}"),
    }
}
