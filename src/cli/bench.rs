//! `polywarp bench`: the speedup tables on this machine's own devices.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polywarp::bench::{self, BenchSize, Options, Table};
use polywarp::{Device, Profile};

use super::files::{self, check_distinct, check_writable, is_output};
use super::{BETWEEN_LINES, Fault, Output, Verdict, progress_bar, say, say_beside};

/// Measures every device of this machine and prints the speedup tables
#[derive(clap::Args)]
pub struct Args {
    /// Only this device and the CPU it is compared with, such as `wgpu:0`; may be given again; every device when left out
    #[arg(long, value_name = "D")]
    device: Vec<String>,
    /// Without the CPU, unless it is named
    #[arg(long, requires = "device")]
    alone: bool,
    /// Only this suite, and all of it: copy, elementwise, first_use (of the tuner), gemm, networks, random, reduce or softmax
    #[arg(long, value_name = "S")]
    suite: Option<String>,
    /// Only what quoted speedups are judged by: products and whole networks, on a GPU and on the CPU
    #[arg(long, conflicts_with_all = ["suite", "alone"])]
    claims: bool,
    /// Only cases whose name contains this, such as `f16`; may be given again for more
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Problem sizes of all: small (simulated GPUs), normal (CPUs) or large (GPUs); each device's own when left out, and the
    /// CPU takes those of the others too
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<BenchSize>,
    /// Seconds to spend on repeating each case on each device
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = parse_budget, allow_negative_numbers = true)]
    budget: f64,
    /// Seconds that a long product runs without pause, and the vendor's library beside it; 0 for short bursts alone
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = parse_budget, allow_negative_numbers = true)]
    sustained: f64,
    /// Writes the figures as JSON, one object per line; `-` is standard output, and the table goes to standard error then. While
    /// measuring, those known so far are in F.part
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Writes the page with plots; `-` as with --json
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
    /// Writes the plot of the claims as SVG; `-` as with --json
    #[arg(long, value_name = "F")]
    svg: Option<PathBuf>,
    /// Runs each case once more launch by launch, prints where its time goes and writes a trace that ui.perfetto.dev opens; `-` as with
    /// --json
    #[arg(long, value_name = "F")]
    profile: Option<PathBuf>,
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
    let suites = bench::suites();
    if let Some(name) = args.suite.as_deref().filter(|name| !suites.contains(name)) {
        let names = suites.join(" ");
        return Err(Fault::usage(format!("no suite is called `{name}`: there are {names}")));
    }
    // Measuring takes minutes, so a file that cannot be written is reported before it starts.
    let named = [("--json", &args.json), ("--html", &args.html), ("--svg", &args.svg), ("--profile", &args.profile)];
    let named = named.into_iter().filter_map(|(flag, path)| Some((flag.to_owned(), path.as_deref()?)));
    let outputs: Vec<(String, &Path)> = named.collect();
    check_distinct(&[], &outputs)?;
    outputs.iter().try_for_each(|(_, path)| check_writable(path))?;
    let part = args.json.as_deref().filter(|path| !is_output(path)).map(Part::beside);
    let (devices, all_opened) = chosen_devices(&args.device, args.alone)?;
    let options = Options {
        suite: args.suite.clone(),
        claims: args.claims,
        only: args.only.clone(),
        size: args.size,
        budget: Duration::from_secs_f64(args.budget),
        sustained: Duration::from_secs_f64(args.sustained),
        profiled: args.profile.is_some(),
    };
    let table = run_with_progress(&devices, &options, part.as_ref());
    if [table.rows.len(), table.networks.len(), table.first_use.len(), table.skipped.len()] == [0; 4] {
        if args.only.is_empty() {
            return Err(Fault::usage(
                "none of these cases runs on these devices; name another suite or device".to_owned(),
            ));
        }
        let words = args.only.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
        return Err(Fault::usage(format!(
            "no case has {words} in its name; without --only the table shows the names of all cases"
        )));
    }
    say_beside(Output::beside(outputs.iter().map(|(_, path)| *path)), bench::terminal(&table))?;
    if let Some(path) = &args.json {
        let lines = table.json_lines().map_err(|e| Fault::Machine(format!("cannot write JSON: {e}")))?;
        save(path, &lines)?;
        part.as_ref().map_or(Ok(()), Part::remove)?;
    }
    if let Some(path) = &args.profile {
        let profiles = table.profiles();
        let beside = Output::beside(outputs.iter().map(|(_, path)| *path));
        for (case, profile) in &profiles {
            say_beside(beside, format!("\n{case}\n{profile}"))?;
        }
        save(path, &Profile::traces(&profiles))?;
    }
    if let Some(path) = &args.html {
        save(path, &bench::html(&table))?;
    }
    if let Some(path) = &args.svg {
        let Some(plot) = bench::claims_plot(&table) else {
            return Err(Fault::usage(
                "no claim was measured: a GPU is needed, and what claims are of (`--suite networks`, or all)"
                    .to_owned(),
            ));
        };
        save(path, &plot)?;
    }
    Ok(if table.has_faults() || !all_opened { Verdict::Wrong } else { Verdict::Well })
}

