//! Gradients of RMS normalisation and of GELU's tanh form against central differences of their formulas, in f64, which not every device has.

use polywarp_core::{DType, Device, Error, Tape, Tensor};
use polywarp_nn::{gelu_tanh, rms_norm};

use crate::cases::functions::{EPSILON, gelu_of, near, rms_norm_of};

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

#[test]
fn rms_norm_has_the_gradients_of_its_formula() {
    let device = &Device::cpu();
    let (x, weight, by) = (wave(12, 0.0), wave(4, 2.0), wave(12, 5.0));
    let tape = Tape::new();
    let of_x = tape.watch(&f64s(device, &x, &[3, 4])).unwrap();
    let of_weight = tape.watch(&f64s(device, &weight, &[4])).unwrap();
    let y = rms_norm(&of_x, &of_weight, EPSILON).unwrap();
    near(&y.to_vec().unwrap(), &rms_norm_of(&x, &weight), 1e-14);
    let loss = y.mul(&f64s(device, &by, &[3, 4])).unwrap().sum(..).unwrap();
    let gradients = tape.backward(&loss).unwrap();
    let read = |of: &Tensor| gradients.of(of).unwrap().to_vec::<f64>().unwrap();
    let loss = |x: &[f64], weight: &[f64]| rms_norm_of(x, weight).iter().zip(&by).map(|(y, by)| y * by).sum::<f64>();
    near(&read(&of_x), &differences(&x, |x| loss(x, &weight)), 1e-9);
    near(&read(&of_weight), &differences(&weight, |weight| loss(&x, weight)), 1e-9);
}

#[test]
fn rms_norm_refuses_what_has_no_meaning() {
    let device = &Device::cpu();
    let of = |dtype: DType, dims: &[u64]| Tensor::zeros(device, dtype, dims).unwrap();
    let refused = |x: &Tensor, weight: &Tensor, epsilon: f64| -> Error { rms_norm(x, weight, epsilon).unwrap_err() };
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

#[test]
fn gelu_tanh_has_the_gradient_of_its_formula() {
    let device = &Device::cpu();
    let x: Vec<f64> = (-40..=40).map(|i| f64::from(i) / 8.0).chain([-60.0, 60.0]).collect();
    let tape = Tape::new();
    let of_x = tape.watch(&f64s(device, &x, &[x.len() as u64])).unwrap();
    let y = gelu_tanh(&of_x).unwrap();
    let want: Vec<f64> = x.iter().map(|&x| gelu_of(x)).collect();
    near(&y.to_vec().unwrap(), &want, 1e-13);
    let gradients = tape.backward(&y.sum(..).unwrap()).unwrap();
    let want = differences(&x, |x| x.iter().map(|&x| gelu_of(x)).sum());
    near(&gradients.of(&of_x).unwrap().to_vec().unwrap(), &want, 1e-8);
}
