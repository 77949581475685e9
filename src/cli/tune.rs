//! `polywarp tune`: finds the fastest kernels ahead of time, and lists, exports, merges or forgets the results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use polywarp::bench::{self, BenchSize, Lie, Prepared, product};
use polywarp::ops::Matmul;
use polywarp::tuner::{Answer, Key, Mode, Place, Store, StoreError, Table, Tuner, set_progress};
use polywarp::{CACHE_VARIABLE, DType, Device, Error, Layout, Op, Precision, Shape, TensorSpec};

use super::files::{check_distinct, check_writable, is_output, save};
use super::{Fault, Output, Verdict, chosen_device, progress_bar, say, say_beside};

/// Times the kernels that could serve matrix products on this machine and remembers the fastest; shows, exports, merges or
/// forgets remembered answers
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
    /// Precision of the products of --shape that are of f32: highest, high, medium or low; may be given again
    #[arg(long, value_name = "P", value_parser = parse_precision, requires = "shape")]
    precision: Vec<Precision>,
    /// Milliseconds to spend on each kind of product
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = parse_budget, allow_negative_numbers = true)]
    budget: u64,
    /// Shows the remembered answers of every device, and which kernels are in quarantine
    #[arg(long)]
    list: bool,
    /// Forgets everything: times and quarantine
    #[arg(long)]
    clear: bool,
    /// Adds the answers of a file that --export wrote, where they say more than those here
    #[arg(long, value_name = "F")]
    merge: Option<PathBuf>,
    /// Writes answers to a file: those just found, or all with --list or --merge; `-` is standard output, and messages
    /// go to standard error then
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

fn parse_budget(text: &str) -> Result<u64, String> {
    let ms = text.parse::<u64>().ok().filter(|ms| (1..=600_000).contains(ms));
    ms.ok_or_else(|| "expected 1 to 600000 milliseconds".to_owned())
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    text.parse().map_err(|e: Error| e.to_string())
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    match text {
        "highest" => Ok(Precision::Highest),
        "high" => Ok(Precision::High),
        "medium" => Ok(Precision::Medium),
        "low" => Ok(Precision::Low),
        _ => Err("there are highest, high, medium and low".to_owned()),
    }
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let input = args.merge.iter().map(|path| ("--merge".to_owned(), path.as_path()));
    let output = args.export.iter().map(|path| ("--export".to_owned(), path.as_path()));
    check_distinct(&input.collect::<Vec<_>>(), &output.collect::<Vec<_>>())?;
    if !(args.list || args.clear || args.merge.is_some()) {
        return tune(args);
    }
    args.export.as_deref().map_or(Ok(()), check_writable)?;
    let store = Store::open(&Place::from_env());
    let Some(path) = store.path() else {
        let why = store.check().err().map(|error| unkept(&error)).unwrap_or_default();
        return Err(Fault::Machine(format!("nothing is kept here: {why}")));
    };
    if args.clear {
        let short =
            |error: StoreError| Fault::Machine(format!("only {} answers and verdicts forgotten: {error}", error.done));
        let path = path.display();
        say(format!("{} answers and verdicts forgotten ({path})", store.clear().map_err(short)?))?;
        return Ok(Verdict::Well);
    }
    if let Some(file) = &args.merge {
        let table = read_table(file)?;
        let short = |error: StoreError| {
            Fault::Machine(format!("only {} of {} answers taken: {error}", error.done, table.len()))
        };
        let taken = store.merge(&table).map_err(short)?;
        tell(args, format!("{taken} of {} answers taken", table.len()))?;
    }
    if args.list {
        list(args, &store)?;
    }
    export(args, &store.table())?;
    Ok(Verdict::Well)
}

/// Why no results are kept: the store's error, or the setting of the environment that names no directory.
fn unkept(error: &StoreError) -> String {
    if error.path.is_some() {
        return error.to_string();
    }
    match std::env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) if value == "off" => format!("{CACHE_VARIABLE} is off"),
        Some(value) => format!("{CACHE_VARIABLE} is `{}`, which is not an absolute path", value.display()),
        None if cfg!(windows) => format!("there is no absolute path in {CACHE_VARIABLE} or LOCALAPPDATA"),
        None => format!("there is no absolute path in {CACHE_VARIABLE}, XDG_CACHE_HOME or HOME"),
    }
}

/// Writes a line to standard output, or to standard error where the exported table goes to standard output.
fn tell(args: &Args, line: impl AsRef<str>) -> Result<(), Fault> {
    say_beside(Output::beside(args.export.as_deref().into_iter()), line)
}

fn warn(line: &str) {
    // Ignored, because nobody can be told when standard error is closed.
    let _ = writeln!(io::stderr(), "warning: {line}");
}

