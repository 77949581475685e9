//! The plots of the page, as SVG: bars of speedups and of claims, curves of matrix-product rates. All axes are logarithmic.

use std::fmt::{Result, Write};

use polywarp_core::{DType, DeviceKind};

use super::super::figures::significant;
use super::super::{Finding, Row, Table};
use super::{colour, device_index, escape, key};

/// Width of the drawings in their own units; the page scales them.
const WIDTH: f64 = 1000.0;

/// A logarithmic axis.
struct Axis {
    /// Decimal logarithms of the ends.
    from: f64,
    to: f64,
    /// The positions of the ends in the drawing.
    start: f64,
    end: f64,
}

impl Axis {
    /// An axis that holds all positive `values`, with `margin` decades on both sides; `None` without such a value.
    fn over(values: impl Iterator<Item = f64>, margin: f64, start: f64, end: f64) -> Option<Axis> {
        let logs = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        (low <= high).then_some(Axis { from: low - margin, to: high + margin, start, end })
    }

    /// The position of `value` in the drawing; that of the nearer end when it lies outside.
    fn at(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).log10() - self.from) / (self.to - self.from);
        self.start + (self.end - self.start) * share.clamp(0.0, 1.0)
    }

    /// Round values on the axis: powers of ten, and their multiples by 2 and 5 where there are few.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = if self.to - self.from < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(|tick| (self.from..=self.to).contains(&tick.log10())).collect()
    }
}

/// The devices in `indices` with their colours.
fn legend(table: &Table, indices: &[usize], out: &mut String) -> Result {
    let entry = |&i: &usize| {
        let device = &table.devices[i];
        // One card may appear through several APIs.
        let route = if device.kind == DeviceKind::Cpu { String::new() } else { format!(", {}", device.api) };
        format!("<span>{} {}{}</span>", key(table, i), escape(&device.name), escape(&route))
    };
    let keys: Vec<String> = indices.iter().map(entry).collect();
    writeln!(out, "<p class=\"legend\">{}</p>", keys.join(" "))
}

/// A round number as text, without the trailing zeros of `significant`.
fn tick_label(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { significant(value).trim_end_matches('0').to_owned() }
}

/// Horizontal bars of the speedup over the CPU, with the devices of a case side by side.
pub(super) fn speedups(table: &Table, out: &mut String) -> Result {
    const LEFT: f64 = 230.0;
    const BAR: f64 = 11.0;
    const GAP: f64 = 9.0;
    const HEADING: f64 = 26.0;
    const TOP: f64 = 24.0;
    let compared =
        |row: &&Row| table.devices[device_index(table, row)].kind != DeviceKind::Cpu && row.speedup.is_some();
    let bars: Vec<&Row> = table.rows.iter().filter(compared).collect();
    let speedups = bars.iter().filter_map(|row| row.speedup).chain([1.0]);
    let Some(axis) = Axis::over(speedups, 0.25, LEFT, WIDTH - 20.0).filter(|_| !bars.is_empty()) else {
        return Ok(());
    };
    let mut shown: Vec<usize> = bars.iter().map(|row| device_index(table, row)).collect();
    shown.sort_unstable();
    shown.dedup();
    writeln!(
        out,
        "<h2>Times faster than the CPU</h2>\n<p>Data on the device, kernels warm; the line at 1x is the CPU.</p>"
    )?;
    legend(table, &shown, out)?;

    let cases: Vec<&[&Row]> = bars.chunk_by(|a, b| a.case == b.case).collect();
    let suites = bars.chunk_by(|a, b| a.suite == b.suite).count();
    let height = TOP + HEADING * suites as f64 + GAP * cases.len() as f64 + BAR * bars.len() as f64 + TOP;
    writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"speedup over the CPU per case\">")?;
    for tick in axis.ticks() {
        let (x, class) = (axis.at(tick), if tick == 1.0 { "one" } else { "grid" });
        writeln!(out, "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{}\" class=\"{class}\"/>", height - TOP)?;
        for y in [TOP - 8.0, height - 8.0] {
            writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" class=\"tick\">{}x</text>", tick_label(tick))?;
        }
    }
    let (mut y, mut suite) = (TOP, "");
    for rows in cases {
        if rows[0].suite != suite {
            suite = &rows[0].suite;
            y += HEADING;
            writeln!(out, "<text x=\"0\" y=\"{:.1}\" class=\"suite\">{}</text>", y - 6.0, escape(suite))?;
        }
        let middle = y + BAR * rows.len() as f64 / 2.0 + 4.0;
        writeln!(
            out,
            "<text x=\"{}\" y=\"{middle:.1}\" class=\"label\">{}</text>",
            LEFT - 10.0,
            escape(&rows[0].case)
        )?;
        for row in rows {
            let speedup = row.speedup.unwrap_or(0.0);
            let (one, tip) = (axis.at(1.0), axis.at(speedup));
            writeln!(
                out,
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"/>",
                one.min(tip),
                (one - tip).abs().max(1.0),
                BAR - 1.0,
                colour(device_index(table, row))
            )?;
            let (x, class) = if speedup < 1.0 { (tip - 4.0, "value before") } else { (tip + 4.0, "value") };
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"{class}\">{}x</text>",
                y + 9.0,
                significant(speedup)
            )?;
            y += BAR;
        }
        y += GAP;
    }
    writeln!(out, "</svg>")
}

