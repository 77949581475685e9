//! Matrix products beside the vendor's library: the part of a kept run that `polywarp bench --suite gemm` measured with both.

use serde_json::Value;

use super::{line, number};

/// One product by this library and by the vendor's.
#[derive(Clone, Debug, PartialEq)]
struct Beside {
    case: String,
    device: String,
    /// Operations in TFLOP: rates are this by the time.
    tflop: f64,
    burst: Pair,
    sustained: Option<Pair>,
    kernel: String,
    library: String,
}

/// Seconds of one launch, and the card's clock meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    ours_ns: f64,
    theirs_ns: f64,
    mhz: Option<(f64, f64)>,
}

/// Geometric means of one kind of product on one device.
#[derive(Clone, Debug, PartialEq)]
struct Mean {
    kind: String,
    device: String,
    cases: u64,
    burst: f64,
    burst_aligned: Option<f64>,
    worst_aligned: Option<(String, f64)>,
    sustained: Option<f64>,
}

/// What a folder says of products.
#[derive(Debug, Default)]
pub struct Products {
    rows: Vec<Beside>,
    means: Vec<Mean>,
    /// Sentences: tensor cores against plain ones, memory in half precision.
    said: Vec<String>,
}

impl Pair {
    fn of(value: &Value) -> Option<Pair> {
        let number = |key: &str| value.get(key)?.as_f64();
        let mhz = |key: &str| value.get(key)?.get("mhz")?.as_f64();
        let mhz = mhz("ours_state").zip(mhz("theirs_state"));
        Some(Pair { ours_ns: number("ours_ns")?, theirs_ns: number("theirs_ns")?, mhz })
    }

    fn ratio(&self) -> f64 {
        self.theirs_ns / self.ours_ns
    }
}

fn beside(row: &Value) -> Option<Beside> {
    let word = |key: &str| Some(row.get(key)?.as_str()?.to_owned());
    let versus = row.get("versus")?;
    let said = |key: &str| versus[key].as_str().unwrap_or("-").to_owned();
    Some(Beside {
        case: word("case")?,
        device: word("device")?,
        tflop: row.get("rate")?.as_f64()? * row.get("warm_ns")?.as_f64()? * 1e-9,
        burst: Pair::of(&versus["burst"])?,
        sustained: Pair::of(&versus["sustained"]),
        kernel: said("kernel"),
        library: said("library"),
    })
}

fn mean(value: &Value) -> Option<Mean> {
    let word = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let worst = &value["worst_aligned"];
    Some(Mean {
        kind: word("kind")?,
        device: word("device")?,
        cases: value.get("cases")?.as_u64()?,
        burst: value.get("burst")?.as_f64()?,
        burst_aligned: value["burst_aligned"].as_f64(),
        worst_aligned: worst[0].as_str().map(str::to_owned).zip(worst[1].as_f64()),
        sustained: value["sustained"][0].as_f64(),
    })
}

