//! Memory: any alignment and size of reads and writes, reuse, limits, out-of-memory for real.

mod common;

use common::{assert_alive, card_to_myself, on_card, open, upload};
use polywarp_core::{Backend, Error};
use polywarp_cuda::Options;

#[test]
fn write_and_read_any_alignment_touch_only_their_bytes() {
    on_card(|backend| {
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
    });
}

/// Sizes round the staging pieces (4 KiB to 4 MiB), and many of them at once.
#[test]
fn transfers_of_every_size_arrive_whole() {
    on_card(|backend| {
        let piece = 4 << 20;
        for len in [1usize, 4095, 4097, (256 << 10) - 1, (256 << 10) + 1, piece - 1, piece, piece + 1, 9 * piece + 5] {
            let data: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
            let buffer = backend.alloc(len as u64).unwrap();
            backend.write(&buffer, 0, &data).unwrap();
            let later = backend.read(&buffer, 0..len as u64);
            assert!(backend.read_blocking(&buffer, 0..len as u64).unwrap() == data, "{len}");
            drop(buffer);
            assert!(pollster::block_on(later).unwrap() == data, "{len}");
        }
        // Small writes share pieces that go round several times.
        let buffer = backend.alloc(100).unwrap();
        for round in 0..20_000u32 {
            backend.write(&buffer, u64::from(round % 25) * 4, &round.to_le_bytes()).unwrap();
        }
        let expected: Vec<u32> = (0..25).map(|slot| 19_975 + slot).collect();
        assert_eq!(common::words(&backend.read_blocking(&buffer, 0..100).unwrap()), expected);
    });
}

#[test]
fn write_and_read_outside_the_buffer_are_refused() {
    on_card(|backend| {
        let buffer = backend.alloc(10).unwrap();
        for (offset, len) in [(8u64, 3usize), (11, 0), (u64::MAX, 1)] {
            let error = backend.write(&buffer, offset, &vec![0; len]).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { what: "write", .. }), "{error}");
        }
        #[allow(clippy::reversed_empty_ranges)]
        for range in [8..11, 5..4, 0..u64::MAX] {
            let error = backend.read_blocking(&buffer, range.clone()).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { what: "read", .. }), "{error}");
            let error = pollster::block_on(backend.read(&buffer, range)).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { what: "read", .. }), "{error}");
        }
        assert!(backend.read_blocking(&buffer, 3..3).unwrap().is_empty());
        assert!(pollster::block_on(backend.read(&buffer, 3..3)).unwrap().is_empty());
        let empty = backend.alloc(0).unwrap();
        assert!(backend.read_blocking(&empty, 0..0).unwrap().is_empty());
    });
}

#[test]
fn buffer_of_another_backend_is_refused() {
    let _card = card_to_myself();
    let (Some(a), Some(b)) = (common::first(), common::first()) else { return };
    let buffer = upload(&a, &[1]);
    assert!(matches!(b.write(&buffer, 0, &[1]), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.read_blocking(&buffer, 0..4), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.device_address(&buffer), Err(Error::DeviceMismatch { .. })));
}

#[test]
fn pool_reuses_buffers_and_settles() {
    on_card(|backend| {
        let sizes: Vec<u64> = (0..200u64).map(|i| 1 + (i * 7919) % 300_000).collect();
        let round = || sizes.iter().map(|&size| backend.alloc(size).unwrap()).collect::<Vec<_>>();
        drop(round());
        let settled = backend.memory().driver_allocations;
        for _ in 0..5 {
            drop(round());
        }
        let after = backend.memory();
        assert_eq!((after.driver_allocations, after.in_use_bytes), (settled, 0));
        backend.empty_cache();
        assert_eq!(backend.memory().cached_bytes, 0);
    });
}

#[test]
fn memory_limit_refuses_with_every_figure_and_recovers() {
    let _card = card_to_myself();
    let Some(backend) = open(Options { memory_limit_bytes: Some(4 << 20), ..Options::default() }) else { return };
    let kept = backend.alloc(3 << 20).unwrap();
    match backend.alloc(2 << 20) {
        Err(Error::OutOfMemory { device, requested, in_use, cached, limit }) => {
            assert_eq!((device.as_str(), requested), (backend.info().id.as_str(), 2 << 20));
            assert_eq!((in_use, cached, limit), (3 << 20, 0, Some(4 << 20)));
        }
        other => panic!("{other:?}"),
    }
    drop(kept);
    drop(backend.alloc(4 << 20).unwrap());
    backend.set_memory_limit(None);
    backend.alloc(64 << 20).unwrap();
    assert_alive(&backend);
}

#[test]
fn card_filled_to_the_end_reports_and_goes_on() {
    on_card(|backend| {
        backend.empty_cache();
        let mut held = Vec::new();
        let mut size = (backend.info().limits.max_buffer_bytes / 4).next_power_of_two().min(8 << 30);
        let keep = upload(backend, &[1, 2, 3]);
        while size >= 16 << 20 {
            match backend.alloc(size) {
                Ok(buffer) => held.push(buffer),
                Err(Error::OutOfMemory { requested, in_use, limit: None, .. }) => {
                    assert_eq!(requested, size);
                    assert!(in_use >= held.iter().map(polywarp_core::Buffer::size_bytes).sum());
                    size /= 2;
                }
                other => panic!("{other:?}"),
            }
        }
        // What is cached makes room, several times over.
        for _ in 0..20 {
            let freed = held.pop().unwrap().size_bytes();
            let again = backend.alloc(freed).unwrap();
            held.push(again);
        }
        assert_eq!(common::download(backend, &keep), [1, 2, 3], "nothing that was stored is lost");
        drop(held);
        backend.empty_cache();
        backend.alloc(128 << 20).unwrap();
    });
}

#[test]
fn driver_out_of_memory_frees_the_cache_retries_and_then_reports() {
    on_card(|backend| {
        backend.empty_cache();
        drop(backend.alloc(1 << 20).unwrap());
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
        backend.alloc(16 << 20).unwrap();
        drop(saved);
    });
}

#[test]
fn absurd_sizes_are_refused_before_the_driver_is_asked() {
    on_card(|backend| {
        let max = backend.info().limits.max_buffer_bytes;
        let asked = backend.memory().driver_allocations;
        for size in [1 << 50, u64::MAX, max + 1] {
            match backend.alloc(size) {
                Err(Error::BufferTooBig { requested, max: told, .. }) => assert_eq!((requested, told), (size, max)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(backend.memory().driver_allocations, asked);
    });
}

#[test]
fn pool_can_be_turned_off_for_checkers() {
    // In a child process, whose environment is its own.
    if std::env::var("POLYWARP_TEST_CHILD").is_ok() {
        on_card(|backend| {
            let before = backend.memory();
            let buffer = backend.alloc(1000).unwrap();
            assert_eq!(backend.memory().in_use_bytes - before.in_use_bytes, 1008);
            drop(buffer);
            assert_eq!(backend.memory().cached_bytes, 0);
        });
        return;
    }
    let _card = card_to_myself();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pool_can_be_turned_off_for_checkers"])
        .env("POLYWARP_TEST_CHILD", "1")
        .env("POLYWARP_CUDA_POOL", "off")
        .status();
    assert!(status.unwrap().success());
}
