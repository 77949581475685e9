//! Whatever goes last, a device of ours is destroyed under the lock. Needs an adapter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use polywarp_core::harness::contract::words;
use polywarp_core::{Backend, Buffer, Kernel};

use super::{Kept, alone, native};
use crate::{Options, WgpuBackend, adapters};

/// Goes with the device that holds it, and notes whether that thread then had the lock.
struct Probe(Arc<Seen>);

#[derive(Default)]
struct Seen {
    locked: AtomicU32,
    unlocked: AtomicU32,
}

impl Drop for Probe {
    fn drop(&mut self) {
        let count = if native::inside() { &self.0.locked } else { &self.0.unlocked };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A kernel without any binding: nothing of a recording but its pipeline holds the device.
const NOTHING: &str = "@compute @workgroup_size(1) fn main() {}";

/// Gives every usable adapter's backend, with a buffer of its own, to `end`, which drops them in some order.
fn goes_under_the_lock(end: impl Fn(WgpuBackend, Buffer)) {
    let entries = adapters().expect("these tests need an adapter; Debian: mesa-vulkan-drivers and libvulkan1");
    let mut opened = 0;
    for entry in entries.iter().filter(|entry| entry.unusable.is_none()) {
        let Ok(backend) = entry.open(Options::default()) else { continue };
        opened += 1;
        let seen = Arc::new(Seen::default());
        // wgpu keeps the callback in the device, which drops it after the driver's.
        let probe = Probe(Arc::clone(&seen));
        backend.gpu.set_device_lost_callback(move |_, _| {
            let _ = &probe;
        });
        let buffer = words::upload(&backend, &[1, 2, 3, 4]).unwrap();
        backend.launch(&words::add_kernel(1), [1, 1, 1], &[words::bind(0, &buffer)]).unwrap();
        end(backend, buffer);
        let counts = (seen.locked.load(Ordering::Relaxed), seen.unlocked.load(Ordering::Relaxed));
        assert_eq!(counts, (1, 0), "{}: destroyed (with, without) the lock", entry.id);
    }
    assert!(opened > 0, "no adapter gave a device");
}

#[test]
fn backend_that_goes_last_is_destroyed_under_the_lock() {
    goes_under_the_lock(|backend, buffer| {
        drop(buffer);
        drop(backend);
    });
}

#[test]
fn buffer_that_goes_last_on_another_thread_destroys_under_the_lock() {
    goes_under_the_lock(|backend, buffer| {
        // One more, which the pool keeps for later.
        drop(words::upload(&backend, &[0; 4096]).unwrap());
        drop(backend);
        std::thread::spawn(move || drop(buffer)).join().unwrap();
    });
}

#[test]
fn read_that_goes_last_destroys_under_the_lock() {
    goes_under_the_lock(|backend, buffer| {
        let read = backend.read(&buffer, 0..16);
        drop((backend, buffer));
        assert_eq!(words::words(&pollster::block_on(read).unwrap()), [2, 3, 4, 5]);
    });
    // Nobody awaits it.
    goes_under_the_lock(|backend, buffer| {
        let read = backend.read(&buffer, 0..16);
        drop((backend, buffer));
        drop(read);
    });
}

#[test]
fn recording_that_goes_last_destroys_under_the_lock() {
    goes_under_the_lock(|backend, buffer| {
        backend.begin_recording().unwrap();
        backend.launch(&words::add_kernel(1), [1, 1, 1], &[words::bind(0, &buffer)]).unwrap();
        backend.launch(&Kernel::wgsl(NOTHING), [1, 1, 1], &[]).unwrap();
        let recorded = backend.end_recording().unwrap();
        drop((backend, buffer));
        drop(recorded);
    });
}

#[test]
fn recording_without_an_end_destroys_under_the_lock() {
    goes_under_the_lock(|backend, buffer| {
        backend.begin_recording().unwrap();
        backend.launch(&Kernel::wgsl(NOTHING), [1, 1, 1], &[]).unwrap();
        drop(backend);
        drop(buffer);
    });
}

#[test]
fn lock_is_taken_again_by_its_thread_alone_and_survives_a_panic() {
    let entered = alone(|| {
        // What goes with a device may own another.
        alone(|| drop(Kept::new(())));
        assert!(native::inside());
        let (send, receive) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || alone(|| send.send(())));
        assert!(receive.recv_timeout(Duration::from_millis(100)).is_err(), "two threads are in at once");
        (other, receive)
    });
    assert!(!native::inside());
    entered.1.recv_timeout(Duration::from_secs(20)).expect("the other thread comes in");
    entered.0.join().unwrap().unwrap();
    assert!(std::thread::spawn(|| alone(|| panic!("on purpose"))).join().is_err());
    assert!(alone(native::inside));
}
