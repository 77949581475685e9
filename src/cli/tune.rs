//! `polywarp tune`: finds the fastest kernels ahead of time, and handles what was found: lists, exports, merges, forgets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polywarp::bench::{self, BenchSize, Prepared};
use polywarp::ops::Matmul;
use polywarp::tuner::{Answer, Key, Mode, Place, Store, Table, Tuner, set_progress};
use polywarp::{DType, Device, Error, Layout, Op, Precision, Shape, TensorSpec};

use super::{Fault, Verdict, check_writable, chosen_device, progress_bar, say};

/// Times the kernels that could serve matrix products on this machine and remembers the fastest; shows, exports, merges or
/// forgets what is remembered
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("action").args(["list", "clear", "merge"]))]
pub struct Args {
    /// The device to tune, such as `cuda:0`, or its PCI address or UUID; the default one when left out
    #[arg(long, value_name = "D", conflicts_with = "action")]
    device: Option<String>,
    /// Sizes of the bench cases that are tuned: small (simulated GPUs), normal (CPUs) or large (GPUs)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "action")]
    size: Option<BenchSize>,
    /// Also the products of neural networks: other shapes, transposed weights, a bias and an activation, every precision
    #[arg(long, conflicts_with = "action")]
    common: bool,
    /// Only these products, MxNxK, instead of bench cases; may be given again
    #[arg(long, value_name = "MxNxK", value_parser = parse_shape, conflicts_with_all = ["action", "size", "common"])]
    shape: Vec<[u64; 3]>,
    /// Only products of this dtype
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype, conflicts_with = "action")]
    dtype: Option<DType>,
    /// Milliseconds to spend on each kind of product
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    budget: u64,
    /// Shows what is remembered for every device, and which kernels are in quarantine
    #[arg(long)]
    list: bool,
    /// Forgets everything: times and quarantine
    #[arg(long)]
    clear: bool,
    /// Adds the answers of a file that --export wrote, where they say more than those here
    #[arg(long, value_name = "F")]
    merge: Option<PathBuf>,
    /// Writes answers to a file: those just found, or all with --list or --merge
    #[arg(long, value_name = "F", conflicts_with = "clear")]
    export: Option<PathBuf>,
    /// Exports the time of each answer's winner only, as tables that ship have it
    #[arg(long, requires = "export")]
    winners: bool,
}

fn parse_size(text: &str) -> Result<BenchSize, String> {
    match text {
        "small" => Ok(BenchSize::Small),
        "normal" => Ok(BenchSize::Normal),
        "large" => Ok(BenchSize::Large),
        _ => Err("there are small, normal and large".to_owned()),
    }
}

fn parse_shape(text: &str) -> Result<[u64; 3], String> {
    let extents: Vec<u64> = text.split('x').filter_map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
    match extents[..] {
        [m, n, k] if text.matches('x').count() == 2 => Ok([m, n, k]),
        _ => Err("expected MxNxK, such as 4096x4096x1024".to_owned()),
    }
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    text.parse().map_err(|e: Error| e.to_string())
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    if !(args.list || args.clear || args.merge.is_some()) {
        return tune(args);
    }
    let store = Store::open(&Place::from_env());
    let Some(path) = store.path() else {
        return Err(Fault::Machine(
            "nothing is kept: POLYWARP_CACHE turns it off, or its directory is not usable".into(),
        ));
    };
    if args.clear {
        let path = path.display().to_string();
        say(format!("{} answers and verdicts forgotten ({path})", store.clear()))?;
        return Ok(Verdict::Well);
    }
    if let Some(file) = &args.merge {
        let table = read_table(file)?;
        say(format!("{} of {} answers taken", store.merge(&table), table.len()))?;
    }
    if args.list {
        list(&store)?;
    }
    export(args, &store.table())?;
    Ok(Verdict::Well)
}

/// Tables are small; this is far above any.
const MOST_TABLE_BYTES: u64 = 32 << 20;

