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

fn quantised(
    x: &[u64],
    filters: u64,
    taps: &[u64],
    output: DType,
    options: &ConvolutionOptions,
) -> QuantizedConvolution {
    let channels = x[x.len() - 1] / options.groups;
    let specs = [
        dense(DType::I8, x),
        dense(DType::I8, &[&[filters], taps, &[channels]].concat()),
        dense(DType::F32, &[1]),
        dense(DType::F32, &[filters]),
    ];
    QuantizedConvolution::new(specs, output, options).unwrap()
}

#[test]
fn i8_is_served_where_channels_are_whole_16_bytes() {
    let found = |x: &[u64], taps: &[u64], output, options: &ConvolutionOptions| {
        names(&quantised(x, 40, taps, output, options).into())
    };
    for (output, count) in [(DType::F16, 3), (DType::BF16, 3), (DType::F32, 2)] {
        let all = found(&[2, 9, 8, 64], &[3, 3], output, &options());
        assert!(all.len() == count && all.iter().all(|name| name.contains(output.name())), "{all:?}");
        assert_eq!(found(&[2, 9, 64], &[3], output, &options()).len(), count);
    }
    // Few channels may be folded, as pairs: 16 and 32 of them, as 8 and 16 of 16 bits are.
    for (channels, folded) in [(16, 3), (32, 3), (48, 0), (144, 0)] {
        let all = found(&[2, 9, 8, channels], &[3, 3], DType::F16, &options());
        assert_eq!(all.iter().filter(|name| name.ends_with("_folded")).count(), folded, "{channels}");
        assert_eq!(all.len(), 3 + folded, "{channels}");
    }
    let none = |x: &[u64], taps: &[u64], options: &ConvolutionOptions| {
        assert!(found(x, taps, DType::F16, options).is_empty(), "{x:?}");
    };
    none(&[2, 9, 8, 3], &[3, 3], &options());
    none(&[2, 9, 8, 24], &[3, 3], &options());
    none(&[2, 9, 8, 64], &[3, 3], &options().groups(2));
    none(&[2, 4, 9, 8, 64], &[3, 3, 3], &options());
    // One tap is a product, which these kernels end faster than its own do.
    for stride in [1, 2] {
        let options = ConvolutionOptions::default().stride(stride);
        assert_eq!(found(&[2, 9, 8, 64], &[1, 1], DType::F16, &options).len(), 3);
    }
    let op = quantised(&[2, 9, 8, 64], 40, &[3, 3], DType::F16, &options());
    assert!(candidates(&op.into(), &Caps::a100()).is_empty());
}

#[test]
fn i8_is_read_as_pairs_and_ends_with_its_scales() {
    let op = quantised(&[2, 9, 8, 144], 40, &[3, 2], DType::F32, &options());
    let (output, filters) = (op.of.output, 40);
    let residual = dense(DType::F32, output.layout.dims());
    // Bias, then scales: filters share one.
    let bias = Some(dense(DType::F32, &[filters]));
    let of = Convolution { residual: Some(residual), bias, ..op.of };
    let one = Layout::strided(Shape::new(&[filters]).unwrap(), &[0], 3).unwrap();
    let op = QuantizedConvolution { of, scale_w: TensorSpec::new(DType::F32, one), ..op }.check().unwrap();
    let found = candidates(&op.into(), &Caps::h200());
    let launch = &found[0].plan.launches[0];
    let (map, walk) = pixels(&launch.args[0]);
    assert_eq!((map.element, &map.dims[..], map.strides_bytes[0]), (Element::U16, [72, 8, 9, 2].as_slice(), 144));
    assert_eq!((map.box_dims[0], walk.lower, walk.upper), (64, [-1, -1], [0, -1]));
    let [Arg::TensorMap(weights), Arg::TensorMap(d)] = &launch.args[1..3] else { panic!("maps") };
    assert_eq!((&weights.dims[..], &weights.strides_bytes[..]), ([72, 6, 40].as_slice(), [144, 864].as_slice()));
    assert_eq!(
        (d.element, &d.box_dims[..], &d.strides_bytes[..1]),
        (Element::F32, [32, 16, 1].as_slice(), [160].as_slice())
    );
    // Six taps of two blocks of 128 channels.
    assert_eq!(launch.args[8], Arg::U32(12));
    let address = |place, offset_bytes| Arg::Address { slot: Slot::Input(place), offset_bytes };
    let [beta, c, _, bias, _, scales @ ..] = &launch.args[launch.args.len() - 8..] else { panic!("an end") };
    assert_eq!((beta, c, bias), (&Arg::F32(1.0), &address(2, 0), &address(3, 0)));
    assert_eq!(scales, [address(4, 0), address(5, 12), Arg::I64(0)]);
}

/// Pixels that begin between two pairs, or at no multiple of 16 bytes, lie where no map reads them.
#[test]
fn i8_of_odd_places_is_folded_or_left() {
    let of = |pitch: u64, first: u64| {
        let op = quantised(&[2, 9, 8, 64], 40, &[3, 3], DType::F16, &options());
        let rows = Layout::contiguous(Shape::new(&[2 * 9 * 8, pitch]).unwrap());
        let rows = rows.slice(1, first, first + 64, 1).unwrap().reshape(Shape::new(&[2, 9, 8, 64]).unwrap());
        let x = TensorSpec::new(DType::I8, rows.unwrap().unwrap());
        names(&QuantizedConvolution { of: Convolution { x, ..op.of }, ..op }.check().unwrap().into())
    };
    assert!(of(80, 16).len() == 3 && of(80, 16).iter().all(|name| !name.ends_with("_folded")));
    assert!(of(66, 0).len() == 3 && of(66, 2).iter().all(|name| name.ends_with("_folded")));
    assert!(of(80, 3).is_empty() && of(65, 0).is_empty());
}

/// Stages of as many bytes are half as many, and ends take longer: 0.93, 0.77 and 0.87 of the time on an H100.
#[test]
fn i8_is_expected_to_take_less_than_f16_where_channels_fill_a_stage() {
    let best = |found: Vec<Candidate>| found.into_iter().map(|one| one.estimate_ns).fold(f64::INFINITY, f64::min);
    for (x, filters) in [([64, 28, 28, 128], 128), ([64, 14, 14, 256], 256), ([64, 7, 7, 512], 512)] {
        let [halves, ..] = ops(DType::F16, &x, filters, &[3, 3], &options());
        let steps = quantised(&x, filters, &[3, 3], DType::F16, &options()).into();
        let [halves, steps] = [halves, steps].map(|op| best(candidates(&op, &Caps::h200())));
        assert!(steps < 0.95 * halves && steps > 0.4 * halves, "{x:?}: {steps} of {halves}");
    }
}

/// What the harness runs on a card is what these kernels compute.
#[test]
fn cases_of_i8_have_native_candidates() {
    let family = polywarp_core::ops::REGISTRY.iter().find(|family| family.name == "quantized_convolution").unwrap();
    let cases = (family.cases)(polywarp_core::harness::Level::Full);
    let is_served = |op: &Op| !crate::candidates(op, &Caps::h200()).is_empty();
    let served: Vec<u64> = cases
        .iter()
        .filter(|case| is_served(&case.op))
        .map(|case| case.op.get::<QuantizedConvolution>().unwrap().of.geometry.channels)
        .collect();
    assert!(served.iter().all(|channels| channels.is_multiple_of(16)), "{served:?}");
    for channels in [16, 32, 48, 64, 128, 144, 512] {
        assert!(served.contains(&channels), "{channels} of {served:?}");
    }
}
