//! What a run found: outcomes, their counts, and the report that is printed or written as JSON.
//!
//! A report is `ok` only when something ran, nothing failed and no expected failure passed by surprise.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Case, Level};
use crate::Device;

/// How one case ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All as it should be.
    Pass {
        /// The largest share of an allowed error that was used; 0 where results are exact.
        share: f64,
    },
    /// Something is wrong.
    Fail(Failure),
    /// The device said, typed, that it cannot do this.
    Unsupported {
        /// Its words.
        reason: String,
    },
    /// It failed as [`super::ExpectedFailure`] says it does on this device.
    ExpectedFail {
        /// Where the fault is described.
        link: String,
    },
}

/// What kind of fault was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A row of the contract does not hold.
    Contract,
    /// The device was lost; the rest of the run was given up.
    DeviceLost,
    /// The device returned an error that is not a missing capability.
    Error,
    /// Bytes outside the result were written.
    Guard,
    /// An input was written.
    InputChanged,
    /// The same call gave other bits.
    NotRepeatable,
    /// The suite's own reference is at fault.
    Oracle,
    /// The backend panicked.
    Panic,
    /// A case that is known to fail on this device passed: take it off the list.
    UnexpectedPass,
    /// Elements are outside their bounds.
    Wrong,
}

/// One element outside its bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// Row-major position.
    pub index: u64,
    /// The reference.
    pub expected: String,
    /// `exactly`, or the error allowed.
    pub allowed: String,
    /// What the device wrote.
    pub got: String,
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The case's name with its seed: as a filter it runs this case alone, with the same numbers.
    pub case: String,
    /// What was seen.
    pub kind: FailureKind,
    /// In words.
    pub message: String,
    /// The largest absolute error among wrong elements (infinite where NaN or infinity was wrong: null in JSON).
    pub max_error: f64,
    /// Where it is, row-major.
    pub worst_index: Option<u64>,
    /// The first few wrong elements.
    pub misses: Vec<Miss>,
}

impl Failure {
    pub(crate) fn new(case: &Case, seed: u64, kind: FailureKind, message: String) -> Failure {
        Failure::named(&case.name, seed, kind, message)
    }

    pub(super) fn named(name: &str, seed: u64, kind: FailureKind, message: String) -> Failure {
        let case = format!("{name}@{seed}");
        Failure { case, kind, message, max_error: 0.0, worst_index: None, misses: Vec::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FAIL {}\n     {}", self.case, self.message)?;
        if let Some(at) = self.worst_index {
            write!(f, "; the largest error is {:.3e} at {at}", self.max_error)?;
        }
        for miss in &self.misses {
            write!(f, "\n     [{}] expected {} {}, got {}", miss.index, miss.expected, miss.allowed, miss.got)?;
        }
        Ok(())
    }
}

/// Outcomes counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Cases that passed.
    pub passed: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Cases the device cannot do.
    pub unsupported: u64,
    /// Cases that failed as listed.
    pub expected_failures: u64,
    /// The largest share of an allowed error used by a case that passed.
    pub worst_share: f64,
    /// That case.
    pub worst_case: String,
}

/// Cases refused for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsupported {
    /// The device's words.
    pub reason: String,
    /// How many.
    pub cases: u64,
    /// One of them.
    pub example: String,
}

/// Seconds of the host's threads by the phase of a case, waiting included; 0 in a browser, which has no clock for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostSeconds {
    /// Values drawn and laid out.
    pub operands: f64,
    /// Memory, kernels, transfers, and waiting for the device.
    pub device: f64,
    /// The oracle, in float64.
    pub oracle: f64,
    /// Results held to it.
    pub comparison: f64,
}

