//! Sharing a device and its buffers with an application, both ways, without a copy.

mod common;

use common::{POOREST, add_kernel, bind, bytes, download, each, entries, upload, words};
use polywarp_core::{Backend, Error};
use polywarp_wgpu::{WgpuBackend, wgpu};

const SHARED: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

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
        let limits = backend.info().limits;
        if limits.max_buffer_bytes > limits.max_binding_bytes && limits.max_buffer_bytes < 1 << 30 {
            let large = application_buffer(backend, limits.max_binding_bytes + 16, SHARED);
            assert!(matches!(backend.wrap(large), Err(Error::BindingTooLarge { .. })));
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
