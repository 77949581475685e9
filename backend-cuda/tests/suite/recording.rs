//! Recording on CUDA: what only this backend promises. The harness's table is in `tests/conformance.rs`.

use crate::common::{self, add_kernel, bind, first, upload};
use polywarp_core::{Backend, DType, Device, Error, Tensor};
use polywarp_cuda::CudaBackend;

fn on_device(test: impl FnOnce(&Device, &CudaBackend)) {
    let Some(backend) = first() else { return };
    let device = Device::new(backend);
    test(&device, device.backend_as::<CudaBackend>().expect("cuda"));
}

#[test]
fn intermediates_of_a_recording_share_memory() {
    on_device(|device, _| {
        let x = Tensor::zeros(device, DType::F32, [1 << 16]).unwrap();
        // A device's first recording makes the words for positions outside, which stay the device's.
        device.record(|| x.add_scalar(1.0)).unwrap();
        let before = device.memory().in_use_bytes;
        let recording = device.record(|| (0..50).try_fold(x.clone(), |sum, _| sum.add_scalar(1.0))).unwrap();
        let held = device.memory().in_use_bytes - before;
        assert!(held <= 2 * 4 * (1 << 16), "{held} bytes");
        assert_eq!(recording.replay().unwrap().to_vec::<f32>().unwrap()[65535], 50.0);
        drop(recording);
        assert_eq!(device.memory().in_use_bytes, before);
    });
}

#[test]
fn replays_compile_and_allocate_nothing() {
    on_device(|device, backend| {
        let x = Tensor::full(device, DType::F32, [64, 64], 0.5).unwrap();
        let recording = device.record(|| x.matmul(&x)?.softmax(1)?.sum(..)).unwrap();
        let want = recording.replay().unwrap().to_vec::<f32>().unwrap();
        let (kernels, memory) = (backend.loaded_kernels(), backend.memory());
        for _ in 0..50 {
            recording.replay().unwrap();
        }
        assert_eq!(recording.outputs().to_vec::<f32>().unwrap(), want);
        assert_eq!((backend.loaded_kernels(), backend.memory()), (kernels, memory));
    });
}

#[test]
fn recording_dropped_while_it_runs_is_harmless() {
    on_device(|device, _| {
        let len = common::scaled(1 << 22, 1 << 10) as u64;
        let x = Tensor::zeros(device, DType::U32, [len]).unwrap();
        for round in 1..=20u32 {
            let step = device.record(|| (0..20).try_for_each(|_| x.assign(&x.add_scalar(1)?))).unwrap();
            step.replay().unwrap();
            drop(step);
            // Takes the memory that the replay still uses, if the pool hands it out too early.
            let other = Tensor::full(device, DType::U32, [len], 7).unwrap();
            drop(other);
            assert_eq!(x.slice(0, 0..1).unwrap().to_vec::<u32>().unwrap(), [20 * round]);
        }
    });
}

#[test]
fn out_of_memory_inside_leaves_the_device_usable() {
    on_device(|device, backend| {
        let x = Tensor::full(device, DType::F32, [1000], 1.0).unwrap();
        backend.empty_cache();
        let before = backend.memory().in_use_bytes;
        // Two failures: the first is followed by a second attempt.
        backend.inject_out_of_memory(2);
        let inside = device.record(|| x.exp());
        assert!(matches!(inside, Err(Error::OutOfMemory { .. })), "{inside:?}");
        backend.inject_out_of_memory(0);
        assert_eq!(backend.memory().in_use_bytes, before);
        let recording = device.record(|| x.add_scalar(1.0)).unwrap();
        assert_eq!(recording.replay().unwrap().to_vec::<f32>().unwrap(), [2.0; 1000]);
    });
}

#[test]
fn users_and_library_kernels_alternate_in_a_recording() {
    on_device(|device, backend| {
        let buffer = upload(backend, &[1, 2, 3, 4]);
        let layout = *Tensor::zeros(device, DType::U32, [4]).unwrap().layout();
        let x = Tensor::from_buffer(device, buffer.clone(), DType::U32, layout).unwrap();
        let recording = device
            .record(|| {
                for _ in 0..3 {
                    backend.launch(&add_kernel(10), [1, 1, 1], &[bind(0, &buffer)])?;
                    x.assign(&x.add(&x)?)?;
                }
                Ok(())
            })
            .unwrap();
        let mut want = [1u32, 2, 3, 4];
        for _ in 0..3 {
            (0..3).for_each(|_| want = want.map(|w| 2 * (w + 10)));
            recording.replay().unwrap();
        }
        assert_eq!(x.to_vec::<u32>().unwrap(), want);
    });
}
