//! Loss: a device destroyed at any moment gives [`Error::DeviceLost`] from every call, and nothing hangs or panics.

mod common;

use std::sync::mpsc::channel;
use std::time::Duration;

use common::{add_kernel, bind, entries, upload};
use polywarp_core::{Backend, Error};
use polywarp_wgpu::{Options, WgpuBackend};

/// Runs `test` under a deadline: a hang must fail rather than wait.
fn within_seconds(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, finished) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(seconds)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("still not done after {seconds} s"),
        _ => thread.join().unwrap(),
    }
}

fn assert_lost<T: std::fmt::Debug>(backend: &WgpuBackend, what: &str, result: Result<T, Error>) {
    match result {
        Err(Error::DeviceLost { device, reason }) => {
            assert_eq!(device, backend.info().id);
            assert!(!reason.is_empty());
        }
        other => panic!("{what} on {backend:?}: {other:?}"),
    }
}

fn assert_every_call_says_lost(backend: &WgpuBackend, buffer: &polywarp_core::Buffer) {
    assert_lost(backend, "read_blocking", backend.read_blocking(buffer, 0..4));
    assert_lost(backend, "read", pollster::block_on(backend.read(buffer, 0..4)));
    assert_lost(backend, "alloc", backend.alloc(4));
    assert_lost(backend, "write", backend.write(buffer, 0, &[1, 2, 3, 4]));
    assert_lost(backend, "launch", backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, buffer)]));
    assert_lost(backend, "flush", backend.flush());
    assert_lost(backend, "synchronize", backend.synchronize());
    assert_lost(backend, "timed", backend.timed(&mut || Ok(())));
    assert_lost(backend, "buffer_handle", backend.buffer_handle(buffer));
    backend.empty_cache();
    let _ = backend.memory();
}

#[test]
fn device_destroyed_mid_way_is_lost_everywhere() {
    for entry in entries() {
        for at in 0..12u32 {
            let entry = entry.clone();
            within_seconds(60, move || {
                let backend = entry.open(Options::default()).unwrap();
                let buffer = upload(&backend, &[0; 64]);
                let mut pending = Vec::new();
                for step in 0..12 {
                    if step == at {
                        backend.device().destroy();
                    }
                    // Whether these succeed depends on when the loss is noticed; they may not panic or hang.
                    let _ = backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]);
                    if step % 3 == 0 {
                        pending.push(backend.read(&buffer, 0..4));
                    }
                    if step % 5 == 0 {
                        let _ = backend.flush();
                    }
                }
                for (index, read) in pending.into_iter().enumerate() {
                    let result = pollster::block_on(read);
                    if let Ok(bytes) = result {
                        assert!(3 * index as u32 <= at, "step {at}: a read after the loss gave {bytes:?}");
                    }
                }
                assert_every_call_says_lost(&backend, &buffer);
                drop(backend);
                drop(buffer);
            });
        }
        // The machine is fine: a new device on the same adapter works.
        common::assert_alive(&entry.open(Options::default()).unwrap());
    }
}

#[test]
fn destroyed_device_of_an_application_is_found_out() {
    for entry in entries() {
        within_seconds(60, move || {
            let own = entry.open(Options::default()).unwrap();
            let (device, queue) = (own.device().clone(), own.queue().clone());
            let backend = WgpuBackend::from_wgpu(device.clone(), queue, "shared", None).unwrap();
            let buffer = upload(&backend, &[1]);
            common::assert_alive(&backend);
            device.destroy();
            assert_every_call_says_lost(&backend, &buffer);
        });
    }
}

#[test]
fn mark_lost_stops_every_call() {
    let backend = common::first();
    let buffer = upload(&backend, &[1]);
    backend.mark_lost("the application said so");
    assert_every_call_says_lost(&backend, &buffer);
}

#[test]
fn devices_open_and_close_many_times() {
    for entry in entries() {
        for _ in 0..10 {
            let backend = entry.open(Options::default()).unwrap();
            common::assert_alive(&backend);
        }
    }
}
