//! Layers against sums on the host, and a network that learns.

use polywarp_core::ops::ConvolutionOptions;
use polywarp_core::{DType, Device, Error, Tape, Tensor};
use polywarp_nn::{
    Adam, Affine, BatchNorm, BatchNormOptions, Bias, Builder, Clip, Conv2d, Dropout, GroupNorm, InstanceNorm,
    LayerNorm, Linear, Method, Mode, Optimiser, Policy, Reduction, Running, Schedule, StepOptions,
    binary_cross_entropy_with_logits,
};

use super::support::{close, close_beyond};

pub fn linear_agrees(device: &Device) {
    for bias in [Bias::Yes, Bias::No] {
        let mut builder = Builder::new(5);
        let layer = Linear::new(&mut builder, "fc", 4, 3, bias).unwrap();
        let parameters = builder.build(device).unwrap();
        let read = |name: &str| parameters.get(name).map(|tensor| tensor.to_vec::<f32>().unwrap());
        let (weight, added) = (read("fc.weight").unwrap(), read("fc.bias").unwrap_or(vec![0.0; 3]));
        let data: Vec<f32> = (0..24).map(|n| n as f32 / 8.0 - 1.0).collect();
        for dims in [&[6u64, 4][..], &[2, 3, 4], &[4]] {
            let count = dims.iter().product::<u64>() as usize;
            let x = Tensor::from_slice(device, &data[..count], dims).unwrap();
            let y = layer.forward(&parameters.unwatched(), &x).unwrap();
            assert_eq!(y.dims(), [&dims[..dims.len() - 1], &[3]].concat());
            let mut expected: Vec<f64> = Vec::new();
            for row in data[..count].chunks(4) {
                let dot =
                    |output: usize| row.iter().zip(&weight[4 * output..]).map(|(x, w)| f64::from(x * w)).sum::<f64>();
                expected.extend((0..3).map(|output| dot(output) + f64::from(added[output])));
            }
            let found = y.to_vec::<f32>().unwrap();
            assert!(
                found.iter().zip(&expected).all(|(y, e)| (f64::from(*y) - e).abs() < 1e-6),
                "{found:?}, not {expected:?}"
            );
            // What is added: of the result's shape, or broadcast to it; in the product's end, or behind it where a tape follows.
            let count = expected.len();
            let numbers: Vec<f32> = (0..count).map(|n| 3.0 - n as f32 / 4.0).collect();
            let whole = Tensor::from_slice(device, &numbers, y.dims()).unwrap();
            let row = Tensor::from_slice(device, &numbers[..3], [3]).unwrap();
            let tape = Tape::new();
            for watched in [parameters.unwatched(), parameters.watch(&tape).unwrap()] {
                for (residual, period) in [(&whole, count), (&row, 3)] {
                    let sums = layer.forward_add(&watched, &x, (Dropout::none(), 0.5), residual).unwrap();
                    assert_eq!(sums.dims(), y.dims());
                    let added = expected.iter().enumerate().map(|(i, e)| e + f64::from(numbers[i % period]));
                    close(&sums.to_vec().unwrap(), &added.collect::<Vec<f64>>(), 1e-6);
                }
            }
        }
        let wrong = Tensor::zeros(device, DType::F32, [2, 5]).unwrap();
        assert!(matches!(
            layer.forward(&parameters.unwatched(), &wrong),
            Err(Error::ShapeMismatch { op: "linear", .. })
        ));
    }
}

