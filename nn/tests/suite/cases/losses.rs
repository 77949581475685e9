//! Losses and their gradients against f64.

use polywarp_core::{Device, Error, Tape, Tensor};
use polywarp_nn::{Reduction, binary_cross_entropy_with_logits, mse_loss};

use super::support::close;

/// The terms of `loss`, and the gradient of their sum by x.
fn measured(
    device: &Device,
    loss: fn(&Tensor, &Tensor, Reduction) -> polywarp_core::Result<Tensor>,
    [x, y]: [&[f32]; 2],
) -> [Vec<f32>; 2] {
    let of = |data: &[f32]| Tensor::from_slice(device, data, [data.len() as u64]).unwrap();
    let (x, y, tape) = (of(x), of(y), Tape::new());
    let watched = tape.watch(&x).unwrap();
    let sum = loss(&watched, &y, Reduction::Sum).unwrap();
    let gradients = tape.backward(&sum).unwrap();
    let terms = loss(&x, &y, Reduction::None).unwrap();
    let mean = loss(&x, &y, Reduction::Mean).unwrap().item::<f32>().unwrap();
    close(&[mean * x.elements() as f32], &[f64::from(sum.item::<f32>().unwrap())], 1e-6);
    [terms.to_vec().unwrap(), gradients.of(&watched).unwrap().to_vec().unwrap()]
}

pub fn squared_error_agrees(device: &Device) {
    let [terms, gradients] = measured(device, mse_loss, [&[1.0, -2.0, 0.5], &[3.0, 0.0, 0.5]]);
    assert_eq!((terms, gradients), (vec![4.0, 4.0, 0.0], vec![-4.0, -4.0, 0.0]));
}

pub fn cross_entropy_with_logits_agrees(device: &Device) {
    let mut pairs: Vec<(f32, f32)> = Vec::new();
    for x in [
        -100.0, -88.0, -20.0, -10.0, -3.0, -2.0794415, -1.0, -1e-3, 0.0, 1e-3, 1.0, 2.0794415, 3.0, 10.0, 20.0, 88.0,
        100.0,
    ] {
        pairs.extend([0.0, 0.25, 1.0].map(|z| (x, z)));
    }
    let (x, z): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let [terms, gradients] = measured(device, binary_cross_entropy_with_logits, [&x, &z]);
    for (((x, z), term), gradient) in pairs.into_iter().zip(terms).zip(gradients) {
        let (x, z) = (f64::from(x), f64::from(z));
        let loss = x.max(0.0) - x * z + (-x.abs()).exp().ln_1p();
        // sigmoid(x) - z, or its equal where that cancels.
        let slope = if z == 1.0 { -1.0 / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) - z };
        // Terms are summed: an error of their largest is one of the sum. Below the smallest normal number a device may give 0.
        let within = |found: f32, expected: f64, largest: f64| {
            let bound = 4e-7 * expected.abs().max(largest) + 1.2e-38;
            assert!((f64::from(found) - expected).abs() <= bound, "x {x}, z {z}: {found}, not {expected}");
        };
        within(term, loss, x.max(0.0).max((x * z).abs()));
        within(gradient, slope, 0.5);
    }
}

/// Loss and gradient keep their digits where the answer is right: x < 0 and z = 0, x > 0 and z = 1.
pub fn cross_entropy_keeps_its_tail(device: &Device) {
    let below: Vec<f32> = (1..160).map(|n| -0.5 * n as f32).collect();
    for (sign, z) in [(1.0, 0.0), (-1.0, 1.0)] {
        let x: Vec<f32> = below.iter().map(|x| sign * x).collect();
        let [terms, gradients] = measured(device, binary_cross_entropy_with_logits, [&x, &vec![z; x.len()]]);
        let expected = |f: fn(f64) -> f64| below.iter().map(|x| f(f64::from(*x))).collect::<Vec<f64>>();
        close(&terms, &expected(|x| x.exp().ln_1p()), 1e-6);
        let gradients: Vec<f32> = gradients.iter().map(|gradient| sign * gradient).collect();
        close(&gradients, &expected(|x| x.exp() / (1.0 + x.exp())), 1e-6);
    }
}

pub fn shapes_must_be_equal(device: &Device) {
    let of = |dims: [u64; 2]| Tensor::full(device, polywarp_core::DType::F32, dims, 1.0).unwrap();
    let found = mse_loss(&of([3, 1]), &of([1, 3]), Reduction::Mean);
    assert!(matches!(found, Err(Error::ShapeMismatch { op: "mse_loss", .. })));
}

cases!(squared_error_agrees, cross_entropy_with_logits_agrees, cross_entropy_keeps_its_tail, shapes_must_be_equal);
