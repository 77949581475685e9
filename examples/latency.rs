//! The cost of the first result and of a call: time from the start of the process until a first 1024 x 1024 product is
//! read back, and host time per operation in a chain of thousands.
//!
//! Run: `cargo run --release --example latency`. The device is the best one, or the one that `POLYWARP_DEVICE` names.

use std::time::Instant;

use polywarp::{DType, Distribution, Tensor};

fn main() -> polywarp::Result<()> {
    let start = Instant::now();
    let device = polywarp::best()?;
    let opened = start.elapsed();
    let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
    let a = Tensor::random(&device, DType::F32, [1024, 1024], uniform, 1, 0)?;
    let b = Tensor::random(&device, DType::F32, [1024, 1024], uniform, 2, 0)?;
    let c = a.matmul(&b)?.to_vec::<f32>()?;
    let first = start.elapsed();
    assert!(c.iter().all(|x| x.is_finite()));
    println!("{}: {}", device.id(), device.info().name);
    println!("device open after {:.0} ms, first 1024^3 product read back after {:.0} ms", ms(opened), ms(first));

    // Small operands, so that the host and not the device limits the speed.
    let one = Tensor::full(&device, DType::F32, [1024], 1.0)?;
    let mut sum = Tensor::zeros(&device, DType::F32, [1024])?;
    let chain = |sum: &mut Tensor, count: u32| -> polywarp::Result<f64> {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            *sum = sum.add(&one)?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(count))
    };
    chain(&mut sum, 1000)?;
    let per_call_us = chain(&mut sum, 9000)?;
    assert_eq!(sum.to_vec::<f32>()?[1023], 10_000.0);
    println!("host time per chained operation: {per_call_us:.2} us");
    Ok(())
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
