//! Nothing but the driver: after kernels were compiled and run, no library of the CUDA toolkit is in this process.
//! How to see the same from outside: docs/driver-only.md.

#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeSet;

use common::{add_kernel, bind, download, upload};
use polywarp_core::{Backend, DType, Device, Tensor};
use polywarp_cuda::CudaBackend;

/// Beginnings of the toolkit's libraries (CUDA toolkit 13.0, `lib64`), and of those that come with frameworks.
const TOOLKIT: [&str; 16] = [
    "libcudart",
    "libnvrtc",
    "libnvvm",
    "libnvJitLink",
    "libnvptxcompiler",
    "libnvfatbin",
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnpp",
    "libcupti",
    "libnccl",
    "libcutensor",
];

/// Files of libraries that are mapped into this process.
fn mapped() -> BTreeSet<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the process's own map");
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let files = paths.filter_map(|path| path.rsplit('/').next()).filter(|file| file.contains(".so"));
    files.map(str::to_owned).collect()
}

#[test]
fn kernels_run_with_no_library_but_the_drivers() {
    let Some(backend) = common::first() else { return };
    let device = Device::new(backend);
    let backend = device.backend_as::<CudaBackend>().expect("cuda");
    // Prepared and compiled kernels of the library, and a user's.
    let n = common::scaled(1024, 48) as u64;
    let x = Tensor::full(&device, DType::F32, [n, n], 0.5).unwrap();
    let product = x.matmul(&x.exp().unwrap()).unwrap().softmax(1).unwrap().sum(..).unwrap();
    assert!((product.item::<f32>().unwrap() - n as f32).abs() < 1e-2 * n as f32);
    let words = upload(backend, &[1, 2, 3]);
    backend.launch(&add_kernel(41), [1, 1, 1], &[bind(0, &words)]).unwrap();
    assert_eq!(download(backend, &words), [42, 43, 44]);

    let libraries = mapped();
    println!("libraries of this process: {libraries:?}");
    let driver = if common::interpreted() { "libinterpreted_cuda.so" } else { "libcuda.so" };
    assert!(libraries.iter().any(|file| file.starts_with(driver)), "{driver} is not mapped: {libraries:?}");
    let toolkit: Vec<&String> =
        libraries.iter().filter(|file| TOOLKIT.iter().any(|name| file.starts_with(name))).collect();
    assert!(toolkit.is_empty(), "libraries of the CUDA toolkit: {toolkit:?}");
}