/// The part of the page's style that a drawing needs when it stands alone.
const ALONE: &str = "text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #333 } .grid { stroke: #e2e2e2 } \
    .one { stroke: #999 } .quoted { stroke: #111; stroke-width: 2 } .label { text-anchor: end } .tick { text-anchor: middle; fill: #777 }";

/// Horizontal bars of the measured ratio for each claim, and a line at the quoted ratio. `alone`: as a file of its own.
pub(super) fn claims(table: &Table, found: &[Finding], alone: bool, out: &mut String) -> Result {
    const LEFT: f64 = 470.0;
    const BAR: f64 = 13.0;
    const GAP: f64 = 12.0;
    const TOP: f64 = 34.0;
    const BOTTOM: f64 = 24.0;
    let values = found.iter().flat_map(|finding| [finding.times, finding.claim.times]).chain([1.0]);
    let Some(axis) = Axis::over(values, 0.25, LEFT, WIDTH - 20.0) else { return Ok(()) };
    let index = |id: &str| table.devices.iter().position(|device| device.id == id).unwrap_or(0);
    let mut shown: Vec<usize> = found.iter().map(|finding| index(&finding.device)).collect();
    shown.sort_unstable();
    shown.dedup();
    let claims: Vec<&[Finding]> = found.chunk_by(|a, b| a.claim == b.claim).collect();
    let height = TOP + BOTTOM + GAP * claims.len() as f64 + BAR * found.len() as f64;
    let space = if alone { "xmlns=\"http://www.w3.org/2000/svg\" " } else { "" };
    let label = "quoted and measured speedups over the CPU";
    writeln!(out, "<svg {space}viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">")?;
    if alone {
        writeln!(out, "<style>{ALONE}</style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>")?;
    }
    // The legend: a square and a name for each device, then the quoted ratio's line.
    let mut x = 4.0;
    for &device in &shown {
        let name = escape(&format!("{}, {}", table.devices[device].name, table.devices[device].api));
        writeln!(out, "<rect x=\"{x:.1}\" y=\"6\" width=\"11\" height=\"11\" fill=\"{}\"/>", colour(device))?;
        writeln!(out, "<text x=\"{:.1}\" y=\"16\">{name}</text>", x + 16.0)?;
        x += 40.0 + 7.0 * name.len() as f64;
    }
    writeln!(out, "<line class=\"quoted\" x1=\"{x:.1}\" y1=\"4\" x2=\"{x:.1}\" y2=\"19\"/>")?;
    writeln!(out, "<text x=\"{:.1}\" y=\"16\">what is quoted</text>", x + 8.0)?;
    for tick in axis.ticks() {
        let (x, class) = (axis.at(tick), if tick == 1.0 { "one" } else { "grid" });
        let end = height - BOTTOM;
        writeln!(out, "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{end}\" class=\"{class}\"/>")?;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" class=\"tick\">{}x</text>", height - 8.0, tick_label(tick))?;
    }
    let mut y = TOP;
    for findings in claims {
        let (claim, tall) = (&findings[0].claim, BAR * findings.len() as f64);
        let mark = axis.at(claim.times);
        let (quoted, middle) = (escape(claim.quoted), y + tall / 2.0 + 4.0);
        writeln!(out, "<text x=\"{}\" y=\"{middle:.1}\" class=\"label\">{quoted}</text>", LEFT - 10.0)?;
        for (row, finding) in findings.iter().enumerate() {
            let (one, tip, y) = (axis.at(1.0), axis.at(finding.times), y + BAR * row as f64);
            let (start, width, fill) = (one.min(tip), (one - tip).abs().max(1.0), colour(index(&finding.device)));
            writeln!(
                out,
                "<rect class=\"claim\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{fill}\"/>",
                BAR - 1.0
            )?;
            // The text stands beside the bar, or beside the line of the quoted ratio where it would cross that line.
            let beside = if (0.0..50.0).contains(&(mark - one.max(tip))) { mark } else { one.max(tip) };
            let value = significant(finding.times);
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"value\">{value}x</text>", beside + 4.0, y + 10.0)?;
        }
        let (x, end) = (mark, y + tall + 3.0);
        writeln!(out, "<line class=\"quoted\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{end:.1}\"/>", y - 4.0)?;
        y += tall + GAP;
    }
    writeln!(out, "</svg>")
}

