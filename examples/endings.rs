//! What it costs to end a product with a bias, an activation or another matrix, beside the bare product.
//!
//! The shapes are the four products of a transformer's layer that is WIDTH wide, for ROWS tokens: from WIDTH to three times as many
//! columns (queries, keys and values), to as many, to four times as many, and back from those; in bf16, and in f32 at each
//! precision. Each way is compared with the same steps as operations of their own, then recorded several times in a row and
//! replayed, timed on the device's clock.
//!
//! Run: `cargo run --release --example endings -- [ROWS WIDTH]`, for BERT-base with 32 texts `4096 768`; the default is 32 and 64.
//! The device is the best one, or the one that `POLYWARP_DEVICE` names.

use polywarp::{DType, Device, Distribution, MatmulOptions, Precision, Result, Tensor, UnaryFn};

/// Products in one recording.
const TIMES: u32 = 20;
const ROUNDS: u32 = 5;

/// What is measured, and how far a way may be from the same steps one by one. These round to bf16 up to three times more, by up to
/// 1/32 below 16, which results are; at `Medium` another kernel may round each factor, to 11 bits, at another place.
const KINDS: [(DType, Precision, f64); 4] = [
    (DType::BF16, Precision::Highest, 0.13),
    (DType::F32, Precision::Highest, 1e-3),
    (DType::F32, Precision::High, 1e-3),
    (DType::F32, Precision::Medium, 0.05),
];

fn main() -> Result<()> {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [rows, width] = if let [rows, width] = arguments[..] { [rows, width] } else { [32, 64] };
    let device = polywarp::best()?;
    KINDS.into_iter().try_for_each(|kind| measure(&device, [rows, width], kind))
}

fn measure(
    device: &Device,
    [rows, width]: [u64; 2],
    (dtype, precision, tolerance): (DType, Precision, f64),
) -> Result<()> {
    let info = device.info();
    println!("{} ({}, {}): us of one product of {rows} rows, {dtype}, {precision:?}", device.id(), info.name, info.api);
    println!("  {:<14} {:>8} {:>8} {:>8} {:>8} {:>8}", "n x k", "bare", "bias", "relu", "gelu", "C");
    for [n, k] in [[3, 1], [1, 1], [4, 1], [1, 4]].map(|ratio| ratio.map(|part| part * width)) {
        let normal = |shape: [u64; 2], std: f32, stream| {
            Tensor::random(device, dtype, shape, Distribution::Normal { mean: 0.0, std }, 5, stream)
        };
        let (a, c) = (normal([rows, k], 1.0, 0)?, normal([rows, n], 1.0, 1)?);
        // As a layer's weights lie: a row for each result.
        let b = normal([n, k], (k as f32).powf(-0.5), 2)?.t()?;
        let bias = normal([1, n], 1.0, 3)?.reshape([n])?;
        let bare = MatmulOptions { precision, ..MatmulOptions::default() };
        let with_bias = MatmulOptions { bias: Some(&bias), ..bare.clone() };
        let with = |activation| MatmulOptions { activation: Some(activation), ..with_bias.clone() };
        let with_c = MatmulOptions { add: Some((&c, 1.0)), ..with_bias.clone() };
        let sums = a.matmul_with(&b, &bare)?;
        let biased = sums.add(&bias)?;
        let ways = [
            (&bare, sums.clone()),
            (&with_bias, biased.clone()),
            (&with(UnaryFn::Relu), biased.relu()?),
            (&with(UnaryFn::Gelu), biased.gelu()?),
            (&with_c, biased.add(&c)?),
        ];
        print!("  {:<14}", format!("{n} x {k}"));
        for (options, composed) in ways {
            let off = a.matmul_with(&b, options)?.sub(&composed)?.abs()?.max(..)?.to_f64_vec()?[0];
            assert!(off <= tolerance, "{n} x {k}, {options:?}: {off} off");
            print!(" {:>8.2}", product_us(device, &a, &b, options)?);
        }
        println!();
    }
    Ok(())
}

/// The device's time for one product, the best of several replays.
fn product_us(device: &Device, a: &Tensor, b: &Tensor, options: &MatmulOptions) -> Result<f64> {
    let recording = device.record(|| (0..TIMES).try_for_each(|_| a.matmul_with(b, options).map(drop)))?;
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        best_ns = best_ns.min(device.backend().timed(&mut || recording.replay().map(drop))?.ns);
    }
    Ok(best_ns / 1e3 / f64::from(TIMES))
}
