//! Which warp-level kernels convolutions and their gradients get, and what these are told, without a GPU.

use polywarp_core::ops::ConvolutionOptions;

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

fn padded(padding: u64) -> ConvolutionOptions {
    ConvolutionOptions::default().padding(padding)
}

fn count(op: &Op, caps: &Caps) -> usize {
    candidates(op, caps).len()
}

fn words(args: &[Arg]) -> Vec<u32> {
    args.iter().map(|arg| if let Arg::U32(word) = arg { *word } else { panic!("{arg:?} is a word") }).collect()
}

#[test]
fn served_are_16_bits_one_group_and_whole_units_of_channels_on_every_card() {
    let cards = [Caps::a100(), Caps::rtx_4090(), Caps { sm: 86, ..Caps::rtx_4090() }, Caps::h200()];
    for caps in cards.into_iter().chain([100, 103, 120].map(|sm| Caps { sm, ..Caps::h200() })) {
        for dtype in [DType::F16, DType::BF16] {
            for (x, taps) in [(&[2, 9, 64][..], &[3][..]), (&[2, 9, 8, 40], &[3, 2]), (&[1, 4, 5, 6, 8], &[3, 3, 3])] {
                for op in ops(dtype, x, 24, taps, &padded(1)) {
                    assert!(count(&op, &caps) > 0, "{op:?} on sm_{}", caps.sm);
                }
            }
        }
    }
    let caps = Caps::a100();
    let none = |ops: &[Op]| assert!(ops.iter().all(|op| count(op, &caps) == 0), "{ops:?}");
    none(&ops(DType::F32, &[2, 9, 8, 64], 32, &[3, 3], &padded(1)));
    none(&ops(DType::F16, &[2, 9, 8, 12], 32, &[3, 3], &padded(1)));
    none(&ops(DType::F16, &[2, 9, 8, 64], 32, &[3, 3], &padded(1).groups(2)));
    none(&ops(DType::F16, &[0, 9, 8, 64], 32, &[3, 3], &padded(1)));
    // A product, which has kernels of its own.
    none(&ops(DType::F16, &[2, 9, 8, 64], 32, &[1, 1], &padded(0)));
    let [forward, ..] = ops(DType::F16, &[2, 9, 8, 64], 32, &[3, 3], &padded(1));
    assert_eq!(count(&forward, &Caps { sm: 75, ..Caps::a100() }), 0);
    // y's pixels are read by gradients alone.
    let [forward, gradients @ ..] = ops(DType::F16, &[2, 9, 8, 64], 7, &[3, 3], &padded(1));
    assert!(count(&forward, &caps) > 0);
    none(&gradients);
    // Dilated taps of a stride would need remainders of both.
    let [_, input, _] = ops(DType::F16, &[2, 9, 9, 8], 8, &[3, 3], &padded(1).stride(2).dilation(2));
    none(&[input]);
}

#[test]
fn masks_have_bits_for_taps_that_meet_padding() {
    let caps = Caps::a100();
    // 15 taps of each axis are the most; 31 without padding need none.
    for (taps, padding, served) in [(15, 7, true), (16, 7, false), (31, 0, true)] {
        let [forward, ..] = ops(DType::F16, &[2, 40, 40, 8], 8, &[taps, taps], &padded(padding));
        assert_eq!(count(&forward, &caps) > 0, served, "{taps} taps");
    }
}

#[test]
fn kernels_are_told_of_axes_from_the_innermost_on() {
    let options = ConvolutionOptions {
        stride: vec![1, 2, 3],
        dilation: vec![1, 2, 1],
        padding: vec![[0, 0], [1, 2], [0, 0]],
        ..ConvolutionOptions::default()
    };
    let [forward, ..] = ops(DType::F16, &[2, 4, 9, 8, 16], 24, &[2, 3, 2], &options);
    let launch = &candidates(&forward, &Caps::a100())[0].plan.launches[0];
    // x, weights, y, whether that is f32; 2 x 3 x 4 x 3 outputs, filters, 12 taps of 16 channels, one slab.
    assert_eq!(words(&launch.args[3..8]), [0, 72, 24, 192, 192]);
    let axes: Vec<Vec<u32>> = launch.args[8..32].chunks(8).map(words).collect();
    // Outputs, first, stride, extent, taps, dilation, units from tap to tap, those that may lie in padding.
    assert_eq!(axes[0], [3, 0, 3, 8, 2, 1, 2, 0]);
    assert_eq!(axes[1], [4, u32::MAX, 2, 9, 3, 2, 2 * 8 * 2, 3]);
    assert_eq!(axes[2], [3, 0, 1, 4, 2, 1, 9 * 8 * 2, 0]);
    // Channels, elements of K and units from tap to tap and pixel to pixel.
    assert_eq!(words(&launch.args[32..35]), [16, 16, 2]);
}