/// One panel per dtype: rate of square products by size, one curve per device.
pub(super) fn products(table: &Table, out: &mut String) -> Result {
    const COLUMNS: usize = 3;
    const PANEL: f64 = WIDTH / COLUMNS as f64;
    const TALL: f64 = 230.0;
    let all: Vec<(&Row, f64, DType)> =
        table.rows.iter().filter_map(|row| square_product(&row.case).map(|(dtype, side)| (row, side, dtype))).collect();
    let mut dtypes: Vec<DType> = Vec::new();
    for (_, _, dtype) in &all {
        if !dtypes.contains(dtype) {
            dtypes.push(*dtype);
        }
    }
    let rates = || all.iter().map(|p| p.0.rate);
    let (left, right, bottom) = (52.0, PANEL - 14.0, TALL - 28.0);
    let (Some(across), Some(up)) =
        (Axis::over(all.iter().map(|p| p.1), 0.06, left, right), Axis::over(rates(), 0.12, bottom, 26.0))
    else {
        return Ok(());
    };
    let mut shown: Vec<usize> = all.iter().map(|p| device_index(table, p.0)).collect();
    shown.sort_unstable();
    shown.dedup();
    writeln!(out, "<h2>Matrix products: TFLOP/s by size</h2>\n<p>Square matrices of side n, one panel per dtype.</p>")?;
    legend(table, &shown, out)?;
    let height = TALL * dtypes.len().div_ceil(COLUMNS) as f64;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"rate of square products by size\">"
    )?;
    for (i, &dtype) in dtypes.iter().enumerate() {
        let (x0, y0) = (PANEL * (i % COLUMNS) as f64, TALL * (i / COLUMNS) as f64);
        writeln!(out, "<g transform=\"translate({x0:.1} {y0:.1})\">")?;
        writeln!(out, "<text x=\"{left}\" y=\"16\" class=\"suite\">{dtype}, TFLOP/s</text>")?;
        for tick in up.ticks() {
            let y = up.at(tick);
            writeln!(out, "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" class=\"grid\"/>")?;
            writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" class=\"label\">{}</text>",
                left - 6.0,
                y + 4.0,
                tick_label(tick)
            )?;
        }
        writeln!(out, "<line x1=\"{left}\" y1=\"{bottom}\" x2=\"{right:.1}\" y2=\"{bottom}\" class=\"one\"/>")?;
        let mut marks: Vec<f64> = all.iter().map(|p| p.1).collect();
        marks.sort_unstable_by(f64::total_cmp);
        // Where the marks of two sides would overlap, such as 1000 and 1024, the larger one stays.
        marks = (0..marks.len())
            .filter(|&i| marks.get(i + 1).is_none_or(|next| *next > 1.2 * marks[i]))
            .map(|i| marks[i])
            .collect();
        for mark in marks {
            let x = across.at(mark);
            writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" class=\"tick\">{mark}</text>", bottom + 16.0)?;
        }
        for &device in &shown {
            let of_device = all.iter().filter(|p| p.2 == dtype && device_index(table, p.0) == device);
            let mut points: Vec<(f64, f64)> = of_device.map(|p| (across.at(p.1), up.at(p.0.rate))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.is_empty() {
                continue;
            }
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let stroke = colour(device);
            writeln!(out, "<polyline points=\"{}\" stroke=\"{stroke}\" class=\"curve\"/>", path.join(" "))?;
            for (x, y) in points {
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{stroke}\"/>")?;
            }
        }
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

/// Dtype and side of a square product's case, named `gemm <dtype> <n>`.
fn square_product(case: &str) -> Option<(DType, f64)> {
    let (dtype, side) = case.strip_prefix("gemm ")?.split_once(' ')?;
    Some((dtype.parse().ok()?, side.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_dtype_are_read_from_a_products_name() {
        assert_eq!(square_product("gemm bf16 1024"), Some((DType::BF16, 1024.0)));
        assert_eq!(square_product("copy f32"), None);
        assert_eq!(square_product("gemm f32 bias"), None);
    }

    #[test]
    fn axis_holds_its_values_and_has_round_ticks() {
        let axis = Axis::over([0.02, 300.0].into_iter(), 0.1, 0.0, 100.0).unwrap();
        assert_eq!(axis.ticks(), [0.1, 1.0, 10.0, 100.0]);
        assert!(axis.at(0.02) > 0.0 && axis.at(300.0) < 100.0 && axis.at(0.0) == 0.0);
        let narrow = Axis::over([3.0].into_iter(), 0.2, 0.0, 1.0).unwrap();
        assert_eq!(narrow.ticks(), [2.0]);
        assert!(Axis::over([0.0, f64::NAN].into_iter(), 0.1, 0.0, 1.0).is_none());
        assert_eq!([0.01, 0.2, 1.0, 50.0].map(tick_label), ["0.01", "0.2", "1", "50"]);
    }
}
