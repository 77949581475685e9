//! The table as one self-contained page: figures as SVG, no script, no font, no file beside it.
//!
//! Here: the frame of the page and its tables. The plots (claims, speedup over the CPU, matrix-product rate by size) are drawn
//! in `plots.rs`; claims and networks are `networks.rs`, products beside the vendor's `versus.rs`.

mod networks;
mod plots;
mod versus;

use std::fmt::Write;

use super::figures::{duration, mebibytes, significant};
use super::{Row, Table};

const STYLE: &str = include_str!("style.css");

/// Colours of the devices, which differ in grey and for the colour-blind as well.
const COLOURS: [&str; 6] = ["#5b6770", "#d9822b", "#2b6cb0", "#5a9a2f", "#a64d79", "#b8a12c"];

/// The page.
pub fn html(table: &Table) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(table, &mut page);
    page
}

/// The plot of the claims as an SVG file; `None` where no claim was measured.
pub fn claims_plot(table: &Table) -> Option<String> {
    let (found, mut drawing) = (table.claims(), String::new());
    // Writing to a String cannot fail.
    let _ = plots::claims(table, &found, true, &mut drawing);
    (!found.is_empty()).then_some(drawing)
}

fn write_page(table: &Table, out: &mut String) -> std::fmt::Result {
    let m = &table.machine;
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>polywarp: speedup tables</title>\n<style>{STYLE}</style>\n<h1>polywarp: speedup tables</h1>\n\
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
    networks::claims(table, out)?;
    networks::rows(table, out)?;
    plots::speedups(table, out)?;
    plots::products(table, out)?;
    write_memory(table, out)?;
    write_tensor_cores(table, out)?;
    versus::write(table, out)?;
    write_rows(table, out)?;
    write_skipped(table, out)?;
    writeln!(out, "</html>")
}

fn write_devices(table: &Table, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "<h2>Devices</h2>\n<div class=\"wide\"><table><tr><th>device<th>name<th>reached through<th>driver\
         <th class=\"n\">copies<th class=\"n\">f32 multiply-adds</tr>"
    )?;
    for (i, (device, ceilings)) in table.devices.iter().zip(&table.ceilings).enumerate() {
        let ceiling = |x: Option<f64>, unit| x.map_or_else(|| "-".to_owned(), |x| format!("{} {unit}", significant(x)));
        writeln!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
            key(table, i),
            escape(&device.name),
            escape(&device.api),
            escape(&device.driver),
            ceiling(ceilings.copy_gb_per_s, "GB/s"),
            ceiling(ceilings.f32_tflop_per_s, "TFLOP/s")
        )?;
    }
    writeln!(out, "</table></div>")
}

/// The device's id after a square of its colour.
fn key(table: &Table, device: usize) -> String {
    format!("<span class=\"key\" style=\"background:{}\"></span>{}", colour(device), escape(&table.devices[device].id))
}

fn colour(device: usize) -> &'static str {
    COLOURS[device % COLOURS.len()]
}

fn write_memory(table: &Table, out: &mut String) -> std::fmt::Result {
    let Some(one) = table.memory.iter().flatten().next() else { return Ok(()) };
    let n = one.side;
    writeln!(
        out,
        "<h2>Memory of one product of {n} x {n} matrices</h2>\n\
         <p>Peak of the device's pool: operands, result and scratch space.</p>\n\
         <table><tr><th>device<th class=\"n\">f32<th class=\"n\">f16<th class=\"n\">f16 / f32</tr>"
    )?;
    for (i, memory) in table.memory.iter().enumerate() {
        let Some(memory) = memory else { continue };
        writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{:.2}</tr>",
            key(table, i),
            mebibytes(memory.f32_bytes),
            mebibytes(memory.f16_bytes),
            memory.saving()
        )?;
    }
    writeln!(out, "</table>")
}

fn write_tensor_cores(table: &Table, out: &mut String) -> std::fmt::Result {
    let found = table.tensor_cores();
    if found.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Tensor cores against plain cores</h2>\n<p>The same product in f16 and in f32 at full precision.</p>\n\
         <table><tr><th>device<th class=\"n\">side<th class=\"n\">f16, TFLOP/s<th class=\"n\">f32, TFLOP/s<th class=\"n\">times</tr>"
    )?;
    for cores in found {
        let device = table.devices.iter().position(|device| device.id == cores.device).unwrap_or(0);
        writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}x</tr>",
            key(table, device),
            cores.side,
            significant(cores.f16),
            significant(cores.f32),
            significant(cores.times())
        )?;
    }
    writeln!(out, "</table>")
}