/// Far above the size of any table.
const MOST_TABLE_BYTES: u64 = 32 << 20;

fn read_table(path: &Path) -> Result<Table, Fault> {
    let fail = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?.len();
    if length > MOST_TABLE_BYTES {
        return Err(fail(format!("more than {MOST_TABLE_BYTES} bytes, which no table has")));
    }
    super::files::check_readable(path).map_err(fail)?;
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    Table::from_json(&text).map_err(|error| fail(error.to_string()))
}

fn export(args: &Args, table: &Table) -> Result<(), Fault> {
    let Some(path) = &args.export else { return Ok(()) };
    let json = if args.winners { table.winners().to_json() } else { table.to_json() };
    save(path, &|out| out.write_all(json.as_bytes()))?;
    if is_output(path) {
        return Ok(());
    }
    say(format!("{} answers written to {}", table.len(), path.display()))
}

fn list(args: &Args, store: &Store) -> Result<(), Fault> {
    let table = store.table();
    let mut device = None;
    for answer in table.answers() {
        if device != Some(&answer.identity) {
            let identity = &answer.identity;
            tell(args, format!("{} ({}, {})", identity.device, identity.api, identity.driver))?;
            device = Some(&answer.identity);
        }
        tell(args, format!("  {}: {}", answer.key, outcome(answer)))?;
    }
    let quarantine = store.quarantine();
    for verdict in &quarantine {
        let why = verdict.wrong.as_deref().unwrap_or_default();
        tell(
            args,
            format!("quarantine: {} on {}: {}: {why}", verdict.candidate, verdict.identity.device, verdict.class),
        )?;
    }
    let how = if table.is_empty() { "; `polywarp tune --device D` finds the fastest kernels of a device" } else { "" };
    tell(args, format!("{} answers, {} kernels in quarantine{how}", table.len(), quarantine.len()))
}

/// The winner, its time and its lead, as text.
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
    let named = named_products(args)?;
    args.export.as_deref().map_or(Ok(()), check_writable)?;
    let device = chosen_device(args.device.as_deref())?;
    let Some(tuner) = device.tuner() else {
        return Err(Fault::usage(format!("{} has one kernel for each operation: nothing to tune", device.id())));
    };
    tuner.set(Mode::Full, Duration::from_millis(args.budget));
    let products = if named.is_empty() { products(args, &device)? } else { named };
    let kept = tuner.store().check();
    if let Err(error) = &kept {
        warn(&format!("what is found is not kept: {}", unkept(error)));
    }
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
            bar.suspend(|| tell(args, format!("{name}: left out: {reason}")))?;
            continue;
        }
        tuner.retune(&key);
        Prepared::new(&op, &device)?;
        match tuner.answer(&key) {
            Some(answer) => {
                bar.suspend(|| tell(args, format!("{name}: {}", outcome(&answer))))?;
                table.add(answer);
            }
            None => bar.suspend(|| tell(args, format!("{name}: one kernel serves it")))?,
        }
    }
    bar.finish_and_clear();
    if let Some(error) = tuner.store().failure().filter(|_| kept.is_ok()) {
        warn(&format!("not all that was found is kept: {error}"));
    }
    export(args, &table)?;
    report_quarantine(args, tuner)
}

fn report_quarantine(args: &Args, tuner: &Tuner) -> Result<Verdict, Fault> {
    let quarantine = tuner.quarantine();
    for verdict in &quarantine {
        let why = verdict.wrong.as_deref().unwrap_or_default();
        tell(args, format!("not used: {} ({}): {why}", verdict.candidate, verdict.class))?;
    }
    Ok(if quarantine.is_empty() { Verdict::Well } else { Verdict::Wrong })
}

/// The products of --shape, with names for people; none without it.
fn named_products(args: &Args) -> Result<Vec<(String, Op)>, Fault> {
    if let Some(dtype) = args.dtype.filter(|&dtype| Matmul::output_dtype(dtype).is_none()) {
        let some = DType::ALL.into_iter().filter(|&dtype| Matmul::output_dtype(dtype).is_some());
        let names: Vec<&str> = some.map(DType::name).collect();
        return Err(Fault::usage(format!(
            "--dtype {dtype}: it has no products; there are those of {}",
            names.join(" ")
        )));
    }
    let dtypes = args.dtype.map_or_else(|| vec![DType::F32, DType::F16, DType::BF16], |dtype| vec![dtype]);
    let precisions = |dtype| match dtype {
        DType::F32 if !args.precision.is_empty() => args.precision.clone(),
        _ => vec![Precision::Highest],
    };
    let kinds: Vec<(DType, Precision)> = dtypes
        .into_iter()
        .flat_map(|dtype| precisions(dtype).into_iter().map(move |precision| (dtype, precision)))
        .collect();
    let each = args.shape.iter().flat_map(|shape| kinds.iter().map(move |kind| (*shape, *kind)));
    let all = each.map(|(shape, (dtype, precision))| {
        let [m, n, k] = shape;
        named(shape, dtype, [Lie::Plain; 2], precision)
            .map_err(|error| Fault::usage(format!("--shape {m}x{n}x{k}: {error}; give other extents")))
    });
    all.collect()
}

