//! The table as one self-contained page: figures as SVG, no script, no font, no file beside it.
//!
//! Two plots (speedup over the CPU, matrix-product rate by size), then the machine, the devices and every row.

use std::fmt::Write;

use super::terminal::{duration, significant};
use super::{Row, Table};

const STYLE: &str = include_str!("html.css");

/// Colours of the devices, told apart also in grey.
const COLOURS: [&str; 6] = ["#4c6272", "#d9822b", "#2b7bba", "#6a9f3d", "#a64d79", "#b8a12c"];

/// The page.
pub fn html(table: &Table) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(table, &mut page);
    page
}

fn write_page(table: &Table, out: &mut String) -> std::fmt::Result {
    let m = &table.machine;
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>polywarp: speedup tables</title>\n\
         <style>{STYLE}</style>\n<h1>polywarp: speedup tables</h1>\n\
         <p>Version {} (commit {}, {} build) on {}: {} threads of {}. Every row was verified against the float64 oracle \
         before it was timed.</p>\n",
        escape(&m.version),
        escape(&m.commit),
        m.profile,
        escape(&m.system),
        m.cpu_threads,
        escape(&m.cpu)
    )?;
    write_devices(table, out)?;
    write_speedups(table, out)?;
    write_products(table, out)?;
    write_rows(table, out)?;
    write_skipped(table, out)?;
    writeln!(out, "</html>")
}

fn write_devices(table: &Table, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<table><tr><th>device<th>name<th>reached through<th>driver<th>copies<th>f32 multiply-adds</tr>")?;
    for (i, (device, ceilings)) in table.devices.iter().zip(&table.ceilings).enumerate() {
        let ceiling = |x: Option<f64>, unit| x.map_or_else(|| "-".to_owned(), |x| format!("{} {unit}", significant(x)));
        writeln!(
            out,
            "<tr><td><span class=\"key\" style=\"background:{}\"></span>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            colour(i),
            escape(&device.id),
            escape(&device.name),
            escape(&device.api),
            escape(&device.driver),
            ceiling(ceilings.copy_gb_per_s, "GB/s"),
            ceiling(ceilings.f32_tflop_per_s, "TFLOP/s")
        )?;
    }
    writeln!(out, "</table>")
}

fn colour(device: usize) -> &'static str {
    COLOURS[device % COLOURS.len()]
}

/// Horizontal bars on a logarithmic axis: how many times faster than the CPU, one bar per case and device.
fn write_speedups(table: &Table, out: &mut String) -> std::fmt::Result {
    let bars: Vec<(usize, &Row, f64)> = table
        .rows
        .iter()
        .filter_map(|row| Some((device_index(table, row), row, row.speedup?)))
        .filter(|(device, _, _)| table.devices[*device].id != "cpu")
        .collect();
    let Some(largest) = bars.iter().map(|b| b.2).reduce(f64::max) else { return Ok(()) };
    let (left, width, line) = (300.0, 520.0, 16.0);
    let decades = (largest.log10().ceil()).max(1.0);
    // The axis starts at a hundredth: a simulated GPU is slower than the CPU.
    let x = |speedup: f64| left + width * ((speedup.log10() + 2.0) / (decades + 2.0)).clamp(0.0, 1.0);
    let height = line * bars.len() as f64 + 30.0;
    writeln!(out, "<h2>Times faster than the CPU</h2>")?;
    writeln!(out, "<svg viewBox=\"0 0 900 {height}\" role=\"img\" aria-label=\"speedup over the CPU per case\">")?;
    for decade in -2..=decades as i32 {
        let at = x(10f64.powi(decade));
        writeln!(out, "<line x1=\"{at}\" y1=\"0\" x2=\"{at}\" y2=\"{}\" class=\"grid\"/>", height - 22.0)?;
        writeln!(
            out,
            "<text x=\"{at}\" y=\"{}\" class=\"tick\">{}x</text>",
            height - 6.0,
            significant(10f64.powi(decade))
        )?;
    }
    for (i, (device, row, speedup)) in bars.iter().enumerate() {
        let y = line * i as f64;
        let (from, to) = (x(1.0).min(x(*speedup)), x(1.0).max(x(*speedup)));
        writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"label\">{}</text>", left - 8.0, y + 12.0, escape(&row.case))?;
        writeln!(
            out,
            "<rect x=\"{from}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            y + 2.0,
            (to - from).max(1.0),
            line - 4.0,
            colour(*device)
        )?;
        writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"value\">{}x</text>", to + 4.0, y + 12.0, significant(*speedup))?;
    }
    writeln!(out, "</svg>")
}

