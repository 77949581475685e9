//! The CPU where memory is short: ops that need more of it to work than there is are refused, and the process lives.
//!
//! A test runs itself again with its address space limited by the shell, for only then does the system refuse what it would
//! otherwise promise.

use std::process::Command;

use polywarp_core::{DType, Device, Distribution, Error, Layout, Result, Shape, Tensor};

/// Of address space: some for the program and its threads, the rest for tensors.
const LIMIT_BYTES: u64 = 1 << 30;

#[test]
fn work_beyond_memory_is_refused_and_the_device_computes_on() {
    let program = std::env::current_exe().unwrap();
    let child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {} && exec \"$0\" \"$@\"", LIMIT_BYTES >> 10)])
        .arg(program)
        .args(["--exact", "short_memory::inside_the_limit", "--ignored", "--nocapture", "--test-threads=1"])
        // Each thread of glibc's takes address space for itself.
        .env("RAYON_NUM_THREADS", "2")
        .env("MALLOC_ARENA_MAX", "2")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{:?}: {said}", child.status);
    assert!(said.contains("1 passed"), "{said}");
}

/// Pages of the system that nobody has touched: they take address space alone.
fn untouched(device: &Device, dtype: DType, dims: &[u64]) -> Result<Tensor> {
    let layout = Layout::contiguous(Shape::new(dims)?);
    device.empty_cache();
    let buffer = device.backend().alloc(layout.elements() * dtype.size_bytes())?;
    Tensor::from_buffer(device, buffer, dtype, layout)
}

type Work = fn(&Device) -> Result<Tensor>;

#[test]
#[ignore = "needs the limit that `work_beyond_memory_is_refused_and_the_device_computes_on` sets"]
fn inside_the_limit() {
    const MI: u64 = 1 << 20;
    let works: [(&str, u64, Work); 8] = [
        ("f16 product", 512 * MI, |device| {
            let x = untouched(device, DType::F16, &[8192, 16384])?;
            x.matmul(&x.t()?)
        }),
        ("i8 product", 1024 * MI, |device| {
            let x = untouched(device, DType::I8, &[16384, 16384])?;
            x.matmul(&x.t()?)
        }),
        ("i32 product", 800 * MI, |device| {
            let x = untouched(device, DType::I32, &[200, MI])?;
            untouched(device, DType::I32, &[4, 200])?.matmul(&x)
        }),
        ("f16 random numbers", 1024 * MI, |device| {
            Tensor::random(device, DType::F16, [256 * MI], Distribution::Uniform { low: 0.0, high: 1.0 }, 1, 0)
        }),
        ("mean of i8", 2048 * MI, |device| untouched(device, DType::I8, &[256 * MI])?.mean(..)),
        ("softmax of columns", 512 * MI, |device| untouched(device, DType::F32, &[8192, 16384])?.softmax(0)),
        ("argmax of columns", 768 * MI, |device| untouched(device, DType::I8, &[1, 96 * MI])?.argmax(0)),
        ("sum of a view", 768 * MI, |device| {
            untouched(device, DType::I32, &[8192, 3, 8192])?.permute([2, 0, 1])?.sum(1)
        }),
    ];
    let device = Device::cpu();
    for (name, expected, work) in works {
        let refused = work(&device);
        match refused {
            Err(Error::OutOfMemory { requested, cached, limit: None, .. }) => {
                assert_eq!((requested, cached), (expected, 0), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(device.memory().in_use_bytes, 0, "{name}: all was given back");
        let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
        assert_eq!(x.matmul(&x).unwrap().to_vec::<f32>().unwrap(), [7.0, 10.0, 15.0, 22.0], "{name}");
    }
}
