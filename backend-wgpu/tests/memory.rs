//! Memory on wgpu: exact counts, and what the driver really gets back. The rest is the harness's (`contract.rs`).

mod common;

use common::{POOREST, each, entries, first, upload};
use polywarp_core::{Backend, Error};
use polywarp_wgpu::Options;

#[test]
fn buffer_of_another_backend_is_refused() {
    let (a, b) = (first(), first());
    let buffer = upload(&a, &[1]);
    assert!(matches!(b.write(&buffer, 0, &[1]), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.read_blocking(&buffer, 0..4), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.buffer_handle(&buffer), Err(Error::DeviceMismatch { .. })));
}

#[test]
fn pool_reuses_buffers_and_counts_them() {
    each(|backend| {
        backend.empty_cache();
        let before = backend.memory();
        assert_eq!((before.in_use_bytes, before.cached_bytes), (0, 0));
        let a = backend.alloc(1000).unwrap();
        let b = backend.alloc(1000).unwrap();
        let held = backend.memory();
        assert_eq!(held.driver_allocations, before.driver_allocations + 2);
        assert!((2000..2600).contains(&held.in_use_bytes), "{held:?}");
        drop((a, b));
        let cached = backend.memory();
        assert_eq!((cached.in_use_bytes, cached.cached_bytes), (0, held.in_use_bytes));
        assert_eq!(cached.peak_bytes, held.in_use_bytes);
        let again: Vec<_> = (0..2).map(|_| backend.alloc(990).unwrap()).collect();
        assert_eq!(backend.memory().driver_allocations, held.driver_allocations);
        drop(again);
        backend.empty_cache();
        assert_eq!(backend.memory().cached_bytes, 0);
    });
}

#[test]
fn emptied_cache_gives_memory_back_to_the_driver() {
    each(|backend| {
        let held = || backend.device().generate_allocator_report().map(|report| report.total_allocated_bytes);
        let before = held();
        let buffer = backend.alloc(64 << 20).unwrap();
        // Used by a kernel, so that a cached bind group refers to it.
        backend.launch(&common::add_kernel(1), [1, 1, 1], &[common::bind(0, &buffer)]).unwrap();
        backend.synchronize().unwrap();
        let with = held();
        drop(buffer);
        backend.empty_cache();
        backend.synchronize().unwrap();
        let (Some(before), Some(with), Some(after)) = (before, with, held()) else { return };
        assert!(with >= 64 << 20 && after < before + (32 << 20), "{before} {with} {after}");
    });
}

#[test]
fn memory_limit_of_the_options_is_in_force() {
    let backend = entries()[0].open(Options { memory_limit_bytes: Some(4 << 20), ..POOREST }).unwrap();
    let refused = backend.alloc(5 << 20);
    assert!(matches!(refused, Err(Error::OutOfMemory { limit: Some(4_194_304), .. })), "{refused:?}");
    backend.alloc(4 << 20).unwrap();
    backend.set_memory_limit(None);
    backend.alloc(5 << 20).unwrap();
}
