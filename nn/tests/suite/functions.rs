//! RMS normalisation and the tanh form of GELU: values against their formulas, gradients against differences of these in f64.

use polywarp_core::{DType, Device, Distribution, Error, Result, Tape, Tensor};
use polywarp_nn::{Builder, RmsNorm, gelu_tanh, rms_norm};

use crate::support::{close, close_beyond};

on_the_cpu! {
    rms_norm_is_its_formula,
    rms_norm_has_the_gradients_of_its_formula,
    rms_norm_of_sixteen_bits_sums_in_f32,
    rms_norm_refuses_what_has_no_meaning,
    gelu_tanh_is_its_formula,
    gelu_tanh_has_the_gradient_of_its_formula,
}

const EPSILON: f64 = 1e-3;

fn rms_norm_of(x: &[f64], weight: &[f64]) -> Vec<f64> {
    let n = weight.len();
    let row = |row: &[f64]| {
        let root = (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + EPSILON).sqrt();
        row.iter().zip(weight).map(|(x, w)| x / root * w).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}

fn gelu_of(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// Numbers of both signs, none like another.
fn wave(count: usize, phase: f64) -> Vec<f64> {
    (0..count).map(|i| 1.5 * (i as f64 * 1.7 + phase).sin() + 0.1).collect()
}

fn f64s(device: &Device, values: &[f64], dims: &[u64]) -> Tensor {
    Tensor::from_slice(device, values, dims).unwrap()
}

/// The derivative of `f` by each element of `x`, by central differences.
fn differences(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let at = |i: usize, by: f64| {
        let mut x = x.to_vec();
        x[i] += by;
        f(&x)
    };
    (0..x.len()).map(|i| (at(i, STEP) - at(i, -STEP)) / (2.0 * STEP)).collect()
}

#[track_caller]
fn near(found: &[f64], want: &[f64], most: f64) {
    assert_eq!(found.len(), want.len());
    for (i, (found, want)) in found.iter().zip(want).enumerate() {
        assert!((found - want).abs() <= most, "element {i}: {found}, not {want}");
    }
}

fn rms_norm_is_its_formula(device: &Device) {
    let mut builder = Builder::new(1);
    let layer = RmsNorm::new(&mut builder, "norm", 5, EPSILON).unwrap();
    let parameters = builder.build(device).unwrap();
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["norm.weight"]);
    let x = Tensor::random(device, DType::F32, [2, 3, 5], Distribution::Normal { mean: 1.0, std: 2.0 }, 3, 0).unwrap();
    let of_x: Vec<f64> = x.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    let forward = || layer.forward(&parameters.unwatched(), &x).unwrap();
    assert_eq!(forward().dims(), [2, 3, 5]);
    close(&forward().to_vec().unwrap(), &rms_norm_of(&of_x, &[1.0; 5]), 1e-6);
    let weight = [0.5f32, -1.0, 2.0, 0.0, 3.0];
    parameters.set("norm.weight", &Tensor::from_slice(device, &weight, [5]).unwrap()).unwrap();
    close(&forward().to_vec().unwrap(), &rms_norm_of(&of_x, &weight.map(f64::from)), 1e-6);
}

fn rms_norm_has_the_gradients_of_its_formula(device: &Device) {
    let (x, weight, by) = (wave(12, 0.0), wave(4, 2.0), wave(12, 5.0));
    let tape = Tape::new();
    let of_x = tape.watch(&f64s(device, &x, &[3, 4])).unwrap();
    let of_weight = tape.watch(&f64s(device, &weight, &[4])).unwrap();
    let y = rms_norm(&of_x, &of_weight, EPSILON).unwrap();
    near(&y.to_vec().unwrap(), &rms_norm_of(&x, &weight), 1e-14);
    let loss = y.mul(&f64s(device, &by, &[3, 4])).unwrap().sum(&[]).unwrap();
    let gradients = tape.backward(&loss).unwrap();
    let read = |of: &Tensor| gradients.of(of).unwrap().to_vec::<f64>().unwrap();
    let loss = |x: &[f64], weight: &[f64]| rms_norm_of(x, weight).iter().zip(&by).map(|(y, by)| y * by).sum::<f64>();
    near(&read(&of_x), &differences(&x, |x| loss(x, &weight)), 1e-9);
    near(&read(&of_weight), &differences(&weight, |weight| loss(&x, weight)), 1e-9);
}

/// Squares of 1000 are beyond f16, and sums of 4096 of them beyond what bf16 can add one to.
fn rms_norm_of_sixteen_bits_sums_in_f32(device: &Device) {
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::full(device, dtype, [2, 4096], 1000.0).unwrap();
        let weight = Tensor::full(device, dtype, [4096], 0.5).unwrap();
        let tape = Tape::new();
        let x = tape.watch(&x).unwrap();
        let y = rms_norm(&x, &weight, 1e-5).unwrap();
        assert_eq!(y.dtype(), dtype);
        let found = y.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert!(found.iter().all(|y| *y == 0.5), "{dtype}: {}", found[0]);
        let gradients = tape.backward(&y.sum(&[]).unwrap()).unwrap();
        let dx = gradients.of(&x).unwrap();
        assert_eq!(dx.dtype(), dtype);
        // Another length of a row does not change it.
        let dx = dx.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert!(dx.iter().all(|dx| dx.abs() < 1e-6), "{dtype}: {}", dx[0]);
    }
}