/// Lines on logarithmic axes: rate of square products by size, one line per device and dtype.
fn write_products(table: &Table, out: &mut String) -> std::fmt::Result {
    let products: Vec<(usize, &Row, f64)> = table
        .rows
        .iter()
        .filter(|row| row.unit == "TFLOP/s")
        .filter_map(|row| Some((device_index(table, row), row, square_size(&row.case)?)))
        .collect();
    let rates = || products.iter().map(|p| p.1.rate);
    let (Some(low), Some(high)) = (rates().reduce(f64::min), rates().reduce(f64::max)) else { return Ok(()) };
    let sizes = || products.iter().map(|p| p.2);
    let (Some(small), Some(large)) = (sizes().reduce(f64::min), sizes().reduce(f64::max)) else { return Ok(()) };
    let scale = |x: f64, from: f64, to: f64| if to > from { (x / from).ln() / (to / from).ln() } else { 0.5 };
    let x = |size: f64| 70.0 + 640.0 * scale(size, small, large);
    let y = |rate: f64| 300.0 - 270.0 * scale(rate, low, high);
    writeln!(out, "<h2>Matrix products: TFLOP/s by size</h2>")?;
    writeln!(out, "<svg viewBox=\"0 0 900 340\" role=\"img\" aria-label=\"rate of square matrix products by size\">")?;
    for decade in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        let rate = 10f64.powi(decade);
        if (low..=high).contains(&rate) {
            writeln!(out, "<line x1=\"70\" y1=\"{0}\" x2=\"710\" y2=\"{0}\" class=\"grid\"/>", y(rate))?;
            writeln!(out, "<text x=\"62\" y=\"{}\" class=\"label\">{}</text>", y(rate) + 4.0, significant(rate))?;
        }
    }
    let mut marks: Vec<f64> = sizes().collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    for size in marks {
        writeln!(out, "<text x=\"{}\" y=\"322\" class=\"tick\">{size}</text>", x(size))?;
    }
    let mut lines: Vec<(usize, &str)> = products.iter().map(|p| (p.0, dtype_of(&p.1.case))).collect();
    lines.sort_unstable();
    lines.dedup();
    for (device, dtype) in lines {
        let mut points: Vec<(f64, f64)> = products
            .iter()
            .filter(|p| p.0 == device && dtype_of(&p.1.case) == dtype)
            .map(|p| (x(p.2), y(p.1.rate)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(out, "<polyline points=\"{}\" stroke=\"{}\" class=\"line\"/>", path.join(" "), colour(device))?;
        for (x, y) in &points {
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>", colour(device))?;
        }
        if let Some((end_x, end_y)) = points.last() {
            let name = format!("{} {dtype}", table.devices[device].id);
            let (at_x, at_y) = (end_x + 8.0, end_y + 4.0);
            writeln!(out, "<text x=\"{at_x:.1}\" y=\"{at_y:.1}\" class=\"value\">{}</text>", escape(&name))?;
        }
    }
    writeln!(out, "</svg>")
}

fn write_rows(table: &Table, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>Every row</h2><table><tr><th>case<th>shape<th>device<th>warm<th>spread<th>clock<th>cold<th>with transfer<th>rate\
         <th>of ceiling<th>vs cpu<th>with transfer<th>error / bound<th>relative error<th>of OpenBLAS</tr>"
    )?;
    let optional = |x: Option<String>| x.unwrap_or_else(|| "-".to_owned());
    for row in &table.rows {
        writeln!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{} .. {}<td>{}<td>{}<td>{}<td>{} {}<td>{}<td>{}<td>{}<td>{:.3}<td>{:.1e}<td>{}</tr>",
            escape(&row.case),
            escape(&row.shape),
            escape(&row.device),
            duration(row.warm_ns),
            duration(row.spread_ns.0),
            duration(row.spread_ns.1),
            if row.clock == polywarp_core::Clock::Device { "device" } else { "host" },
            duration(row.cold_ns),
            optional(row.with_transfer_ns.map(duration)),
            significant(row.rate),
            row.unit,
            optional(row.ceiling_share.map(|x| format!("{:.0} %", 100.0 * x))),
            optional(row.speedup.map(|x| format!("{}x", significant(x)))),
            optional(row.speedup_with_transfer.map(|x| format!("{}x", significant(x)))),
            row.error_of_bound,
            row.max_relative_error,
            optional(row.of_openblas.map(|x| format!("{x:.2}x")))
        )?;
    }
    writeln!(out, "</table>")
}

fn write_skipped(table: &Table, out: &mut String) -> std::fmt::Result {
    if table.skipped.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Not measured</h2><table><tr><th>case<th>device<th>why</tr>")?;
    for s in &table.skipped {
        let class = if s.fault { " class=\"fault\"" } else { "" };
        writeln!(out, "<tr{class}><td>{}<td>{}<td>{}</tr>", escape(&s.case), escape(&s.device), escape(&s.reason))?;
    }
    writeln!(out, "</table>")
}

fn device_index(table: &Table, row: &Row) -> usize {
    table.devices.iter().position(|d| d.id == row.device).unwrap_or(0)
}

/// n of a square product's case, named `gemm <dtype> <n>`.
fn square_size(case: &str) -> Option<f64> {
    case.rsplit(' ').next()?.parse().ok()
}

/// The dtype named in a case.
fn dtype_of(case: &str) -> &str {
    let is_dtype = |word: &&str| word.parse::<polywarp_core::DType>().is_ok();
    case.split(' ').find(is_dtype).unwrap_or("")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_dtype_are_read_from_a_products_name() {
        assert_eq!(square_size("gemm f32 1024"), Some(1024.0));
        assert_eq!(square_size("copy f32"), None);
        assert_eq!(dtype_of("gemm bf16 64"), "bf16");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
