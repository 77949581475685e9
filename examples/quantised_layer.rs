//! A quantised network beside the same one in f32: it reads nearly the same digits correctly, with a quarter of the
//! weights' memory.
//!
//! A network of two layers (64 pixels, 512 hidden units, 10 classes) is made once on the CPU: the first layer is random, the
//! second solves a ridge regression on four fifths of the data by conjugate gradients. Then every device of the machine reads
//! the remaining fifth twice: with f32 weights, and with i8 weights of one scale per unit, activations being quantised row by
//! row inside [`polywarp::Tensor::linear`]. These layers are far too small for speed to show: products of i8 of every size are in
//! benches/results/h200-gemm-2026-11-23c.
//!
//! Run: `cargo run --release --example quantised_layer`. The data and its licence: `data/README.md`.

#[path = "digits/data.rs"]
mod data;

use std::time::{Duration, Instant};

use polywarp::{
    DType, Device, Distribution, Granularity, KeepDims, MatmulOptions, Quantized, ReduceFn, Result, Tensor, UnaryFn,
};

const HIDDEN: u64 = 512;
const CLASSES: u64 = 10;
/// Every fifth line is for testing.
const FOLD: usize = 5;
/// Ridge term of the regression, in units of squared activations.
const RIDGE: f32 = 1.0;
const STEPS: usize = 60;
/// The least accuracy of both networks (they reach 97 % and more), and the most digits that they may read differently.
const LEAST_ACCURACY: f64 = 0.95;
const MOST_APART: usize = 4;

/// Weights as [outputs, inputs], and biases.
struct Network {
    hidden: (Tensor, Tensor),
    classes: Tensor,
}

fn main() -> Result<()> {
    let digits = data::load();
    let (train, test) = split(&digits);
    let network = train_on(&Device::cpu(), &train)?;
    println!("{} digits to learn from, {} to read", train.1.len(), test.1.len());
    for entry in polywarp::devices() {
        match &entry.unusable {
            None => try_on(&entry.open()?, &network, &test)?,
            Some(reason) => println!("{}: {reason}", entry.id),
        }
    }
    Ok(())
}

type Part = (Vec<f32>, Vec<u32>);

/// Pixels from 0 to 1 and labels: the part to learn from, and the part to read.
fn split(digits: &data::Digits) -> (Part, Part) {
    let (mut train, mut test) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for (line, (pixels, &label)) in digits.pixels.chunks(data::PIXELS).zip(&digits.labels).enumerate() {
        let part: &mut Part = if line % FOLD == 0 { &mut test } else { &mut train };
        part.0.extend(pixels.iter().map(|pixel| pixel / 16.0));
        part.1.push(label);
    }
    (train, test)
}

fn pictures(device: &Device, part: &Part) -> Result<Tensor> {
    Tensor::from_slice(device, &part.0, [part.1.len() as u64, data::PIXELS as u64])
}

