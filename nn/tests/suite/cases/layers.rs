//! Layers against sums on the host, and a network that learns.

use polywarp_core::{DType, Device, Error, Tape, Tensor};
use polywarp_nn::{
    Adam, Bias, Builder, Clip, LayerNorm, Linear, Method, Optimiser, Reduction, Schedule, StepOptions,
    binary_cross_entropy_with_logits,
};

use super::support::close;

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
        }
        let wrong = Tensor::zeros(device, DType::F32, [2, 5]).unwrap();
        assert!(matches!(
            layer.forward(&parameters.unwatched(), &wrong),
            Err(Error::ShapeMismatch { op: "linear", .. })
        ));
    }
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

cases!(linear_agrees, layer_norm_starts_as_the_identity_of_scale, network_learns);
