//! What [`Backend`](crate::Backend) promises beyond the values of single ops: memory, order, positions outside, quantised and pruned layers, functions, lines and statistics, tensors that are made, what is
//! scaled by 0, functions of all numbers of 16 bits, profiles, and users' kernels good and bad.
//!
//! [`run`] is a table of tests for any backend, as [`super::recording::run`] is for recordings: each on buffers of its own,
//! and after each the device must still compute and hold the memory it held before. A device that runs no users' kernels
//! must refuse them by [`Error::Unsupported`]; their rows are then passed over. [`driver_out_of_memory`] needs a fault to be
//! injected, which is each backend's own; [`outlived`] ends devices, and opens its own; [`tuner`] needs a planner. [`super::run`] takes the rows as
//! cases of a family where asked ([`super::Selection::contract`]). The tests are in the files beside this one; the small kernels that they run are
//! in `words.rs`.

mod all_16_bits;
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

use super::Part;
use super::bad_input::Row;
use super::rows::{self, Answer, Test, Watch, demand, outcome};
use crate::{Device, Error, Result};

pub use memory::{driver_out_of_memory, outlived};

/// The rows of one file, or some of them.
struct Table {
    name: &'static str,
    rows: &'static [(&'static str, Test)],
    company: Company,
    kernels: Kernels,
}

/// Whether others may use the device while a row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// They may: it looks at its own tensors alone.
    Welcome,
    /// It looks at the memory, the order, the faults or the launches of the whole device.
    Unwelcome,
}

/// Whether rows launch users' kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernels {
    Ours,
    Users,
}

const fn table(name: &'static str, rows: &'static [(&'static str, Test)], company: Company, kernels: Kernels) -> Table {
    Table { name, rows, company, kernels }
}

use Company::{Unwelcome, Welcome};
use Kernels::{Ours, Users};

const TABLES: [Table; 15] = [
    table("memory", memory::ROWS, Unwelcome, Ours),
    table("order", order::ROWS, Unwelcome, Ours),
    table("quantised", quantised::ROWS, Welcome, Ours),
    table("scaled_by_zero", scaled_by_zero::ROWS, Welcome, Ours),
    table("sparse24", sparse24::ROWS, Welcome, Ours),
    table("lines", lines::ROWS, Welcome, Ours),
    table("made", made::ROWS, Welcome, Ours),
    table("outside", outside::ROWS, Unwelcome, Ours),
    table("functions", functions::ROWS, Welcome, Ours),
    table("all_16_bits", all_16_bits::ROWS, Welcome, Ours),
    table("profile", profile::ROWS, Unwelcome, Ours),
    table("kernels", kernels::ROWS, Unwelcome, Users),
    table("refusals", refusals::ROWS, Unwelcome, Users),
    table("order", order::KERNEL_ROWS, Unwelcome, Users),
    table("profile", profile::KERNEL_ROWS, Unwelcome, Users),
];

/// A row by itself, as [`super::run`] takes it.
pub(super) struct Promise {
    /// `contract/<table> <row>`.
    pub(super) name: String,
    pub(super) company: Company,
    test: Test,
    kernels: Kernels,
}

impl Promise {
    /// Whether it was kept.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it is about users' kernels and the device runs none; what the device gives instead of an answer.
    pub(super) fn keep(&self, device: &Device) -> Result<Answer> {
        if self.kernels == Users {
            runs_kernels(device)?;
        }
        rows::attempt(device, self.test, if self.company == Welcome { Watch::Numbers } else { Watch::Memory })
    }
}

/// Every row of [`run`].
pub(super) fn promises() -> impl Iterator<Item = Promise> {
    TABLES.iter().flat_map(|table| {
        table.rows.iter().map(|&(row, test)| Promise {
            name: format!("{}/{} {row}", super::CONTRACT, table.name),
            company: table.company,
            test,
            kernels: table.kernels,
        })
    })
}

/// [`Error::Unsupported`] from a device that runs no users' kernels.
fn runs_kernels(device: &Device) -> Result<()> {
    match words::launch(device.backend(), &words::add_kernel(1), &[]) {
        Err(error @ Error::Unsupported { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// The rows of [`run`] about positions outside alone.
pub fn positions_outside(device: &Device) -> Vec<Row> {
    rows::run(device, outside::ROWS.iter().copied())
}

/// Runs every row on `device`, which nobody else uses meanwhile.
pub fn run(device: &Device) -> Vec<Row> {
    run_part(device, Part::ALL)
}

/// [`run`], with `part` of the rows that look at values alone: a software GPU compiles their kernels for a minute. The others all run.
pub fn run_part(device: &Device, part: Part) -> Vec<Row> {
    let has_kernels = runs_kernels(device).is_ok();
    let tables = TABLES.iter().filter(|table| has_kernels || table.kernels == Ours);
    let mut values = 0..;
    let rows = tables.flat_map(|table| table.rows.iter().map(move |&row| (table.company, row)));
    let taken = rows.filter(|(company, _)| *company == Unwelcome || values.next().is_some_and(|i| part.is_turn_of(i)));
    rows::run(device, taken.map(|(_, row)| row))
}