fn train_on(device: &Device, train: &Part) -> Result<Network> {
    let normal = |shape: [u64; 2], std, seed| {
        Tensor::random(device, DType::F32, shape, Distribution::Normal { mean: 0.0, std }, seed, 0)
    };
    let hidden = (normal([HIDDEN, data::PIXELS as u64], 0.4, 1)?, normal([1, HIDDEN], 0.5, 2)?.reshape([HIDDEN])?);
    let activations = layer(&pictures(device, train)?, &hidden.0, Some(&hidden.1), Some(UnaryFn::Relu))?;
    // 1 for the right class, -1 for the others: [lines, classes].
    let classes = Tensor::arange(device, DType::U32, 0, 1, CLASSES)?;
    let labels = Tensor::from_slice(device, &train.1, [train.1.len() as u64, 1])?;
    let wanted = labels.eq(&classes)?.cast(DType::F32)?.mul_scalar(2.0)?.add_scalar(-1.0)?;

    // (H^T H + ridge I) X = H^T Y, all classes at once.
    let product = |x: &Tensor| {
        let plain = activations.t()?.matmul(&activations.matmul(x)?)?;
        plain.add(&x.mul_scalar(RIDGE)?)
    };
    let dots = |x: &Tensor, y: &Tensor| x.mul(y)?.reduce(ReduceFn::Sum, 0, KeepDims::Yes);
    let mut rest = activations.t()?.matmul(&wanted)?;
    let mut solution = Tensor::zeros(device, DType::F32, [HIDDEN, CLASSES])?;
    let (mut direction, mut size) = (rest.clone(), dots(&rest, &rest)?);
    for _ in 0..STEPS {
        let image = product(&direction)?;
        let step = size.div(&dots(&direction, &image)?)?;
        solution = solution.add(&direction.mul(&step)?)?;
        rest = rest.sub(&image.mul(&step)?)?;
        let next = dots(&rest, &rest)?;
        direction = rest.add(&direction.mul(&next.div(&size)?)?)?;
        size = next;
    }
    Ok(Network { hidden, classes: solution.t()?.contiguous()? })
}

/// activation(x W^T + bias) in f32.
fn layer(x: &Tensor, weights: &Tensor, bias: Option<&Tensor>, activation: Option<UnaryFn>) -> Result<Tensor> {
    x.matmul_with(&weights.t()?, &MatmulOptions { bias, activation, ..MatmulOptions::default() })
}

fn try_on(device: &Device, network: &Network, test: &Part) -> Result<()> {
    let x = pictures(device, test)?;
    let bias = network.hidden.1.to_device(device)?;
    let (first, second) = (network.hidden.0.to_device(device)?, network.classes.to_device(device)?);
    let quantise = |weights: &Tensor| weights.quantize(DType::I8, Granularity::PerRow);
    let (first_i8, second_i8): (Quantized, Quantized) = (quantise(&first)?, quantise(&second)?);

    let in_f32 = || layer(&layer(&x, &first, Some(&bias), Some(UnaryFn::Relu))?, &second, None, None)?.argmax(1);
    let in_i8 = || x.linear(&first_i8, Some(&bias), Some(UnaryFn::Relu))?.linear(&second_i8, None, None)?.argmax(1);
    let (f32_time, f32_read) = timed(&in_f32)?;
    let (i8_time, i8_read) = timed(&in_i8)?;

    let right = |read: &[u32]| read.iter().zip(&test.1).filter(|(read, label)| read == label).count();
    let apart = f32_read.iter().zip(&i8_read).filter(|(a, b)| a != b).count();
    let lines = test.1.len();
    let percent = |read: &[u32]| 100.0 * right(read) as f64 / lines as f64;
    let f32_bytes = first.spec().bytes() + second.spec().bytes();
    let i8_bytes = first_i8.size_bytes() + second_i8.size_bytes();
    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    println!("  f32: {:.2} % right, {f32_bytes} bytes of weights, {f32_time:.1?}", percent(&f32_read));
    println!(
        "  i8:  {:.2} % right, {i8_bytes} bytes of weights, {i8_time:.1?}; {apart} read otherwise",
        percent(&i8_read)
    );
    for read in [&f32_read, &i8_read] {
        assert!(right(read) as f64 >= LEAST_ACCURACY * lines as f64, "{device:?} reads {} of {lines}", right(read));
    }
    assert!(apart <= MOST_APART, "{device:?}: {apart} digits are read otherwise");
    assert!(i8_bytes * 7 < f32_bytes * 2, "not nearly a quarter of the memory");
    Ok(())
}

/// The result of `work`, and the time until its result is read, of the second run.
fn timed(work: &dyn Fn() -> Result<Tensor>) -> Result<(Duration, Vec<u32>)> {
    work()?.to_vec::<u32>()?;
    let start = Instant::now();
    let result = work()?.to_vec()?;
    Ok((start.elapsed(), result))
}
