//! `polywarp check`: the conformance harness on the user's own device.

use polywarp::harness::{self, Level, Outcome, Selection};
use polywarp::ops::REGISTRY;
use polywarp::{DType, Device};

use super::{Fault, Verdict, chosen_device, progress_bar, say, say_json};

/// Compares a device with the float64 oracle, operation by operation
#[derive(clap::Args)]
pub struct Args {
    /// The device, such as `wgpu:0`, or its PCI address or UUID; the default one when left out
    #[arg(long, value_name = "D")]
    device: Option<String>,
    /// Only this family of operations, such as `matmul`
    #[arg(long, value_name = "FAMILY")]
    op: Option<String>,
    /// Only cases with this dtype
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
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    text.parse().map_err(|e: polywarp::Error| e.to_string())
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    if let Some(family) = args.op.as_deref().filter(|name| REGISTRY.iter().all(|f| f.name != *name)) {
        let names: Vec<&str> = REGISTRY.iter().map(|f| f.name).collect();
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
        ..Selection::default()
    };
    let report = run_with_progress(&device, &selection);
    if args.json {
        say_json(&report)?;
    } else {
        say(report.to_string())?;
    }
    Ok(if report.ok() { Verdict::Well } else { Verdict::Wrong })
}

fn run_with_progress(device: &Device, selection: &Selection) -> harness::Report {
    let bar = progress_bar("{bar:30} {pos}/{len} {elapsed}, {prefix} failed  {wide_msg}");
    let mut failed = 0;
    let report = harness::run(device, selection, &mut |progress| {
        if matches!(progress.outcome, Outcome::Fail(_)) {
            failed += 1;
        }
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_prefix(failed.to_string());
        bar.set_message(progress.case.name.clone());
    });
    bar.finish_and_clear();
    report
}
