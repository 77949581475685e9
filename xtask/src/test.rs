//! Everything that must hold before a change is merged, in order; the first failure ends it with the command to repeat.
//!
//! One profile and as few feature sets as possible, so that the dependencies are built once: lints, feature sets and
//! documents share checked code, all tests and examples share compiled code.

use std::fs;
use std::path::Path;

use crate::command::Cmd;
use crate::counts::Counts;
use crate::programs::{self, Also};
use crate::run::Run;
use crate::text_encoder::{self, Encoder};
use crate::{Result, deny, library, profile, prove, ptxas, setup};

/// Feature sets besides the default, which all other steps have, and on which of four days each has its turn.
const FEATURES: [(&str, u64); 4] =
    [("", 0), (" --features cpu,ndarray", 1), (" --features cpu", 2), (" --features wgpu", 3)];

/// Runs all steps; the last line printed is `N passed, N failed`.
pub fn run() -> Result {
    Run::all(|run| {
        steps(run)?;
        run.leave_out(prove::WHAT);
        Ok(())
    })
}

/// The steps of the tests.
pub fn steps(run: &mut Run) -> Result {
    run.step("set-up", |_| setup::run(setup::Need::SoftwareGpus))?;
    let mut assembler = None;
    run.step("assembler", |_| {
        assembler = ptxas::fetch()?;
        Ok(())
    })?;
    run.assembler = assembler.map(|path| path.display().to_string());
    let mut encoder = None;
    run.step("text encoder", |_| {
        encoder = Some(text_encoder::fetch()?);
        Ok(())
    })?;
    run.command("format", "cargo fmt --all --check")?;
    // A list in a macro names them, where cargo does not look.
    run.step("format of operations", |_| {
        let files = ["core/src/ops", "core/src/ops/cases"].map(rust_files).into_iter().collect::<Result<Vec<_>>>()?;
        Cmd::new(&format!("rustfmt --check --edition 2024 {}", files.concat().join(" "))).run()
    })?;
    run.step("dependencies", |_| deny::run())?;
    run.step("profile of the tests", |_| profile::check())?;
    run.command("lints", "cargo clippy --locked --workspace --all-targets -- -D warnings")?;
    let (whole, today) = (run.whole, programs::day());
    for (features, _) in FEATURES.into_iter().filter(|(_, turn)| whole || *turn == today % 4) {
        let line = format!("cargo clippy --locked --package polywarp --no-default-features{features} -- -D warnings");
        run.command(&format!("features: none{features}"), &line)?;
    }
    run.command("build", "cargo test --locked --workspace --no-run")?;
    // Examples with tests of their own are not among them as programs.
    run.command("examples", "cargo build --locked --workspace --examples --bin chores")?;
    run.step("native kernels", |_| library::built()?.args(["kernels", "--check", "--sample"]).run())?;
    let mut also = Vec::new();
    let mut said = String::new();
    run.step("native kernels to interpret", |_| {
        said = library::built()?.args([library::INTERPRETED]).output()?;
        Ok(())
    })?;
    match said.lines().next_back().unwrap_or_default() {
        "" => run.leave_out("native kernels, interpreted: there is no compiler for this system"),
        archive => {
            let variables = [("POLYWARP_KERNELS", archive), ("POLYWARP_TEST_DRIVER", "interpreted")];
            let variables = variables.map(|(name, value)| (name, value.to_owned())).to_vec();
            also.push(Also::Again("backend-cuda", "native", variables));
        }
    }
    for example in examples()? {
        match (example.as_str(), &encoder) {
            // It would say so itself and end well, which is no test that passed.
            (text_encoder::EXAMPLE, Some(Encoder::Unreachable(why))) => run.leave_out(&text_encoder::not_run(why)),
            _ => also.push(Also::Example(example)),
        }
    }
    run.programs("tests and examples", "cargo test --locked --workspace --lib --bins --tests", also)?;
    run.tests("documented examples", "cargo test --locked --workspace --doc")?;
    // Built as tests are, and run once each without timing. `cargo bench` itself would build everything anew, optimised.
    run.step("criterion suite", |counts| {
        let line = "cargo test --locked --workspace --bench suites -- softmax/.*/cpu";
        let said = Cmd::new(line).env("POLYWARP_BENCH_SIZE", "small").output()?;
        let ran = said.lines().filter(|line| line.starts_with("Testing softmax/")).count() as u64;
        print!("{said}");
        counts.add(Counts { passed: ran, failed: 0 });
        if ran == 0 { Err(format!("`{line}` ran no benchmark")) } else { Ok(()) }
    })?;
    run.step("reference", |_| {
        // With an example the dependencies have the features that the lints have checked them with.
        let line = "cargo doc --locked --workspace --no-deps --lib --bins --example hello_matmul";
        Cmd::new(line).env("RUSTDOCFLAGS", "-D warnings").run()
    })?;
    run.step("documents", |_| library::built()?.args(["docs"]).run())
}

/// The programs in `examples/`, by name.
fn examples() -> Result<Vec<String>> {
    let entries = fs::read_dir("examples").map_err(|e| format!("examples/: {e}"))?.flatten();
    let programs = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let mut names: Vec<String> =
        programs.filter_map(|path| path.file_stem().map(Path::new).map(|stem| stem.display().to_string())).collect();
    names.sort();
    Ok(names)
}

/// The Rust files that lie in `folder` itself.
fn rust_files(folder: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{folder}: {e}"))?.flatten();
    let mut files: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
    files.retain(|file| file.ends_with(".rs"));
    files.sort();
    Ok(files)
}