const EXPLANATION: &str = "<dl>\
    <dt>warm<dd>median of one execution, kernels ready, data on the device; below it the fastest and slowest batch, \
    and whose clock\
    <dt>cold<dd>first execution in the process, kernels prepared, and tuned where nothing is remembered\
    <dt>+ transfer<dd>inputs copied in, result copied out; not measured above 4 GiB\
    <dt>of ceiling<dd>share of the device's own measured copy rate, of f32 products of its f32 multiply-add rate, above; - where \
    the ceiling is not measured: products of other dtypes and precisions run on other units (tensor cores, integer and double \
    pipes), random numbers are bound by neither rate\
    <dt>vs CPU<dd>times faster than this library's CPU backend in this run, data on the device or with transfer\
    <dt>error<dd>largest error as a share of the bound against the float64 oracle (at most 1), and relative\
    <dt>OpenBLAS<dd>the CPU backend's rate over OpenBLAS's, where that is installed\
    <dt>vendor<dd>times as fast as cuBLASLt, in turns on the same operands</dl>\n";

fn write_rows(table: &Table, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<h2>Every row</h2>\n{EXPLANATION}<div class=\"wide\"><table class=\"rows\">")?;
    writeln!(
        out,
        "<thead><tr><th>case<th>device<th class=\"n\">warm<th class=\"n\">cold<th class=\"n\">+ transfer\
         <th class=\"n\">rate<th class=\"n\">of ceiling<th class=\"n\">vs CPU<th class=\"n\">+ transfer\
         <th class=\"n\">error / bound<th class=\"n\">relative<th class=\"n\">OpenBLAS<th class=\"n\">vendor</tr></thead>"
    )?;
    let mut suite = "";
    for rows in table.rows.chunk_by(|a, b| a.case == b.case) {
        if rows[0].suite != suite {
            suite = &rows[0].suite;
            writeln!(out, "<tbody><tr class=\"suite\"><th colspan=\"13\">{}</tr>", escape(suite))?;
        }
        for (i, row) in rows.iter().enumerate() {
            let first = if i == 0 { " class=\"first\"" } else { "" };
            write!(out, "<tr{first}>")?;
            if i == 0 {
                let (case, shape) = (escape(&row.case), escape(&row.shape));
                write!(out, "<td rowspan=\"{}\">{case}<small>{shape}</small>", rows.len())?;
            }
            write_row(table, row, out)?;
        }
    }
    writeln!(out, "</table></div>")
}

fn write_row(table: &Table, row: &Row, out: &mut String) -> std::fmt::Result {
    let optional = |x: Option<String>| x.unwrap_or_else(|| "-".to_owned());
    let clock = if row.clock == polywarp_core::Clock::Device { "device" } else { "host" };
    write!(
        out,
        "<td>{}<td class=\"n\">{}<small>{} .. {}, {clock}</small>",
        key(table, device_index(table, row)),
        duration(row.warm_ns),
        duration(row.spread_ns.0),
        duration(row.spread_ns.1),
    )?;
    let cells = [
        duration(row.cold_ns),
        optional(row.with_transfer_ns.map(duration)),
        format!("{} {}", significant(row.rate), row.unit),
        optional(row.ceiling_share.map(|x| format!("{:.0} %", 100.0 * x))),
        optional(row.speedup.map(|x| format!("{}x", significant(x)))),
        optional(row.speedup_with_transfer.map(|x| format!("{}x", significant(x)))),
        format!("{:.3}", row.error_of_bound),
        if row.max_relative_error == 0.0 { "0".to_owned() } else { format!("{:.1e}", row.max_relative_error) },
        optional(row.of_openblas.map(|x| format!("{x:.2}x"))),
        optional(row.versus.as_ref().map(|versus| format!("{:.2}x", versus.burst.ratio()))),
    ];
    for cell in cells {
        write!(out, "<td class=\"n\">{cell}")?;
    }
    writeln!(out, "</tr>")
}

fn write_skipped(table: &Table, out: &mut String) -> std::fmt::Result {
    if table.skipped.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Not measured</h2>\n<table><tr><th>case<th>device<th>why</tr>")?;
    for (s, cases) in table.skipped_groups() {
        let class = if s.fault { " class=\"fault\"" } else { "" };
        let cases = escape(&cases.join(", "));
        writeln!(out, "<tr{class}><td>{cases}<td>{}<td>{}</tr>", escape(&s.device), escape(&s.reason))?;
    }
    writeln!(out, "</table>")
}