/// A copy in 16 bits gives what the parameters give, as exactly as that dtype can, and does not see them change.
pub fn parameters_are_used_in_16_bits(device: &Device) {
    let mut builder = Builder::new(3);
    let layer = Linear::new(&mut builder, "fc", 4, 3, Bias::Yes).unwrap();
    let parameters = builder.build(device).unwrap();
    let x = Tensor::from_slice(device, &[0.5f32, -1.0, 0.25, 2.0], [1, 4]).unwrap();
    let y = layer.forward(&parameters.unwatched(), &x).unwrap().to_vec::<f32>().unwrap();
    let y: Vec<f64> = y.into_iter().map(f64::from).collect();
    for policy in [Policy::BF16, Policy::F16] {
        let lowered = parameters.unwatched_as(policy).unwrap();
        assert_eq!((lowered.policy(), lowered.get("fc.weight").unwrap().dtype()), (policy, policy.compute));
        let forward = || layer.forward(&lowered, &x.cast(policy.compute).unwrap()).unwrap().cast(DType::F32).unwrap();
        let before = forward().to_vec::<f32>().unwrap();
        close_beyond(1.0, &before, &y, 2e-2);
        let weight = parameters.get("fc.weight").unwrap();
        weight.assign(&weight.neg().unwrap()).unwrap();
        assert_eq!(forward().to_vec::<f32>().unwrap(), before);
        weight.assign(&weight.neg().unwrap()).unwrap();
    }
    let other = Policy { compute: DType::F64, ..Policy::F32 };
    assert!(matches!(parameters.unwatched_as(other), Err(Error::UndefinedForDType { op: "policy", .. })));
}

pub fn layer_norm_starts_as_the_identity_of_scale(device: &Device) {
    let mut builder = Builder::new(5);
    let layer = LayerNorm::new(&mut builder, "norm", 4, 1e-6).unwrap();
    let parameters = builder.build(device).unwrap();
    let x = Tensor::from_slice(device, &[1.0f32, -1.0, 1.0, -1.0, 3.0, 5.0, 3.0, 5.0], [2, 4]).unwrap();
    let y = layer.forward(&parameters.unwatched(), &x).unwrap();
    close(&y.to_vec().unwrap(), &[1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0], 1e-6);
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["norm.weight", "norm.bias"]);
}

/// Names and shapes are PyTorch's; with gamma and beta changed the result is theirs, and their gradients reach them.
pub fn group_and_instance_norm_have_pytorchs_parameters(device: &Device) {
    let mut builder = Builder::new(5);
    let group = GroupNorm::new(&mut builder, "gn", 2, 4).unwrap();
    let instance = InstanceNorm::with_options(&mut builder, "in", 4, 1e-5, Affine::Yes).unwrap();
    let parameters = builder.build(device).unwrap();
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["gn.weight", "gn.bias", "in.weight", "in.bias"]);
    // Two places: 0 and 10 of channel 0, 2 and 12 of channel 1, 5 of the others, which have no variance.
    let x = Tensor::from_slice(device, &[0.0f32, 2.0, 5.0, 5.0, 10.0, 12.0, 5.0, 5.0], [1, 2, 1, 4]).unwrap();
    let [gamma, beta] = [[1.0f32, 2.0, 3.0, 4.0], [0.5, 0.0, 0.25, 0.0]]
        .map(|numbers| Tensor::from_slice(device, &numbers, [4]).unwrap());
    let all = [("gn.weight", &gamma), ("gn.bias", &beta), ("in.weight", &gamma), ("in.bias", &beta)];
    parameters.load(all).unwrap();
    let r = 1.0 / (26.0f64 + 1e-5).sqrt();
    let of_group = [0.5 - 6.0 * r, -8.0 * r, 0.25, 0.0, 0.5 + 4.0 * r, 12.0 * r, 0.25, 0.0];
    let tape = Tape::new();
    let watched = parameters.watch(&tape).unwrap();
    let y = group.forward(&watched, &x).unwrap();
    close_beyond(1.0, &y.to_vec().unwrap(), &of_group, 1e-6);
    let r_of_channel = 1.0 / (25.0f64 + 1e-5).sqrt();
    let ends = [0.5 - 5.0 * r_of_channel, -10.0 * r_of_channel, 0.25, 0.0];
    let of_instance = [&ends[..], &[1.0 - ends[0], -ends[1], 0.25, 0.0]].concat();
    close_beyond(1.0, &instance.forward(&watched, &x).unwrap().to_vec().unwrap(), &of_instance, 1e-6);
    let plain = InstanceNorm::new().forward(&watched, &x).unwrap().to_vec::<f32>().unwrap();
    let one = 5.0 * r_of_channel;
    close_beyond(1.0, &plain, &[-one, -one, 0.0, 0.0, one, one, 0.0, 0.0], 1e-6);
    // Of the second place alone, so that no sum is zero.
    let loss = y.slice(1, 1..2).unwrap().sum(..).unwrap();
    parameters.backward(tape, &watched, &loss).unwrap();
    let gradient = |name: &str| parameters.gradients().get(name).unwrap().to_vec::<f32>().unwrap();
    close_beyond(1.0, &gradient("gn.weight"), &[4.0 * r, 6.0 * r, 0.0, 0.0], 1e-6);
    close(&gradient("gn.bias"), &[1.0; 4], 0.0);
    let refused = GroupNorm::new(&mut Builder::new(0), "gn", 3, 4);
    assert!(matches!(refused, Err(Error::InvalidArgument { what: "groups", .. })), "{refused:?}");
}

