//! A compute shader of your own: the WGSL in `shaders/histogram.wgsl`, run unchanged on every GPU of this machine.
//!
//! Tensors supply the memory, [`Kernel`] the shader, [`Backend::launch`](polywarp::Backend::launch) runs it in order
//! with everything else on the device. Run: `cargo run --example custom_kernel`.

use polywarp::{Binding, DType, Device, DeviceKind, Kernel, Tensor};

/// The values to count: 0 to 63.
const BINS: usize = 64;
const VALUES: usize = 100_000;

fn main() -> polywarp::Result<()> {
    // The middle bits of Weyl's sequence: spread over all bins, but not evenly.
    let values: Vec<u32> = (0..VALUES as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 20) % 81).collect();
    let mut expected = vec![0u32; BINS];
    for &value in values.iter().filter(|&&value| value < BINS as u32) {
        expected[value as usize] += 1;
    }

    let routes = polywarp::devices();
    let gpus = routes.iter().filter(|entry| entry.unusable.is_none() && entry.kind != DeviceKind::Cpu);
    for entry in gpus.clone() {
        let counts = histogram(&entry.open()?, &values)?;
        assert_eq!(counts, expected, "{} counted wrongly", entry.id);
        println!("{} ({}, {}): {VALUES} values counted into {BINS} bins, all right", entry.id, entry.name, entry.api);
    }
    println!("GPU devices: {}", gpus.count());
    Ok(())
}

/// The number of times that each of 0..BINS occurs in `values`.
fn histogram(device: &Device, values: &[u32]) -> polywarp::Result<Vec<u32>> {
    let values = Tensor::from_slice(device, values, [values.len() as u64])?;
    let bins = Tensor::zeros(device, DType::U32, [BINS as u64])?;
    let kernel = Kernel::wgsl(include_str!("shaders/histogram.wgsl")).define("BINS", BINS as f64);
    device.backend().launch(&kernel, [32, 1, 1], &[bind(0, &values), bind(1, &bins)])?;
    bins.to_vec()
}

/// Binds exactly the elements of `tensor` at `@group(0) @binding(binding)`, so that `arrayLength` is its element count.
fn bind(binding: u32, tensor: &Tensor) -> Binding {
    let bytes = tensor.elements() * tensor.dtype().size_bytes();
    Binding { group: 0, binding, buffer: tensor.buffer().clone(), range: 0..bytes }
}