#[test]
fn pixels_in_wider_ones_are_read_where_they_lie() {
    let of = |pitch: u64, first: u64| {
        let rows = Layout::contiguous(Shape::new(&[2 * 9 * 8, pitch]).unwrap()).slice(1, first, first + 16, 1).unwrap();
        let x = TensorSpec::new(DType::F16, rows.reshape(Shape::new(&[2, 9, 8, 16]).unwrap()).unwrap().unwrap());
        let forward = Convolution::new(x, dense(DType::F16, &[8, 3, 3, 16]), &padded(1)).unwrap();
        candidates(&forward.into(), &Caps::a100()).first().map(|found| found.plan.launches[0].args.clone())
    };
    let args = of(40, 8).unwrap();
    assert_eq!(
        (&args[0], words(&args[32..35])),
        (&Arg::Address { slot: Slot::Input(0), offset_bytes: 16 }, vec![16, 16, 5])
    );
    // No whole units.
    assert!(of(40, 4).is_none() && of(20, 0).is_none());
}

#[test]
fn gradients_of_strided_inputs_are_a_launch_for_each_remainder() {
    let launches = |options: &ConvolutionOptions, x: &[u64], taps: &[u64]| {
        let [_, input, _] = ops(DType::F16, x, 24, taps, options);
        candidates(&input, &Caps::a100()).into_iter().map(|found| found.plan.launches).next()
    };
    let two = padded(0).stride(2);
    // Two and one tap along an axis, each of whole tiles of 32 or 64 filters.
    let all = launches(&two, &[2, 9, 9, 8], &[3, 3]).unwrap();
    let span = all[0].kernel.tile.unwrap().k;
    let of = |launch: &Launch| words(&[launch.args[5].clone(), launch.args[30].clone()]);
    assert_eq!(all.iter().map(of).collect::<Vec<_>>(), [4, 2, 2, 1].map(|taps| vec![taps * span, 24]));
    // Inputs that no tap reaches are zeros: no channel is read.
    let all = launches(&two, &[2, 9, 9, 8], &[1, 1]).unwrap();
    assert_eq!(all.iter().map(of).collect::<Vec<_>>(), [24, 0, 0, 0].map(|channels| vec![span, channels]));
    assert_eq!(launches(&two, &[1, 5, 5, 5, 8], &[2, 2, 2]).unwrap().len(), 8);
    assert!(launches(&padded(0).stride(5), &[2, 15, 15, 8], &[3, 3]).is_none());
    // Of a stride of 1 taps descend: the last of 3 x 2 first.
    let all = launches(&padded(1), &[2, 9, 8, 8], &[3, 2]).unwrap();
    assert_eq!(words(&all[0].args[34..38]), [5, u32::MAX, 0u32.wrapping_sub(2), 0u32.wrapping_sub(6)]);
}

#[test]
fn long_sums_of_few_results_are_cut_into_slabs() {
    // As many slabs as fill the card; the second launch has the epilogue.
    let x = dense(DType::F16, &[1, 7, 7, 512]);
    let forward = Convolution::new(x, dense(DType::F16, &[512, 3, 3, 512]), &padded(1)).unwrap();
    let forward = Convolution { bias: Some(dense(DType::F16, &[512])), ..forward }.check().unwrap();
    let mut found = candidates(&forward.into(), &Caps::a100());
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    let Candidate { name, plan, .. } = &found[0];
    assert!(name.contains("_slabs") && plan.launches[1].kernel.symbol == "splitk_f32_f16", "{name}");
    let [sums, whole] = [&plan.launches[0].args, &plan.launches[1].args];
    let Arg::U32(slab_k) = sums[7] else { panic!("{sums:?}") };
    assert_eq!((sums[3].clone(), slab_k % plan.launches[0].kernel.tile.unwrap().k), (Arg::U32(1), 0));
    let bias = Arg::Address { slot: Slot::Input(2), offset_bytes: 0 };
    assert!(whole.contains(&bias) && !sums.contains(&bias));
    // The gradient of few weights is a long sum.
    let [.., weights] = ops(DType::F16, &[64, 56, 56, 64], 64, &[3, 3], &padded(1));
    assert!(candidates(&weights, &Caps::a100()).iter().any(|found| found.name.contains("_slabs")));
}

