//! The saving by a recording: the host's time per operation, called directly and replayed.
//!
//! Run: `cargo run --release --example replay`. The device is the best one, or the one that `POLYWARP_DEVICE` names.
//! Tensors are tiny, so that the host and not the device limits the speed. The calls and the submission are timed, but
//! not the waiting for the device in between. On a device without a processor of its own (the CPU, software Vulkan) the
//! figures include the work itself.

use std::time::Instant;

use polywarp::{Result, Tensor};

/// Steps between two waits; few enough that no queue fills up.
const STEPS: u32 = 20;
const ROUNDS: u32 = 10;

/// One step of a small network and its update: a dozen operations.
fn step(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    let hidden = x.matmul(w)?.add(b)?.tanh()?;
    let scores = hidden.matmul(w)?.softmax(1)?;
    let error = scores.sub(x)?;
    let gradient = x.t()?.matmul(&error)?;
    w.assign(&w.sub(&gradient.mul_scalar(0.01)?)?)?;
    error.mul(&error)?.sum(..)
}

fn main() -> Result<()> {
    let device = polywarp::best()?;
    println!("{}: {}", device.id(), device.info().name);
    let values: Vec<f32> = (0..64).map(|i| (i % 7) as f32 * 0.1 - 0.3).collect();
    let x = Tensor::from_slice(&device, &values, [8, 8])?;
    let b = Tensor::from_slice(&device, &values[..8], [8])?;
    let weights = || Tensor::from_slice(&device, &values, [8, 8]);
    let (w, recorded_w) = (weights()?, weights()?);

    let recording = device.record(|| step(&x, &recorded_w, &b))?;
    let launches = recording.launches();

    // Both do the same number of steps from the same weights, so they must end with the same bits.
    let direct_us = host_us(&device, || step(&x, &w, &b).map(|_| ()))?;
    let replayed_us = host_us(&device, || recording.replay().map(|_| ()))?;
    assert_eq!(w.to_vec::<f32>()?, recorded_w.to_vec::<f32>()?);

    // A new input, written into the tensor that was recorded.
    x.write(&values.iter().map(|v| v * 0.5).collect::<Vec<f32>>())?;
    let direct = step(&x, &w, &b)?.item::<f32>()?;
    assert_eq!(recording.replay()?.item::<f32>()?, direct);

    println!("one step is {launches} launches; error after {} steps: {direct}", STEPS * ROUNDS + 2);
    let per = |us: f64| us / launches as f64;
    println!("direct:   {direct_us:8.2} us per step, {:6.3} us per launch", per(direct_us));
    println!("replayed: {replayed_us:8.2} us per step, {:6.3} us per launch", per(replayed_us));
    println!("a replay takes the host {:.1} times less", direct_us / replayed_us);
    Ok(())
}

/// The host's time per call in the best of several rounds: the first compiles kernels and fills the pool.
fn host_us(device: &polywarp::Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..STEPS {
            work()?;
        }
        device.backend().flush()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(STEPS));
    }
    Ok(best)
}
