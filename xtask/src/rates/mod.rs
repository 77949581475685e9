//! The kept tables of rates, made from what `polywarp bench --json` wrote, so that no figure is typed by hand.
//!
//! A folder of `benches/results` that has a `rates.md` holds a measured machine: JSON lines of one or more runs, and
//! PyTorch's rates in `torch.txt` where there are any (`name  time  rate unit`). The tables of `docs/performance.md`, of rates and of products
//! beside the vendor's library (`products.rs`), are each made from the one folder that they name. `cargo xtask docs` compares
//! all of them with their sources.

mod products;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Result;
use products::Products;

const TABLE: &str = "rates.md";
/// The document that keeps tables.
const DOCUMENT: &str = "docs/performance.md";
/// A table of it.
struct Kept {
    /// It stands between these; the first goes on with the folder's name and ` -->`.
    begin: &'static str,
    end: &'static str,
    make: fn(&Run) -> String,
}

const KEPT: [Kept; 2] = [
    Kept { begin: "<!-- rates: ", end: "<!-- end of rates -->", make: Run::document },
    Kept { begin: "<!-- products: ", end: "<!-- end of products -->", make: Run::document_products },
];

/// The document's rows: cases of one row stand side by side.
const DOCUMENT_ROWS: [(&str, &[&str]); 8] = [
    ("copy", &["copy f32"]),
    ("add", &["add f32"]),
    ("exp", &["exp f32"]),
    ("sum of all / rows / columns", &["sum all f32", "sum rows f32", "sum columns f32"]),
    ("softmax of rows", &["softmax rows f32"]),
    ("transpose", &["transpose f32"]),
    ("f32 product, 4096^3", &["gemm f32 4096"]),
    ("f16 product, 4096^3", &["gemm f16 4096"]),
];

/// One case on one device.
#[derive(Clone, Debug, PartialEq)]
struct Rate {
    case: String,
    shape: String,
    device: String,
    rate: f64,
    unit: String,
    of_copy: Option<f64>,
    /// `device` or `host`.
    clock: String,
}

/// What one folder says.
#[derive(Debug, Default)]
struct Run {
    /// Machine and polywarp, once per different file.
    machines: Vec<String>,
    /// In the order of measuring.
    devices: Vec<(String, String)>,
    rates: Vec<Rate>,
    /// PyTorch's, by the name of its line.
    torch: BTreeMap<String, (f64, String)>,
    products: Products,
}

