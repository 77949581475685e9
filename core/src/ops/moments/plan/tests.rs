//! Kernels of means and variances: valid for every float, layout and device, within what WebGPU guarantees, and one walk over what is large.

use crate::ops::Moments;
use crate::plan::Caps;
use crate::wgsl::validate::{Validated, full_caps};
use crate::{DType, Layout, Shape, TensorSpec};

fn moments(dtype: DType, dims: &[u64], order: &[usize], axes: &[usize]) -> Moments {
    let layout = Layout::contiguous(Shape::new(dims).unwrap()).permute(order).unwrap();
    Moments::new(TensorSpec::new(dtype, layout), axes).unwrap()
}

#[test]
fn moments_of_every_float_and_layout_validate() {
    let cases: &[(&[u64], &[usize], &[usize])] = &[
        (&[7], &[0], &[0]),
        (&[1 << 21], &[0], &[0]),
        (&[5, 64], &[0, 1], &[1]),
        (&[5, 63], &[0, 1], &[1]),
        (&[4096, 8], &[0, 1], &[0]),
        (&[63, 65], &[0, 1], &[0]),
        (&[6, 8, 10], &[2, 0, 1], &[1]),
        (&[4, 6, 8, 12], &[0, 1, 2, 3], &[0, 2, 3]),
    ];
    let mut validated = Validated::default();
    let webgpu = Caps::webgpu_defaults("test");
    for caps in [full_caps(), Caps { f64: true, ..webgpu.clone() }, webgpu] {
        for dtype in DType::FLOATS.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
            for (dims, order, axes) in cases {
                let op = moments(dtype, dims, order, axes);
                validated.check(&crate::ops::plan(&op.into(), &caps).unwrap().launches, &caps);
            }
        }
    }
}

#[test]
fn what_is_large_is_read_by_one_launch() {
    let op = moments(DType::F16, &[64, 56, 56, 256], &[0, 1, 2, 3], &[0, 1, 2]);
    let plan = super::plan(&op, &full_caps()).unwrap();
    let reads: Vec<bool> = plan.launches.iter().map(|launch| launch.bindings[0] == super::Slot::Input(0)).collect();
    assert_eq!(reads, [true, false]);
    // Its sets are few beside what was read.
    assert!(plan.scratch_bytes.iter().sum::<u64>() < 4 << 20, "{:?}", plan.scratch_bytes);
}
