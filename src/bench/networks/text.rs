//! The networks and the claims as text, for a terminal or a log.

use std::fmt::{Result, Write};

use super::super::Table;
use super::super::figures::{duration, mebibytes, significant};
use super::{NetworkRow, SUITE, smaller_batches};

/// Writes the rows; nothing where there are none.
pub fn write(table: &Table, out: &mut String) -> Result {
    if table.networks.is_empty() {
        return Ok(());
    }
    let width = table.networks.iter().map(|row| row.case.len()).max().unwrap_or(4);
    writeln!(out, "\n{SUITE}")?;
    writeln!(
        out,
        "  {:width$} {:8} {:>10} {:>16} {:>12} {:>9} {:>8} {:>9} {:>11} {:>8} {:>8}  loss",
        "case", "device", "step", "rate", "+transfer", "vs cpu", "", "cold", "peak", "launches", "error"
    )?;
    for row in &table.networks {
        write_row(row, width, out)?;
    }
    writeln!(
        out,
        "  step: a recorded step replayed, data on the device. +transfer: data copied in and result copied out each step. vs cpu: times as many\n  \
         texts or images per second as the CPU in f32 at its own batch, then with transfers. cold: built, checked and run once. peak: of the\n  \
         device's pool. error: of two texts or images, from the CPU's numbers in f32 (up to 1e-3 in f32, of trained ResNets\n  \
         1e-2, 5e-2 in 16 bits). loss: first and last."
    )?;
    smaller_batches(&table.networks).map_or(Ok(()), |smaller| writeln!(out, "  {smaller}"))
}

pub(super) fn write_row(row: &NetworkRow, width: usize, out: &mut String) -> Result {
    let times = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{}x", significant(x)));
    let losses = row.losses.map_or_else(|| "-".to_owned(), |(first, last)| format!("{first:.2} -> {last:.2}"));
    let smaller = row.wanted_batch.map_or_else(String::new, |wanted| format!("; {wanted} do not fit"));
    writeln!(
        out,
        "  {:width$} {:8} {:>10} {:>16} {:>12} {:>9} {:>8} {:>9} {:>11} {:>8} {:>8.1e}  {losses}{smaller}",
        row.case,
        row.device,
        duration(row.step_ns),
        format!("{} {}/s", significant(row.per_second), row.items),
        format!("{}/s", significant(row.per_second_with_transfer)),
        times(row.speedup),
        times(row.speedup_with_transfer),
        duration(row.cold_ns),
        mebibytes(row.peak_bytes),
        row.launches,
        row.error,
    )
}
