//! The harness's table of bad requests on every adapter: each is refused by its typed error, and the device computes on.

mod common;

use polywarp_core::harness::bad_input;
use polywarp_core::{Device, Error, Tensor};
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

/// Kernels index by 32 bits. A view may have more elements than that, all of them one.
#[test]
fn elements_beyond_the_kernels_indices_are_refused() {
    for entry in common::entries() {
        let device = Device::new(entry.open(common::POOREST).expect("open"));
        let elements = 1 << 33;
        let wide = Tensor::from_slice(&device, &[1.0f32], [1]).unwrap().broadcast_to([elements]).unwrap();
        for (op, result) in [("sum", wide.sum(&[])), ("max", wide.max(&[]))] {
            match result {
                Err(Error::IndexWidth { op: named, elements: told, max }) => {
                    assert!(named == op && told == elements && max <= u32::MAX.into(), "{named}: {told} of {max}");
                }
                other => panic!("{op}: {other:?}"),
            }
        }
        let few = wide.slice(0, 0..1000).unwrap().sum(&[]).unwrap();
        assert_eq!(few.item::<f32>().unwrap(), 1000.0);
    }
}
