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
    for (x, w, groups) in [
        ([1, 9, 9, 60_000], [3, 3, 3, 60_000], 1),
        ([30, 99, 99, 4], [4, 3, 3, 1], 4),
        ([9, 999, 999, 4], [4, 3, 3, 1], 4),
        ([1, 30, 30_000, 8], [8, 9, 99, 1], 8),
    ] {
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

/// Names of the first ways of a convolution with a filter for each channel, and of both gradients: of x and dy with `offset` and `pitch`.
fn ways(dims: &[u64], offset: u64, pitch: u64, caps: &Caps) -> Vec<String> {
    let channels = dims[3];
    let view = |shape: Extents| {
        let dims = shape.dims();
        let strides = [dims[1] * dims[2] * pitch, dims[2] * pitch, pitch, 1].map(|stride| stride as i64);
        TensorSpec::new(DType::F16, Layout::strided(shape, &strides, offset).unwrap())
    };
    let options = ConvolutionOptions::default().stride(2).padding(1).groups(channels);
    let (x, w) = (view(Extents::new(dims).unwrap()), dense(DType::F16, &[channels, 3, 3, 1]));
    let op = Convolution::new(x, w, &options).unwrap();
    let (geometry, dy) = (op.geometry, view(op.geometry.output_shape().unwrap()));
    let all = [
        forward(&op, caps),
        input(&ConvolutionInput::of(geometry, dy, w).unwrap(), caps),
        weights(&ConvolutionWeights::of(geometry, dy, x).unwrap(), caps),
    ];
    all.into_iter().map(|found| found.unwrap().swap_remove(0).name).collect()
}

#[test]
fn filters_of_single_channels_take_four_at_a_time_where_channels_lie_so() {
    let small = Caps { max_invocations: 128, ..Caps::webgpu_defaults("small") };
    for caps in [full_caps(), small] {
        let are = |dims: &[u64], offset: u64, pitch: u64, way: &str| {
            let names = ways(dims, offset, pitch, &caps);
            let end = format!("_f16_{way}");
            assert!(names.iter().all(|name| name.ends_with(&end)), "{dims:?} {offset} {pitch}: {names:?}");
        };
        are(&[2, 9, 9, 36], 0, 36, "depthwise");
        are(&[2, 9, 9, 4], 8, 12, "depthwise");
        // Channels, pixels and tensors that do not begin at multiples of four.
        are(&[2, 9, 9, 6], 0, 8, "direct");
        are(&[2, 9, 9, 8], 0, 9, "direct");
        are(&[2, 9, 9, 8], 2, 8, "direct");
    }
}

#[test]
fn windows_of_too_many_taps_for_workgroup_memory_run_all_the_same() {
    let options = ConvolutionOptions::default().groups(4);
    let names = |taps: u64| {
        let (x, w) = (dense(DType::F32, &[1, 1, taps + 9, 4]), dense(DType::F32, &[4, 1, taps, 1]));
        let op = Convolution::new(x, w, &options).unwrap();
        forward(&op, &full_caps()).unwrap().swap_remove(0).name
    };
    assert_eq!([names(1024), names(1025)], ["convolution_f32_depthwise", "convolution_f32_direct"]);
}

/// The name of the first way of a convolution, and that of the gradient of its weights.
fn first_ways(dtype: DType, x: &[u64], w: &[u64], options: &ConvolutionOptions, caps: &Caps) -> [String; 2] {
    let (x, w) = (dense(dtype, x), dense(dtype, w));
    let op = Convolution::new(x, w, options).unwrap();
    let gradient = ConvolutionWeights::of(op.geometry, op.output, x).unwrap();
    [forward(&op, caps), weights(&gradient, caps)].map(|ways| ways.unwrap().swap_remove(0).name)
}

#[test]
fn few_channels_are_multiplied_in_workgroup_memory() {
    let seven = ConvolutionOptions::default().stride(2).padding(3);
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let [way, _] = first_ways(dtype, &[64, 224, 224, 3], &[64, 7, 7, 3], &seven, &caps);
            assert_eq!(way, format!("convolution_{dtype}_stem"));
        }
        let op = Convolution::new(dense(DType::F32, &[64, 224, 224, 3]), dense(DType::F32, &[64, 7, 7, 3]), &seven);
        let plan = forward(&op.unwrap(), &caps).unwrap().swap_remove(0).plan;
        // 112 x 112 pixels are whole tiles of 128 with all filters.
        assert_eq!((plan.launches.len(), plan.launches[0].params[0]), (1, 64 * 98));
    }
    let way = |x: &[u64], w: &[u64], options: &ConvolutionOptions| {
        let [way, _] = first_ways(DType::F32, x, w, options, &Caps::webgpu_defaults("test"));
        way.rsplit('_').next().unwrap().to_owned()
    };
    let plain = ConvolutionOptions::default();
    assert_eq!(way(&[1, 1, 400, 1], &[8, 1, 3, 1], &plain), "stem");
    assert_eq!(way(&[2, 9, 9, 9, 2], &[8, 2, 2, 2, 2], &plain), "stem");
    // Too few pixels; filters that a block is mostly idle for; many channels; groups; windows beyond workgroup memory.
    assert_eq!(way(&[1, 9, 9, 3], &[64, 3, 3, 3], &plain), "tiles");
    assert_eq!(way(&[1, 30, 30, 3], &[1, 3, 3, 3], &plain), "tiles");
    assert_eq!(way(&[1, 30, 30, 9], &[64, 3, 3, 9], &plain), "tiles");
    assert_eq!(way(&[1, 30, 30, 6], &[64, 3, 3, 3], &plain.clone().groups(2)), "tiles");
    assert_eq!(way(&[1, 1, 900, 3], &[8, 1, 400, 3], &plain), "tiles");
}

#[test]
fn gradients_of_few_channels_weights_are_products_of_rows_on_tensor_cores_else_tiles_in_workgroup_memory() {
    let seven = ConvolutionOptions::default().stride(2).padding(3);
    let way = |dtype: DType, w: &[u64], options: &ConvolutionOptions| {
        let [_, way] = first_ways(dtype, &[4, 56, 56, 3], w, options, &full_caps());
        way.rsplit('_').next().unwrap().to_owned()
    };
    assert_eq!(way(DType::F16, &[64, 7, 7, 3], &seven), "rows");
    assert_eq!(way(DType::F32, &[64, 7, 7, 3], &seven), "stem");
    // Filters that are no whole vectors, lines that would be mostly zeros, taps that lie apart, windows beyond workgroup memory.
    assert_eq!(way(DType::F16, &[60, 7, 7, 3], &seven), "stem");
    assert_eq!(way(DType::F16, &[64, 9, 3, 3], &seven), "stem");
    assert_eq!(way(DType::F16, &[64, 7, 7, 3], &seven.clone().dilation(2)), "stem");
    assert_eq!(way(DType::F32, &[64, 40, 40, 3], &seven), "tiles");
}