/// PyTorch's rule: a tenth of the batch's mean and of its unbiased variance, at every replay; and what running statistics then do.
pub fn batch_norm_moves_its_running_statistics(device: &Device) {
    let mut builder = Builder::new(5);
    let layer = BatchNorm::new(&mut builder, "bn", 2).unwrap();
    let parameters = builder.build(device).unwrap();
    let x = Tensor::from_slice(device, &[1.0f32, 10.0, 3.0, 30.0, 5.0, 50.0], [3, 2]).unwrap();
    let train = || layer.forward(&parameters.unwatched(), &x, Mode::Training);
    let y = train().unwrap().to_vec::<f32>().unwrap();
    let end = 1.5f64.sqrt();
    close(&[y[0], y[2], y[4]], &[-end, 0.0, end], 1e-4);
    let read = |name: &str| parameters.get(&format!("bn.{name}")).unwrap().to_vec::<f32>().unwrap();
    close(&read("running_mean"), &[0.3, 3.0], 1e-6);
    close(&read("running_var"), &[1.3, 40.9], 1e-6);
    let recording = device.record(train).unwrap();
    recording.replay().unwrap();
    close(&read("running_mean"), &[0.57, 5.7], 1e-6);
    close(&read("running_var"), &[1.57, 76.81], 1e-6);
    assert_eq!(parameters.get("bn.num_batches_tracked").unwrap().item::<i32>().unwrap(), 2);
    let y = layer.forward(&parameters.unwatched(), &x, Mode::Evaluation).unwrap().to_vec::<f32>().unwrap();
    let normal = |x: f64, mean: f64, variance: f64| (x - mean) / (variance + 1e-5).sqrt();
    close(&y[..2], &[normal(1.0, 0.57, 1.57), normal(10.0, 5.7, 76.81)], 1e-5);
    assert_eq!(parameters.get("bn.num_batches_tracked").unwrap().item::<i32>().unwrap(), 2);
    let one = x.slice(0, 0..1).unwrap();
    let refused = layer.forward(&parameters.unwatched(), &one, Mode::Training);
    assert!(matches!(refused, Err(Error::InvalidArgument { what: "values", .. })), "{refused:?}");
    close(&read("running_mean"), &[0.57, 5.7], 1e-6);
}