fn device_index(table: &Table, row: &Row) -> usize {
    table.devices.iter().position(|d| d.id == row.device).unwrap_or(0)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
pub(in super::super) mod tests {
    use polywarp_core::{Clock, Device, DeviceKind};

    use super::super::{CardState, Ceilings, Machine, MemoryUse, Pair, Versus};
    use super::*;

    fn row(case: &str, suite: &str, device: &str, speedup: f64) -> Row {
        Row {
            case: case.to_owned(),
            suite: suite.to_owned(),
            device: device.to_owned(),
            dtype: "f32".to_owned(),
            shape: "[64, 64]".to_owned(),
            warm_ns: 1e6 / speedup,
            spread_ns: (0.9e6 / speedup, 1.1e6 / speedup),
            clock: Clock::Host,
            cold_ns: 1e7,
            with_transfer_ns: None,
            rate: 0.1 * speedup,
            unit: if suite == "gemm" { "TFLOP/s" } else { "GB/s" },
            ceiling_share: Some(0.5),
            speedup: Some(speedup),
            speedup_with_transfer: None,
            error_of_bound: 0.1,
            max_relative_error: 1e-7,
            of_openblas: None,
            versus: (device == "cuda:0" && suite == "gemm").then(|| versus(case)),
            not_beside: None,
            profile: None,
        }
    }

    /// Twice as fast as the library on the aligned side, eight times on the unaligned one.
    fn versus(case: &str) -> Versus {
        let state = Some(CardState { mhz: 1755.0, watts: Some(650.0), celsius: None });
        let aligned = case.ends_with(" 64");
        let pair = |theirs_ns| Pair { ours_ns: 1e6, theirs_ns, ours_state: state, theirs_state: state };
        Versus {
            library: "cuBLASLt 13.1.0 #2".to_owned(),
            kernel: Some("gemm_f16_<wgmma>".to_owned()),
            aligned,
            burst: pair(if aligned { 2e6 } else { 8e6 }),
            sustained: aligned.then(|| pair(3e6)),
        }
    }

    /// The CPU and two devices, the case's speedups spread over several decades.
    pub(in super::super::super) fn table() -> Table {
        let cpu = Device::cpu().info().clone();
        let mut devices = vec![cpu.clone(), cpu.clone(), cpu];
        for (device, id) in devices[1..].iter_mut().zip(["cuda:0", "wgpu:0"]) {
            (device.id, device.kind) = (id.to_owned(), DeviceKind::Discrete);
        }
        let mut rows = Vec::new();
        for (case, suite) in [("<copy>", "copy"), ("gemm f32 64", "gemm"), ("gemm f32 128", "gemm")] {
            for (device, speedup) in [("cpu", 1.0), ("cuda:0", 120.0), ("wgpu:0", 0.04)] {
                rows.push(row(case, suite, device, speedup));
            }
        }
        let memory = MemoryUse { side: 64, f16_bytes: 1 << 20, f32_bytes: 2 << 20 };
        Table {
            machine: Machine::here(),
            devices,
            ceilings: vec![Ceilings::default(); 3],
            memory: vec![None, Some(memory), None],
            rows,
            networks: Vec::new(),
            first_use: Vec::new(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn page_shows_each_device_of_each_case_once() {
        let page = html(&table());
        // Two devices, three cases, one bar each; the CPU is the line at 1x.
        assert_eq!(page.matches("<rect class=\"bar\"").count(), 6);
        assert_eq!(page.matches("class=\"curve\"").count(), 3);
        assert_eq!(page.matches("rowspan=\"3\"").count(), 3);
        assert!(page.contains("<td class=\"n\">2.00 MiB<td class=\"n\">1.00 MiB<td class=\"n\">0.50</tr>"));
        assert!(page.contains("&lt;copy&gt;") && !page.contains("<copy>"));
        assert!(page.contains("Beside the vendor's library") && page.contains("&lt;wgmma&gt;"));
        assert!(page.contains("<td class=\"n\">2.000<td class=\"n\">3.000"), "burst and sustained");
        assert!(page.contains("1755 MHz, 650 W"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn a_product_that_is_not_beside_the_library_says_why() {
        let mut table = table();
        table.rows.iter_mut().for_each(|row| (row.versus, row.not_beside) = (None, Some("no <odd> pitch".to_owned())));
        let page = html(&table);
        assert!(!page.contains("Beside the vendor's library"));
        assert_eq!(page.matches("not beside the library: no &lt;odd&gt; pitch</p>").count(), table.rows.len());
    }

    #[test]
    fn page_without_rows_or_rates_is_still_a_page() {
        let mut empty = table();
        empty.rows.clear();
        assert!(!html(&empty).contains("<svg"));
        let mut zero = table();
        for row in &mut zero.rows {
            (row.rate, row.speedup) = (0.0, Some(0.0));
        }
        let page = html(&zero);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
