//! Sharing a device and its buffers with an application, both ways, without a copy.

use crate::common::{self, POOREST, add_kernel, bind, bytes, download, each, entries, upload, words};
use polywarp_core::ops::Copy;
use polywarp_core::{Backend, DType, Error, Layout, Op, Shape, TensorSpec};
use polywarp_wgpu::{WgpuBackend, wgpu};

const SHARED: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// A copy of as many words, by a kernel of the library.
fn copy(words: usize) -> Op {
    let spec = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[words as u64]).unwrap()));
    Copy::new(spec, spec).unwrap().into()
}

fn application_buffer(backend: &WgpuBackend, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let descriptor = wgpu::BufferDescriptor { label: Some("theirs"), size, usage, mapped_at_creation: false };
    backend.device().create_buffer(&descriptor)
}

#[test]
fn handed_out_buffer_is_the_tensors_own_memory() {
    each(|backend| {
        let buffer = upload(backend, &[1, 2, 3, 4]);
        backend.launch(&add_kernel(10), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
        let handle = backend.buffer_handle(&buffer).unwrap();
        // The application copies out and writes in by itself.
        let theirs = application_buffer(backend, 16, SHARED);
        let mut encoder = backend.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&handle, 0, &theirs, 0, 16);
        backend.queue().submit([encoder.finish()]);
        backend.queue().write_buffer(&handle, 4, &99u32.to_le_bytes());
        assert_eq!(download(backend, &buffer), [11, 99, 13, 14]);
        let wrapped = backend.wrap(theirs).unwrap();
        assert_eq!(download(backend, &wrapped), [11, 12, 13, 14]);
    });
}

#[test]
fn wrapped_buffer_is_computed_in_place_and_never_pooled() {
    each(|backend| {
        let theirs = application_buffer(backend, 64, SHARED);
        backend.queue().write_buffer(&theirs, 0, &bytes(&[5; 16]));
        let before = backend.memory();
        let wrapped = backend.wrap(theirs.clone()).unwrap();
        assert_eq!(wrapped.size_bytes(), 64);
        backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
        assert_eq!(download(backend, &wrapped), [6; 16]);
        assert_eq!(backend.buffer_handle(&wrapped).unwrap(), theirs);
        drop(wrapped);
        assert_eq!(backend.memory(), before);
        let again = backend.wrap(theirs).unwrap();
        assert_eq!(download(backend, &again), [6; 16]);
    });
}

#[test]
fn buffers_that_cannot_be_wrapped_are_refused() {
    each(|backend| {
        let plain = application_buffer(backend, 64, wgpu::BufferUsages::STORAGE);
        match backend.wrap(plain) {
            Err(Error::InvalidArgument { what: "wgpu::Buffer", reason }) => assert!(reason.contains("COPY_SRC")),
            other => panic!("{other:?}"),
        }
        let odd = application_buffer(backend, 62, SHARED);
        assert!(matches!(backend.wrap(odd), Err(Error::InvalidArgument { .. })));
        for size in [4, 12, 20] {
            match backend.wrap(application_buffer(backend, size, SHARED)) {
                Err(Error::InvalidArgument { what: "wgpu::Buffer", reason }) => {
                    assert!(reason.contains("multiple of 16"))
                }
                other => panic!("{other:?}"),
            }
        }
        let limits = backend.info().limits;
        if limits.max_buffer_bytes > limits.max_binding_bytes && limits.max_buffer_bytes < 1 << 30 {
            let large = application_buffer(backend, limits.max_binding_bytes + 16, SHARED);
            assert!(matches!(backend.wrap(large), Err(Error::BindingTooLarge { .. })));
        }
    });
}

#[test]
fn smallest_wrapped_buffer_is_computed_by_kernels_of_the_library() {
    each(|backend| {
        for words in [4u32, 8] {
            let theirs = application_buffer(backend, 4 * u64::from(words), SHARED);
            let wrapped = backend.wrap(theirs).unwrap();
            let values: Vec<u32> = (1..=words).collect();
            backend.write(&wrapped, 0, &bytes(&values)).unwrap();
            let output = upload(backend, &vec![0; values.len()]);
            backend.execute(&copy(values.len()), &[&wrapped], &[&output]).unwrap();
            assert_eq!(download(backend, &output), values);
        }
    });
}

#[test]
fn buffer_that_the_application_destroyed_fails_its_launches_alone() {
    each(|backend| {
        let (good, output) = (upload(backend, &[7; 16]), upload(backend, &[0; 16]));
        let copied = || {
            backend.execute(&copy(16), &[&good], &[&output]).unwrap();
            assert_eq!(download(backend, &output), [7; 16]);
        };
        copied();
        let theirs = application_buffer(backend, 64, SHARED);
        let wrapped = backend.wrap(theirs.clone()).unwrap();
        theirs.destroy();
        for _ in 0..2 {
            let launched = backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &wrapped)]);
            assert!(matches!(launched, Err(Error::Backend { .. })), "{launched:?}");
            // The same parameters as those of the copy that works.
            let executed = backend.execute(&copy(16), &[&wrapped], &[&output]);
            assert!(matches!(executed, Err(Error::Backend { .. })), "{executed:?}");
            copied();
        }
    });
}

