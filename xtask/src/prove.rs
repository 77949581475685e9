//! The tests, and after them what takes an hour and more: loom at depth, Miri, fuzzing, random programs.
//!
//! `cargo xtask prove STEP ...` runs some of the steps alone. A new proof is a line in [`STEPS`] and its name in [`WHAT`], which
//! the tests print as what they leave out. What a machine lacks for a step is said when it is left out, and again at the end.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use crate::command::Cmd;
use crate::counts::Counts;
use crate::run::Run;
use crate::{Result, dist, test};

/// What the tests leave to this command.
pub const WHAT: &str = "left to `cargo xtask prove`: the other days' parts of some cases (POLYWARP_TEST_PART=all runs them), feature sets and GPU APIs of some examples, the program to hand out, loom at depth, Miri, \
     fuzzing, 100,000 random programs, fused expressions";

/// A step's name, and what it does.
type Step = (&'static str, fn(&mut Run) -> Result);

const STEPS: &[Step] = &[
    ("test", tests),
    ("dist", handed_out),
    ("loom", loom),
    ("miri", miri),
    ("fuzz", fuzz),
    ("programs", programs),
    ("fused", fused),
];

/// Runs the steps named in `only`, or all.
pub fn run(only: &[&str]) -> Result {
    if let Some(unknown) = only.iter().find(|name| !STEPS.iter().any(|(step, _)| step == *name)) {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("`{unknown}` is no step of prove; the steps are {}", names.join(", ")));
    }
    Run::all(|run| {
        let mut chosen = STEPS.iter().filter(|(name, _)| only.is_empty() || only.contains(name));
        chosen.try_for_each(|(_, step)| step(run))
    })
}

/// The tests, with all of what they run a part of every day.
fn tests(run: &mut Run) -> Result {
    run.whole = true;
    test::steps(run)
}

/// The program as it is handed out, whose size is bounded and which is optimised in other ways: every case on the CPU.
fn handed_out(run: &mut Run) -> Result {
    let mut program = None;
    run.step("the program to hand out", |_| dist::build().map(|built| program = Some(built)))?;
    let Some(program) = program else { return Ok(()) };
    run.step("the program to hand out: check", |counts| {
        let outcome = Cmd::new("").program(&program).args(["check", "--device", "cpu"]).run();
        counts.add(Counts::of_one(outcome.is_ok()));
        outcome
    })
}

/// The models that the tests run with two preemptions, with four: two minutes instead of a second.
fn loom(run: &mut Run) -> Result {
    run.step("loom at depth", |counts| {
        Cmd::new("cargo test --locked --package polywarp-core-loom")
            .env("LOOM_MAX_PREEMPTIONS", "4")
            .run_counting(counts)
    })
}

/// Tests that reach `unsafe` code which Miri can run. Of the others crate `gemm` asks the processor what it is, and drivers are
/// libraries in machine code.
const MIRI: [&str; 3] = ["cpu::parallel", "cpu::gemm::float::tests::parts_cover", "cpu::simd"];

/// Miri over those, where the nightly toolchain has it.
fn miri(run: &mut Run) -> Result {
    if Cmd::new("cargo +nightly miri --version").output().is_err() {
        run.leave_out("Miri: it is not installed (rustup toolchain install nightly --component miri rust-src)");
        return Ok(());
    }
    // rayon's threads outlive the tests; crossbeam's pointers are not of the stricter model.
    let flags = "-Zmiri-ignore-leaks -Zmiri-disable-isolation -Zmiri-tree-borrows";
    let line = "cargo +nightly miri test --locked --package polywarp-core --lib --";
    run.step("Miri", |counts| Cmd::new(line).args(MIRI).env("MIRIFLAGS", flags).run_counting(counts))
}

/// A package of fuzz targets, outside of the workspace.
struct Fuzzed {
    folder: &'static str,
    arguments: &'static str,
    targets: &'static [Target],
}

