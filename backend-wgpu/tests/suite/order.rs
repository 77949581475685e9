//! Order on wgpu: what gathers into a submission, and what outlives a backend. The rest is the harness's (`contract.rs`).

use std::sync::Arc;

use crate::common::{self, bind, bytes, copy_add_kernel, download, each, first, upload, words};
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

/// Short writes go by wgpu's own copies, which run before the recording; long ones are recorded themselves.
#[test]
fn long_and_short_writes_keep_their_order_among_launches() {
    const WORDS: usize = 40_000;
    each(|backend| {
        let x = upload(backend, &vec![1; WORDS]);
        let y = upload(backend, &vec![0; WORDS]);
        let (kernel, grid) = (copy_add_kernel(), [(WORDS as u32).div_ceil(64), 1, 1]);
        let mut expected = vec![1u32; WORDS];
        let mut reads = Vec::new();
        for round in 0..6u32 {
            let long = vec![100 * round; WORDS - 7];
            backend.write(&x, 12, &bytes(&long)).unwrap();
            expected[3..WORDS - 4].copy_from_slice(&long);
            // Over the long one, before and after the launch that reads both; an odd start cuts words.
            backend.write(&x, 20, &bytes(&[7 + round])).unwrap();
            expected[5] = 7 + round;
            backend.launch(&kernel, grid, &[bind(0, &x), bind(1, &y)]).unwrap();
            reads.push((backend.read(&y, 0..4 * WORDS as u64), expected.iter().map(|x| x + 1).collect::<Vec<u32>>()));
            backend.write(&x, 24, &bytes(&[9 + round])).unwrap();
            backend.write(&x, 4, &bytes(&long)[..100_001]).unwrap();
            expected[6] = 9 + round;
            let mut now = bytes(&expected);
            now[4..100_005].copy_from_slice(&bytes(&long)[..100_001]);
            expected = words(&now);
        }
        for (round, (read, expected)) in reads.into_iter().enumerate() {
            assert!(words(&pollster::block_on(read).unwrap()) == expected, "round {round}");
        }
        assert!(download(backend, &x) == expected);
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
