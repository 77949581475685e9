//! The table as text, for a terminal or a log.

use std::fmt::Write;

use super::figures::{duration, mebibytes, significant};
use super::{Row, Table, claims, first_use, networks};

/// The whole table: machine, devices, one line per row, then the cases left out.
pub fn terminal(table: &Table) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(table, &mut out);
    out
}

fn write_all(table: &Table, out: &mut String) -> std::fmt::Result {
    let m = &table.machine;
    writeln!(
        out,
        "polywarp {} ({}, {}) on {}, {} x {}",
        m.version, m.commit, m.profile, m.system, m.cpu_threads, m.cpu
    )?;
    for (device, ceilings) in table.devices.iter().zip(&table.ceilings) {
        let ceiling = |x: Option<f64>, unit| x.map_or_else(|| "-".to_owned(), |x| format!("{} {unit}", significant(x)));
        writeln!(
            out,
            "  {:8} {} [{}; {}], copies {}, f32 multiply-adds {}",
            device.id,
            device.name,
            device.api,
            device.driver,
            ceiling(ceilings.copy_gb_per_s, "GB/s"),
            ceiling(ceilings.f32_tflop_per_s, "TFLOP/s"),
        )?;
    }
    for (device, memory) in table.devices.iter().zip(&table.memory) {
        let Some(memory) = memory else { continue };
        writeln!(
            out,
            "  {:8} memory of one product of {1} x {1} matrices: f32 {2}, f16 {3} ({4:.2} of it)",
            device.id,
            memory.side,
            mebibytes(memory.f32_bytes),
            mebibytes(memory.f16_bytes),
            memory.saving(),
        )?;
    }
    for cores in table.tensor_cores() {
        writeln!(
            out,
            "  {:8} tensor cores against plain cores, product of side {}: f16 {} TFLOP/s, f32 {} ({}x)",
            cores.device,
            cores.side,
            significant(cores.f16),
            significant(cores.f32),
            significant(cores.times()),
        )?;
    }
    let width = table.rows.iter().map(|r| r.case.len()).max().unwrap_or(4).max(4);
    let mut suite = "";
    for row in &table.rows {
        if row.suite != suite {
            suite = &row.suite;
            writeln!(out, "\n{suite}")?;
            writeln!(
                out,
                "  {:width$} {:8} {:>10} {:>10} {:>10} {:>9} {:8} {:>7} {:>8} {:>9} {:>7} {:>9} {:>7}",
                "case",
                "device",
                "warm",
                "cold",
                "+transfer",
                "rate",
                "",
                "ceiling",
                "vs cpu",
                "+transfer",
                "error",
                "OpenBLAS",
                "vendor"
            )?;
        }
        write_row(row, width, out)?;
    }
    write_versus(table, width, out)?;
    networks::write(table, out)?;
    first_use::write(table, out)?;
    claims::write(table, out)?;
    if !table.skipped.is_empty() {
        writeln!(out, "\nnot measured")?;
    }
    for (skipped, cases) in table.skipped_groups() {
        let mark = if skipped.fault { "FAULT " } else { "" };
        // Faults by name, all of them; of what was left out on purpose, how much.
        let named = if skipped.fault || cases.len() <= MOST_NAMED { cases.len() } else { FEW_NAMED };
        let others = if named < cases.len() { format!(" and {} others", cases.len() - named) } else { String::new() };
        writeln!(out, "  {mark}{}{others} on {}: {}", cases[..named].join(", "), skipped.device, skipped.reason)?;
    }
    writeln!(
        out,
        "\nwarm: median of one execution, data on the device. cold: first execution in the process, kernels prepared and tuned.\n\
         +transfer: inputs copied in, result copied out; not above 4 GiB. ceiling: share of the device's measured copy rate, of\n\
         f32 products of its f32 multiply-add rate; - where the ceiling is not measured: products of other dtypes and precisions\n\
         run on other units, random numbers are bound by neither.\n\
         vs cpu: times faster than the CPU backend in this run. error: share of the bound against the float64 oracle, at\n\
         most 1. OpenBLAS: the CPU backend's rate over OpenBLAS's, where that is installed. vendor: as fast as cuBLASLt, in turns."
    )
}

/// Cases that are named where they were left out for one reason, and how many of more.
const MOST_NAMED: usize = 6;
const FEW_NAMED: usize = 3;

/// The meaning of the precisions of products; printed where there are such products.
const PRECISIONS: &str = "f32-high: split over tensor cores, each product off by at most 2^-20 of |a||b|, where small elements count as 2^-29 of their\n\
     matrix's largest; f32-medium: tf32, at most 2^-10; f32: an FMA chain. All add the roundings of the sum.";

