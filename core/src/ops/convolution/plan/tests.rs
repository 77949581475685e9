//! Plans of convolutions without a device: every text is valid, tiles fit, sums are cut where drivers end loops.

use crate::ops::ConvolutionOptions;
use crate::{DType, Layout, Shape as Extents};

use super::*;
use crate::wgsl::validate::{Validated, full_caps};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Extents::new(dims).unwrap()))
}

/// Plans of the three operations.
fn plans(dtype: DType, x: &[u64], w: &[u64], options: &ConvolutionOptions, caps: &Caps) -> Vec<Plan> {
    let (x, w) = (dense(dtype, x), dense(dtype, w));
    let op = Convolution::new(x, w, options).unwrap();
    let (geometry, y) = (op.geometry, op.output);
    let bias = Some(dense(dtype, &[geometry.filters]));
    let whole = Convolution { residual: Some(y), bias, activation: Some(UnaryFn::Gelu), ..op.clone() };
    let all = [
        forward(&op, caps),
        forward(&whole.check().unwrap(), caps),
        input(&ConvolutionInput::of(geometry, y, w).unwrap(), caps),
        weights(&ConvolutionWeights::of(geometry, y, x).unwrap(), caps),
    ];
    all.into_iter().map(|found| found.unwrap().swap_remove(0).plan).collect()
}

#[test]
fn every_float_and_way_validates() {
    let mut validated = Validated::default();
    let small = Caps { max_invocations: 128, ..Caps::webgpu_defaults("small") };
    for caps in [full_caps(), Caps::webgpu_defaults("test"), small] {
        let floats = [DType::F32, DType::F16, DType::BF16, DType::F64];
        for dtype in floats.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
            let options = ConvolutionOptions::default().stride(2).padding(1);
            for (x, w, groups) in [
                ([2, 9, 9, 40], [70, 3, 3, 40], 1),
                ([2, 19, 19, 3], [4, 3, 3, 3], 1),
                ([1, 40, 40, 8], [8, 3, 3, 1], 8),
                ([0, 9, 9, 3], [4, 3, 3, 3], 1),
                ([1, 9, 9, 0], [4, 3, 3, 0], 1),
            ] {
                for plan in plans(dtype, &x, &w, &options.clone().groups(groups), &caps) {
                    validated.check(&plan.launches, &caps);
                }
            }
        }
    }
}

#[test]
fn tiles_fit_what_webgpu_guarantees() {
    let options = ConvolutionOptions::default();
    let webgpu = Caps::webgpu_defaults("test");
    for caps in [Caps { f64: true, i64: true, ..webgpu.clone() }, webgpu] {
        for dtype in [DType::F32, DType::F64].into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
            let plan = plans(dtype, &[8, 66, 66, 64], &[64, 3, 3, 64], &options, &caps).swap_remove(0);
            let kernel = plan.launches[0].kernel.get::<Kernel>().unwrap();
            assert!(matches!(kernel.shape, Shape::Tiles { threads: 16, .. }), "{kernel:?}");
            assert!(kernel.shape.workgroup_bytes(dtype.size_bytes()) <= 16 << 10);
        }
    }
}

#[test]
fn long_sums_of_few_elements_are_cut_and_those_of_many_are_not() {
    let caps = Caps::webgpu_defaults("test");
    let launches = |x: &[u64], w: &[u64]| {
        let options = ConvolutionOptions::default().padding(1);
        plans(DType::F32, x, w, &options, &caps).iter().map(|plan| plan.launches.len()).collect::<Vec<_>>()
    };
    // One tile of a sum of 4,608; thousands of tiles; weights, whose sum is over all pixels.
    assert_eq!(launches(&[1, 7, 7, 512], &[512, 3, 3, 512]), [2, 2, 2, 1]);
    assert_eq!(launches(&[64, 56, 56, 64], &[64, 3, 3, 64]), [1, 1, 1, 2]);
}

#[test]
fn slabs_are_short_enough_for_drivers_that_end_loops() {
    let caps = Caps { max_loop_rounds: Some(65_535), ..full_caps() };
    let options = ConvolutionOptions::default().padding(1);
    for (x, w, groups) in [([1, 9, 9, 60_000], [3, 3, 3, 60_000], 1), ([30, 99, 99, 4], [4, 3, 3, 1], 4)] {
        for plan in plans(DType::F32, &x, &w, &options.clone().groups(groups), &caps) {
            assert!(plan.loop_rounds() <= 65_535, "{}", plan.loop_rounds());
        }
    }
}

#[test]
fn one_tap_is_the_product_that_it_is() {
    let options = ConvolutionOptions::default();
    for plan in plans(DType::F32, &[2, 5, 5, 8], &[16, 1, 1, 8], &options, &full_caps()) {
        assert!(plan.launches.iter().all(|launch| launch.kernel.get::<crate::ops::matmul::plan::Kernel>().is_some()));
    }
}
