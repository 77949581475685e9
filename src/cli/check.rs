//! `polywarp check`: the conformance harness on the user's own device.

use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use polywarp::harness::{self, CONTRACT, Contract, Level, Outcome, Progress, Selection};
use polywarp::ops::REGISTRY;
use polywarp::{DType, Device};

use serde_json::json;

use super::{BETWEEN_LINES, Fault, Verdict, chosen_device, progress_bar, say};

/// Compares a device with the float64 oracle, operation by operation, and holds it to the rest of what is promised
#[derive(clap::Args)]
pub struct Args {
    /// The device, such as `wgpu:0`, or its PCI address or UUID; the default one when left out
    #[arg(long, value_name = "D")]
    device: Option<String>,
    /// Only this family of operations, such as `matmul`; or `contract`: memory, order, positions outside, functions of steps, users' kernels
    #[arg(long, value_name = "FAMILY")]
    op: Option<String>,
    /// Only cases with this dtype; those of `contract` have none
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<DType>,
    /// Only cases whose name contains this; a name as printed for a failure runs that case alone
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// All sizes and pairs, which takes minutes, instead of the quick selection
    #[arg(long)]
    full: bool,
    /// Where random values come from
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Instead of the cases N random fused expressions over special values, from `--seed` on
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["op", "dtype", "filter", "full"])]
    random: u64,
    /// Threads that run cases abreast; as many as the machine has cores when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Prints JSON: a line for each case as it ends, and the report as the last line
    #[arg(long)]
    json: bool,
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    text.parse().map_err(|e: polywarp::Error| e.to_string())
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let names: Vec<&str> = REGISTRY.iter().map(|f| f.name).chain([CONTRACT]).collect();
    if let Some(family) = args.op.as_deref().filter(|name| !names.contains(name)) {
        return Err(Fault::usage(format!(
            "no family of operations is called `{family}`: there are {}",
            names.join(" ")
        )));
    }
    let device = chosen_device(args.device.as_deref())?;
    let selection = Selection {
        family: args.op.clone(),
        dtype: args.dtype,
        filter: args.filter.clone(),
        level: if args.full { Level::Full } else { Level::Quick },
        seed: args.seed,
        random_programs: args.random,
        contract: Contract::Included,
        threads: args.threads.map_or_else(cores, usize::from),
        ..Selection::default()
    };
    let report = run_with_progress(&device, &selection, args.json)?;
    if args.json {
        say_line(&report)?;
    } else {
        say(report.to_string())?;
    }
    Ok(if report.ok() { Verdict::Well } else { Verdict::Wrong })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn run_with_progress(device: &Device, selection: &Selection, json: bool) -> Result<harness::Report, Fault> {
    let bar = progress_bar("{bar:30} {pos}/{len} {elapsed}, {prefix} failed  {wide_msg}");
    bar.set_prefix("0"); // the first case has not ended yet
    let (mut failed, mut written) = (0, Ok(()));
    let (start, mut last_line) = (Instant::now(), Instant::now());
    let report = harness::run(device, selection, &mut |progress| {
        let Progress { done, total, share, name, family: _, outcome } = progress;
        if matches!(outcome, Outcome::Fail(_)) {
            failed += 1;
        }
        bar.set_length(*total);
        bar.set_position(*done);
        bar.set_prefix(format!("about {:.0} s left, {failed}", left(*share, start.elapsed())));
        bar.set_message((*name).to_owned());
        if bar.is_hidden() && last_line.elapsed() >= BETWEEN_LINES {
            last_line = Instant::now();
            eprintln!("{}", line_of(*done, *total, failed, start.elapsed(), left(*share, start.elapsed())));
        }
        if json && written.is_ok() {
            written = say_line(&of_case(name, outcome));
        }
    });
    bar.finish_and_clear();
    written.map(|()| report)
}

/// Seconds that the rest takes at the pace so far, when `share` of the work took `elapsed`.
fn left(share: f64, elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * (1.0 - share) / share
}

/// How far the run is, and how long the rest takes.
fn line_of(done: u64, total: u64, failed: u64, elapsed: Duration, left: f64) -> String {
    let seconds = elapsed.as_secs_f64();
    format!("{done} of {total} cases, {failed} failed, {seconds:.0} s, about {left:.0} s left")
}

/// A case's line of JSON.
fn of_case(name: &str, outcome: &Outcome) -> serde_json::Value {
    match outcome {
        Outcome::Pass { share } => json!({ "case": name, "outcome": "passed", "share": share }),
        Outcome::Fail(failure) => json!({ "case": name, "outcome": "failed", "failure": failure }),
        Outcome::Unsupported { reason } => json!({ "case": name, "outcome": "unsupported", "reason": reason }),
        Outcome::ExpectedFail { link } => json!({ "case": name, "outcome": "expected_failure", "link": link }),
    }
}

fn say_line(value: &impl serde::Serialize) -> Result<(), Fault> {
    say(serde_json::to_string(value).map_err(|e| Fault::Machine(format!("cannot write JSON: {e}")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_count_and_time_left() {
        let elapsed = Duration::from_secs(10);
        let line = line_of(1200, 4800, 2, elapsed, left(0.5, elapsed));
        assert_eq!(line, "1200 of 4800 cases, 2 failed, 10 s, about 10 s left");
        assert_eq!(left(1.0, elapsed), 0.0);
    }
}
