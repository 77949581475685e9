//! A network learns to read digits, on every device of this machine: one step is recorded, and replayed without the host.
//!
//! Two layers (64 pixels, 64 hidden units, 10 digits) under cross-entropy, trained by AdamW on four fifths of the
//! pictures and judged on the remaining fifth. The step is an ordinary program over tensors: forward, backward by the
//! tape, one update in place for each parameter. Values that change from step to step live on the device, among them
//! the powers of the decay rates, so that each replay continues where the one before ended.
//!
//! Run: `cargo run --release --example train_digits`. The data and its licence: `data/README.md`.

#[path = "digits/data.rs"]
mod data;

use std::time::Instant;

use polywarp::ops::Distribution;
use polywarp::{DType, Device, Expr, Result, Tape, Tensor};

/// Number of digits.
const CLASSES: usize = 10;
/// Units of the hidden layer.
const HIDDEN: u64 = 64;
/// Steps, each over all pictures.
const STEPS: usize = 300;
/// The least share of held-out pictures that must be read correctly.
const ACCURACY: f64 = 0.97;

/// AdamW's parameters (Loshchilov and Hutter, arXiv 1711.05101).
const RATE: f64 = 0.01;
const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;
const DECAY: f64 = 0.01;

/// A parameter with both moments of its gradient.
struct Parameter {
    value: Tensor,
    moments: [Tensor; 2],
}

impl Parameter {
    fn new(value: Tensor) -> Result<Parameter> {
        let zeros = || Tensor::zeros(value.device(), value.dtype(), *value.shape());
        Ok(Parameter { moments: [zeros()?, zeros()?], value })
    }

    /// Normal numbers whose deviation preserves the magnitude of activations (He et al., arXiv 1502.01852).
    fn weights(device: &Device, rows: u64, columns: u64, stream: u64) -> Result<Parameter> {
        let normal = Tensor::random(
            device,
            DType::F32,
            [rows, columns],
            Distribution::Normal { mean: 0.0, std: 1.0 },
            1,
            stream,
        )?;
        Parameter::new(normal.mul_scalar((2.0 / rows as f64).sqrt())?)
    }

    /// AdamW's step; `powers` are powers of the two betas, [1] each.
    fn update(&self, gradient: &Tensor, powers: &[Tensor; 2]) -> Result<()> {
        let [g, first, second, p, m, v] = std::array::from_fn(Expr::input);
        let m = m * BETAS[0] + g.clone() * (1.0 - BETAS[0]);
        let v = v * BETAS[1] + g.clone() * g * (1.0 - BETAS[1]);
        let [m_hat, v_hat] = [m.clone() / (-first + 1.0), v.clone() / (-second + 1.0)];
        let p = p.clone() - (m_hat / (v_hat.sqrt() + EPSILON) + p * DECAY) * RATE;
        let [first, second] = powers;
        let [of_m, of_v] = &self.moments;
        Tensor::update(&[p, m, v], &[gradient, first, second], &[&self.value, of_m, of_v]).map(drop)
    }
}

/// The scores of pictures, one for each digit.
fn scores(pictures: &Tensor, parameters: &[Tensor]) -> Result<Tensor> {
    let hidden = pictures.matmul(&parameters[0])?.add(&parameters[1])?.relu()?;
    hidden.matmul(&parameters[2])?.add(&parameters[3])
}

/// One step on all pictures; returns the mean cross-entropy before it.
fn step(pictures: &Tensor, targets: &Tensor, parameters: &[Parameter], powers: &[Tensor; 2]) -> Result<Tensor> {
    let tape = Tape::new();
    let watched = parameters.iter().map(|parameter| tape.watch(&parameter.value)).collect::<Result<Vec<_>>>()?;
    let likelihoods = scores(pictures, &watched)?.log_softmax(1)?.mul(targets)?.sum(1)?;
    let loss = likelihoods.mean(..)?.neg()?;
    let gradients = tape.backward(&loss)?;
    for (power, beta) in powers.iter().zip(BETAS) {
        power.mul_scalar_(beta)?;
    }
    for (parameter, watched) in parameters.iter().zip(&watched) {
        let gradient = gradients.of(watched).expect("the loss depends on every parameter");
        parameter.update(gradient, powers)?;
    }
    Ok(loss)
}

/// The pictures of the lines that `wanted` accepts, and for each a row of ten numbers with a 1 at its digit.
fn part(device: &Device, digits: &data::Digits, wanted: impl Fn(usize) -> bool) -> Result<(Tensor, Tensor, Vec<u32>)> {
    let lines: Vec<usize> = (0..digits.labels.len()).filter(|&line| wanted(line)).collect();
    let pixels = lines.iter().flat_map(|line| &digits.pixels[line * data::PIXELS..][..data::PIXELS]);
    let pixels: Vec<f32> = pixels.map(|pixel| pixel / 16.0).collect();
    let labels: Vec<u32> = lines.iter().map(|&line| digits.labels[line]).collect();
    let rows =
        labels.iter().flat_map(|&label| (0..CLASSES as u32).map(move |class| f32::from(u8::from(class == label))));
    let count = lines.len() as u64;
    let pictures = Tensor::from_slice(device, &pixels, [count, data::PIXELS as u64])?;
    Ok((pictures, Tensor::from_slice(device, &rows.collect::<Vec<f32>>(), [count, CLASSES as u64])?, labels))
}

fn train(device: &Device, digits: &data::Digits) -> Result<()> {
    let (pictures, targets, _) = part(device, digits, |line| line % 5 != 0)?;
    let (unseen, _, labels) = part(device, digits, |line| line % 5 == 0)?;
    let bias = |columns: u64| Parameter::new(Tensor::zeros(device, DType::F32, [columns])?);
    let parameters = [
        Parameter::weights(device, data::PIXELS as u64, HIDDEN, 0)?,
        bias(HIDDEN)?,
        Parameter::weights(device, HIDDEN, CLASSES as u64, 1)?,
        bias(CLASSES as u64)?,
    ];
    let one = || Tensor::full(device, DType::F32, [1], 1.0);
    let powers = [one()?, one()?];
    let recording = device.record(|| step(&pictures, &targets, &parameters, &powers))?;
    let (start, mut losses) = (Instant::now(), Vec::new());
    for number in 0..STEPS {
        let loss = recording.replay()?;
        if number == 0 || number + 1 == STEPS {
            losses.push(loss.to_vec::<f32>()?[0]);
        }
    }
    let each = start.elapsed() / STEPS as u32;
    let values: Vec<Tensor> = parameters.iter().map(|parameter| parameter.value.clone()).collect();
    let read: Vec<u32> = scores(&unseen, &values)?.argmax(1)?.to_vec()?;
    let right = read.iter().zip(&labels).filter(|(read, label)| read == label).count();
    let accuracy = right as f64 / labels.len() as f64;
    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    println!(
        "  loss {:.3} to {:.4} in {STEPS} steps of {} launches, {each:.1?} each; {right} of {} unseen digits right, {:.2} %",
        losses[0],
        losses[1],
        recording.launches(),
        labels.len(),
        100.0 * accuracy
    );
    assert!(accuracy >= ACCURACY, "{device:?} has learnt too little: {accuracy}");
    Ok(())
}

fn main() -> Result<()> {
    let digits = data::load();
    for entry in polywarp::devices() {
        match entry.open() {
            Ok(device) => train(&device, &digits)?,
            Err(error) => println!("{}: {error}", entry.id),
        }
    }
    Ok(())
}