/// The named devices, and the CPU for comparison unless `alone`; without names, every usable device. Also whether all
/// of these could be opened.
fn chosen_devices(names: &[String], alone: bool) -> Result<(Vec<Device>, bool), Fault> {
    if !names.is_empty() {
        let mut devices: Vec<Device> = Vec::new();
        for name in Some("cpu").filter(|_| !alone).into_iter().chain(names.iter().map(String::as_str)) {
            let device = polywarp::device(name)?;
            if devices.iter().all(|known| known.id() != device.id()) {
                devices.push(device);
            }
        }
        return Ok((devices, true));
    }
    let usable = polywarp::devices().into_iter().filter(|entry| entry.unusable.is_none());
    Ok(opened(usable.map(|entry| entry.open())))
}

/// The devices that opened, and whether those are all. A device that fails does not prevent measuring the others;
/// `doctor` tells more about it.
fn opened(attempts: impl Iterator<Item = polywarp::Result<Device>>) -> (Vec<Device>, bool) {
    let (mut devices, mut all) = (Vec::new(), true);
    for attempt in attempts {
        match attempt {
            Ok(device) => devices.push(device),
            Err(error) => {
                eprintln!("left out: {error}");
                all = false;
            }
        }
    }
    (devices, all)
}

fn run_with_progress(devices: &[Device], options: &Options, part: Option<&Part>) -> Table {
    let bar = progress_bar("{bar:30} {pos}/{len} {elapsed}  {wide_msg}");
    let mut last_line = Instant::now();
    let mut last_part = Instant::now();
    let table = bench::run(devices, options, &mut |progress, so_far| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.what.clone());
        let is_under_way = progress.done < progress.total;
        if bar.is_hidden() && is_under_way && last_line.elapsed() >= BETWEEN_LINES {
            last_line = Instant::now();
            // Ignored, because nobody can be told when standard error is closed.
            let _ = writeln!(io::stderr(), "{} of {}: {}", progress.done, progress.total, progress.what);
        }
        if let Some(part) = part.filter(|_| is_under_way && last_part.elapsed() >= BETWEEN_PARTS) {
            last_part = Instant::now();
            part.save(so_far);
        }
        log::info!("{} of {}: {}", progress.done, progress.total, progress.what);
    });
    bar.finish_and_clear();
    table
}

/// Time between two saves of the figures known so far.
const BETWEEN_PARTS: Duration = Duration::from_secs(10);

/// The figures of a run that has not ended, in a file beside the one for all of them: what is left where a run is stopped.
struct Part(PathBuf);

impl Part {
    fn beside(path: &Path) -> Part {
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        Part(PathBuf::from(name))
    }

    /// A failure is told and not returned, because the run may still end well.
    fn save(&self, table: &Table) {
        let lines = table.json_lines().map_err(|error| Fault::Machine(error.to_string()));
        if let Err(fault) = lines.and_then(|lines| save(&self.0, &lines)) {
            log::warn!("figures so far not saved: {fault:?}");
        }
    }

    fn remove(&self) -> Result<(), Fault> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Fault::Machine(format!("cannot remove {}: {error}", self.0.display())))
            }
            _ => Ok(()),
        }
    }
}

fn save(path: &Path, text: &str) -> Result<(), Fault> {
    if is_output(path) {
        return say(text.trim_end());
    }
    files::save(path, &|out| out.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_so_far_lie_beside_the_file_and_leave_nothing() {
        let folder = std::env::temp_dir().join(format!("polywarp-part-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let part = Part::beside(&folder.join("figures.jsonl"));
        part.remove().unwrap();
        let options =
            Options { only: vec!["no such case".to_owned()], size: Some(BenchSize::Small), ..Options::default() };
        let table = bench::run(&[Device::cpu()], &options, &mut |_, so_far| part.save(so_far));
        let kept = std::fs::read_to_string(folder.join("figures.jsonl.part")).unwrap();
        assert_eq!(kept, table.json_lines().unwrap());
        part.remove().unwrap();
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn device_that_does_not_open_is_left_out_and_not_well() {
        let lost = || polywarp::Error::DeviceLost { device: "wgpu:0".into(), reason: "gone".into() };
        let (devices, all) = opened([Ok(Device::cpu()), Err(lost()), Ok(Device::cpu())].into_iter());
        assert_eq!((devices.len(), all), (2, false));
        let (devices, all) = opened([Ok(Device::cpu())].into_iter());
        assert_eq!((devices.len(), all), (1, true));
    }
}
