//! The best score of each query among many keys, without the matrix of all scores.
//!
//! Queries and keys are rows of f16; a score is their inner product. [`polywarp::Tensor::matmul_reduce`] stores only
//! the best score of each query, where `matmul_with` and `max` write all scores and read them again. Both are run on
//! every device of the machine, must agree, and are timed on the device's clock.
//!
//! Run: `cargo run --release --example best_match -- [QUERIES KEYS WIDTH]`; the default is 512 4096 64.

use polywarp::{DType, Device, Distribution, MatmulOptions, ReduceFn, Result, Tensor};

/// The sums in f32 add the same products in different orders: this is far more than they can differ by.
const TOLERANCE: f32 = 1e-3;
const REPETITIONS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [queries, keys, width] = if let [q, k, w] = arguments[..] { [q, k, w] } else { [512, 4096, 64] };
    println!("{queries} queries, {keys} keys of {width} numbers; all scores: {} bytes", 4 * queries * keys);
    for entry in polywarp::devices() {
        match &entry.unusable {
            None => search(&entry.open()?, [queries, keys, width])?,
            Some(reason) => println!("{}: {reason}", entry.id),
        }
    }
    Ok(())
}

fn search(device: &Device, [queries, keys, width]: [u64; 3]) -> Result<()> {
    let rows = |count, stream| {
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        Tensor::random(device, DType::F16, [count, width], normal, 7, stream)
    };
    let (queries, keys) = (rows(queries, 0)?, rows(keys, 1)?.t()?);
    let sums = MatmulOptions { output: Some(DType::F32), ..MatmulOptions::default() };
    let kept = || queries.matmul_with(&keys, &sums)?.max(1);
    let reduced = || queries.matmul_reduce(&keys, &MatmulOptions::default(), ReduceFn::Max, 1);

    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    let best = measured(device, "matmul_reduce", &reduced)?;
    let same = measured(device, "matmul_with, max", &kept)?;
    let apart = best.iter().zip(&same).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(apart <= TOLERANCE, "{device:?}: they differ by {apart}");
    Ok(())
}

/// Runs `work`, prints its best time of several runs, and returns its result.
fn measured(device: &Device, name: &str, work: &dyn Fn() -> Result<Tensor>) -> Result<Vec<f32>> {
    // The first run compiles and chooses the kernels, so it is not timed.
    let result = work()?.to_vec()?;
    let mut best_ns = f64::INFINITY;
    for _ in 0..REPETITIONS {
        best_ns = best_ns.min(device.backend().timed(&mut || work().map(drop))?.ns);
    }
    println!("  {name:<17} {:>10.1} us", best_ns / 1e3);
    Ok(result)
}
