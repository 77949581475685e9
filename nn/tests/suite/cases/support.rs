//! A small problem whose gradients are known, and comparisons.

use polywarp_core::{Device, Result, Tape, Tensor};
use polywarp_nn::{Builder, Decay, Init, Parameters, Watched};

/// The parameters: name, shape, whether they decay. Two matrices share a bucket, and neither fills its place.
pub const PARAMETERS: [(&str, &[u64], Decay); 3] =
    [("w", &[3, 2], Decay::Yes), ("b", &[5], Decay::No), ("v", &[7, 1], Decay::Yes)];

/// The parameters at their starting values.
pub fn parameters(device: &Device) -> Parameters {
    let mut builder = Builder::new(11);
    for (name, shape, decay) in PARAMETERS {
        builder.add(name, shape, Init::Uniform { low: 0.5, high: 1.5 }, decay).unwrap();
    }
    builder.build(device).unwrap()
}

/// The values of each parameter.
pub fn values(parameters: &Parameters) -> Vec<Vec<f32>> {
    parameters.values().iter().map(|(_, view)| view.to_vec::<f32>().unwrap()).collect()
}

/// Weights c and centres q of the loss, sum c (p - q)^2.
fn quadratic(number: usize, element: usize) -> (f32, f32) {
    let at = (7 * number + element) as f32;
    (0.25 + 0.125 * (at % 5.0), 3.0 - 0.5 * (at % 7.0))
}

/// The gradient of the loss by parameter `number` at `values`.
pub fn gradient(number: usize, values: &[f64]) -> Vec<f64> {
    let of = |(element, p): (usize, &f64)| {
        let (c, q) = quadratic(number, element);
        2.0 * f64::from(c) * (p - f64::from(q))
    };
    values.iter().enumerate().map(of).collect()
}

/// The loss on the device.
#[derive(Debug)]
pub struct Problem {
    terms: Vec<[Tensor; 2]>,
}

impl Problem {
    pub fn new(device: &Device) -> Problem {
        let tensor = |number: usize, shape: &[u64], pick: fn((f32, f32)) -> f32| {
            let count = shape.iter().product::<u64>() as usize;
            let data: Vec<f32> = (0..count).map(|element| pick(quadratic(number, element))).collect();
            Tensor::from_slice(device, &data, shape).unwrap()
        };
        let of = |(number, (_, shape, _)): (usize, &(&str, &[u64], Decay))| {
            [tensor(number, shape, |(c, _)| c), tensor(number, shape, |(_, q)| q)]
        };
        Problem { terms: PARAMETERS.iter().enumerate().map(of).collect() }
    }

    /// The loss, rank 0.
    pub fn loss(&self, watched: &Watched) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for ((name, ..), [c, q]) in PARAMETERS.iter().zip(&self.terms) {
            let off = watched.get(name)?.sub(q)?;
            let term = off.mul(&off)?.mul(c)?.sum(..)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term)?,
                None => term,
            });
        }
        Ok(sum.expect("there are parameters"))
    }

    /// Puts the gradients of `scale` times the loss into `parameters`.
    pub fn backward(&self, parameters: &Parameters, scale: Option<&Tensor>) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = parameters.watch(&tape)?;
        let loss = self.loss(&watched)?;
        let scaled = scale.map_or(Ok(loss.clone()), |scale| loss.mul(scale))?;
        parameters.collect(&watched, &tape.backward(&scaled)?)?;
        Ok(loss)
    }
}

/// Equal within `relative` of the expected number.
#[track_caller]
pub fn close(found: &[f32], expected: &[f64], relative: f64) {
    close_beyond(0.0, found, expected, relative);
}

/// Equal within `relative` of the expected number, or of `least` where that is larger: parameters that started at 1 and come by 0 keep the
/// errors of their way.
#[track_caller]
pub fn close_beyond(least: f64, found: &[f32], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= relative * expected.abs().max(least), "element {at}: {found}, not {expected}");
    }
}

/// Equal bits.
pub fn bits(values: &[Vec<f32>]) -> Vec<Vec<u32>> {
    values.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
}