#[test]
fn mapped_buffer_is_wrapped_once_it_is_unmapped() {
    each(|backend| {
        let descriptor = wgpu::BufferDescriptor { label: None, size: 64, usage: SHARED, mapped_at_creation: true };
        let theirs = backend.device().create_buffer(&descriptor);
        match backend.wrap(theirs.clone()) {
            Err(Error::InvalidArgument { what: "wgpu::Buffer", reason }) => {
                assert!(reason.contains("mapped"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        theirs.unmap();
        let wrapped = backend.wrap(theirs.clone()).unwrap();
        backend.launch(&add_kernel(2), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
        assert_eq!(download(backend, &wrapped), [2; 16]);
        theirs.destroy();
        assert!(matches!(backend.wrap(theirs), Err(Error::InvalidArgument { what: "wgpu::Buffer", .. })));
    });
}

/// An application's buffer, wrapped and used, that it destroys or maps: what needs it fails, and nothing else.
#[test]
fn wrapped_buffer_that_is_gone_or_mapped_fails_its_calls_alone() {
    let refused = |what: &str, result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Backend { .. })), "{what}: {result:?}");
    };
    each(|backend| {
        for destroyed in [true, false] {
            let size = 1 << 17;
            let usage = if destroyed { SHARED } else { SHARED | wgpu::BufferUsages::MAP_READ };
            let features = wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
            if !destroyed && !backend.device().features().contains(features) {
                println!("NOT RUN: this device maps no buffers of kernels");
                continue;
            }
            let theirs = application_buffer(backend, size, usage);
            let wrapped = backend.wrap(theirs.clone()).unwrap();
            let good = upload(backend, &[7; 16]);
            let record = || {
                backend.begin_recording().unwrap();
                backend.launch(&add_kernel(0), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
                backend.end_recording().unwrap()
            };
            let recorded = record();
            backend.replay(&recorded).unwrap();
            backend.launch(&add_kernel(0), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
            backend.write(&wrapped, 0, &[0; 64]).unwrap();
            backend.read_blocking(&wrapped, 0..4).unwrap();
            if destroyed {
                theirs.destroy();
            } else {
                theirs.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
                backend.synchronize().unwrap();
            }
            // Work of others, recorded and not yet submitted.
            backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &good)]).unwrap();
            refused("read", backend.read_blocking(&wrapped, 0..4).map(drop));
            refused("launch", backend.launch(&add_kernel(0), [1, 1, 1], &[bind(0, &wrapped)]));
            refused("short write", backend.write(&wrapped, 0, &[0; 4]));
            refused("long write", backend.write(&wrapped, 0, &vec![0; size as usize]));
            refused("replay", backend.replay(&recorded));
            assert_eq!(download(backend, &good), [8; 16]);
            assert!(backend.wrap(theirs.clone()).is_err());
            if !destroyed {
                theirs.unmap();
                backend.launch(&add_kernel(3), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
                assert_eq!(backend.read_blocking(&wrapped, 0..4).unwrap(), [3, 0, 0, 0]);
            }
        }
    });
}

#[test]
fn buffer_of_another_device_is_refused() {
    for entry in entries() {
        let (a, b) = (entry.open(POOREST).unwrap(), entry.open(POOREST).unwrap());
        let foreign = application_buffer(&a, 64, SHARED);
        assert!(matches!(b.wrap(foreign), Err(Error::DeviceMismatch { op: "wrap", .. })));
        common::assert_alive(&b);
    }
}

#[test]
fn application_device_is_used_and_its_handlers_stay() {
    each(|own| {
        let (device, queue) = (own.device().clone(), own.queue().clone());
        let backend = WgpuBackend::from_wgpu(device, queue, "shared", Some(1 << 20)).unwrap();
        assert_eq!((backend.info().id.as_str(), backend.info().name.as_str()), ("shared", own.info().name.as_str()));
        common::assert_alive(&backend);
        assert!(matches!(backend.alloc(2 << 20), Err(Error::OutOfMemory { limit: Some(1048576), .. })));
        // Both backends on one device and one queue, taking turns on one buffer.
        let buffer = upload(own, &[1; 8]);
        let wrapped = backend.wrap(own.buffer_handle(&buffer).unwrap()).unwrap();
        backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &wrapped)]).unwrap();
        backend.flush().unwrap();
        let read = own.read_blocking(&buffer, 0..32).unwrap();
        assert_eq!(words(&read), [2; 8]);
    });
}
