//! Threads that open and drop devices at the same time: each computes what it should, and none waits for ever (NVIDIA's Vulkan
//! driver would: `driver.rs`).

use std::sync::{Arc, Barrier};
use std::thread;

use crate::common::{add_kernel, bind, download, entries, upload, within_seconds, words};
use polywarp_core::Backend;
use polywarp_wgpu::{AdapterEntry, Options, adapters};

const THREADS: u32 = 8;
const ROUNDS: u32 = 4;

/// Opens a device, computes on it, and drops its parts in an order that `turn` chooses.
fn open_compute_drop(entry: &AdapterEntry, turn: u32) {
    let backend = entry.open(Options::default()).unwrap();
    let buffer = upload(&backend, &[turn; 64]);
    backend.launch(&add_kernel(7), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
    let expected = vec![turn + 7; 64];
    match turn % 3 {
        0 => assert_eq!(download(&backend, &buffer), expected),
        1 => {
            let read = backend.read(&buffer, 0..256);
            drop((backend, buffer));
            assert_eq!(words(&pollster::block_on(read).unwrap()), expected);
        }
        _ => {
            assert_eq!(download(&backend, &buffer), expected);
            drop(backend);
            thread::spawn(move || drop(buffer)).join().unwrap();
        }
    }
}

/// Runs `work` on many threads that start together, with the thread's number and the round's.
fn many(work: impl Fn(u32, u32) + Send + Sync + 'static) {
    within_seconds(240, move || {
        let (work, together) = (Arc::new(work), Arc::new(Barrier::new(THREADS as usize)));
        let threads = (0..THREADS).map(|number| {
            let (work, together) = (Arc::clone(&work), Arc::clone(&together));
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    together.wait();
                    work(number, round);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn devices_of_one_adapter_opened_and_dropped_by_many_threads_compute() {
    for entry in entries() {
        many(move |number, round| open_compute_drop(&entry, number + round));
    }
}

#[test]
fn adapters_listed_opened_and_dropped_by_many_threads_compute() {
    for id in entries().into_iter().map(|entry| entry.id) {
        many(move |number, round| {
            let entry = adapters().unwrap().into_iter().find(|entry| entry.id == id).unwrap();
            open_compute_drop(&entry, number + round);
        });
    }
}
