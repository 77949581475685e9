//! Quantised layers beside f16 ones on this machine's card: what each part costs.
//!
//! ```text
//! cargo run --release -p polywarp-cuda --example quantised_layers -- 4096x4096x4096 16x4096x4096
//! ```
//!
//! Activations [m, k] and weights [n, k] are f16; i8 ones have scales per row, or per tensor where that is said. A sample is
//! a recording of calls that rotate through more weights and activations than twice the card's cache, timed by the card; the
//! ways take turns, and the median of their samples counts. The error is that of the whole quantised layer,
//! relative to the f16 layer's values (root mean square). Exit code 1 when it is beyond what 127 steps explain.

use std::process::ExitCode;

use polywarp_core::{
    DType, Device, Distribution, Granularity, MatmulOptions, Quantized, Recording, Result, Tensor, UnaryFn,
};
use polywarp_cuda::{Options, cards};

/// Samples per way.
const ROUNDS: usize = 9;
/// What operands are rotated through at least: twice the H200's second-level cache.
const ROTATED_BYTES: u64 = 100 << 20;
const MOST_SETS: u64 = 64;
/// Calls in one sample at least.
const LEAST_CALLS: usize = 20;
/// Relative error that 127 steps on both factors explain with room (about 1 % each, uniform in a normal distribution's range).
const MOST_ERROR: f32 = 0.03;

/// One set of operands.
struct Set {
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    /// Quantised per row.
    x_rows: Quantized,
    w_rows: Quantized,
    /// Quantised per tensor.
    x_tensor: Quantized,
    w_tensor: Quantized,
}

impl Set {
    fn new(device: &Device, [m, n, k]: [u64; 3], seed: u64) -> Result<Set> {
        let normal = |shape: [u64; 2], std, stream| {
            Tensor::random(device, DType::F16, shape, Distribution::Normal { mean: 0.0, std }, seed, stream)
        };
        let (x, w) = (normal([m, k], 1.0, 0)?, normal([n, k], (k as f32).sqrt().recip(), 1)?);
        let bias = normal([1, n], 1.0, 2)?.reshape([n])?;
        Ok(Set {
            x_rows: x.quantize(DType::I8, Granularity::PerRow)?,
            w_rows: w.quantize(DType::I8, Granularity::PerRow)?,
            x_tensor: x.quantize(DType::I8, Granularity::PerTensor)?,
            w_tensor: w.quantize(DType::I8, Granularity::PerTensor)?,
            x,
            w,
            bias,
        })
    }

    fn f16_layer(&self) -> Result<Tensor> {
        let (bias, activation) = (Some(&self.bias), Some(UnaryFn::Gelu));
        self.x.matmul_with(&self.w.t()?, &MatmulOptions { bias, activation, ..MatmulOptions::default() })
    }

    fn i8_layer(&self) -> Result<Tensor> {
        self.x.linear(&self.w_rows, Some(&self.bias), Some(UnaryFn::Gelu))
    }
}

type Way = (&'static str, fn(&Set) -> Result<Tensor>);

const TO_F16: MatmulOptions<'static> = MatmulOptions {
    alpha: 1.0,
    add: None,
    bias: None,
    activation: None,
    precision: polywarp_core::Precision::Highest,
    output: Some(DType::F16),
    scale_a: None,
    scale_b: None,
    scale_blocks: None,
};

const WAYS: &[Way] = &[
    ("f16 product", |set| set.x.matmul(&set.w.t()?)),
    ("i8 product to i32", |set| set.x_rows.values().matmul(&set.w_rows.values().t()?)),
    ("i8 product per row to f16", |set| set.x_rows.matmul(&set.w_rows.t()?, &TO_F16)),
    ("i8 product per tensor to f16", |set| set.x_tensor.matmul(&set.w_tensor.t()?, &TO_F16)),
    ("activations to i8 per row", |set| Ok(set.x.quantize(DType::I8, Granularity::PerRow)?.values().clone())),
    ("f16 layer: product, bias, gelu", Set::f16_layer),
    ("i8 layer: to i8, product, scales, bias, gelu", Set::i8_layer),
];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> std::result::Result<bool, Box<dyn std::error::Error>> {
    let card = cards()?.into_iter().find(|card| card.unusable.is_none()).ok_or("no usable card")?;
    let device = Device::new(card.open(Options::default())?);
    println!("{}, driver {}", device.info().name, device.info().driver);
    let mut right = true;
    for shape in std::env::args().skip(1) {
        let numbers = shape.split('x').map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
        let [m, n, k] = numbers[..] else { return Err(format!("{shape} is not MxNxK").into()) };
        right &= layers(&device, [m, n, k])?;
    }
    Ok(right)
}

fn layers(device: &Device, dims: [u64; 3]) -> Result<bool> {
    let [m, n, k] = dims;
    let sets = ROTATED_BYTES.div_ceil((m + n) * k).clamp(2, MOST_SETS);
    let sets = (0..sets).map(|seed| Set::new(device, dims, seed)).collect::<Result<Vec<Set>>>()?;
    let calls = LEAST_CALLS.next_multiple_of(sets.len());
    let mut recordings: Vec<(&str, Recording<()>)> = Vec::new();
    for (name, way) in WAYS {
        // Kernels are chosen and compiled first: a recording tries nothing.
        way(&sets[0])?;
        let all = || (0..calls).try_for_each(|call| way(&sets[call % sets.len()]).map(|_| ()));
        recordings.push((name, device.record(all)?));
    }
    let mut samples = vec![Vec::new(); recordings.len()];
    for round in 0..=ROUNDS {
        for ((_, recording), samples) in recordings.iter().zip(&mut samples) {
            let elapsed = device.backend().timed(&mut || recording.replay().map(|_| ()))?;
            // The first of each warms up.
            if round > 0 {
                samples.push(elapsed.ns / 1e3 / calls as f64);
            }
        }
    }
    println!("{m} x {n} x {k}, {} sets of operands", sets.len());
    for ((name, _), mut samples) in recordings.into_iter().zip(samples) {
        samples.sort_by(f64::total_cmp);
        let us = samples[samples.len() / 2];
        let rate = 2e-6 * (m * n * k) as f64 / us;
        println!("  {name:46} {us:9.2} us  {rate:7.1} T/s  ({:.2} to {:.2})", samples[0], samples[samples.len() - 1]);
    }
    let error = error_of(&sets[0])?;
    println!("  error of the i8 layer, relative to the f16 layer: {error:.4}");
    Ok(error <= MOST_ERROR)
}

/// Root mean square of the difference, relative to that of the f16 layer.
fn error_of(set: &Set) -> Result<f32> {
    let (want, got) = (set.f16_layer()?.cast(DType::F32)?, set.i8_layer()?.cast(DType::F32)?);
    let square = |x: &Tensor| x.mul(x)?.mean(..)?.item::<f32>();
    Ok((square(&want.sub(&got)?)? / square(&want)?).sqrt())
}
