//! The part of the page with the claims and the networks: a plot and a table of each.

use std::fmt::Write;

use super::super::figures::{duration, mebibytes, significant};
use super::super::networks::smaller_batches;
use super::super::{NetworkRow, Table};
use super::{escape, key, plots};

/// Writes the claims; nothing where none was measured.
pub(super) fn claims(table: &Table, out: &mut String) -> std::fmt::Result {
    let found = table.claims();
    if found.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>The claims</h2>\n<p>Speedups that people quote, and what this machine's GPUs give beside its own CPU: a claim holds where the \
         measured ratio is the quoted one or more. Quotes name no hardware.</p>"
    )?;
    plots::claims(table, &found, false, out)?;
    writeln!(
        out,
        "<div class=\"wide\"><table><tr><th>quoted<th>device<th class=\"n\">quoted<th class=\"n\">measured<th>holds<th>of what</tr>"
    )?;
    for finding in &found {
        writeln!(
            out,
            "<tr><td>{}<small>{}</small><td>{}<td class=\"n\">{}x<td class=\"n\">{}x<td>{}<td>{}</tr>",
            escape(finding.claim.quoted),
            escape(finding.claim.conditions),
            key(table, device(table, &finding.device)),
            finding.claim.times,
            significant(finding.times),
            if finding.holds() { "yes" } else { "no" },
            escape(&finding.measured),
        )?;
    }
    for claim in table.claims_not_measured() {
        writeln!(
            out,
            "<tr><td>{}<td>-<td class=\"n\">{}x<td class=\"n\">-<td>-<td>not measured: polywarp bench --claims</tr>",
            escape(claim.quoted),
            claim.times
        )?;
    }
    writeln!(out, "</table></div>")?;
    smaller_batches(&table.networks).map_or(Ok(()), |smaller| writeln!(out, "<p>{}.</p>", escape(&smaller)))
}

/// Writes every network on every device.
pub(super) fn rows(table: &Table, out: &mut String) -> std::fmt::Result {
    if table.networks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Networks</h2>\n<p>Recorded steps, replayed. Each was checked on two texts or images against the CPU in f32 before it was timed. The \
         CPU is compared by its rate at its own batch. Peak: the most that the device's pool held.</p>\n\
         <div class=\"wide\"><table><tr><th>case<th>device<th class=\"n\">step<th class=\"n\">rate<th class=\"n\">+ transfer\
         <th class=\"n\">vs CPU<th class=\"n\">+ transfer<th class=\"n\">cold<th class=\"n\">peak<th class=\"n\">launches\
         <th class=\"n\">error<th>loss</tr>"
    )?;
    table.networks.iter().try_for_each(|row| write_row(table, row, out))?;
    writeln!(out, "</table></div>")
}

fn write_row(table: &Table, row: &NetworkRow, out: &mut String) -> std::fmt::Result {
    let times = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{}x", significant(x)));
    let smaller = row.wanted_batch.map_or_else(String::new, |wanted| format!("<small>{wanted} do not fit</small>"));
    write!(out, "<tr><td>{}{smaller}<td>{}", escape(&row.case), key(table, device(table, &row.device)))?;
    let cells = [
        format!(
            "{}<small>{} .. {}</small>",
            duration(row.step_ns),
            duration(row.spread_ns.0),
            duration(row.spread_ns.1)
        ),
        format!("{} {}/s", significant(row.per_second), row.items),
        format!("{}/s", significant(row.per_second_with_transfer)),
        times(row.speedup),
        times(row.speedup_with_transfer),
        duration(row.cold_ns),
        mebibytes(row.peak_bytes),
        row.launches.to_string(),
        format!("{:.1e}", row.error),
    ];
    for cell in cells {
        write!(out, "<td class=\"n\">{cell}")?;
    }
    let losses = row.losses.map_or_else(|| "-".to_owned(), |(first, last)| format!("{first:.2}, then {last:.2}"));
    writeln!(out, "<td>{losses}</tr>")
}

fn device(table: &Table, id: &str) -> usize {
    table.devices.iter().position(|device| device.id == id).unwrap_or(0)
}
