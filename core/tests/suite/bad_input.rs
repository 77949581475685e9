//! Bad requests are refused by typed errors on every device of this crate, and do no harm.

use polywarp_core::Device;
use polywarp_core::harness::broken::{Fault, broken};
use polywarp_core::harness::{ReferenceBackend, bad_input};

fn assert_all_refused(device: &Device) {
    let rows = bad_input::run(device);
    let wrong: Vec<String> =
        rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.result.as_ref().err()?))).collect();
    assert!(rows.len() >= 30 && wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn reference_refuses_every_bad_request() {
    assert_all_refused(&Device::new(ReferenceBackend::default()));
}

#[cfg(feature = "cpu")]
#[test]
fn cpu_refuses_every_bad_request() {
    assert_all_refused(&Device::cpu());
}

/// The table can fail: a device that computes nothing afterwards is noticed in every row.
#[test]
fn device_that_stops_computing_is_noticed() {
    let device = broken(Device::new(ReferenceBackend::default()), Fault::NothingDone);
    assert!(bad_input::run(&device).iter().all(|row| row.result.is_err()));
}
