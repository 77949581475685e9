//! What [`Backend`](crate::Backend) promises beyond the values of single ops: memory, order, positions outside, quantised and pruned layers, functions, lines and statistics, tensors that are made, what is
//! scaled by 0, profiles, and users' kernels good and bad.
//!
//! [`run`] is a table of tests for any backend, as [`super::recording::run`] is for recordings: each on buffers of its own,
//! and after each the device must still compute and hold the memory it held before. A device that runs no users' kernels
//! must refuse them by [`Error::Unsupported`]; their rows are then passed over. [`driver_out_of_memory`] needs a fault to be
//! injected, which is each backend's own; [`outlived`] ends devices, and opens its own; [`tuner`] needs a planner. The tests are in the files beside this one; the small kernels that they run are
//! in `words.rs`.

mod functions;
mod kernels;
mod lines;
mod made;
mod memory;
mod order;
mod outside;
mod profile;
mod quantised;
mod refusals;
mod scaled_by_zero;
mod sparse24;
pub mod tuner;
pub mod words;

use super::bad_input::Row;
use super::rows::{self, Answer, Test, demand, outcome};
use crate::{Device, Error};

pub use memory::{driver_out_of_memory, outlived};

/// The rows of [`run`] about positions outside alone.
pub fn positions_outside(device: &Device) -> Vec<Row> {
    rows::run(device, outside::ROWS.iter().copied())
}

/// Runs every row on `device`, which nobody else uses meanwhile.
pub fn run(device: &Device) -> Vec<Row> {
    let kernels = match words::launch(device.backend(), &words::add_kernel(1), &[]) {
        Err(Error::Unsupported { .. }) => Vec::new(),
        _ => [kernels::ROWS, refusals::ROWS, order::KERNEL_ROWS, profile::KERNEL_ROWS].concat(),
    };
    let rows = [
        memory::ROWS,
        order::ROWS,
        quantised::ROWS,
        scaled_by_zero::ROWS,
        sparse24::ROWS,
        lines::ROWS,
        made::ROWS,
        outside::ROWS,
        functions::ROWS,
        profile::ROWS,
    ]
    .concat()
    .into_iter()
    .chain(kernels);
    rows::run(device, rows)
}
