//! The harness's table of bad requests on every adapter: each is refused by its typed error, and the device computes on.

use crate::common;
use polywarp_core::harness::bad_input;
use polywarp_core::ops::{Matmul, Random};
use polywarp_core::plan::Caps;
use polywarp_core::{DType, Device, Distribution, Error, Layout, Op, Shape, Tensor, TensorSpec};
use polywarp_wgpu::Options;

#[test]
fn every_adapter_refuses_every_bad_request() {
    for entry in common::entries_of_today() {
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
        let (row, column) = (wide.reshape([1, elements]).unwrap(), wide.reshape([elements, 1]).unwrap());
        for (op, result) in [("sum", wide.sum(..)), ("max", wide.max(..)), ("matmul", row.matmul(&column))] {
            match result {
                Err(Error::IndexWidth { op: named, elements: told, max }) => {
                    assert!(named == op && told == elements && max <= u32::MAX.into(), "{named}: {told} of {max}");
                }
                other => panic!("{op}: {other:?}"),
            }
        }
        // So many random numbers are stored: the planner is asked, no buffer would hold them.
        let numbers = TensorSpec::new(DType::F8E4M3, Layout::contiguous(Shape::new(&[elements]).unwrap()));
        let random = Random::new(Distribution::Uniform { low: 0.0, high: 1.0 }, 1, 0, numbers).unwrap();
        match device.backend().scratch_bytes(&random.into()) {
            Err(Error::IndexWidth { op: "uniform", elements: told, max }) => {
                assert!(told == elements && max == u64::from(u32::MAX), "{told} of {max}");
            }
            other => panic!("random numbers: {other:?}"),
        }
        let few = wide.slice(0, 0..1000).unwrap().sum(..).unwrap();
        assert_eq!(few.item::<f32>().unwrap(), 1000.0);
    }
}

/// A grid dimension has 65,535 workgroups at most on a poor device: more of them are folded into two, none is lost.
#[test]
fn workgroups_beyond_one_grid_dimension_all_run() {
    const BATCH: u64 = 65_537;
    let spec = |dims: &[u64]| TensorSpec::new(DType::I32, Layout::contiguous(Shape::new(dims).unwrap()));
    let (a, b, c) = (spec(&[BATCH, 2, 1]), spec(&[BATCH, 1, 2]), spec(&[BATCH, 2, 2]));
    let op = Op::from(Matmul::product(a, b, c).check().unwrap());
    let plan = polywarp_core::ops::plan(&op, &Caps::webgpu_defaults("poor")).unwrap();
    assert!(plan.launches.iter().any(|launch| launch.grid[1] > 1), "it takes one row of workgroups: {plan:?}");
    let numbers = |seed: i32| (0..2 * BATCH as i32).map(move |i| i * seed % 1009 - 500).collect::<Vec<i32>>();
    let (left, right) = (numbers(17), numbers(31));
    let products =
        left.chunks(2).zip(right.chunks(2)).flat_map(|(l, r)| [l[0] * r[0], l[0] * r[1], l[1] * r[0], l[1] * r[1]]);
    let expected: Vec<i32> = products.collect();
    for entry in common::entries_of_today() {
        let device = Device::new(entry.open(common::POOREST).expect("open"));
        let left = Tensor::from_slice(&device, &left, [BATCH, 2, 1]).unwrap();
        let right = Tensor::from_slice(&device, &right, [BATCH, 1, 2]).unwrap();
        let got: Vec<i32> = left.matmul(&right).unwrap().to_vec().unwrap();
        let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
        assert_eq!((got.len(), wrong), (expected.len(), None), "{}", device.id());
    }
}
