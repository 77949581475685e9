//! Which kernels convolutions and their gradients get on Hopper, and how, without a GPU.

use polywarp_core::ops::{ConvolutionOptions, ConvolutionWeights};
use polywarp_core::{DType, Layout, Shape};

use super::*;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// The three operations of x under filters of `taps`.
fn ops(dtype: DType, x: &[u64], filters: u64, taps: &[u64], options: &ConvolutionOptions) -> [Op; 3] {
    let x = dense(dtype, x);
    let channels = x.layout.dims()[x.layout.rank() - 1] / options.groups;
    let weights = dense(dtype, &[&[filters], taps, &[channels]].concat());
    let forward = Convolution::new(x, weights, options).unwrap();
    let geometry = forward.geometry;
    let input = ConvolutionInput::of(geometry, forward.output, weights).unwrap();
    let weights = ConvolutionWeights::of(geometry, forward.output, x).unwrap();
    [forward.into(), input.into(), weights.into()]
}

/// Those of Hopper's own kernels; `convolution_mma_tests.rs` is about the others.
fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    by_wgmma(op, caps)
}

fn names(op: &Op) -> Vec<String> {
    candidates(op, &Caps::h200()).into_iter().map(|found| found.name).collect()
}

fn options() -> ConvolutionOptions {
    ConvolutionOptions::default().padding(1)
}

fn pixels(arg: &Arg) -> (&TensorMap, crate::Pixels) {
    let Arg::TensorMap(map) = arg else { panic!("{arg:?} is a map") };
    (map, map.pixels.expect("a map of pixels"))
}

#[test]
fn served_are_16_bits_one_group_and_windows_of_one_or_two_axes() {
    for dtype in [DType::F16, DType::BF16] {
        for op in ops(dtype, &[2, 9, 8, 64], 32, &[3, 3], &options()) {
            assert_eq!(names(&op).len(), 3, "{op:?}");
        }
        for op in ops(dtype, &[2, 9, 64], 32, &[3], &options()) {
            assert_eq!(names(&op).len(), 3, "{op:?}");
        }
    }
    let none = |ops: [Op; 3]| assert!(ops.iter().all(|op| names(op).is_empty()), "{ops:?}");
    none(ops(DType::F32, &[2, 9, 8, 64], 32, &[3, 3], &options()));
    none(ops(DType::F16, &[2, 4, 9, 8, 64], 32, &[3, 3, 3], &options()));
    none(ops(DType::F16, &[2, 9, 8, 64], 32, &[3, 3], &ConvolutionOptions { groups: 2, ..options() }));
    // A product, which has kernels of its own.
    none(ops(DType::F16, &[2, 9, 8, 64], 32, &[1, 1], &ConvolutionOptions::default()));
    // A stride that no tensor map has; padding further than one reaches.
    none(ops(DType::F16, &[2, 40, 40, 64], 32, &[9, 9], &ConvolutionOptions::default().stride(9)));
    none(ops(DType::F16, &[1, 200, 200, 64], 32, &[200, 200], &ConvolutionOptions::default().padding(199)));
    assert!(candidates(&ops(DType::F16, &[2, 9, 8, 64], 32, &[3, 3], &options())[0], &Caps::a100()).is_empty());
}

#[test]
fn windows_of_a_map_are_those_of_the_convolution() {
    let [forward, input, _] = ops(DType::F16, &[2, 9, 8, 64], 32, &[3, 2], &options());
    let found = candidates(&forward, &Caps::h200());
    let (map, walk) = pixels(&found[0].plan.launches[0].args[0]);
    assert_eq!((map.dims.as_slice(), map.box_dims[0]), ([64, 8, 9, 2].as_slice(), 64));
    // Width: 9 windows of 2 taps from -1 to 7, the last pixel; height: 9 of 3 from -1 to 7, the last but one.
    assert_eq!(walk, crate::Pixels { lower: [-1, -1], upper: [0, -1], steps: [1, 1] });
    // The gradient of 9 x 8 inputs by 9 x 9 outputs: input i under the last tap is that of output i + 1 - 1, or i + 1 - 2.
    let found = candidates(&input, &Caps::h200());
    let (map, walk) = pixels(&found[0].plan.launches[0].args[0]);
    assert_eq!(map.dims, [32, 9, 9, 2]);
    assert_eq!(walk, crate::Pixels { lower: [0, -1], upper: [-1, -1], steps: [1, 1] });
    assert_eq!(found[0].plan.launches.len(), 1);
}

