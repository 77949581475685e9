//! Wakers of reads: what a user's waker does never runs under a lock of ours or of wgpu's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::{Duration, Instant};

use crate::common::{self, add_kernel, bind, download, entries, upload, within_seconds};
use polywarp_core::{Backend, Buffer, Kernel, ReadFuture};
use polywarp_wgpu::{Options, WgpuBackend};

const SLOW: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    @compute @workgroup_size(64) fn main() { for (var i = 0u; i < 16u; i++) { atomicAdd(&x[0], 1u); } }";

/// A read that waits, by `waker`, for work on `backend`, and the sum that it is to read; `None` where GL's driver did the work in the call.
fn pending(backend: &WgpuBackend, waker: Arc<impl Wake + Send + Sync + 'static>) -> Option<(ReadFuture, u32)> {
    let waker = waker.into();
    // On a busy machine this thread may wait for its turn until little work has ended.
    for groups in [4096, 16_384, 65_535] {
        let busy = upload(backend, &[0]);
        backend.launch(&Kernel::wgsl(SLOW), [groups, 1, 1], &[bind(0, &busy)]).unwrap();
        let mut read = backend.read(&busy, 0..4);
        if read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            return Some((read, 16 * 64 * groups));
        }
    }
    assert!(backend.info().api == "gl", "the work was too short");
    None
}

/// Launches, as an executor that polls at once would.
struct Launches {
    backend: Arc<WgpuBackend>,
    buffer: Buffer,
    outcome: Mutex<Option<Result<(), polywarp_core::Error>>>,
}

impl Wake for Launches {
    fn wake(self: Arc<Self>) {
        let launched = self.backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &self.buffer)]);
        let flushed = launched.and_then(|()| self.backend.flush());
        *self.outcome.lock().unwrap() = Some(flushed);
    }
}

#[test]
fn waker_that_launches_does_not_wait_for_itself() {
    for entry in entries() {
        within_seconds(60, move || {
            let backend = Arc::new(entry.open(Options::default()).unwrap());
            let (buffer, other) = (upload(&*backend, &[0]), upload(&*backend, &[0]));
            let mut woken = 0;
            for _ in 0..20 {
                let outcome = Mutex::new(None);
                let waker = Launches { backend: Arc::clone(&backend), buffer: buffer.clone(), outcome };
                let waker = Arc::new(waker);
                let Some((read, sum)) = pending(&backend, Arc::clone(&waker)) else { continue };
                let started = Instant::now();
                while waker.outcome.lock().unwrap().is_none() {
                    assert!(started.elapsed() < Duration::from_secs(20), "never woken");
                    // Somebody else's submissions hear of finished work first.
                    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &other)]).unwrap();
                    backend.flush().unwrap();
                }
                waker.outcome.lock().unwrap().take().unwrap().unwrap();
                woken += 1;
                assert_eq!(pollster::block_on(read).unwrap(), sum.to_le_bytes());
            }
            assert_eq!(download(&*backend, &buffer), [woken]);
        });
    }
}

/// Counts, and panics.
struct Panics(AtomicU32);

/// What it panics with, which panics in turn when it is dropped.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        panic!("and what it panicked with");
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Again);
    }
}

#[test]
fn waker_that_panics_harms_nobody_else() {
    for entry in entries() {
        within_seconds(60, move || {
            let backend = entry.open(Options::default()).unwrap();
            for _ in 0..5 {
                let waker = Arc::new(Panics(AtomicU32::new(0)));
                let Some((read, sum)) = pending(&backend, Arc::clone(&waker)) else { continue };
                backend.synchronize().unwrap();
                let started = Instant::now();
                while waker.0.load(Ordering::SeqCst) == 0 && started.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
                assert_eq!(waker.0.load(Ordering::SeqCst), 1);
                common::assert_alive(&backend);
                // The bytes came all the same, and so do those of reads after it.
                assert_eq!(pollster::block_on(read).unwrap(), sum.to_le_bytes());
                let again = upload(&backend, &[9]);
                assert_eq!(pollster::block_on(backend.read(&again, 0..4)).unwrap(), [9, 0, 0, 0]);
            }
        });
    }
}