fn read_table(path: &Path) -> Result<Table, Fault> {
    let fail = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?.len();
    if length > MOST_TABLE_BYTES {
        return Err(fail(format!("more than {MOST_TABLE_BYTES} bytes, which no table has")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    Table::from_json(&text).map_err(|error| fail(error.to_string()))
}

fn export(args: &Args, table: &Table) -> Result<(), Fault> {
    let Some(path) = &args.export else { return Ok(()) };
    let json = if args.winners { table.winners().to_json() } else { table.to_json() };
    std::fs::write(path, json).map_err(|e| Fault::Machine(format!("{}: {e}", path.display())))?;
    say(format!("{} answers written to {}", table.len(), path.display()))
}

fn list(store: &Store) -> Result<(), Fault> {
    let table = store.table();
    let mut device = None;
    for answer in table.answers() {
        if device != Some(&answer.identity) {
            let identity = &answer.identity;
            say(format!("{} ({}, {})", identity.device, identity.api, identity.driver))?;
            device = Some(&answer.identity);
        }
        say(format!("  {}: {}", answer.key, outcome(answer)))?;
    }
    let quarantine = store.quarantine();
    for verdict in &quarantine {
        let why = verdict.wrong.as_deref().unwrap_or_default();
        say(format!("quarantine: {} on {}: {}: {why}", verdict.candidate, verdict.identity.device, verdict.class))?;
    }
    say(format!("{} answers, {} kernels in quarantine", table.len(), quarantine.len()))
}

/// The winner, its time and its lead.
fn outcome(answer: &Answer) -> String {
    let time = |name: &str| answer.times.iter().find(|timed| timed.candidate == name).map(|timed| timed.ns);
    let own = time(&answer.winner);
    let others = answer.times.iter().filter(|timed| timed.candidate != answer.winner).map(|timed| timed.ns);
    let next = others.fold(f64::INFINITY, f64::min);
    let mut text = answer.winner.clone();
    if let Some(ns) = own {
        text.push_str(&format!(" {:.1} us", ns / 1e3));
        if next.is_finite() && ns > 0.0 {
            text.push_str(&format!(", the next {:+.0} %", 100.0 * (next / ns - 1.0)));
        }
    }
    text.push_str(&format!(" ({} timed{})", answer.times.len(), if answer.complete { "" } else { ", more to time" }));
    text
}

fn tune(args: &Args) -> Result<Verdict, Fault> {
    args.export.as_deref().map_or(Ok(()), check_writable)?;
    let device = chosen_device(args.device.as_deref())?;
    let Some(tuner) = device.tuner() else {
        return Err(Fault::usage(format!("{} has one kernel for each operation: nothing to tune", device.id())));
    };
    tuner.set(Mode::Full, Duration::from_millis(args.budget));
    let products = products(args, &device);
    let bar = progress_bar("{bar:30} {pos}/{len} {elapsed}  {wide_msg}");
    bar.set_length(products.len() as u64);
    let watched = bar.clone();
    set_progress(Some(Box::new(move |progress| {
        log::info!("{progress}");
        watched.set_message(progress.to_string());
    })));
    let mut table = Table::new();
    for (i, (name, op)) in (0..).zip(products) {
        bar.set_position(i);
        bar.set_message(name.clone());
        let Some(key) = Key::of(&op) else { continue };
        if table.get(tuner.identity(), &key.to_string()).is_some() {
            continue; // one answer serves both
        }
        if let Some(reason) = bench::unfit(&op, &device).or_else(|| bench::too_slow(&op, &device, None)) {
            bar.suspend(|| say(format!("{name}: left out: {reason}")))?;
            continue;
        }
        tuner.retune(&key);
        Prepared::new(&op, &device)?;
        match tuner.answer(&key) {
            Some(answer) => {
                bar.suspend(|| say(format!("{name}: {}", outcome(&answer))))?;
                table.add(answer);
            }
            None => bar.suspend(|| say(format!("{name}: one kernel serves it")))?,
        }
    }
    bar.finish_and_clear();
    export(args, &table)?;
    report_quarantine(tuner)
}

fn report_quarantine(tuner: &Tuner) -> Result<Verdict, Fault> {
    let quarantine = tuner.quarantine();
    for verdict in &quarantine {
        let why = verdict.wrong.as_deref().unwrap_or_default();
        say(format!("not used: {} ({}): {why}", verdict.candidate, verdict.class))?;
    }
    Ok(if quarantine.is_empty() { Verdict::Well } else { Verdict::Wrong })
}

/// Which way an operand lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    Plain,
    Transposed,
}

/// What is tuned, with names for people.
fn products(args: &Args, device: &Device) -> Vec<(String, Op)> {
    let dtypes = |wanted: &[DType]| -> Vec<DType> {
        wanted.iter().copied().filter(|dtype| args.dtype.is_none_or(|only| only == *dtype)).collect()
    };
    if !args.shape.is_empty() {
        let dtypes = args.dtype.map_or_else(|| vec![DType::F32, DType::F16, DType::BF16], |dtype| vec![dtype]);
        let each = args.shape.iter().flat_map(|shape| dtypes.iter().map(move |dtype| (*shape, *dtype)));
        return each
            .filter_map(|(shape, dtype)| product(shape, dtype, Lie::Plain, Lie::Plain, Precision::Highest))
            .collect();
    }
    let size = args.size.unwrap_or_else(|| bench::size_for(device, &[]));
    let cases = bench::cases(size, Some("gemm")).into_iter().filter(|case| Key::of(&case.op).is_some());
    let wanted = |op: &Op| args.dtype.is_none_or(|only| op.inputs().iter().any(|input| input.dtype == only));
    let mut all: Vec<(String, Op)> = cases.filter(|case| wanted(&case.op)).map(|case| (case.name, case.op)).collect();
    if !args.common {
        return all;
    }
    // Extents of layers: token counts, hidden sizes and their multiples, and of what is not aligned.
    let shapes = [
        [512, 512, 512],
        [1000, 1000, 1000],
        [1024, 1024, 1024],
        [2048, 2048, 2048],
        [4096, 4096, 4096],
        [8192, 8192, 8192],
        [4097, 4095, 4093],
        [4096, 4096, 14336],
        [4096, 14336, 4096],
        [8192, 1280, 8192],
        [512, 768, 768],
        [512, 3072, 768],
        [2048, 1024, 1024],
        [2048, 4096, 1024],
        [1, 4096, 4096],
        [8, 4096, 4096],
        [16, 4096, 4096],
        [64, 4096, 4096],
        [4096, 4096, 64],
        [256, 256, 16384],
    ];
    let lies = [(Lie::Plain, Lie::Plain), (Lie::Plain, Lie::Transposed), (Lie::Transposed, Lie::Plain)];
    for shape in shapes {
        for dtype in dtypes(&[DType::F16, DType::BF16, DType::I8, DType::F8E4M3, DType::F32, DType::F64]) {
            for (a, b) in lies {
                let precisions: &[Precision] = match dtype {
                    DType::F32 => &[Precision::Highest, Precision::High, Precision::Medium, Precision::Low],
                    _ => &[Precision::Highest],
                };
                all.extend(precisions.iter().filter_map(|&precision| product(shape, dtype, a, b, precision)));
            }
        }
        for dtype in dtypes(&[DType::F16, DType::BF16]) {
            all.extend(layer(shape, dtype));
        }
    }
    all
}

fn product([m, n, k]: [u64; 3], dtype: DType, a: Lie, b: Lie, precision: Precision) -> Option<(String, Op)> {
    let output = Matmul::output_dtype(dtype)?;
    let (a_spec, b_spec) = (operand([m, k], dtype, a)?, operand([k, n], dtype, b)?);
    let op = Matmul { precision, ..Matmul::product(a_spec, b_spec, operand([m, n], output, Lie::Plain)?) };
    let letter = |lie| if lie == Lie::Plain { 'n' } else { 't' };
    let name = format!("{dtype} {}{} {m}x{n}x{k} {precision:?}", letter(a), letter(b)).to_lowercase();
    Some((name, op.check().ok()?.into()))
}

/// A linear layer: weights by rows of outputs, a bias, an activation.
fn layer([m, n, k]: [u64; 3], dtype: DType) -> Option<(String, Op)> {
    let (a, b) = (operand([m, k], dtype, Lie::Plain)?, operand([k, n], dtype, Lie::Transposed)?);
    let shape = Shape::new(&[n]).ok()?;
    let bias = Some(TensorSpec::new(dtype, Layout::contiguous(shape)));
    let activation = Some(polywarp::UnaryFn::Gelu);
    let op = Matmul { bias, activation, ..Matmul::product(a, b, operand([m, n], dtype, Lie::Plain)?) };
    Some((format!("{dtype} layer {m}x{n}x{k}"), op.check().ok()?.into()))
}

fn operand([rows, columns]: [u64; 2], dtype: DType, lie: Lie) -> Option<TensorSpec> {
    let layout = match lie {
        Lie::Plain => Layout::contiguous(Shape::new(&[rows, columns]).ok()?),
        Lie::Transposed => Layout::contiguous(Shape::new(&[columns, rows]).ok()?).transpose(0, 1).ok()?,
    };
    Some(TensorSpec::new(dtype, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_three_extents() {
        assert_eq!(parse_shape("4096x1x12"), Ok([4096, 1, 12]));
        for text in ["", "4096", "4096x4096", "1x2x3x4", "0x1x1", "1xax1", "1x1x", "-1x1x1", "99999999999999999999x1x1"]
        {
            assert!(parse_shape(text).is_err(), "{text}");
        }
    }

    #[test]
    fn products_of_networks_make_an_op_each() {
        let kinds = [(Lie::Plain, Lie::Transposed), (Lie::Transposed, Lie::Plain)];
        for (a, b) in kinds {
            let (name, op) = product([5, 6, 7], DType::F16, a, b, Precision::Highest).unwrap();
            assert!(Key::of(&op).is_some(), "{name}");
        }
        assert!(layer([5, 6, 7], DType::BF16).is_some());
    }
}