#[test]
fn gradients_of_strided_inputs_are_a_launch_for_each_remainder() {
    let launches = |stride: [u64; 2], taps: &[u64], extent: u64| {
        let options = ConvolutionOptions { stride: stride.to_vec(), ..ConvolutionOptions::default() };
        let [_, input, _] = ops(DType::F16, &[2, extent, extent, 8], 8, taps, &options);
        candidates(&input, &Caps::h200()).first().map(|found| found.plan.launches.clone())
    };
    assert_eq!(launches([2, 2], &[3, 3], 9).unwrap().len(), 4);
    assert_eq!(launches([2, 1], &[3, 3], 9).unwrap().len(), 2);
    assert_eq!(launches([4, 4], &[3, 3], 9).unwrap().len(), 16);
    // 25 are too many; no input, no launch.
    assert!(launches([5, 5], &[3, 3], 15).is_none());
    assert_eq!(launches([2, 2], &[1, 1], 1).map(|all| all.len()), Some(1));
    // Taps of each: two and one along an axis, of one tap three launches write zeros.
    let steps = |all: Vec<Launch>| all.iter().map(|launch| launch.args[8].clone()).collect::<Vec<_>>();
    assert_eq!(steps(launches([2, 2], &[3, 3], 9).unwrap()), [4, 2, 2, 1].map(Arg::U32));
    assert_eq!(steps(launches([2, 2], &[1, 1], 9).unwrap()), [1, 0, 0, 0].map(Arg::U32));
    // Dilated taps of a stride are left to the portable kernels.
    let dilated = ConvolutionOptions::default().stride(2).dilation(2);
    assert!(names(&ops(DType::F16, &[2, 9, 9, 8], 8, &[3, 3], &dilated)[1]).is_empty());
}

