//! Steps one after the other, timed and counted; the first that fails ends it.

use std::time::{Duration, Instant};

use crate::Result;
use crate::command::Cmd;
use crate::counts::Counts;
use crate::programs::{self, Also};

/// GPU routes the tests may not skip, though a machine may lack a GPU: set-up makes sure of them on Linux.
const REQUIRED_ADAPTERS: &str = if cfg!(target_os = "linux") { "vulkan,gl" } else { "" };

/// A run of the steps so far.
#[derive(Default)]
pub struct Run {
    counts: Counts,
    times: Vec<(String, Duration)>,
    /// What was left out, and why; said again at the end.
    left_out: Vec<String>,
    /// NVIDIA's `ptxas`, where there is one.
    pub assembler: Option<String>,
    /// Whether tests that run a part of their cases every day run all of them.
    pub whole: bool,
}

impl Run {
    /// Runs `steps` and says how long each took and what was left out; the last line printed is `N passed, N failed`.
    pub fn all(steps: impl FnOnce(&mut Run) -> Result) -> Result {
        let mut run = Run::default();
        let outcome = steps(&mut run);
        println!();
        for (name, time) in &run.times {
            println!("{:>8.1} s  {name}", time.as_secs_f64());
        }
        for left_out in &run.left_out {
            println!("NOT RUN: {left_out}");
        }
        println!("{}", run.counts);
        match outcome {
            Ok(()) if run.counts.passed == 0 => Err("no test ran".to_owned()),
            outcome => outcome,
        }
    }

    /// Tells now and at the end that something was not run.
    pub fn leave_out(&mut self, what: &str) {
        println!("NOT RUN: {what}");
        self.left_out.push(what.to_owned());
    }

    pub fn command(&mut self, name: &str, line: &str) -> Result {
        self.step(name, |_| Cmd::new(line).run())
    }

    /// Runs the tests of `line`, one program of cargo's after the other.
    pub fn tests(&mut self, name: &str, line: &str) -> Result {
        let cmd = self.variables()(Cmd::new(line));
        self.step(name, |counts| cmd.run_counting(counts))
    }

    /// Runs the test programs of `line` and `also` beside each other ([`programs`]).
    pub fn programs(&mut self, name: &str, line: &str, also: Vec<Also>) -> Result {
        let (variables, whole) = (self.variables(), self.whole);
        self.step(name, |counts| programs::run(line, also, whole, variables, counts))
    }

    /// Sets what tests are told.
    fn variables(&self) -> impl Fn(Cmd) -> Cmd + Sync + use<> {
        let (assembler, whole) = (self.assembler.clone(), self.whole);
        move |mut cmd| {
            cmd = cmd.env("POLYWARP_REQUIRE_ADAPTERS", REQUIRED_ADAPTERS);
            if let Some(path) = &assembler {
                cmd = cmd.env("PTXAS", path).env("POLYWARP_REQUIRE_PTXAS", "1");
            }
            if whole {
                cmd = cmd.env("POLYWARP_TEST_PART", "all");
            }
            cmd
        }
    }

    pub fn step(&mut self, name: &str, work: impl FnOnce(&mut Counts) -> Result) -> Result {
        println!("\n== {name}");
        let (start, failed_before) = (Instant::now(), self.counts.failed);
        let outcome = work(&mut self.counts);
        // At once too: a run that is killed for taking too long says where the time went.
        println!("-- {name}: {:.1} s", start.elapsed().as_secs_f64());
        self.times.push((name.to_owned(), start.elapsed()));
        outcome.map_err(|message| {
            // A step that fails without naming a test (a lint, a link) still counts as a failure.
            self.counts.failed = self.counts.failed.max(failed_before + 1);
            format!("step `{name}`: {message}")
        })
    }
}
