//! Recording and replaying on every adapter, rich and poor: the harness's table, and what only this backend promises.

use crate::common::{self, POOREST, add_kernel, bind, entries, entries_of_today, upload};
use polywarp_core::harness::recording;
use polywarp_core::ops::Copy;
use polywarp_core::plan::Slot;
use polywarp_core::{Backend, DType, Device, Error, Op, Tensor};
use polywarp_wgpu::{Options, WgpuBackend};

fn each(test: impl Fn(&Device, &WgpuBackend)) {
    for entry in entries_of_today() {
        for options in [Options::default(), POOREST] {
            let device = Device::new(entry.open(options).expect("open"));
            println!("{device:?} with {options:?}");
            test(&device, device.backend_as::<WgpuBackend>().expect("wgpu"));
        }
    }
}

#[test]
fn every_adapter_replays_what_it_recorded() {
    each(|device, _| {
        let rows = recording::run(device);
        common::assert_rows(device.id(), &rows, 20);
    });
}

#[test]
fn intermediates_of_a_recording_share_memory() {
    each(|device, _| {
        let x = Tensor::zeros(device, DType::F32, [1 << 16]).unwrap();
        let before = device.memory().in_use_bytes;
        let recording = device.record(|| (0..50).try_fold(x.clone(), |sum, _| sum.add_scalar(1.0))).unwrap();
        let held = device.memory().in_use_bytes - before;
        // Two buffers of 256 KiB; 50 slots of parameters of at most 256 bytes.
        assert!(held <= 2 * 4 * (1 << 16) + 50 * 256 + 4096, "{held} bytes");
        assert_eq!(recording.replay().unwrap().to_vec::<f32>().unwrap()[65535], 50.0);
    });
}

#[test]
fn replays_compile_and_allocate_nothing() {
    each(|device, backend| {
        let x = Tensor::full(device, DType::F32, [64, 64], 0.5).unwrap();
        let recording = device.record(|| x.matmul(&x)?.softmax(1)?.sum(..)).unwrap();
        let want = recording.replay().unwrap().to_vec::<f32>().unwrap();
        let (kernels, memory) = (backend.compiled_kernels(), backend.memory());
        for _ in 0..50 {
            recording.replay().unwrap();
        }
        assert_eq!(recording.outputs().to_vec::<f32>().unwrap(), want);
        assert_eq!((backend.compiled_kernels(), backend.memory()), (kernels, memory));
    });
}

#[test]
fn replays_gather_in_few_submissions() {
    each(|device, backend| {
        let x = Tensor::zeros(device, DType::U32, [4]).unwrap();
        let step = device.record(|| x.assign(&x.add_scalar(1)?)).unwrap();
        device.synchronize().unwrap();
        let before = backend.submissions();
        (0..200).for_each(|_| {
            step.replay().unwrap();
        });
        device.synchronize().unwrap();
        let made = backend.submissions() - before;
        // Time alone submits: a debug build on a busy machine needs many times the 500 us that one submission gathers.
        assert!(made < 100, "{made} submissions for 200 replays");
        assert_eq!(x.to_vec::<u32>().unwrap(), [200; 4]);
    });
}

#[test]
fn long_recording_over_large_buffers_is_submitted_in_parts() {
    let device = Device::new(entries()[0].open(Options::default()).expect("open"));
    let backend = device.backend_as::<WgpuBackend>().expect("wgpu");
    // 2 x 16 MiB bound per launch: over 256 MiB after nine launches.
    let x = Tensor::zeros(&device, DType::U32, [4 << 20]).unwrap();
    let chain = device.record(|| (0..20).try_fold(x.clone(), |sum, _| sum.add_scalar(1))).unwrap();
    device.synchronize().unwrap();
    let before = backend.submissions();
    chain.replay().unwrap();
    // In the middle of the recording the first input changes only for the next replay.
    x.slice(0, 0..1).unwrap().write(&[5u32]).unwrap();
    assert!(backend.submissions() - before >= 2);
    assert_eq!(chain.outputs().slice(0, 0..2).unwrap().to_vec::<u32>().unwrap(), [20, 20]);
    assert_eq!(chain.replay().unwrap().slice(0, 0..2).unwrap().to_vec::<u32>().unwrap(), [25, 20]);
}

#[test]
fn out_of_memory_inside_or_at_the_end_leaves_the_device_usable() {
    each(|device, backend| {
        let x = Tensor::full(device, DType::F32, [1000], 1.0).unwrap();
        // What a device's first recording takes for good.
        device.record(|| x.exp()).unwrap();
        backend.empty_cache();
        let before = backend.memory().in_use_bytes;
        // Two failures: the first is followed by a second attempt.
        backend.inject_out_of_memory(2);
        let inside = device.record(|| x.exp());
        assert!(matches!(inside, Err(Error::OutOfMemory { .. })), "{inside:?}");
        let at_the_end = device.record(|| {
            let y = x.exp()?;
            backend.inject_out_of_memory(2);
            Ok(y)
        });
        assert!(matches!(at_the_end, Err(Error::OutOfMemory { .. })), "{at_the_end:?}");
        backend.inject_out_of_memory(0);
        assert_eq!(backend.memory().in_use_bytes, before);
        let recording = device.record(|| x.add_scalar(1.0)).unwrap();
        assert_eq!(recording.replay().unwrap().to_vec::<f32>().unwrap(), [2.0; 1000]);
    });
}

#[test]
fn users_and_library_kernels_alternate_in_a_recording() {
    each(|device, backend| {
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
        assert_eq!(recording.launches(), 9);
        let mut want = [1u32, 2, 3, 4];
        for _ in 0..3 {
            (0..3).for_each(|_| want = want.map(|w| 2 * (w + 10)));
            recording.replay().unwrap();
        }
        assert_eq!(x.to_vec::<u32>().unwrap(), want);
    });
}

#[test]
fn plan_that_fails_half_way_is_not_recorded() {
    each(|device, backend| {
        let x = Tensor::full(device, DType::F32, [10], 1.0).unwrap();
        let y = Tensor::full(device, DType::F32, [10], 0.0).unwrap();
        let op = Op::from(Copy::new(x.spec(), y.spec()).unwrap());
        let mut plan = polywarp_core::ops::plan(&op, backend.caps()).unwrap();
        let mut wrong = plan.launches[0].clone();
        wrong.bindings[0] = Slot::Input(9);
        plan.launches.push(wrong);
        let recording = device
            .record(|| {
                x.assign(&x.add_scalar(1.0)?)?;
                let error = backend.run_plan(&plan, &[x.buffer()], &[y.buffer()]);
                assert!(matches!(error, Err(Error::InvalidArgument { what: "plan", .. })), "{error:?}");
                x.assign(&x.mul_scalar(3.0)?)
            })
            .unwrap();
        assert_eq!(recording.launches(), 4);
        recording.replay().unwrap();
        assert_eq!((x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap()), (vec![6.0; 10], vec![0.0; 10]));
    });
}

#[test]
fn recording_of_another_device_is_refused() {
    let (a, b) = (common::first(), Device::new(common::first()));
    let x = Tensor::full(&b, DType::F32, [10], 1.0).unwrap();
    b.backend().begin_recording().unwrap();
    let _y = x.add_scalar(1.0).unwrap();
    let recorded = b.backend().end_recording().unwrap();
    let error = a.replay(&recorded).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { op: "replay", .. }), "{error}");
    b.backend().replay(&recorded).unwrap();
    b.backend().begin_recording().unwrap();
    let nothing = b.backend().end_recording().unwrap();
    assert!(matches!(a.replay(&nothing), Err(Error::DeviceMismatch { .. })));
}