/// Each tap of each input once, by the numbers alone.
#[test]
fn remainders_reach_every_tap_of_every_input_once() {
    for (stride, dilation) in [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1)] {
        for taps in 1..6 {
            for (input, before) in [(1, 0), (7, 0), (8, 1), (9, 3), (5, 5)] {
                let window = Window { input, output: 0, taps, stride, dilation, before, after: 0 };
                let mut seen = std::collections::HashMap::new();
                for remainder in Remainder::all(&window) {
                    let Axis { first, outputs, taps, dilation, .. } = remainder.axis;
                    for number in 0..outputs {
                        let at = remainder.first + number * stride;
                        for step in 0..taps {
                            let tap = remainder.tap + step as i64 * remainder.tap_step;
                            let output = first + number as i64 + (step * dilation) as i64;
                            assert!(seen.insert((at, tap), output).is_none(), "{window:?}");
                        }
                        assert_eq!(
                            taps == 0,
                            (0..window.taps)
                                .all(|tap| !(at + before).wrapping_sub(tap * window.dilation).is_multiple_of(stride))
                        );
                    }
                }
                let all = (0..input).flat_map(|at| (0..taps).map(move |tap| (at, tap)));
                let owned =
                    all.filter(|&(at, tap)| (at + before + 64 * stride - tap * dilation).is_multiple_of(stride));
                for (at, tap) in owned {
                    let output = ((at + before) as i64 - (tap * dilation) as i64) / stride as i64;
                    assert_eq!(seen.remove(&(at, tap as i64)), Some(output), "{window:?}: {at} under {tap}");
                }
                assert!(seen.is_empty(), "{window:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn few_channels_are_folded_and_odd_ones_must_be() {
    let stem = ConvolutionOptions::default().stride(2).padding(3);
    let [forward, input, weights] = ops(DType::F16, &[64, 224, 224, 3], 64, &[7, 7], &stem);
    let found = candidates(&forward, &Caps::h200());
    assert!(found.len() == 3 && found.iter().all(|found| found.name.ends_with("_folded")), "{found:?}");
    // Seven taps of three channels and a zero are 28 of a stage; windows begin 16 bytes apart. An eighth row would be one of x.
    let launch = found[0].plan.launches.last().unwrap();
    let (map, walk) = pixels(&launch.args[0]);
    assert_eq!((&map.dims[..], map.strides_bytes[0]), ([28, 112, 224, 64].as_slice(), 16));
    assert_eq!((walk.lower, walk.steps, &launch.args[8]), ([0, -3], [1, 2], &Arg::U32(7)));
    assert_eq!(found[0].plan.launches.len(), 3);
    // Of the weights' gradient it is a tap that is left out: two rows are one, 56 of a stage.
    let found = candidates(&weights, &Caps::h200());
    let (map, walk) = pixels(&found[0].plan.launches[1].args[1]);
    assert_eq!((&map.dims[..], map.strides_bytes[0]), ([56, 112, 115, 64].as_slice(), 32));
    assert_eq!((walk.lower, walk.upper, walk.steps), ([0, 0], [0, -3], [1, 1]));
    // So it is where rows are whole: 4 x 4 taps.
    let [even, ..] = ops(DType::F16, &[64, 224, 224, 3], 64, &[4, 4], &ConvolutionOptions::default().stride(2));
    let found = candidates(&even, &Caps::h200());
    let launch = found[0].plan.launches.last().unwrap();
    assert_eq!((pixels(&launch.args[0]).0.dims[0], &launch.args[8]), (32, &Arg::U32(2)));
    // dx has pixels of six bytes.
    assert!(names(&input).is_empty());
    assert!(names(&weights).iter().all(|name| name.contains("_folded")) && !names(&weights).is_empty());
    // 36 channels are no whole multiples of 16 bytes, 40 are, and 16 may be folded all the same: to advantage.
    for (channels, folded, all) in [(36, 3, 3), (40, 0, 3), (16, 3, 6)] {
        let [forward, ..] = ops(DType::F16, &[64, 56, 56, channels], 64, &[3, 3], &options());
        assert_eq!(names(&forward).iter().filter(|name| name.ends_with("_folded")).count(), folded);
        assert_eq!(names(&forward).len(), all);
        assert_eq!(crate::candidates(&forward, &Caps::h200())[0].name.ends_with("_folded"), folded > 0, "{channels}");
    }
    // Dilated columns are none of a run.
    let dilated = ConvolutionOptions::default().dilation(2);
    assert!(names(&ops(DType::F16, &[2, 9, 8, 36], 32, &[3, 3], &dilated)[0]).is_empty());
}

#[test]
fn weights_are_summed_in_slabs_that_fill_the_card() {
    let of = |x: &[u64], filters| {
        let [_, _, weights] = ops(DType::F16, x, filters, &[3, 3], &options());
        candidates(&weights, &Caps::h200())
    };
    for found in of(&[64, 56, 56, 64], 64) {
        assert!(found.name.contains("_slabs") && found.plan.launches.len() == 2, "{}", found.name);
        let (Arg::U32(slabs), Arg::U32(tiles)) = (&found.plan.launches[0].args[8], &found.plan.launches[0].args[9])
        else {
            panic!("slabs")
        };
        // 3136 stages of 64 outputs, all of them, none twice.
        assert!((slabs - 1) * tiles < 3136 && slabs * tiles >= 3136 && *slabs > 10, "{slabs} of {tiles}");
        assert_eq!(found.plan.scratch_bytes, [4 * u64::from(*slabs) * 64 * 9 * 64]);
    }
    // Tiles that fill the card themselves leave at once.
    let large = of(&[64, 7, 7, 512], 512);
    assert!(
        large.iter().all(|found| found.plan.launches.len() == 1 && found.plan.scratch_bytes.is_empty()),
        "{large:?}"
    );
}

#[test]
fn layers_of_a_network_get_the_tiles_that_were_best() {
    let first = |x: &[u64], filters| {
        let [forward, ..] = ops(DType::F16, x, filters, &[3, 3], &options());
        crate::candidates(&forward, &Caps::h200())[0].name.clone()
    };
    assert_eq!(first(&[64, 56, 56, 64], 64), "convolution_f16_128x64");
    assert_eq!(first(&[64, 28, 28, 128], 128), "convolution_f16_192x128");
    assert_eq!(first(&[64, 14, 14, 256], 256), "convolution_f16_192x128");
    assert_eq!(first(&[64, 7, 7, 512], 512), "convolution_f16_128x128");
}
