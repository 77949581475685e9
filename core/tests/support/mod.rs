//! What tests of every backend need: here, and included by `tests/common` of the GPU backends.

#![allow(dead_code, unused_imports)]

pub mod products;
pub mod ways;

use polywarp_core::harness::bad_input::Row;
use polywarp_core::harness::contract::words as ours;
use polywarp_core::harness::{Level, Selection};
use polywarp_core::{Backend, Buffer};

pub use ours::{add_kernel, bind, bytes, copy_add_kernel, words};

/// An environment variable that says something.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The cases that `POLYWARP_TEST_LEVEL`, `POLYWARP_TEST_FAMILY` and `POLYWARP_TEST_FILTER` ask for.
pub fn selection() -> Selection {
    let level = if variable("POLYWARP_TEST_LEVEL").as_deref() == Some("full") { Level::Full } else { Level::Quick };
    Selection {
        family: variable("POLYWARP_TEST_FAMILY"),
        filter: variable("POLYWARP_TEST_FILTER"),
        ..Selection::level(level)
    }
}

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
