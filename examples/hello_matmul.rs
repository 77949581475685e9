//! The README's example: a matrix product on the best device of this machine.
//!
//! Run: `cargo run --example hello_matmul`. Next: `custom_kernel.rs` for shaders of your own.

use polywarp::Tensor;

fn main() -> polywarp::Result<()> {
    let device = polywarp::best()?;
    let a = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    let b = Tensor::from_slice(&device, &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
    let c = a.matmul(&b)?.relu()?; // nothing waits until the result is read
    println!("{} gives {:?}", device.info().name, c.to_vec::<f32>()?);
    assert_eq!(c.to_vec::<f32>()?, [4.0, 5.0, 10.0, 11.0]);
    Ok(())
}
