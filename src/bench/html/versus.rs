//! The part of the page that compares products with the vendor's library: means, then every product.

use std::fmt::Write;

use super::super::figures::{duration, significant};
use super::super::{CardState, Pair, Row, Table, Versus};
use super::{device_index, escape, key};

/// Writes the comparison; where there is none, only the reasons.
pub(super) fn write(table: &Table, out: &mut String) -> std::fmt::Result {
    let rows: Vec<(&Row, &Versus)> = table.rows.iter().filter_map(|row| Some((row, row.versus.as_ref()?))).collect();
    if rows.is_empty() {
        return reasons(table, out);
    }
    writeln!(
        out,
        "<h2>Beside the vendor's library</h2>\n<p>In turns on the same operands in one process; the library has 32 MiB of \
         workspace and the best of its first eight heuristics, where its result is within the bound. Numbers over 1: this \
         library is faster. Burst: short samples, highest clocks; sustained: long stretches of products over 0.1 ms.</p>"
    )?;
    means(table, out)?;
    writeln!(
        out,
        "<div class=\"wide\"><table class=\"rows\"><thead><tr><th>case<th>device<th class=\"n\">ours<th class=\"n\">theirs\
         <th class=\"n\">burst<th class=\"n\">sustained<th class=\"n\">TFLOP/s, ours<th class=\"n\">theirs<th>kernel</tr></thead>"
    )?;
    for (row, versus) in rows {
        let Versus { library, kernel, burst, sustained, .. } = versus;
        let held = |value: &dyn Fn(&Pair) -> String| sustained.as_ref().map_or_else(|| "-".to_owned(), value);
        let tflops = |ns: f64| significant(row.rate * row.warm_ns / ns);
        writeln!(
            out,
            "<tr class=\"first\"><td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{:.3}<td class=\"n\">{}\
             <td class=\"n\">{}<td class=\"n\">{}<td>{}<small>{}</small></tr>",
            escape(&row.case),
            key(table, device_index(table, row)),
            duration(burst.ours_ns),
            duration(burst.theirs_ns),
            burst.ratio(),
            held(&|pair| format!("{:.3}", pair.ratio())),
            held(&|pair| format!("{}{}", tflops(pair.ours_ns), state(pair.ours_state))),
            held(&|pair| format!("{}{}", tflops(pair.theirs_ns), state(pair.theirs_state))),
            escape(kernel.as_deref().unwrap_or("-")),
            escape(library),
        )?;
    }
    writeln!(out, "</table></div>")?;
    reasons(table, out)
}

/// Products without a comparison, and the reasons.
fn reasons(table: &Table, out: &mut String) -> std::fmt::Result {
    for row in &table.rows {
        if let Some(why) = &row.not_beside {
            let device = key(table, device_index(table, row));
            writeln!(out, "<p>{} on {device}, not beside the library: {}</p>", escape(&row.case), escape(why))?;
        }
    }
    Ok(())
}

fn means(table: &Table, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "<table><tr><th>geometric mean of<th>device<th class=\"n\">products<th class=\"n\">burst<th class=\"n\">aligned shapes\
         <th class=\"n\">sustained<th>worst aligned</tr>"
    )?;
    let optional = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
    for mean in table.vendor_means() {
        let device = table.devices.iter().position(|device| device.id == mean.device).unwrap_or(0);
        let worst = mean.worst_aligned.map_or_else(|| "-".to_owned(), |(case, ratio)| format!("{ratio:.3} {case}"));
        writeln!(
            out,
            "<tr><td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{:.3}<td class=\"n\">{}<td class=\"n\">{}<td>{}</tr>",
            escape(&mean.kind),
            key(table, device),
            mean.cases,
            mean.burst,
            optional(mean.burst_aligned),
            optional(mean.sustained.map(|(mean, _)| mean)),
            escape(&worst),
        )?;
    }
    writeln!(out, "</table>")
}

/// `1755 MHz, 650 W` in small print.
fn state(state: Option<CardState>) -> String {
    let Some(state) = state else { return String::new() };
    let watts = state.watts.map_or(String::new(), |watts| format!(", {watts:.0} W"));
    format!("<small>{:.0} MHz{watts}</small>", state.mhz)
}