impl Products {
    /// Takes what one JSON line says of products, if it does.
    pub fn add(&mut self, value: &Value) -> Result<(), String> {
        if let Some(row) = value.get("row").filter(|row| row["versus"].is_object()) {
            self.rows.push(beside(row).ok_or("a row beside the vendor's library lacks times")?);
        }
        if let Some(found) = value.get("vendor_mean") {
            let found = mean(found).ok_or("a mean lacks kind, device, cases or burst")?;
            let Mean { kind, device, .. } = &found;
            if self.means.iter().any(|known| known.kind == *kind && known.device == *device) {
                return Err(format!("two means of {kind} on {device}: measure all of a kind in one run"));
            }
            self.means.push(found);
        }
        if let (Some(cores), Some(times)) = (value.get("tensor_cores"), value["times"].as_f64()) {
            let word = |key: &str| cores[key].as_f64().map_or_else(|| "?".to_owned(), number);
            let (device, side) = (cores["device"].as_str().unwrap_or("?"), &cores["side"]);
            let (f16, f32) = (word("f16"), word("f32"));
            self.said.push(format!(
                "`{device}`, {side}^3: f16 on tensor cores {f16} TFLOP/s, f32 on plain cores {f32}: {times:.1} times as fast"
            ));
        }
        if let (Some(device), Some(memory)) = (value.get("device"), value.get("memory").filter(|m| m.is_object())) {
            let bytes = |key: &str| memory[key].as_f64();
            if let Some((half, single)) = bytes("f16_bytes").zip(bytes("f32_bytes")) {
                let (device, side) = (device["id"].as_str().unwrap_or("?"), &memory["side"]);
                self.said.push(format!(
                    "`{device}`, {side}^3: memory of the pool in f16 {:.2} of that in f32 ({:.0} of {:.0} MiB)",
                    half / single,
                    half / f64::from(1 << 20),
                    single / f64::from(1 << 20)
                ));
            }
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The folder's part: sentences, means, every product.
    pub fn table(&self, out: &mut String) {
        if !self.said.is_empty() {
            line(out, "");
            self.said.iter().for_each(|said| line(out, &format!("- {said}")));
        }
        if self.is_empty() {
            return;
        }
        line(out, "\n## Beside the vendor's library\n\nTimes as fast: geometric means, then each product.\n");
        self.means(out);
        line(
            out,
            "\n| case | device | us | library | burst | sustained | TFLOP/s | library | MHz, ours / theirs | kernel |",
        );
        line(out, "|---|---|---|---|---|---|---|---|---|---|");
        for row in &self.rows {
            let held = |value: &dyn Fn(&Pair) -> String| row.sustained.as_ref().map_or_else(|| "-".to_owned(), value);
            let tflops = |ns: f64| number(row.tflop / (ns * 1e-9));
            let mhz = row.sustained.unwrap_or(row.burst).mhz;
            let cells = [
                row.case.clone(),
                row.device.clone(),
                number(row.burst.ours_ns / 1e3),
                number(row.burst.theirs_ns / 1e3),
                format!("{:.3}", row.burst.ratio()),
                held(&|pair| format!("{:.3}", pair.ratio())),
                held(&|pair| tflops(pair.ours_ns)),
                held(&|pair| tflops(pair.theirs_ns)),
                mhz.map_or_else(|| "-".to_owned(), |(ours, theirs)| format!("{ours:.0} / {theirs:.0}")),
                format!("{} / {}", row.kernel, row.library),
            ];
            line(out, &format!("| {} |", cells.join(" | ")));
        }
    }

    /// The document's table: one line for each kind.
    pub fn means(&self, out: &mut String) {
        line(
            out,
            "| | products | in bursts | of aligned shapes | sustained | worst aligned shape | 4096^3, sustained TFLOP/s |",
        );
        line(out, "|---|---|---|---|---|---|---|");
        for mean in &self.means {
            let optional = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.2}"));
            let worst = mean.worst_aligned.as_ref().map_or_else(
                || "-".to_owned(),
                |(case, ratio)| format!("{ratio:.2} ({})", case.rsplit(' ').next().unwrap_or(case)),
            );
            let case = format!("gemm {} 4096", mean.kind);
            let row = self.rows.iter().find(|row| row.case == case && row.device == mean.device);
            let rates = row.map_or_else(
                || "-".to_owned(),
                |row| {
                    let Pair { ours_ns, theirs_ns, .. } = row.sustained.unwrap_or(row.burst);
                    let [ours, theirs] = [ours_ns, theirs_ns].map(|ns| number(row.tflop / (ns * 1e-9)));
                    let short = if row.sustained.is_none() { " (bursts)" } else { "" };
                    format!("{ours}; library {theirs}{short}")
                },
            );
            let (kind, cases, burst) = (&mean.kind, mean.cases, mean.burst);
            let (aligned, held) = (optional(mean.burst_aligned), optional(mean.sustained));
            line(out, &format!("| {kind} | {cases} | {burst:.2} | {aligned} | {held} | {worst} | {rates} |"));
        }
    }
}