/// PyTorch's `momentum=None`, `affine=False` and `track_running_stats=False`: three batches count alike, also replayed; what is absent has no name,
/// and without running statistics use is as training.
pub fn batch_norm_is_had_without_its_parts(device: &Device) {
    let mut builder = Builder::new(5);
    let average = BatchNormOptions { running: Running::Average, ..BatchNormOptions::default() };
    let average = BatchNorm::with_options(&mut builder, "average", 1, average).unwrap();
    let bare = BatchNormOptions { running: Running::Absent, affine: Affine::No, ..BatchNormOptions::default() };
    let bare = BatchNorm::with_options(&mut builder, "bare", 1, bare).unwrap();
    let unscaled = BatchNormOptions { affine: Affine::No, ..BatchNormOptions::default() };
    let unscaled = BatchNorm::with_options(&mut builder, "unscaled", 1, unscaled).unwrap();
    let parameters = builder.build(device).unwrap();
    let names: Vec<String> = parameters.names().map(str::to_owned).collect();
    assert_eq!(names, ["average.weight", "average.bias"]);
    assert!(parameters.get("bare.running_mean").is_err());
    let x = Tensor::from_slice(device, &[1.0f32, 3.0], [2, 1]).unwrap();
    let train = || average.forward(&parameters.unwatched(), &x, Mode::Training);
    train().unwrap();
    let read = |name: &str| parameters.get(name).unwrap().to_vec::<f32>().unwrap();
    // The first replaces what they begin with: variances of 2 values are unbiased ones.
    assert_eq!((read("average.running_mean"), read("average.running_var")), (vec![2.0], vec![2.0]));
    let recording = device.record(train).unwrap();
    for (values, mean, variance) in [([7.0f32, 9.0], 5.0, 2.0), ([4.0, 16.0], 20.0 / 3.0, 76.0 / 3.0)] {
        x.assign(&Tensor::from_slice(device, &values, [2, 1]).unwrap()).unwrap();
        recording.replay().unwrap();
        close(&read("average.running_mean"), &[mean], 1e-6);
        close(&read("average.running_var"), &[variance], 1e-5);
    }
    let one = 6.0 / (36.0f64 + 1e-5).sqrt();
    for mode in [Mode::Training, Mode::Evaluation] {
        let y = bare.forward(&parameters.unwatched(), &x, mode).unwrap().to_vec::<f32>().unwrap();
        close(&y, &[-one, one], 1e-6);
    }
    let y = unscaled.forward(&parameters.unwatched(), &x, Mode::Evaluation).unwrap().to_vec::<f32>().unwrap();
    close(&y, &[4.0, 16.0], 1e-4);
    let two = Tensor::from_slice(device, &[1.0f32, 3.0, 5.0, 7.0], [2, 2]).unwrap();
    let refused = unscaled.forward(&parameters.unwatched(), &two, Mode::Training);
    assert!(matches!(refused, Err(Error::ShapeMismatch { .. })), "{refused:?}");
    let much = BatchNormOptions { running: Running::Share(1.5), ..BatchNormOptions::default() };
    let refused = BatchNorm::with_options(&mut Builder::new(0), "bn", 2, much);
    assert!(matches!(refused, Err(Error::InvalidArgument { what: "momentum", .. })), "{refused:?}");
}