/// What a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The device's id.
    pub device: String,
    /// The device's name.
    pub name: String,
    /// The API it was reached through.
    pub api: String,
    /// Its driver.
    pub driver: String,
    /// How thorough the run was.
    pub level: Level,
    /// The seed of all random values.
    pub seed: u64,
    /// Cases selected.
    pub selected: u64,
    /// Seconds the run took.
    pub seconds: f64,
    /// Threads that ran cases.
    pub threads: usize,
    /// What they spent their time on, all together.
    pub host_seconds: HostSeconds,
    /// All outcomes.
    pub total: Counts,
    /// Outcomes by family.
    pub families: BTreeMap<String, Counts>,
    /// What failed, by name.
    pub failures: Vec<Failure>,
    /// What the device cannot do, by reason.
    pub unsupported: Vec<Unsupported>,
    /// Cases that failed as listed, with the link that describes the fault.
    pub expected_failures: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(device: &Device, level: Level, seed: u64, selected: u64) -> Report {
        let info = device.info();
        Report {
            device: info.id.clone(),
            name: info.name.clone(),
            api: info.api.clone(),
            driver: info.driver.clone(),
            level,
            seed,
            selected,
            seconds: 0.0,
            threads: 1,
            host_seconds: HostSeconds::default(),
            total: Counts::default(),
            families: BTreeMap::new(),
            failures: Vec::new(),
            unsupported: Vec::new(),
            expected_failures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: &str, family: &str, outcome: &Outcome) {
        let family = self.families.entry(family.to_owned()).or_default();
        for counts in [&mut self.total, family] {
            match outcome {
                Outcome::Pass { share } => {
                    counts.passed += 1;
                    if *share > counts.worst_share {
                        (counts.worst_share, counts.worst_case) = (*share, name.to_owned());
                    }
                }
                Outcome::Fail(_) => counts.failed += 1,
                Outcome::Unsupported { .. } => counts.unsupported += 1,
                Outcome::ExpectedFail { .. } => counts.expected_failures += 1,
            }
        }
        match outcome {
            Outcome::Pass { .. } => {}
            Outcome::Fail(failure) => self.failures.push(failure.clone()),
            Outcome::ExpectedFail { link } => self.expected_failures.push((name.to_owned(), link.clone())),
            Outcome::Unsupported { reason } => match self.unsupported.iter_mut().find(|u| u.reason == *reason) {
                Some(group) => group.cases += 1,
                None => {
                    let (reason, example) = (reason.clone(), name.to_owned());
                    self.unsupported.push(Unsupported { reason, cases: 1, example });
                }
            },
        }
    }

    /// Nothing more is added: what belongs to one operation stands together.
    pub(super) fn end(&mut self) {
        self.failures.sort_by(|a, b| a.case.cmp(&b.case));
        self.expected_failures.sort();
    }

    /// Whether the device may be trusted with what was selected: something ran, and nothing failed.
    pub fn ok(&self) -> bool {
        self.total.failed == 0 && self.total.passed > 0
    }

    /// Why the report is not [`Report::ok`], in one line.
    pub fn problem(&self) -> Option<String> {
        if self.total.failed > 0 {
            return Some(format!("{} of {} cases failed", self.total.failed, self.selected));
        }
        if self.selected == 0 {
            return Some("no case matches the selection".to_owned());
        }
        (self.total.passed == 0).then(|| "nothing was computed: no selected case is supported".to_owned())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}, {}, {}), level {}, seed {}",
            self.device, self.name, self.api, self.driver, self.level, self.seed
        )?;
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        writeln!(
            f,
            "{:<10} {:>7} {:>7} {:>11}  largest share of an allowed error",
            "family", "passed", "failed", "unsupported"
        )?;
        for (name, c) in &self.families {
            write!(f, "{name:<10} {:>7} {:>7} {:>11}", c.passed, c.failed, c.unsupported)?;
            if c.worst_case.is_empty() {
                writeln!(f)?
            } else {
                writeln!(f, "  {:.2} in {}", c.worst_share, c.worst_case)?
            }
        }
        for group in &self.unsupported {
            writeln!(f, "unsupported: {} cases: {} (such as {})", group.cases, group.reason, group.example)?;
        }
        for (case, link) in &self.expected_failures {
            writeln!(f, "known to fail: {case}: {link}")?;
        }
        let HostSeconds { operands, device, oracle, comparison } = self.host_seconds;
        writeln!(
            f,
            "threads: {}; seconds of them: {operands:.1} for operands, {device:.1} for the device, {oracle:.1} for the oracle, {comparison:.1} \
             comparing",
            self.threads
        )?;
        match self.problem() {
            Some(problem) => write!(f, "NOT OK: {problem} ({:.1} s)", self.seconds),
            None => {
                let passed = self.total.passed;
                let cases = if passed == 1 { "case" } else { "cases" };
                write!(f, "ok: {passed} {cases} passed in {:.1} s", self.seconds)
            }
        }
    }
}
