//! Memory on CUDA: transfers of every size, a card filled for real, the pool off. The rest is the harness's
//! (`conformance.rs`).

mod common;

use common::{card_to_myself, on_card, open, upload};
use polywarp_core::{Backend, Error};
use polywarp_cuda::Options;

/// Sizes round the staging pieces (4 KiB to 4 MiB), and many of them at once.
#[test]
fn transfers_of_every_size_arrive_whole() {
    on_card(|backend| {
        let piece = 4 << 20;
        for len in [1usize, 4095, 4097, (256 << 10) - 1, (256 << 10) + 1, piece - 1, piece, piece + 1, 21 * piece + 5] {
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
fn buffer_of_another_backend_is_refused() {
    let _card = card_to_myself();
    let (Some(a), Some(b)) = (common::first(), common::first()) else { return };
    let buffer = upload(&a, &[1]);
    assert!(matches!(b.write(&buffer, 0, &[1]), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.read_blocking(&buffer, 0..4), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.device_address(&buffer), Err(Error::DeviceMismatch { .. })));
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

#[test]
fn memory_limit_of_the_options_is_in_force() {
    let _card = card_to_myself();
    let Some(backend) = open(Options { memory_limit_bytes: Some(4 << 20), ..Options::default() }) else { return };
    let refused = backend.alloc(5 << 20);
    assert!(matches!(refused, Err(Error::OutOfMemory { limit: Some(4_194_304), .. })), "{refused:?}");
    backend.alloc(4 << 20).unwrap();
    backend.set_memory_limit(None);
    backend.alloc(5 << 20).unwrap();
}
