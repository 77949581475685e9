//! Order: every call sees the effects of all earlier ones, from one thread or many, read now or later.

mod common;

use std::sync::Arc;

use common::{add_kernel, bind, copy_add_kernel, download, on_card, upload, words};
use polywarp_core::{Backend, ReadFuture};
use polywarp_cuda::CudaBackend;

#[test]
fn writes_and_reuse_do_not_overtake_work() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[10; 64]), upload(backend, &[0; 64]));
        backend.launch(&copy_add_kernel(), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
        backend.write(&x, 0, &77u32.to_le_bytes()).unwrap();
        assert_eq!(download(backend, &y), [11; 64]);
        assert_eq!(download(backend, &x)[..2], [77, 10]);
        backend.launch(&copy_add_kernel(), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
        drop(x);
        // The pool hands out the same memory, which enqueued work still has to read.
        let z = upload(backend, &[1000; 64]);
        assert_eq!(download(backend, &y)[..2], [78, 11]);
        assert_eq!(download(backend, &z), [1000; 64]);
    });
}

#[test]
fn long_chain_runs_in_order() {
    on_card(|backend| {
        let (a, b) = (upload(backend, &[0; 256]), upload(backend, &[0; 256]));
        let kernel = copy_add_kernel();
        let rounds = common::scaled(5000, 300) as u32;
        for _ in 0..rounds {
            backend.launch(&kernel, [4, 1, 1], &[bind(0, &a), bind(1, &b)]).unwrap();
            backend.launch(&kernel, [4, 1, 1], &[bind(0, &b), bind(1, &a)]).unwrap();
        }
        assert_eq!(download(backend, &a), [2 * rounds; 256]);
    });
}

#[test]
fn read_sees_the_work_before_it_and_none_after() {
    on_card(|backend| {
        let x = upload(backend, &[0; 16]);
        let mut reads: Vec<ReadFuture> = Vec::new();
        for _ in 0..100 {
            reads.push(backend.read(&x, 0..64));
            backend.launch(&add_kernel(3), [1, 1, 1], &[bind(0, &x)]).unwrap();
        }
        // Awaited in reverse, without anybody polling the device.
        for (index, read) in reads.into_iter().enumerate().rev() {
            assert_eq!(words(&pollster::block_on(read).unwrap()), [3 * index as u32; 16]);
        }
        for _ in 0..20 {
            drop(backend.read(&x, 0..64));
        }
    });
}

#[test]
fn threads_share_a_device() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<CudaBackend>();
    on_card(|backend| {
        std::thread::scope(|scope| {
            for thread in 0..16u32 {
                scope.spawn(move || {
                    let kernel = copy_add_kernel();
                    for round in 0..common::scaled(200, 20) as u32 {
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
    let Some(backend) = common::first() else { return };
    let buffer = upload(&backend, &[1, 2, 3]);
    let read = backend.read(&buffer, 0..12);
    drop(backend);
    std::thread::spawn(move || drop(buffer)).join().unwrap();
    assert_eq!(words(&pollster::block_on(read).unwrap()), [1, 2, 3]);
    let Some(backend) = common::first() else { return };
    let shared = Arc::new(backend);
    std::thread::spawn(move || common::assert_alive(&shared)).join().unwrap();
}

#[test]
fn devices_open_and_close_many_times() {
    for entry in common::usable() {
        for _ in 0..10 {
            common::assert_alive(&entry.open(polywarp_cuda::Options::default()).unwrap());
        }
    }
}

#[test]
fn timed_counts_the_device_and_only_its_own_work() {
    on_card(|backend| {
        let words = common::scaled(1 << 21, 1 << 13);
        let x = upload(backend, &vec![0; words]);
        let launch = |times: u32| {
            (0..times).try_for_each(|_| backend.launch(&add_kernel(1), [words as u32 / 64, 1, 1], &[bind(0, &x)]))
        };
        launch(1).unwrap();
        let one = backend.timed(&mut || launch(1)).unwrap();
        let ten = backend.timed(&mut || launch(10)).unwrap();
        launch(50).unwrap();
        let after_others = backend.timed(&mut || launch(1)).unwrap();
        assert_eq!(one.clock, polywarp_core::Clock::Device);
        assert!(
            one.ns > 1000.0 && ten.ns > 5.0 * one.ns && after_others.ns < 5.0 * one.ns,
            "{one:?} {ten:?} {after_others:?}"
        );
    });
}
