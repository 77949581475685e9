//! Recording and replaying on the CPU.

use crate::support;
use polywarp_core::harness::recording;
use polywarp_core::{DType, Device, Tensor};

#[test]
fn cpu_replays_what_it_recorded() {
    let rows = recording::run(&Device::cpu());
    support::assert_rows("cpu", &rows, 20);
}

#[test]
fn intermediates_of_a_recording_share_memory() {
    let device = Device::cpu();
    let x = Tensor::zeros(&device, DType::F32, [1 << 16]).unwrap();
    // What a device's first recording takes for good: words for positions outside.
    device.record(|| Ok(())).unwrap();
    let before = device.memory().in_use_bytes;
    let recording = device.record(|| (0..50).try_fold(x.clone(), |sum, _| sum.add_scalar(1.0))).unwrap();
    let held = device.memory().in_use_bytes - before;
    assert!(held <= 2 * 4 * (1 << 16), "{held} bytes for two buffers of 256 KiB");
    assert_eq!(recording.replay().unwrap().to_vec::<f32>().unwrap()[65535], 50.0);
}