#[test]
fn hoppers_own_kernels_come_first_where_they_serve() {
    let mma = |found: Vec<Candidate>| {
        let names = found.into_iter().map(|found| found.name.contains("_mma_"));
        names.collect::<Vec<_>>()
    };
    for op in ops(DType::F16, &[64, 14, 14, 256], 256, &[3, 3], &padded(1)) {
        assert!(mma(crate::candidates(&op, &Caps::h200())).iter().all(|is_mma| !is_mma));
        assert!(mma(crate::every(&op, &Caps::h200())).contains(&true));
        assert!(mma(crate::candidates(&op, &Caps::a100())).iter().all(|is_mma| *is_mma));
    }
    for op in ops(DType::F16, &[2, 4, 6, 6, 64], 64, &[3, 3, 3], &padded(1)) {
        assert!(mma(crate::candidates(&op, &Caps::h200())).contains(&true));
    }
}

#[test]
fn numbers_of_units_fit_into_words() {
    // 2^29 units of 16 bytes are read, four times as many are not.
    let served = |images: u64| {
        let [forward, ..] = ops(DType::F16, &[images, 1024, 1024, 64], 8, &[3, 3], &padded(1).stride(2));
        count(&forward, &Caps::a100()) > 0
    };
    assert!(served(63) && !served(256));
}

/// Sums of i8 are exact in i32; a second launch multiplies them with the scales, and ends them.
#[test]
fn i8_is_summed_first_and_scaled_after() {
    let specs = [
        dense(DType::I8, &[2, 9, 8, 48]),
        dense(DType::I8, &[24, 3, 2, 48]),
        dense(DType::F32, &[1]),
        dense(DType::F32, &[24]),
    ];
    let op = QuantizedConvolution::new(specs, DType::F16, &padded(1)).unwrap();
    let of = Convolution { bias: Some(dense(DType::F16, &[24])), ..op.of };
    let op = Op::from(QuantizedConvolution { of, ..op }.check().unwrap());
    for caps in [Caps::a100(), Caps::rtx_4090(), Caps::h200()] {
        let found = candidates(&op, &caps);
        assert_eq!(found.len(), 2, "sm_{}", caps.sm);
        for Candidate { name, plan, .. } in found {
            let [sums, whole] = &plan.launches[..] else { panic!("{name}") };
            assert!(
                name.starts_with("convolution_mma_i8_") && whole.kernel.symbol.starts_with("splitk_scaled_i32_f16"),
                "{name}"
            );
            // 9 x 9 outputs of two images, six taps of 48 channels, which are three units.
            assert_eq!(words(&sums.args[4..8])[..3], [162, 24, 288]);
            assert_eq!(words(&sums.args[32..35]), [48, 48, 3]);
            for (place, offset_bytes) in [(2, 0), (3, 0), (4, 0)] {
                let operand = Arg::Address { slot: Slot::Input(place), offset_bytes };
                assert!(whole.args.contains(&operand) && !sums.args.contains(&operand), "{name}: {place}");
            }
        }
    }
    // Eight channels of i8 are half a unit.
    let specs = [
        dense(DType::I8, &[2, 9, 8, 8]),
        dense(DType::I8, &[24, 3, 2, 8]),
        dense(DType::F32, &[1]),
        dense(DType::F32, &[24]),
    ];
    let op = QuantizedConvolution::new(specs, DType::F16, &padded(1)).unwrap();
    assert_eq!(count(&op.into(), &Caps::a100()), 0);
}
