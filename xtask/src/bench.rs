//! The main job's table: builds the program in release and has it measure every device of this machine.

use std::fs;
use std::path::Path;

use crate::command::Cmd;
use crate::{Result, setup};

/// Where the results go unless the arguments say otherwise.
const RESULTS: &str = "target/polywarp-bench";

/// `polywarp bench` with `arguments`, from nothing.
pub fn run(arguments: &[&str]) -> Result {
    setup::run(setup::Need::AnyGpu)?;
    let mut bench = Cmd::new("cargo run --release --package polywarp --bin polywarp -- bench");
    let mut written = Vec::new();
    for (flag, name) in [("--html", "report.html"), ("--json", "results.jsonl")] {
        let chosen = arguments.iter().any(|a| *a == flag || a.strip_prefix(flag).is_some_and(|v| v.starts_with('=')));
        if !chosen {
            written.push(Path::new(RESULTS).join(name));
            bench = bench.arg(flag).arg(Path::new(RESULTS).join(name));
        }
    }
    fs::create_dir_all(RESULTS).map_err(|e| format!("cannot make {RESULTS}: {e}"))?;
    bench.args(arguments).run()?;
    for path in written {
        // The whole path, so that a terminal can open it.
        println!("written: {}", fs::canonicalize(&path).unwrap_or(path).display());
    }
    Ok(())
}
