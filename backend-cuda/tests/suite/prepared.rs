//! Everyday operations compile nothing: their kernels were compiled before. On the interpreted driver, which runs no machine
//! code, that they are compiled after all and give the same.

use std::time::Instant;

use crate::common;
use polywarp_core::{DType, Device, Result, Tensor};
use polywarp_cuda::CudaBackend;

/// Operations that a small program does, and what they give.
fn everyday(device: &Device) -> Result<()> {
    let x = Tensor::arange(device, DType::F32, 0, 1, 64)?.reshape([8, 8])?;
    let ones = Tensor::full(device, DType::F32, [8, 8], 1.0)?;
    assert_eq!(x.matmul(&ones)?.to_vec::<f32>()?[8], 92.0);
    assert_eq!(x.add(&ones)?.mul(&x)?.to_vec::<f32>()?[9], 90.0);
    assert_eq!(x.sum(..)?.to_vec::<f32>()?, [2016.0]);
    assert_eq!(x.sum(1)?.to_vec::<f32>()?[7], 476.0);
    assert_eq!(x.max(0)?.to_vec::<f32>()?[7], 63.0);
    assert_eq!(x.cast(DType::F16)?.relu()?.cast(DType::I32)?.to_vec::<i32>()?[63], 63);
    Ok(())
}

#[test]
fn everyday_operations_compile_nothing() {
    let Some(backend) = common::first() else { return };
    let device = Device::new(backend);
    let start = Instant::now();
    everyday(&device).unwrap();
    let backend = device.backend_as::<CudaBackend>().unwrap();
    let (prepared, loaded) = (backend.prepared_kernels(), backend.loaded_kernels());
    println!("{prepared} of {loaded} kernels were prepared; all done in {:?}", start.elapsed());
    assert!(loaded >= 7, "{loaded}");
    let info = device.info();
    let has = |name: &str| info.features.iter().any(|feature| feature == name);
    // Machine code of CUDA 13.0's assembler.
    let new_driver = info.driver.split("CUDA ").nth(1).is_some_and(|version| version >= "13");
    if common::interpreted() || has("sm_70") || has("sm_72") {
        assert_eq!(prepared, 0);
    } else if new_driver {
        assert_eq!(prepared, loaded, "a kernel was compiled that should be in the archive");
    }
}
