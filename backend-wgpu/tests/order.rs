//! Order: every call sees the effects of all earlier ones, from one thread or many, read now or later.

mod common;

use std::sync::Arc;

use common::{add_kernel, bind, copy_add_kernel, download, each, first, upload, words};
use polywarp_core::{Backend, ReadFuture};
use polywarp_wgpu::WgpuBackend;

#[test]
fn write_after_use_does_not_overtake_recorded_work() {
    each(|backend| {
        let (x, y) = (upload(backend, &[10; 64]), upload(backend, &[0; 64]));
        backend.launch(&copy_add_kernel(), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
        // Not submitted yet; the kernel must still see 10.
        backend.write(&x, 0, &77u32.to_le_bytes()).unwrap();
        assert_eq!(download(backend, &y), [11; 64]);
        assert_eq!(download(backend, &x)[..2], [77, 10]);
    });
}

#[test]
fn reused_buffer_does_not_overtake_recorded_work() {
    each(|backend| {
        let y = upload(backend, &[0; 64]);
        let x = upload(backend, &[5; 64]);
        backend.launch(&copy_add_kernel(), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
        drop(x);
        // The pool hands out the same memory, which recorded work still has to read.
        let z = upload(backend, &[1000; 64]);
        assert_eq!(download(backend, &y), [6; 64]);
        assert_eq!(download(backend, &z), [1000; 64]);
    });
}

#[test]
fn partial_word_write_follows_recorded_work() {
    each(|backend| {
        let x = upload(backend, &[0x0101_0101; 8]);
        backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &x)]).unwrap();
        backend.write(&x, 5, &[0xaa, 0xbb]).unwrap();
        backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &x)]).unwrap();
        let seen = download(backend, &x);
        assert_eq!((seen[0], seen[1], seen[2]), (0x0101_0103, 0x01bb_aa03, 0x0101_0103));
    });
}

#[test]
fn launches_of_one_recording_keep_their_own_parameters() {
    each(|backend| {
        let x = upload(backend, &[0; 8]);
        let before = backend.submissions();
        // Each is a launch of one kernel on one buffer; only the parameters differ.
        for at in 0..32 {
            backend.write(&x, at, &[1 + at as u8]).unwrap();
        }
        assert!(backend.submissions() - before < 10);
        let expected: Vec<u8> = (1..=32).collect();
        assert_eq!(backend.read_blocking(&x, 0..32).unwrap(), expected);
    });
}

#[test]
fn long_chain_runs_in_order_and_gathers_into_few_submissions() {
    each(|backend| {
        let (a, b) = (upload(backend, &[0; 256]), upload(backend, &[0; 256]));
        let kernel = copy_add_kernel();
        let before = backend.submissions();
        for _ in 0..500 {
            backend.launch(&kernel, [4, 1, 1], &[bind(0, &a), bind(1, &b)]).unwrap();
            backend.launch(&kernel, [4, 1, 1], &[bind(0, &b), bind(1, &a)]).unwrap();
        }
        assert_eq!(download(backend, &a), [1000; 256]);
        let submissions = backend.submissions() - before;
        assert!(submissions < 400, "{submissions} submissions for 1000 launches");
    });
}

#[test]
fn read_sees_the_work_before_it_and_none_after() {
    each(|backend| {
        let x = upload(backend, &[0; 16]);
        let mut reads: Vec<ReadFuture> = Vec::new();
        for _ in 0..10 {
            reads.push(backend.read(&x, 0..64));
            backend.launch(&add_kernel(3), [1, 1, 1], &[bind(0, &x)]).unwrap();
        }
        // Awaited in reverse, without anybody polling the device.
        for (index, read) in reads.into_iter().enumerate().rev() {
            assert_eq!(words(&pollster::block_on(read).unwrap()), [3 * index as u32; 16]);
        }
    });
}

#[test]
fn read_future_may_be_dropped_unawaited() {
    each(|backend| {
        let x = upload(backend, &[1; 16]);
        for _ in 0..20 {
            drop(backend.read(&x, 0..64));
        }
        assert_eq!(download(backend, &x), [1; 16]);
    });
}

#[test]
fn threads_share_a_device() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<WgpuBackend>();
    each(|backend| {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                scope.spawn(move || {
                    let kernel = copy_add_kernel();
                    for round in 0..20u32 {
                        let seed = 1000 * thread + round;
                        let (a, b) = (upload(backend, &[seed; 100]), upload(backend, &[0; 100]));
                        for _ in 0..3 {
                            backend.launch(&kernel, [2, 1, 1], &[bind(0, &a), bind(1, &b)]).unwrap();
                            backend.launch(&kernel, [2, 1, 1], &[bind(0, &b), bind(1, &a)]).unwrap();
                        }
                        if round % 2 == 0 {
                            assert_eq!(download(backend, &a), [seed + 6; 100]);
                        } else {
                            let read = backend.read(&a, 0..400);
                            drop((a, b));
                            assert_eq!(words(&pollster::block_on(read).unwrap()), [seed + 6; 100]);
                        }
                    }
                });
            }
        });
        assert_eq!(backend.memory().in_use_bytes, 0);
    });
}

#[test]
fn buffer_may_outlive_its_backend_and_die_on_another_thread() {
    let backend = first();
    let buffer = upload(&backend, &[1, 2, 3]);
    let read = backend.read(&buffer, 0..12);
    drop(backend);
    let thread = std::thread::spawn(move || drop(buffer));
    thread.join().unwrap();
    assert_eq!(words(&pollster::block_on(read).unwrap()), [1, 2, 3]);
    let backend = Arc::new(first());
    let shared = Arc::clone(&backend);
    std::thread::spawn(move || common::assert_alive(&shared)).join().unwrap();
}
