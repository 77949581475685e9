//! One kernel, the textbook's `multiply_them`, in every form of kernels that the library runs: WGSL, SPIR-V, PTX, CUDA
//! C++ and, where the command names a file, machine code. Each form runs on every device that supports it; the values
//! are compared, and forms left out are printed with the reason.
//!
//! Run: `cargo run --example multiply_them [FILE.cubin]`. The sources are in `examples/shaders`. CUDA C++ needs NVRTC.

use polywarp::{Binding, DType, Device, DeviceKind, Error, Kernel, Signature, Tensor};

const N: usize = 10_000;
/// Threads of a block, for every form.
const BLOCK: u32 = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let a: Vec<f32> = (0..N).map(|i| i as f32 / 7.0 - 500.0).collect();
    let b: Vec<f32> = (0..N).map(|i| 1.5 + (i % 100) as f32).collect();
    // A single multiplication is rounded the same way everywhere.
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * b).collect();

    // __global__ void multiply_them(float *dest, const float *a, const float *b, unsigned n)
    let signature = || Signature::new([BLOCK, 1, 1]).writes(0).reads(1).reads(2).value(N as u32);
    let mut forms = vec![
        Kernel::wgsl(include_str!("shaders/multiply_them.wgsl")),
        Kernel::spirv(&include_bytes!("shaders/multiply_them.spv")[..]),
        Kernel::ptx_unchecked(include_str!("shaders/multiply_them.ptx"), signature()),
        Kernel::cuda_cpp_unchecked(include_str!("shaders/multiply_them.cu"), signature()).entry("multiply_them"),
    ];
    if let Some(file) = std::env::args_os().nth(1) {
        forms.push(Kernel::cubin_unchecked(std::fs::read(file)?, signature()).entry("multiply_them"));
    }
    let mut ran = 0;
    for entry in polywarp::devices().into_iter().filter(|entry| entry.unusable.is_none()) {
        let device = entry.open()?;
        for kernel in &forms {
            let (id, form) = (&entry.id, kernel.form());
            match multiply(&device, kernel, &a, &b) {
                Ok(values) => {
                    assert_eq!(values, expected, "{id}: {form} multiplied wrongly");
                    println!("{id} ({}, {}): {form}: {N} products, all right", entry.name, entry.api);
                    ran += 1;
                }
                Err(error @ (Error::Unsupported { .. } | Error::BackendUnavailable { .. })) => {
                    assert!(form != "WGSL" || entry.kind == DeviceKind::Cpu, "{error}: every GPU runs WGSL");
                    println!("{id}: {form} left out: {error}");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    println!("{ran} runs of {} forms", forms.len());
    Ok(())
}

/// The products of `a` and `b`, by `kernel`.
fn multiply(device: &Device, kernel: &Kernel, a: &[f32], b: &[f32]) -> polywarp::Result<Vec<f32>> {
    let count = a.len() as u64;
    let (a, b) = (Tensor::from_slice(device, a, [count])?, Tensor::from_slice(device, b, [count])?);
    let dest = Tensor::zeros(device, DType::F32, [count])?;
    let bind = |binding: u32, tensor: &Tensor| Binding {
        group: 0,
        binding,
        buffer: tensor.buffer().clone(),
        range: 0..tensor.elements() * tensor.dtype().size_bytes(),
    };
    let blocks = a.elements().div_ceil(u64::from(BLOCK)) as u32;
    device.backend().launch(kernel, [blocks, 1, 1], &[bind(0, &dest), bind(1, &a), bind(2, &b)])?;
    dest.to_vec()
}