/// A fuzz target and the longest input that is worth trying.
type Target = (&'static str, u32);

const FUZZED: [Fuzzed; 2] = [
    Fuzzed {
        folder: "fuzz",
        arguments: "",
        targets: &[
            ("npy", 8192),
            ("npz", 8192),
            ("archive", 8192),
            ("cache", 8192),
            ("tuning", 8192),
            ("table", 8192),
            ("wgsl", 20_000),
            ("spirv", 8192),
        ],
    },
    Fuzzed {
        folder: "shaders/naga-ptx/fuzz",
        arguments: "--features libfuzzer",
        targets: &[("text", 20_000), ("programs", 16)],
    },
];

/// Seconds that each target runs, unless the environment says otherwise.
const FUZZ_SECONDS: (&str, &str) = ("POLYWARP_FUZZ_SECONDS", "60");
/// Where fuzzers are built, and keep what they find.
const FUZZ_FOLDER: &str = "target/fuzz";
/// What cargo-fuzz passes: counters in everything that is compiled, no sanitizer, so that any toolchain does.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code";

/// Builds every fuzz target and runs each for a minute, from its corpus and what earlier runs reached.
fn fuzz(run: &mut Run) -> Result {
    if Cmd::new("g++ --version").output().is_err() {
        run.leave_out("fuzzing: libFuzzer needs g++");
        return Ok(());
    }
    let host = host()?;
    for Fuzzed { folder, arguments, targets } in FUZZED {
        run.step(&format!("fuzzers of {folder}"), |_| {
            // The workspace's versions of everything; what libFuzzer adds is found anew.
            fs::copy("Cargo.lock", Path::new(folder).join("Cargo.lock")).map_err(|e| format!("{folder}: {e}"))?;
            let line = format!("cargo build --release {arguments} --target {host} --target-dir {FUZZ_FOLDER}");
            let manifest = Path::new(folder).join("Cargo.toml");
            Cmd::new(&line).arg("--manifest-path").arg(manifest).env("RUSTFLAGS", COVERAGE).run()
        })?;
        let programs = PathBuf::from(FUZZ_FOLDER).join(&host).join("release");
        for &(target, longest) in targets {
            run.step(&format!("fuzz {target}"), |counts| {
                let outcome = fuzz_one(&programs.join(target), folder, target, longest);
                counts.add(Counts::of_one(outcome.is_ok()));
                outcome
            })?;
        }
    }
    Ok(())
}

fn fuzz_one(program: &Path, folder: &str, target: &str, longest: u32) -> Result {
    let seconds = env::var(FUZZ_SECONDS.0).unwrap_or_else(|_| FUZZ_SECONDS.1.to_owned());
    let reached = Path::new(FUZZ_FOLDER).join("corpus").join(target);
    let found = Path::new(FUZZ_FOLDER).join("found");
    for folder in [&reached, &found] {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let corpus = Path::new(folder).join("corpus").join(target);
    let prefix = format!("-artifact_prefix={}/{target}-", found.display());
    let limits = format!("-max_total_time={seconds} -max_len={longest} -timeout=25 -rss_limit_mb=2048 -verbosity=0");
    let run = Cmd::new("").program(program).args(limits.split(' ')).arg(prefix).arg(&reached);
    let run = if corpus.is_dir() { run.arg(&corpus) } else { run };
    let found = found.display();
    run.run().map_err(|e| format!("{e}; the input is {found}/{target}-*: mend it, and keep it in {}", corpus.display()))
}

/// What rustc calls this machine.
fn host() -> Result<String> {
    let said = Cmd::new("rustc --version --verbose").output()?;
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| format!("rustc names no host: {said}"))
}

/// Random WGSL on two routes, software Vulkan and interpreted PTX, from a seed of today's.
fn programs(run: &mut Run) -> Result {
    run.step("random programs", |counts| {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let line = "cargo run --locked --package differential -- run --programs 100000 --seed";
        let outcome = Cmd::new(line).args([(today * 1_000_000).to_string()]).run();
        counts.add(Counts::of_one(outcome.is_ok()));
        outcome
    })
}

/// Random fused expressions over special values, from a seed of today's: on software Vulkan, whose compiler takes floats for real
/// numbers, and on the CPU.
fn fused(run: &mut Run) -> Result {
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    for (device, count) in [("cpu", 100_000), ("wgpu:0", 10_000)] {
        run.step(&format!("fused expressions on {device}"), |counts| {
            let line = format!("cargo run --locked --bin polywarp -- check --device {device} --random {count} --seed");
            let outcome = Cmd::new(&line).args([(today * 1_000_000).to_string()]).run();
            counts.add(Counts::of_one(outcome.is_ok()));
            outcome
        })?;
    }
    Ok(())
}