/// The products to tune when no --shape names any.
fn products(args: &Args, device: &Device) -> Result<Vec<(String, Op)>, Fault> {
    let size = args.size.unwrap_or_else(|| bench::size_for(device, &[]));
    let cases = bench::cases(size, Some("gemm")).into_iter().filter(|case| Key::of(&case.op).is_some());
    let wanted = |op: &Op| args.dtype.is_none_or(|only| op.inputs().iter().any(|input| input.dtype == only));
    let mut all: Vec<(String, Op)> = cases.filter(|case| wanted(&case.op)).map(|case| (case.name, case.op)).collect();
    if args.common {
        all.extend(common_products(args.dtype));
    }
    if all.is_empty() {
        let dtype = args.dtype.map(|dtype| format!(" of {dtype}")).unwrap_or_default();
        let which = format!("nothing to tune: there is no such product{dtype} at this size");
        return Err(Fault::usage(format!("{which}; name one with --shape MxNxK")));
    }
    Ok(all)
}

/// The products of neural networks, of one dtype or of all.
fn common_products(only: Option<DType>) -> Vec<(String, Op)> {
    let dtypes = |wanted: &[DType]| -> Vec<DType> {
        wanted.iter().copied().filter(|dtype| only.is_none_or(|only| only == *dtype)).collect()
    };
    let mut all = Vec::new();
    // Extents of layers (token counts, hidden sizes and their multiples), and unaligned extents.
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
    let lies = [[Lie::Plain; 2], [Lie::Plain, Lie::Transposed], [Lie::Transposed, Lie::Plain]];
    for shape in shapes {
        for dtype in dtypes(&[DType::F16, DType::BF16, DType::I8, DType::F8E4M3, DType::F32, DType::F64]) {
            for lies in lies {
                let precisions: &[Precision] = match dtype {
                    DType::F32 => &[Precision::Highest, Precision::High, Precision::Medium, Precision::Low],
                    _ => &[Precision::Highest],
                };
                all.extend(precisions.iter().filter_map(|&precision| named(shape, dtype, lies, precision).ok()));
            }
        }
        for dtype in dtypes(&[DType::F16, DType::BF16]) {
            all.extend(layer(shape, dtype));
        }
    }
    all
}

/// A product, with a name for people.
fn named([m, n, k]: [u64; 3], dtype: DType, [a, b]: [Lie; 2], precision: Precision) -> polywarp::Result<(String, Op)> {
    let letter = |lie| if lie == Lie::Plain { 'n' } else { 't' };
    let name = format!("{dtype} {}{} {m}x{n}x{k} {precision:?}", letter(a), letter(b)).to_lowercase();
    Ok((name, product([m, n, k], dtype, [a, b], precision)?.check()?.into()))
}

/// A linear layer: weights with one row for each output, a bias, an activation.
fn layer([m, n, k]: [u64; 3], dtype: DType) -> polywarp::Result<(String, Op)> {
    let plain = product([m, n, k], dtype, [Lie::Plain, Lie::Transposed], Precision::default())?;
    let bias = Some(TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[n])?)));
    let op = Matmul { bias, activation: Some(polywarp::UnaryFn::Gelu), ..plain };
    Ok((format!("{dtype} layer {m}x{n}x{k}"), op.check()?.into()))
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
    fn budget_is_a_number_of_milliseconds_in_range() {
        assert_eq!((parse_budget("1"), parse_budget("600000")), (Ok(1), Ok(600_000)));
        for text in ["0", "-1", "600001", "1.5", "soon", ""] {
            assert!(parse_budget(text).is_err(), "{text}");
        }
    }

    #[test]
    fn products_of_networks_make_an_op_each() {
        let kinds = [(Lie::Plain, Lie::Transposed), (Lie::Transposed, Lie::Plain)];
        for (a, b) in kinds {
            let (name, op) = named([5, 6, 7], DType::F16, [a, b], Precision::Highest).unwrap();
            assert!(Key::of(&op).is_some(), "{name}");
        }
        assert!(layer([5, 6, 7], DType::BF16).is_ok());
    }
}
