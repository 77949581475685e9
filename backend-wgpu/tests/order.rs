//! Order on wgpu: what gathers into a submission, and what outlives a backend. The rest is the harness's (`contract.rs`).

mod common;

use std::sync::Arc;

use common::{bind, copy_add_kernel, download, each, first, upload, words};
use polywarp_core::Backend;
use polywarp_wgpu::WgpuBackend;

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

/// Threads that share a device are the contract's; that they may is checked here, by the compiler.
const _: fn() = || {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<WgpuBackend>();
};

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
    std::thread::spawn(move || common::assert_alive(&*shared)).join().unwrap();
}
