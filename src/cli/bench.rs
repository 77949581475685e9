//! `polywarp bench`: the speedup tables on this machine's own devices.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polywarp::Device;
use polywarp::bench::{self, BenchSize, Options, Suite, Table};

use super::{Fault, Verdict, say};

/// Measures every device of this machine and prints the speedup tables
#[derive(clap::Args)]
pub struct Args {
    /// Only this device and the CPU it is compared with, such as `wgpu:0`; may be given again; every device when left out
    #[arg(long, value_name = "D")]
    device: Vec<String>,
    /// Without the CPU, unless it is named
    #[arg(long, requires = "device")]
    alone: bool,
    /// Only this suite, and all of it: copy, elementwise, gemm, random, reduce or softmax
    #[arg(long, value_name = "S")]
    suite: Option<String>,
    /// Only cases whose name contains this, such as `f16`
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Problem sizes: small (simulated GPUs), normal (CPUs) or large (GPUs); by the devices when left out
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<BenchSize>,
    /// Seconds to spend on repeating each case on each device
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = parse_budget)]
    budget: f64,
    /// Seconds that a long product runs without pause, and the vendor's library beside it; 0 for short bursts alone
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = parse_budget)]
    sustained: f64,
    /// Writes the figures as JSON, one object per line
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Writes the page with plots
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
}

fn parse_size(text: &str) -> Result<BenchSize, String> {
    match text {
        "small" => Ok(BenchSize::Small),
        "normal" => Ok(BenchSize::Normal),
        "large" => Ok(BenchSize::Large),
        _ => Err("there are small, normal and large".to_owned()),
    }
}

fn parse_budget(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0 to 3600 seconds".to_owned()) }
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    if let Some(name) = args.suite.as_deref().filter(|name| Suite::ALL.iter().all(|s| s.name() != *name)) {
        let names = Suite::ALL.map(Suite::name).join(" ");
        return Err(Fault::usage(format!("no suite is called `{name}`: there are {names}")));
    }
    let devices = chosen_devices(&args.device, args.alone)?;
    let options = Options {
        suite: args.suite.clone(),
        only: args.only.clone(),
        size: args.size,
        budget: Duration::from_secs_f64(args.budget),
        sustained: Duration::from_secs_f64(args.sustained),
    };
    let table = run_with_progress(&devices, &options);
    if table.rows.is_empty() && table.skipped.is_empty() {
        return Err(Fault::usage("no case has such a name".to_owned()));
    }
    say(bench::terminal(&table))?;
    if let Some(path) = &args.json {
        let lines = table.json_lines().map_err(|e| Fault::Machine(format!("cannot write JSON: {e}")))?;
        save(path, &lines)?;
    }
    if let Some(path) = &args.html {
        save(path, &bench::html(&table))?;
    }
    Ok(if table.has_faults() { Verdict::Wrong } else { Verdict::Well })
}

/// The named devices, with the CPU to compare them with unless they are to be `alone`; or every usable device.
fn chosen_devices(names: &[String], alone: bool) -> Result<Vec<Device>, Fault> {
    if !names.is_empty() {
        let mut devices: Vec<Device> = Vec::new();
        for name in Some("cpu").filter(|_| !alone).into_iter().chain(names.iter().map(String::as_str)) {
            let device = polywarp::device(name)?;
            if devices.iter().all(|known| known.id() != device.id()) {
                devices.push(device);
            }
        }
        return Ok(devices);
    }
    let mut devices = Vec::new();
    for entry in polywarp::devices().into_iter().filter(|entry| entry.unusable.is_none()) {
        // One route that fails must not keep the others from being measured; `doctor` says more of it.
        match entry.open() {
            Ok(device) => devices.push(device),
            Err(error) => eprintln!("left out: {error}"),
        }
    }
    Ok(devices)
}

/// The bar goes to standard error, and only where somebody can watch it.
fn run_with_progress(devices: &[Device], options: &Options) -> Table {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}  {wide_msg}") {
        bar.set_style(style);
    }
    let table = bench::run(devices, options, &mut |progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.what.clone());
        log::info!("{} of {}: {}", progress.done, progress.total, progress.what);
    });
    bar.finish_and_clear();
    table
}

fn save(path: &Path, text: &str) -> Result<(), Fault> {
    std::fs::write(path, text).map_err(|e| Fault::Machine(format!("{}: {e}", path.display())))
}