impl Run {
    fn read(folder: &Path) -> Result<Run> {
        let mut run = Run::default();
        for path in json_files(folder)? {
            run.add(&text(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if run.rates.is_empty() {
            return Err(format!(
                "{}: no rows; keep the lines of `polywarp bench --json F.jsonl` there",
                folder.display()
            ));
        }
        if let Ok(torch) = std::fs::read_to_string(folder.join("torch.txt")) {
            run.torch = torch.lines().filter_map(torch_line).collect();
        }
        Ok(run)
    }

    /// Adds the JSON lines of one file.
    fn add(&mut self, lines: &str) -> Result {
        for (number, line) in lines.lines().enumerate() {
            let at = |why: &str| format!("line {}: {why}", number + 1);
            let value: Value = serde_json::from_str(line).map_err(|error| at(&error.to_string()))?;
            if let Some(machine) = value.get("machine") {
                let words = ["version", "commit", "cpu", "system"].map(|key| machine[key].as_str().unwrap_or("?"));
                let [version, commit, cpu, system] = words;
                let threads = &machine["cpu_threads"];
                let described = format!("polywarp {version} at {commit}; {cpu}, {threads} threads, {system}");
                if !self.machines.contains(&described) {
                    self.machines.push(described);
                }
            } else if let Some(device) = value.get("device") {
                let word = |key: &str| device[key].as_str().unwrap_or("?").to_owned();
                let id = word("id");
                let described = format!("{} through {}, driver {}", word("name"), word("api"), word("driver"));
                if !self.devices.iter().any(|(known, _)| *known == id) {
                    self.devices.push((id, described));
                }
            } else if let Some(row) = value.get("row") {
                let rate = rate(row).ok_or_else(|| at("a row lacks case, shape, device, rate, unit or clock"))?;
                if self.find(&rate.case, &rate.device).is_some() {
                    let (case, device) = (&rate.case, &rate.device);
                    return Err(at(&format!("`{case}` on {device} stands twice in this folder; keep one run of it")));
                }
                self.rates.push(rate);
            }
            self.products.add(&value).map_err(|why| at(&why))?;
        }
        Ok(())
    }

    fn find(&self, case: &str, device: &str) -> Option<&Rate> {
        self.rates.iter().find(|rate| rate.case == case && rate.device == device)
    }

    fn torch(&self, case: &str) -> Option<f64> {
        let rate = self.rates.iter().find(|rate| rate.case == case)?;
        let (value, unit) = self.torch.get(&torch_name(case, &rate.shape)?)?;
        (*unit == rate.unit).then_some(*value)
    }

    /// Everything but the CPU.
    fn gpus(&self) -> Vec<&str> {
        self.devices.iter().map(|(id, _)| id.as_str()).filter(|&id| id != "cpu").collect()
    }

    /// The folder's table.
    fn table(&self) -> String {
        let mut out = "# Rates\n\nMade by `cargo xtask rates` from the JSON lines and `torch.txt` beside it; not to be edited.\n\n".to_owned();
        self.machines.iter().for_each(|machine| line(&mut out, &format!("- {machine}")));
        self.devices.iter().for_each(|(id, described)| line(&mut out, &format!("- `{id}`: {described}")));
        let gpus = self.gpus();
        out.push('\n');
        let heads = gpus.iter().map(|id| format!("{id} | of its copy")).chain(["PyTorch".to_owned(), "cpu".to_owned()]);
        line(&mut out, &format!("| case | {} |", heads.collect::<Vec<_>>().join(" | ")));
        line(&mut out, &format!("|---{}|", "|---".repeat(2 * gpus.len() + 2)));
        let mut cases: Vec<(&str, &str)> = Vec::new();
        for rate in &self.rates {
            if !cases.iter().any(|(case, _)| *case == rate.case) {
                cases.push((&rate.case, &rate.unit));
            }
        }
        for (case, unit) in cases {
            let mut cells = vec![format!("{case}, {unit}")];
            for gpu in &gpus {
                let rate = self.find(case, gpu);
                cells.push(rate.map_or("-".to_owned(), |rate| format!("{}{}", number(rate.rate), mark(rate))));
                let share = rate.and_then(|rate| rate.of_copy.filter(|_| rate.unit == "GB/s"));
                cells.push(share.map_or("-".to_owned(), |share| format!("{share:.2}")));
            }
            cells.push(self.torch(case).map_or("-".to_owned(), number));
            cells.push(self.find(case, "cpu").map_or("-".to_owned(), |rate| number(rate.rate)));
            line(&mut out, &format!("| {} |", cells.join(" | ")));
        }
        if self.rates.iter().any(|rate| !mark(rate).is_empty()) {
            line(&mut out, "\n`h`: by the host's clock; all others by the device's own.");
        }
        self.products.table(&mut out);
        out
    }

    /// The document's table of products beside the vendor's library.
    fn document_products(&self) -> String {
        let mut out = String::new();
        self.products.means(&mut out);
        out
    }

    /// The document's table of rates.
    fn document(&self) -> String {
        let gpus = self.gpus();
        let first = gpus.first().copied().unwrap_or("cpu");
        let torch_copy = self.torch("copy f32");
        let mut out = String::new();
        let share = torch_copy.map_or("share of its own copy rate".to_owned(), |copy| {
            format!("{first}, share of PyTorch's copy rate ({} GB/s)", number(copy))
        });
        line(&mut out, &format!("| | {} | PyTorch | {share} |", gpus.join(" | ")));
        line(&mut out, &format!("|---{}|", "|---".repeat(gpus.len() + 2)));
        for (label, cases) in DOCUMENT_ROWS {
            let Some(unit) = self.rates.iter().find(|rate| rate.case == cases[0]).map(|rate| rate.unit.as_str()) else {
                continue;
            };
            let side_by_side = |value: &dyn Fn(&str) -> Option<String>| {
                let all: Vec<String> = cases.iter().map(|case| value(case).unwrap_or_else(|| "-".to_owned())).collect();
                if all.iter().all(|cell| cell == "-") { "-".to_owned() } else { all.join(" / ") }
            };
            let mut cells = vec![format!("{label}, {unit}")];
            for gpu in &gpus {
                cells.push(side_by_side(&|case| Some(number(self.find(case, gpu)?.rate))));
            }
            cells.push(side_by_side(&|case| self.torch(case).map(number)));
            cells.push(side_by_side(&|case| {
                let rate = self.find(case, first).filter(|rate| rate.unit == "GB/s")?;
                Some(format!("{:.2}", torch_copy.map_or(rate.of_copy, |copy| Some(rate.rate / copy))?))
            }));
            line(&mut out, &format!("| {} |", cells.join(" | ")));
        }
        out
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

fn mark(rate: &Rate) -> &'static str {
    if rate.clock == "host" { " h" } else { "" }
}

/// Four figures: 4280, 41.52, 0.8734.
fn number(value: f64) -> String {
    let before = value.abs().max(1e-9).log10().floor().max(-1.0) as i32 + 1;
    format!("{value:.*}", usize::try_from(4 - before).unwrap_or(0))
}

fn rate(row: &Value) -> Option<Rate> {
    let word = |key: &str| Some(row.get(key)?.as_str()?.to_owned());
    Some(Rate {
        case: word("case")?,
        shape: word("shape")?,
        device: word("device")?,
        rate: row.get("rate")?.as_f64()?,
        unit: word("unit")?,
        of_copy: row.get("ceiling_share").and_then(Value::as_f64),
        clock: word("clock")?,
    })
}

/// `add f32 2^28      0.7409 ms      4347.96 GB/s`
fn torch_line(line: &str) -> Option<(String, (f64, String))> {
    let mut fields = line.split("  ").map(str::trim).filter(|field| !field.is_empty());
    let (name, rate) = (fields.next()?, fields.nth(1)?);
    let (value, unit) = rate.split_once(' ')?;
    Some((name.to_owned(), (value.parse().ok()?, unit.trim().to_owned())))
}

/// What PyTorch's line of the same computation is called; `None` for sizes that it was not measured at.
fn torch_name(case: &str, shape: &str) -> Option<String> {
    let sized = |size: &str, marks: &str| shape.starts_with(marks).then(|| size.to_owned());
    let words: Vec<&str> = case.split(' ').collect();
    let flat = || sized("2^28", "[268435456]");
    let square = || sized("16384x16384", "[16384, 16384]");
    Some(match words[..] {
        ["gemm", kind, extents] => {
            let kind = match kind {
                "f32-medium" => "tf32",
                "i8-nt" => "i8",
                "f8e4m3-nt" => "fp8e4m3",
                "i8" | "f32-high" => return None,
                other => other,
            };
            match extents.split_once("x(") {
                Some((batch, extents)) => format!("bgemm {kind} {batch}x{}", extents.trim_end_matches(')')),
                None if extents.contains('x') => format!("gemm {kind} {extents}"),
                None => format!("gemm {kind} {extents}x{extents}x{extents}"),
            }
        }
        ["sum", "all", dtype] => format!("sum {dtype} {}", flat()?),
        ["sum", "columns", dtype] => format!("sum cols {dtype} {}", square()?),
        ["sum", "rows", dtype] => format!("sum rows {dtype} {}", square()?),
        ["softmax", "rows", dtype] => format!("softmax {dtype} {}", square()?),
        ["transpose", dtype] => format!("transpose {dtype} {}", square()?),
        [op, dtype] => format!("{op} {dtype} {}", flat()?),
        _ => return None,
    })
}

fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Start and end of a table of the document, and the folder it is made from; `None` while it has none.
fn place(document: &str, kept: &Kept) -> Option<(std::ops::Range<usize>, PathBuf)> {
    let begin = document.find(kept.begin)? + kept.begin.len();
    let name_end = begin + document[begin..].find(" -->\n")?;
    let start = name_end + " -->\n".len();
    let end = start + document[start..].find(kept.end)?;
    Some((start..end, PathBuf::from(document[begin..name_end].trim())))
}

/// Makes the table of `folder`; and the document's, when it is made from that folder.
pub fn write(folder: &str) -> Result {
    let folder = Path::new(folder.trim_end_matches('/'));
    let run = Run::read(folder)?;
    let target = folder.join(TABLE);
    std::fs::write(&target, run.table()).map_err(|error| format!("{}: {error}", target.display()))?;
    println!("{} has {} rates", target.display(), run.rates.len());
    for kept in &KEPT {
        let document = text(Path::new(DOCUMENT))?;
        match place(&document, kept) {
            Some((range, named)) if named == folder => {
                let made = format!("{}{}{}", &document[..range.start], (kept.make)(&run), &document[range.end..]);
                std::fs::write(DOCUMENT, made).map_err(|error| format!("{DOCUMENT}: {error}"))?;
                println!("{DOCUMENT} has the table of `{}` anew", kept.begin);
            }
            Some((_, named)) => {
                println!("{DOCUMENT} has the table of `{}` from {}: change that line", kept.begin, named.display())
            }
            None => println!("{DOCUMENT} has no `{}FOLDER -->` line", kept.begin),
        }
    }
    Ok(())
}

/// Complaints about tables that are not what their sources give, for `cargo xtask docs`.
pub fn complaints() -> Vec<String> {
    let mut found = Vec::new();
    let folders = std::fs::read_dir("benches/results").map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut folders: Vec<PathBuf> = folders.map(Iterator::collect).unwrap_or_default();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join(TABLE).exists()) {
        let same = Run::read(folder).and_then(|run| Ok(run.table() == text(&folder.join(TABLE))?));
        let again = format!("cargo xtask rates {}", folder.display());
        match same {
            Ok(true) => {}
            Ok(false) => found.push(format!("{}: not what its JSON lines give: {again}", folder.join(TABLE).display())),
            Err(error) => found.push(error),
        }
    }
    let document = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    for kept in &KEPT {
        let Some((range, folder)) = place(&document, kept) else { continue };
        match Run::read(&folder).map(|run| (kept.make)(&run)) {
            Ok(made) if made == document[range] => {}
            Ok(_) => found.push(format!("{DOCUMENT}: its rates differ: cargo xtask rates {}", folder.display())),
            Err(error) => found.push(format!("{DOCUMENT}: {error}")),
        }
    }
    found
}

#[cfg(test)]
mod tests;
