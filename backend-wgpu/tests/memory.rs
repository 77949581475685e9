//! Memory: any alignment of reads and writes, reuse and statistics of the pool, limits, out-of-memory.

mod common;

use common::{POOREST, each, entries, first, upload};
use polywarp_core::{Backend, Error};
use polywarp_wgpu::Options;

#[test]
fn write_and_read_any_alignment_touch_only_their_bytes() {
    each(|backend| {
        let size = 23u64;
        let start: Vec<u8> = (0..size as u8).map(|i| 200 + i).collect();
        for offset in 0..9u64 {
            for len in 0..=9u64 {
                let buffer = backend.alloc(size).unwrap();
                backend.write(&buffer, 0, &start).unwrap();
                let data: Vec<u8> = (0..len as u8).map(|i| 1 + i).collect();
                backend.write(&buffer, offset, &data).unwrap();
                let mut expected = start.clone();
                expected[offset as usize..(offset + len) as usize].copy_from_slice(&data);
                assert_eq!(backend.read_blocking(&buffer, 0..size).unwrap(), expected, "{offset} {len}");
                let part = backend.read_blocking(&buffer, offset..offset + len).unwrap();
                assert_eq!(part, data, "{offset} {len}");
            }
        }
        let tail = backend.alloc(7).unwrap();
        backend.write(&tail, 0, &[9; 7]).unwrap();
        backend.write(&tail, 5, &[1, 2]).unwrap();
        assert_eq!(backend.read_blocking(&tail, 0..7).unwrap(), [9, 9, 9, 9, 9, 1, 2]);
    });
}

#[test]
fn write_and_read_outside_the_buffer_are_refused() {
    each(|backend| {
        let buffer = backend.alloc(10).unwrap();
        for (offset, len) in [(8u64, 3usize), (11, 0), (u64::MAX, 1)] {
            let error = backend.write(&buffer, offset, &vec![0; len]).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { what: "write", .. }), "{error}");
        }
        #[allow(clippy::reversed_empty_ranges)]
        for range in [8..11, 5..4, 0..u64::MAX] {
            let error = backend.read_blocking(&buffer, range).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { what: "read", .. }), "{error}");
        }
        assert_eq!(backend.read_blocking(&buffer, 3..3).unwrap(), Vec::<u8>::new());
        let empty = backend.alloc(0).unwrap();
        assert_eq!(backend.read_blocking(&empty, 0..0).unwrap(), Vec::<u8>::new());
    });
}

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
fn pool_of_mixed_sizes_settles() {
    each(|backend| {
        let sizes: Vec<u64> = (0..200u64).map(|i| 1 + (i * 7919) % 300_000).collect();
        let round = || sizes.iter().map(|&size| backend.alloc(size).unwrap()).collect::<Vec<_>>();
        drop(round());
        let settled = backend.memory().driver_allocations;
        for _ in 0..5 {
            drop(round());
        }
        let after = backend.memory();
        assert_eq!(after.driver_allocations, settled);
        assert_eq!(after.in_use_bytes, 0);
    });
}

#[test]
fn memory_limit_refuses_with_every_figure_and_recovers() {
    for entry in entries() {
        let limited = Options { memory_limit_bytes: Some(4 << 20), ..POOREST };
        let backend = entry.open(limited).unwrap();
        let kept = backend.alloc(3 << 20).unwrap();
        match backend.alloc(2 << 20) {
            Err(Error::OutOfMemory { device, requested, in_use, cached, limit }) => {
                assert_eq!((device.as_str(), requested), (backend.info().id.as_str(), 2 << 20));
                assert_eq!((in_use, cached, limit), (3 << 20, 0, Some(4 << 20)));
            }
            other => panic!("{other:?}"),
        }
        drop(kept);
        // The cached 3 MiB make room: they are given up for the new buffer.
        let other = backend.alloc(4 << 20).unwrap();
        assert_eq!((backend.memory().in_use_bytes, backend.memory().cached_bytes), (4 << 20, 0));
        drop(other);
        backend.set_memory_limit(Some(1 << 20));
        assert_eq!(backend.memory().cached_bytes, 0);
        assert!(matches!(backend.alloc(2 << 20), Err(Error::OutOfMemory { limit: Some(1048576), .. })));
        backend.set_memory_limit(None);
        backend.alloc(2 << 20).unwrap();
        common::assert_alive(&backend);
    }
}

#[test]
fn driver_out_of_memory_frees_the_cache_retries_and_then_reports() {
    each(|backend| {
        backend.empty_cache();
        drop(backend.alloc(1 << 20).unwrap());
        assert!(backend.memory().cached_bytes > 0);
        backend.inject_out_of_memory(1);
        let saved = backend.alloc(8 << 20).unwrap();
        assert_eq!(backend.memory().cached_bytes, 0, "the cache was not given up before the second attempt");
        backend.inject_out_of_memory(2);
        match backend.alloc(16 << 20) {
            Err(Error::OutOfMemory { requested, in_use, cached, limit, .. }) => {
                assert_eq!((requested, in_use, cached, limit), (16 << 20, 8 << 20, 0, None));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(backend.memory().in_use_bytes, 8 << 20);
        backend.alloc(16 << 20).unwrap();
        drop(saved);
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
fn absurd_sizes_are_refused_before_the_driver_is_asked() {
    each(|backend| {
        let limits = backend.info().limits;
        let asked = backend.memory().driver_allocations;
        for size in [1 << 50, u64::MAX, limits.max_buffer_bytes + 1] {
            match backend.alloc(size) {
                Err(Error::BufferTooBig { requested, max, .. }) => {
                    assert_eq!((requested, max), (size, limits.max_buffer_bytes));
                }
                other => panic!("{other:?}"),
            }
        }
        let between = limits.max_binding_bytes + 1;
        if between <= limits.max_buffer_bytes {
            match backend.alloc(between) {
                Err(Error::BindingTooLarge { size, limit, .. }) => {
                    assert!(size == between && limit <= limits.max_binding_bytes, "{size} {limit}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(backend.memory().driver_allocations, asked);
    });
}