/// Products beside the vendor's library: each, and the means.
fn write_versus(table: &Table, width: usize, out: &mut String) -> std::fmt::Result {
    let rows: Vec<_> = table.rows.iter().filter_map(|row| Some((row, row.versus.as_ref()?))).collect();
    if rows.is_empty() && table.rows.iter().all(|row| row.not_beside.is_none()) {
        return Ok(());
    }
    writeln!(out, "\nbeside the vendor's library, in turns on the same operands")?;
    if !rows.is_empty() {
        writeln!(
            out,
            "  {:width$} {:8} {:>10} {:>10} {:>7} {:>9} {:>9} {:>9} {:>17}  kernel, library",
            "case", "device", "ours", "theirs", "burst", "sustained", "TFLOP/s", "theirs", "MHz"
        )?;
    }
    for (row, versus) in &rows {
        let optional = |x: Option<String>| x.unwrap_or_else(|| "-".to_owned());
        let tflops = |ns: f64| significant(row.rate * row.warm_ns / ns);
        let held = versus.sustained;
        let clocks = held.unwrap_or(versus.burst);
        let mhz = clocks.ours_state.zip(clocks.theirs_state);
        writeln!(
            out,
            "  {:width$} {:8} {:>10} {:>10} {:>7.3} {:>9} {:>9} {:>9} {:>17}  {}, {}",
            row.case,
            row.device,
            duration(versus.burst.ours_ns),
            duration(versus.burst.theirs_ns),
            versus.burst.ratio(),
            optional(held.map(|pair| format!("{:.3}", pair.ratio()))),
            optional(held.map(|pair| tflops(pair.ours_ns))),
            optional(held.map(|pair| tflops(pair.theirs_ns))),
            optional(mhz.map(|(ours, theirs)| format!("{:.0} / {:.0}", ours.mhz, theirs.mhz))),
            versus.kernel.as_deref().unwrap_or("-"),
            versus.library,
        )?;
    }
    for row in &table.rows {
        if let Some(why) = &row.not_beside {
            writeln!(out, "  {:width$} {:8} not beside it: {why}", row.case, row.device)?;
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  {:12} {:8} {:>5} {:>7} {:>8} {:>9}  worst aligned",
        "mean of", "device", "cases", "burst", "aligned", "sustained"
    )?;
    for mean in table.vendor_means() {
        let optional = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
        writeln!(
            out,
            "  {:12} {:8} {:>5} {:>7.3} {:>8} {:>9}  {}",
            mean.kind,
            mean.device,
            mean.cases,
            mean.burst,
            optional(mean.burst_aligned),
            optional(mean.sustained.map(|(mean, _)| mean)),
            mean.worst_aligned.map_or_else(|| "-".to_owned(), |(case, ratio)| format!("{ratio:.3} {case}")),
        )?;
    }
    writeln!(
        out,
        "  Times as fast as the library: geometric means. burst: short samples, highest clocks. aligned: without odd extents.\n  \
         sustained: long stretches of products over 0.1 ms; its TFLOP/s and clocks. The library has 32 MiB of workspace and the\n  \
         best of its first eight heuristics, where its result is within the bound."
    )?;
    writeln!(out, "  {}", PRECISIONS.replace('\n', "\n  "))
}

fn write_row(row: &Row, width: usize, out: &mut String) -> std::fmt::Result {
    let optional = |x: Option<String>| x.unwrap_or_else(|| "-".to_owned());
    writeln!(
        out,
        "  {:width$} {:8} {:>10} {:>10} {:>10} {:>9} {:8} {:>7} {:>8} {:>9} {:>7.3} {:>9} {:>7}",
        row.case,
        row.device,
        duration(row.warm_ns),
        duration(row.cold_ns),
        optional(row.with_transfer_ns.map(duration)),
        significant(row.rate),
        row.unit,
        optional(row.ceiling_share.map(|x| format!("{:.0} %", x * 100.0))),
        optional(row.speedup.map(|x| format!("{}x", significant(x)))),
        optional(row.speedup_with_transfer.map(|x| format!("{}x", significant(x)))),
        row.error_of_bound,
        optional(row.of_openblas.map(|x| format!("{x:.2}x"))),
        optional(row.versus.as_ref().map(|versus| format!("{:.2}x", versus.burst.ratio()))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_that_is_not_beside_the_library_says_why() {
        let mut table = crate::bench::html::tests::table();
        let why = Some("it takes no odd pitch".to_owned());
        let row = table.rows.iter_mut().find(|row| row.versus.is_some()).unwrap();
        (row.versus, row.not_beside) = (None, why.clone());
        let text = |table: &Table| {
            let mut text = String::new();
            write_versus(table, 20, &mut text).unwrap();
            text
        };
        let some = text(&table);
        assert_eq!(some.matches("cuda:0   not beside it: it takes no odd pitch\n").count(), 1, "{some}");
        assert!(some.contains("kernel, library") && some.contains("mean of"), "{some}");
        // Where no row has a comparison, no rates are printed.
        table.rows.iter_mut().for_each(|row| (row.versus, row.not_beside) = (None, why.clone()));
        let none = text(&table);
        assert_eq!(none.lines().count(), table.rows.len() + 2, "{none}");
    }

    #[test]
    fn faults_are_named_and_of_others_three_and_a_number() {
        let skipped = |number: usize, reason: &str, fault| crate::bench::Skipped {
            case: format!("case {number}"),
            device: "wgpu:0".to_owned(),
            reason: reason.to_owned(),
            fault,
        };
        let mut table = crate::bench::html::tests::table();
        table.skipped = (0..MOST_NAMED + 1).map(|number| skipped(number, "too large", false)).collect();
        table.skipped.extend((0..MOST_NAMED).map(|number| skipped(number, "not here", false)));
        table.skipped.extend((0..MOST_NAMED + 1).map(|number| skipped(number, "wrong", true)));
        let mut text = String::new();
        write_all(&table, &mut text).unwrap();
        let line = |reason: &str| text.lines().find(|line| line.ends_with(reason)).unwrap();
        assert_eq!(line("too large"), "  case 0, case 1, case 2 and 4 others on wgpu:0: too large");
        assert!(line("not here").contains("case 4, case 5 on"), "{text}");
        assert!(line("wrong").starts_with("  FAULT case 0,") && line("wrong").contains("case 5, case 6 on"), "{text}");
    }
}