/// Filters are PyTorch's by name and shape, whatever order they lie in.
pub fn conv2d_has_pytorchs_filters(device: &Device) {
    let mut builder = Builder::new(5);
    let options = || ConvolutionOptions::default().groups(2);
    let layer = Conv2d::new(&mut builder, "conv", [4, 2], [1, 3], options(), Bias::Yes).unwrap();
    let parameters = builder.build(device).unwrap();
    // Filter k reads channels 2 k and 2 k + 1; its element of channel c and tap t is 100 k + 10 c + t.
    let filters: Vec<f32> =
        [0.0, 100.0].iter().flat_map(|k| [0.0, 1.0, 2.0, 10.0, 11.0, 12.0].map(|x| k + x)).collect();
    let weight = Tensor::from_slice(device, &filters, [2, 2, 1, 3]).unwrap();
    let bias = Tensor::from_slice(device, &[0.5f32, 0.25], [2]).unwrap();
    parameters.load([("conv.weight", &weight), ("conv.bias", &bias)]).unwrap();
    assert_eq!(parameters.get("conv.weight").unwrap().to_vec::<f32>().unwrap(), filters);
    // One at channel 1, tap 2, and two at channel 2, tap 0.
    let mut pixels = [0.0f32; 12];
    (pixels[9], pixels[2]) = (1.0, 2.0);
    let x = Tensor::from_slice(device, &pixels, [1, 1, 3, 4]).unwrap();
    let y = layer.forward(&parameters.unwatched(), &x).unwrap();
    assert_eq!(y.dims(), [1, 1, 1, 2]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [12.5, 200.25]);
    let tape = Tape::new();
    let watched = parameters.watch(&tape).unwrap();
    let loss = layer.forward(&watched, &x).unwrap().sum(..).unwrap();
    parameters.backward(tape, &watched, &loss).unwrap();
    let gradient = parameters.gradients().get("conv.weight").unwrap();
    let mut expected = [0.0f32; 12];
    (expected[5], expected[6]) = (1.0, 2.0);
    assert_eq!((gradient.dims(), gradient.to_vec::<f32>().unwrap()), (&[2u64, 2, 1, 3][..], expected.to_vec()));
    let refused = Conv2d::new(&mut Builder::new(0), "conv", [3, 2], [1, 3], options(), Bias::No);
    assert!(matches!(refused, Err(Error::InvalidArgument { what: "groups", .. })), "{refused:?}");
}

/// Exclusive or, by two layers with a norm between them, clipped, in recorded steps.
pub fn network_learns(device: &Device) {
    let mut builder = Builder::new(1);
    let first = Linear::new(&mut builder, "first", 2, 16, Bias::Yes).unwrap();
    let norm = LayerNorm::new(&mut builder, "norm", 16, 1e-5).unwrap();
    let second = Linear::new(&mut builder, "second", 16, 1, Bias::Yes).unwrap();
    let parameters = builder.build(device).unwrap();
    let schedule = Schedule::Linear { warm_up: 10, total: 200 };
    let optimiser = Optimiser::new(&parameters, Method::AdamW(Adam::default()), schedule, 0.05).unwrap();
    let clip = Clip::new(device, 1.0).unwrap();
    let x = Tensor::from_slice(device, &[0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [4, 2]).unwrap();
    let z = Tensor::from_slice(device, &[0.0f32, 1.0, 1.0, 0.0], [4, 1]).unwrap();
    let scores = |parameters: &polywarp_nn::Watched| {
        let hidden = norm.forward(parameters, &first.forward(parameters, &x)?.relu()?)?;
        second.forward(parameters, &hidden)
    };
    let step = device
        .record(|| {
            let tape = Tape::new();
            let watched = parameters.watch(&tape)?;
            let loss = binary_cross_entropy_with_logits(&scores(&watched)?, &z, Reduction::Mean)?;
            parameters.backward(tape, &watched, &loss)?;
            optimiser.step(&parameters, &StepOptions { clip: Some(&clip), ..StepOptions::default() })?;
            Ok(loss)
        })
        .unwrap();
    for _ in 0..200 {
        step.replay().unwrap();
    }
    let loss = step.outputs().item::<f32>().unwrap();
    assert!(loss < 0.05, "{loss}");
    let scores = scores(&parameters.unwatched()).unwrap().to_vec::<f32>().unwrap();
    assert!(scores[0] < 0.0 && scores[1] > 0.0 && scores[2] > 0.0 && scores[3] < 0.0, "{scores:?}");
}

cases!(
    linear_agrees,
    layer_norm_starts_as_the_identity_of_scale,
    group_and_instance_norm_have_pytorchs_parameters,
    batch_norm_moves_its_running_statistics,
    batch_norm_is_had_without_its_parts,
    conv2d_has_pytorchs_filters,
    parameters_are_used_in_16_bits,
    network_learns,
);
