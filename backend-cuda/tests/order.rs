//! Order on CUDA: long queues, opening and closing, the device's clock. The rest is the harness's (`conformance.rs`).

mod common;

use std::sync::Arc;

use common::{add_kernel, bind, copy_add_kernel, download, on_card, upload, words};
use polywarp_core::Backend;
use polywarp_cuda::CudaBackend;

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

/// Threads that share a device are the contract's; that they may is checked here, by the compiler.
const _: fn() = || {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<CudaBackend>();
};

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
    std::thread::spawn(move || common::assert_alive(&*shared)).join().unwrap();
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
        // The shortest of a few: a busy host makes single ones longer.
        let ones = (0..5).map(|_| backend.timed(&mut || launch(1)).unwrap());
        let one = ones.min_by(|a, b| a.ns.total_cmp(&b.ns)).unwrap();
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