fn rms_norm_refuses_what_has_no_meaning(device: &Device) {
    let of = |dtype: DType, dims: &[u64]| Tensor::zeros(device, dtype, dims).unwrap();
    let refused = |x: &Tensor, weight: &Tensor, epsilon: f64| -> Error {
        let found: Result<Tensor> = rms_norm(x, weight, epsilon);
        found.unwrap_err()
    };
    let (x, weight) = (of(DType::F32, &[2, 4]), of(DType::F32, &[4]));
    assert!(matches!(refused(&x, &of(DType::F32, &[1]), 1e-5), Error::ShapeMismatch { op: "rms_norm", .. }));
    assert!(matches!(refused(&x, &of(DType::F16, &[4]), 1e-5), Error::DTypeMismatch { op: "rms_norm", .. }));
    let whole = of(DType::I32, &[4]);
    assert!(matches!(refused(&whole, &whole, 1e-5), Error::UndefinedForDType { op: "rms_norm", .. }));
    for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(refused(&x, &weight, epsilon), Error::InvalidArgument { .. }));
    }
    assert!(matches!(refused(&of(DType::F32, &[]), &weight, 1e-5), Error::InvalidArgument { .. }));
}

fn gelu_tanh_is_its_formula(device: &Device) {
    let x: Vec<f32> = (-160..=160).map(|i| i as f32 / 16.0).collect();
    let want: Vec<f64> = x.iter().map(|&x| gelu_of(x.into())).collect();
    let tensor = Tensor::from_slice(device, &x, [x.len() as u64]).unwrap();
    // Where 1 + tanh cancels, the error is one of the units of 1.
    close_beyond(1.0, &gelu_tanh(&tensor).unwrap().to_vec().unwrap(), &want, 1e-6);
    let erf: Vec<f64> = tensor.gelu().unwrap().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    near(&want, &erf, 5e-4);
    // x^3 is beyond f16 from 41 on.
    let large = Tensor::from_slice(device, &[100.0f32, -100.0, 1.0], [3]).unwrap().cast(DType::F16).unwrap();
    let found = gelu_tanh(&large).unwrap();
    assert_eq!(found.dtype(), DType::F16);
    let found = found.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
    assert!(found[0] == 100.0 && found[1] == 0.0 && (found[2] - 0.841_192).abs() < 5e-4, "{found:?}");
    let whole = Tensor::zeros(device, DType::I32, [2]).unwrap();
    assert!(matches!(gelu_tanh(&whole), Err(Error::UndefinedForDType { op: "gelu_tanh", .. })));
}

fn gelu_tanh_has_the_gradient_of_its_formula(device: &Device) {
    let x: Vec<f64> = (-40..=40).map(|i| f64::from(i) / 8.0).chain([-60.0, 60.0]).collect();
    let tape = Tape::new();
    let of_x = tape.watch(&f64s(device, &x, &[x.len() as u64])).unwrap();
    let y = gelu_tanh(&of_x).unwrap();
    let want: Vec<f64> = x.iter().map(|&x| gelu_of(x)).collect();
    near(&y.to_vec().unwrap(), &want, 1e-13);
    let gradients = tape.backward(&y.sum(&[]).unwrap()).unwrap();
    let want = differences(&x, |x| x.iter().map(|&x| gelu_of(x)).sum());
    near(&gradients.of(&of_x).unwrap().to_vec().unwrap(), &want, 1e-8);
}
