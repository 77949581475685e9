//! What tests of every backend need: here, and included by `tests/common` of the GPU backends.

#![allow(dead_code, unused_imports)]

use polywarp_core::harness::bad_input::Row;
use polywarp_core::harness::contract::words as ours;
use polywarp_core::{Backend, Buffer};

pub use ours::{add_kernel, bind, bytes, copy_add_kernel, words};

/// A buffer holding `words`.
pub fn upload(backend: &dyn Backend, words: &[u32]) -> Buffer {
    ours::upload(backend, words).expect("upload")
}

/// The words of a whole buffer.
pub fn download(backend: &dyn Backend, buffer: &Buffer) -> Vec<u32> {
    ours::download(backend, buffer, (buffer.size_bytes() / 4) as usize).expect("download")
}

/// The device still computes correctly: asserted after every test that provoked a fault.
pub fn assert_alive(backend: &dyn Backend) {
    let buffer = upload(backend, &[1, 2, 3, 40]);
    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]).expect("launch");
    assert_eq!(download(backend, &buffer), [2, 3, 4, 41]);
}

/// Every row of a table of the harness holds; `least` guards against an empty one.
pub fn assert_rows(device: &str, rows: &[Row], least: usize) {
    let wrong = rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.result.as_ref().err()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(rows.len() >= least && wrong.is_empty(), "{device}: {wrong:#?}");
}
