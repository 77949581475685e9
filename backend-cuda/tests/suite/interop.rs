//! Sharing a card with other CUDA code of the process: cudarc stands for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{self, add_kernel, assert_alive, bind, download, first, upload, usable};
use polywarp_core::{Backend, Device, Error, Tensor};
use polywarp_cuda::cudarc::driver::{CudaContext, DevicePtr};
use polywarp_cuda::{CudaBackend, Options};

/// Whether cudarc finds no driver of its own, which was said.
fn without_cudarc() -> bool {
    if common::interpreted() {
        println!("skipped: cudarc needs functions that the interpreted driver lacks");
    }
    common::interpreted()
}

#[test]
fn contexts_of_cudarc_are_used_and_left_as_they_were() {
    if without_cudarc() {
        return;
    }
    if usable().is_empty() {
        return;
    }
    let context = CudaContext::new(0).unwrap();
    let backend = CudaBackend::from_cudarc(Arc::clone(&context), "shared", Options::default()).unwrap();
    assert_eq!((backend.info().id.as_str(), backend.context()), ("shared", context.cu_ctx()));
    assert_alive(&backend);
    drop(backend);
    // SAFETY: the context lives to the end of this test, longer than the backend.
    let raw = unsafe { CudaBackend::from_context(context.cu_ctx(), "raw", Options::default()) }.unwrap();
    assert_alive(&raw);
    drop(raw);
    // cudarc goes on.
    let stream = context.default_stream();
    let slice = stream.clone_htod(&[1u32, 2, 3]).unwrap();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), [1, 2, 3]);
}

#[test]
fn memory_of_an_application_is_used_in_place() {
    if without_cudarc() {
        return;
    }
    let Some(backend) = first() else { return };
    struct Noted(Arc<AtomicBool>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let slice = stream.clone_htod(&[10u32; 64]).unwrap();
    stream.synchronize().unwrap();
    let address = slice.device_ptr(&stream).0;
    let dropped = Arc::new(AtomicBool::new(false));
    let before = backend.memory();
    // SAFETY: 256 bytes of the card's primary context, kept until after the backend is done; wrapped once.
    let buffer = unsafe { backend.wrap(address, 256, Box::new(Noted(Arc::clone(&dropped)))) }.unwrap();
    assert_eq!(backend.memory(), before, "not counted");
    assert_eq!(backend.device_address(&buffer).unwrap(), address);
    backend.launch(&add_kernel(5), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
    backend.synchronize().unwrap();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), [15; 64]);
    drop(buffer);
    assert!(dropped.load(Ordering::Relaxed));
    for (address, size) in [(0, 16), (address + 4, 16), (address, 0), (address, 6)] {
        // SAFETY: refused before anything is done with it.
        let refused = unsafe { backend.wrap(address, size, Box::new(())) };
        assert!(matches!(refused, Err(Error::InvalidArgument { what: "device address", .. })), "{refused:?}");
    }
}

#[test]
fn address_of_a_tensor_is_its_memory() {
    if without_cudarc() {
        return;
    }
    let Some(backend) = first() else { return };
    let device = Device::new(backend);
    let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [4]).unwrap();
    let backend = device.backend_as::<CudaBackend>().unwrap();
    let address = backend.device_address(x.buffer()).unwrap();
    device.synchronize().unwrap();
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    // SAFETY: four f32 of the card's primary context; leaked below, so that cudarc does not free them.
    let view = unsafe { stream.upgrade_device_ptr::<f32>(address, 4) };
    assert_eq!(stream.clone_dtoh(&view).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    view.leak();
}

#[test]
fn events_order_two_devices_without_the_host() {
    let words = common::scaled(1 << 21, 1 << 10);
    let groups = words as u32 / 64;
    let (Some(a), Some(b)) = (first(), first()) else { return };
    let (x, y) = (upload(&a, &vec![1; words]), upload(&b, &vec![0; words]));
    for _ in 0..50 {
        a.launch(&add_kernel(1), [groups, 1, 1], &[bind(0, &x)]).unwrap();
    }
    let event = a.record_event().unwrap();
    b.wait_event(&event).unwrap();
    a.copy_to_peer(&x, 0, &b, &y, 0, 4 * words as u64).unwrap();
    b.launch(&add_kernel(1000), [groups, 1, 1], &[bind(0, &y)]).unwrap();
    assert!(download(&b, &y).iter().all(|&word| word == 1051));
    event.wait().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn copies_between_cards_arrive() {
    let cards = usable();
    let Some(one) = cards.first() else { return };
    let other = cards.get(1).unwrap_or(one);
    if cards.len() == 1 {
        let required = std::env::var("POLYWARP_REQUIRE_PEERS").is_ok_and(|value| !value.is_empty());
        assert!(!required, "one card only, and POLYWARP_REQUIRE_PEERS demands two: {one:?}");
        println!("NOT RUN: copies between two cards; there is one card only, so they go between two devices on it");
    }
    println!("from {} ({}) to {} ({})", one.id, one.pci_bus, other.id, other.pci_bus);
    let (a, b) = (one.open(Options::default()).unwrap(), other.open(Options::default()).unwrap());
    let data: Vec<u32> = (0..1 << 20).collect();
    let (x, y) = (upload(&a, &data), upload(&b, &[7; 1 << 20]));
    a.copy_to_peer(&x, 400, &b, &y, 8, 4000).unwrap();
    let seen = download(&b, &y);
    assert_eq!(seen[2..1002], data[100..1100]);
    assert!(seen[..2].iter().chain(&seen[1002..]).all(|&word| word == 7));
    a.copy_to_peer(&x, 0, &b, &y, 0, 0).unwrap();
    for (from, to, len) in [(1 << 22, 0, 1), (0, 1 << 22, 1), (0, 0, u64::MAX), (u64::MAX, 0, 2)] {
        let refused = a.copy_to_peer(&x, from, &b, &y, to, len);
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    let refused = a.copy_to_peer(&y, 0, &b, &y, 0, 4);
    assert!(refused.is_err(), "a buffer of the other device as the source");
    assert_alive(&a);
    assert_alive(&b);
}
