//! The search for the fastest of several candidates: an algorithm over a [`Runner`], with neither a device nor a clock of
//! its own, so that it is tested without either.
//!
//! Candidates are timed in the planner's order. The first one's check and first run are what the caller came for and cost
//! nothing extra; from then on everything counts against the budget: loading, checks, runs. So a first result is late by the
//! budget and by the one candidate that was begun when it ended, and by no more. A candidate that its planner thinks three
//! times slower than the best is left out, and so is one that must be compiled first, which alone would break the budget; one
//! whose first samples are far behind is given up. Those that come out close to the best are timed again in turns, with the one that
//! was timed first, as far as the budget goes: a card's clock and heat drift from one candidate to the next. What the budget does not
//! reach is left for the next process, which goes on where this one stopped.

use std::time::Duration;

use super::settings::{self, Progress};
use crate::tuned::find;
use crate::{Error, Result};

/// Estimates this many times the best one are not worth a run.
const HOPELESS: f64 = 3.0;
/// Samples of one candidate at most; the median counts.
const SAMPLES: usize = 5;
/// A sample is repeated runs of about this long: well above the grain of device clocks (0.5 us on CUDA, 1 us elsewhere).
const SAMPLE_NS: f64 = 200_000.0;
/// Runs of one sample at most.
const MOST_RUNS: f64 = 64.0;
/// After two samples a candidate that is this many times slower than the best so far is given up.
const FAR_BEHIND: f64 = 1.25;
/// Those at most this many times slower than the best are timed again, in turns, so many of them and so often.
const CLOSE: f64 = 1.08;
const FINALISTS: usize = 4;
const ROUNDS: usize = 7;
/// Rounds below which the times before stay.
const LEAST_ROUNDS: usize = 3;
/// A device is slow to begin with after a pause of this length.
const PAUSE_NS: u64 = 30_000_000;
/// How long it runs before it is at its full clock, at least. Of one H100 that was enough, of another not always
/// (benches/results/h100-2026-11-27b), so that larger budgets spend more on it, up to the most.
const WAKING_NS: u64 = 150_000_000;
const MOST_WAKING_NS: u64 = 400_000_000;
/// The part of a budget that it takes where that is more than the least.
const LONG_WAKING_PART: u64 = 32;
/// The part of a budget that one candidate may take for it at least. With a smaller budget each candidate is compared with the best one as that is just
/// then, by this much at least: less is noise, about which rounds in turns decide.
const WAKING_PART: u64 = 8;
const DRIFT: f64 = 0.05;
/// Compiling may take this many times what it is thought to; a first run that took longer was long itself.
const LONGEST_COMPILING: f64 = 3.0;
/// A candidate must be this much faster to displace one that its planner prefers: less is noise.
const WORTH_CHANGING: f64 = 0.98;

/// A candidate as the tuner knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer<'a> {
    /// Its name: the same for the same kernels, on every run.
    pub name: &'a str,
    /// What its planner thinks it takes. Only ratios matter.
    pub estimate_ns: f64,
}

/// What the outside allows just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Work may be timed.
    Free,
    /// The calling thread records: what it gives to the device must not run.
    Recording,
    /// Nothing can be waited for, as in a browser: neither times nor checks.
    CannotWait,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It computes what the oracle does.
    Right,
    /// It does not, or it does not run: why.
    Wrong(String),
    /// This machine has no code of it that its driver takes: nothing to report, nothing to remember.
    Missing(String),
    /// It could not be tried: no memory for a small case, or nobody may wait.
    Untried,
}

/// Who runs candidates for the tuner.
pub trait Runner {
    /// What the outside allows.
    fn situation(&self) -> Situation;

    /// Waits for what was given to the device before a check, whose fault is no candidate's.
    ///
    /// # Errors
    /// What is wrong with the device.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Tries `candidate` on a small case against the oracle. Nothing of the user's is touched.
    ///
    /// # Errors
    /// What is wrong with the device, not with the candidate.
    fn check(&mut self, candidate: usize) -> Result<Check>;

    /// Nanoseconds, roughly, that compiling the kernels of `candidate` and of its check takes; 0 when they only have to be
    /// loaded.
    fn compile_ns(&self, _candidate: usize) -> u64 {
        0
    }

    /// Runs `candidate` on the user's operands `runs` times; nanoseconds of one run.
    ///
    /// # Errors
    /// What the run reports.
    fn time(&mut self, candidate: usize, runs: u32) -> Result<f64>;

    /// Nanoseconds since some moment in the past.
    fn now_ns(&self) -> u64;
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Candidates and their times, in the order of timing.
    pub(super) times: Vec<(usize, f64)>,
    /// Those that did not run, and why.
    pub(super) failed: Vec<(usize, Error)>,
    /// Whether every candidate worth it was timed.
    pub(super) complete: bool,
}

/// What ended a search, and which candidate ran then, if one did.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) candidate: Option<usize>,
    pub(super) error: Error,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped { candidate: None, error }
    }
}

impl Found {
    /// The fastest; the planner's order decides between those that are as good as equal.
    pub(super) fn winner(&self) -> Option<usize> {
        let mut times = self.times.clone();
        times.sort_unstable_by_key(|&(candidate, _)| candidate);
        let better =
            |best: (usize, f64), next: (usize, f64)| if next.1 < best.1 * WORTH_CHANGING { next } else { best };
        times.into_iter().reduce(better).map(|(candidate, _)| candidate)
    }
}

/// What there is to search.
pub(super) struct Task<'a> {
    pub(super) device: &'a str,
    pub(super) key: &'a str,
    pub(super) offers: &'a [Offer<'a>],
    /// What was timed before, by name; the fastest of it is timed again, the others are not.
    pub(super) known: &'a [(String, f64)],
    pub(super) budget: Duration,
}

/// Whether `error` is the fault of what ran: another candidate may do better.
pub(super) fn blames_candidate(error: &Error) -> bool {
    match error {
        Error::Backend { .. }
        | Error::Shader { .. }
        | Error::ShaderTooComplex { .. }
        | Error::PtxRejected { .. }
        | Error::DriverTooOld { .. }
        | Error::ResourceLimit { .. }
        | Error::Unsupported { .. }
        | Error::UnsupportedDType { .. }
        | Error::BindingTooLarge { .. }
        | Error::BufferTooBig { .. }
        | Error::DispatchTooLarge { .. }
        | Error::IndexWidth { .. } => true,
        Error::InvalidArgument { what, .. } => *what == "plan",
        _ => false,
    }
}

/// Whether `error` says that this op is too large for what ran: not that it is wrong, nor that it does not run on smaller ones.
pub(super) fn is_too_large(error: &Error) -> bool {
    matches!(
        error,
        Error::BindingTooLarge { .. }
            | Error::BufferTooBig { .. }
            | Error::DispatchTooLarge { .. }
            | Error::IndexWidth { .. }
    )
}

/// Times candidates. `usable` says whether one may be used at all: it checks it when nobody has.
///
/// # Errors
/// What is wrong with the device or the user's operands; a candidate's own failures are in [`Found::failed`].
pub(super) fn search(
    task: &Task<'_>,
    runner: &mut dyn Runner,
    usable: &mut dyn FnMut(usize, &mut dyn Runner) -> Result<bool>,
) -> std::result::Result<Found, Stopped> {
    let Order { order, carried, finished } = order(task);
    let mut found = Found { complete: true, ..Found::default() };
    if finished {
        found.times = carried;
        return Ok(found);
    }
    let entered = runner.now_ns();
    let mut meter: Option<Meter> = None;
    let mut rests_since = None;
    for (done, &candidate) in order.iter().enumerate() {
        let offer = &task.offers[candidate];
        if let Some(meter) = &meter {
            let compile_ns = runner.compile_ns(candidate);
            if Duration::from_nanos(compile_ns) >= task.budget {
                continue; // no process would reach it: whoever wants it timed grants more
            }
            if !meter.affords(offer, compile_ns, runner.now_ns()) {
                found.complete = false;
                continue; // a later one may be expected to be faster
            }
        }
        settings::report(runner.now_ns() - entered, |spent| Progress {
            device: task.device.to_owned(),
            key: task.key.to_owned(),
            candidate: offer.name.to_owned(),
            done,
            total: order.len(),
            spent,
        });
        let before = runner.now_ns();
        let usable = usable(candidate, runner)?;
        if let Some(meter) = &mut meter {
            meter.check_ns = runner.now_ns() - before;
        }
        if !usable {
            continue;
        }
        let timed = time(candidate, offer, runner, &mut meter, task.budget, rests_since);
        rests_since = Some(runner.now_ns());
        log::debug!("{}: {}: {timed:?} ns, {} ns after its turn came", task.key, offer.name, runner.now_ns() - before);
        match timed {
            Ok(ns) => {
                let drift = match waking_ns(task.budget) {
                    Some(_) => 1.0,
                    None => drift(&found.times, meter.as_ref(), runner),
                };
                let ns = ns * drift;
                meter.iter_mut().for_each(|meter| meter.best_ns = meter.best_ns.min(ns));
                found.times.push((candidate, ns));
            }
            Err(Error::OutOfMemory { .. }) => found.complete = false, // its scratch space; another day
            Err(error) if is_too_large(&error) => {}                  // no more than that: its class has no sizes
            Err(error) if blames_candidate(&error) => found.failed.push((candidate, error)),
            Err(error) => return Err(Stopped { candidate: Some(candidate), error }),
        }
    }
    if let Some(meter) = &meter {
        let again = in_turns(&found.times, meter, runner);
        log::debug!("{}: in turns: {again:?}", task.key);
        match again {
            Ok(times) => {
                for (candidate, ns) in times {
                    found.times.iter_mut().filter(|(timed, _)| *timed == candidate).for_each(|timed| timed.1 = ns);
                }
            }
            // What was timed before stands; one that fails from now on is taken out when it serves.
            Err(error) if blames_candidate(&error) || matches!(error, Error::OutOfMemory { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    settings::spend(runner.now_ns() - entered);
    // Slower ones of earlier searches are remembered, so that nobody times them again: as fractions of what was timed both
    // times, because clocks and heat differ from day to day.
    let again = carried.first().and_then(|&(best, then)| {
        let now = found.times.iter().find(|(timed, _)| *timed == best)?.1;
        Some(now / then).filter(|scale| scale.is_finite() && *scale > 0.0)
    });
    for (candidate, ns) in carried {
        if found.times.iter().all(|(timed, _)| *timed != candidate) {
            found.times.push((candidate, ns * again.unwrap_or(1.0)));
        }
    }
    Ok(found)
}

/// Which candidates to time, and in which order.
struct Order {
    order: Vec<usize>,
    /// Times of earlier searches that are not taken again.
    carried: Vec<(usize, f64)>,
    /// Everything worth it was timed before.
    finished: bool,
}

fn order(task: &Task<'_>) -> Order {
    let position = |name: &str| find(task.offers.iter().map(|offer| offer.name), name);
    let mut carried: Vec<(usize, f64)> =
        task.known.iter().filter_map(|(name, ns)| position(name).map(|candidate| (candidate, *ns))).collect();
    carried.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Two numbers of slabs then may be one now.
    let mut seen = Vec::new();
    carried.retain(|(candidate, _)| {
        !seen.contains(candidate) && {
            seen.push(*candidate);
            true
        }
    });
    let best = task.offers.iter().map(|offer| offer.estimate_ns).fold(f64::INFINITY, f64::min);
    let hopeful = |candidate: &usize| {
        let estimate = task.offers[*candidate].estimate_ns;
        estimate.is_nan() || estimate <= HOPELESS * best
    };
    let new = |candidate: &usize| carried.iter().all(|(known, _)| known != candidate);
    let untimed: Vec<usize> = (0..task.offers.len()).filter(new).filter(hopeful).collect();
    let finished = untimed.is_empty() && !carried.is_empty();
    // The best so far goes first: others are compared with it as it is today.
    let order = carried.first().map(|(candidate, _)| *candidate).into_iter().chain(untimed).collect();
    Order { order, carried, finished }
}

/// What is known of costs, once the first candidate has run.
struct Meter {
    /// Where the budget ends, on the runner's clock.
    end_ns: u64,
    /// Measured time over estimate, of the first.
    ratio: f64,
    best_ns: f64,
    /// What the last check took, but for the first candidate's, which makes the case that all are checked with.
    check_ns: u64,
}

impl Meter {
    /// Whether a check of `offer`, a first run and a sample are expected to end in time.
    fn affords(&self, offer: &Offer<'_>, compile_ns: u64, now_ns: u64) -> bool {
        let left = self.end_ns.saturating_sub(now_ns) as f64;
        let expected = 2.0 * self.ratio * offer.estimate_ns + compile_ns as f64 + self.check_ns as f64;
        left > 0.0 && (expected <= left || expected.is_nan())
    }
}

/// New times of those of `times` that are close to the best, and of the one that was timed first, whose card may still have been waking: each
/// the median of its samples; none where there is nobody to compare, or the budget ends before it tells anything.
fn in_turns(times: &[(usize, f64)], meter: &Meter, runner: &mut dyn Runner) -> Result<Vec<(usize, f64)>> {
    let mut close: Vec<(usize, f64)> = times.to_vec();
    close.sort_by(|a, b| a.1.total_cmp(&b.1));
    close.truncate(FINALISTS);
    close.retain(|(_, ns)| *ns <= CLOSE * meter.best_ns);
    let first = times.first().filter(|(first, _)| close.iter().all(|(candidate, _)| candidate != first));
    close.extend(first);
    if close.len() < 2 {
        return Ok(Vec::new());
    }
    let mut samples: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); close.len()];
    let mut round_ns: f64 = close.iter().map(|&(_, ns)| ns * sample_runs(ns)).sum();
    for _ in 0..ROUNDS {
        let began_ns = runner.now_ns();
        if round_ns > meter.end_ns.saturating_sub(began_ns) as f64 {
            break;
        }
        for (&(candidate, ns), samples) in close.iter().zip(&mut samples) {
            samples.push(runner.time(candidate, sample_runs(ns) as u32)?);
        }
        // Changing from one to the next takes time, too: each is recorded anew.
        round_ns = round_ns.max((runner.now_ns() - began_ns) as f64);
    }
    if samples[0].len() < LEAST_ROUNDS {
        return Ok(Vec::new());
    }
    let again = close.into_iter().zip(samples);
    Ok(again.filter_map(|((candidate, _), samples)| Some((candidate, median(samples)?))).collect())
}

/// How long a device that has slept is woken within `budget`; not at all within a small one.
fn waking_ns(budget: Duration) -> Option<u64> {
    let budget_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
    (WAKING_NS <= budget_ns / WAKING_PART).then(|| (budget_ns / LONG_WAKING_PART).clamp(WAKING_NS, MOST_WAKING_NS))
}

/// By how much the device has become faster since the best of `times` was timed: as it wakes, up to six times. 1 where there is no time
/// to find out, or it cannot run.
fn drift(times: &[(usize, f64)], meter: Option<&Meter>, runner: &mut dyn Runner) -> f64 {
    let best = times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let (Some((candidate, then_ns)), Some(meter)) = (best, meter) else { return 1.0 };
    let runs = sample_runs(then_ns);
    // To run it again, it is recorded again, and warmed up.
    if 2.0 * runs * then_ns > meter.end_ns.saturating_sub(runner.now_ns()) as f64 {
        return 1.0;
    }
    let drift = runner.time(candidate, runs as u32).map_or(1.0, |ns| then_ns / ns);
    if (drift - 1.0).abs() > DRIFT && drift.is_finite() { drift } else { 1.0 }
}

/// Runs of one sample of what takes `ns`.
fn sample_runs(ns: f64) -> f64 {
    (SAMPLE_NS / ns.max(1.0)).clamp(1.0, MOST_RUNS)
}

/// The middle one of `samples`.
fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_unstable_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

/// The median of a few samples. The device has had nothing to run from `rests_since` to the first run here; nobody knows since when, where
/// that is `None`.
fn time(
    candidate: usize,
    offer: &Offer<'_>,
    runner: &mut dyn Runner,
    meter: &mut Option<Meter>,
    budget: Duration,
    rests_since: Option<u64>,
) -> Result<f64> {
    let budget_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
    let compile_ns = runner.compile_ns(candidate) as f64;
    // Loads the kernel, makes scratch space, warms caches.
    let mut warm_ns = runner.time(candidate, 1)?;
    if compile_ns > 0.0 && warm_ns <= LONGEST_COMPILING * compile_ns + budget_ns as f64 {
        warm_ns = runner.time(candidate, 1)?; // that was the compiler's time
    }
    let end_ns = match meter {
        Some(meter) => meter.end_ns,
        // The first run was due anyway.
        None => runner.now_ns().saturating_add(budget_ns),
    };
    let first = meter.is_none();
    let best_ns = meter.as_ref().map_or(f64::INFINITY, |meter| meter.best_ns);
    let runs = sample_runs(warm_ns);
    let has_rested = rests_since.is_none_or(|since| runner.now_ns() - since >= PAUSE_NS);
    if let Some(waking_ns) = waking_ns(budget).filter(|_| has_rested) {
        let awake_ns = runner.now_ns() + waking_ns;
        while runner.now_ns() < awake_ns {
            warm_ns = runner.time(candidate, runs as u32)?;
        }
    }
    let runs = sample_runs(warm_ns);
    let mut samples: Vec<f64> = Vec::with_capacity(SAMPLES);
    while samples.len() < SAMPLES {
        let left = end_ns.saturating_sub(runner.now_ns()) as f64;
        let fits = warm_ns * runs <= left;
        // A candidate that was begun gets its one sample, unless the first one alone would break the budget.
        if !fits && (first || !samples.is_empty()) {
            break;
        }
        samples.push(runner.time(candidate, if fits { runs as u32 } else { 1 })?);
        let fastest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        if samples.len() >= 2 && fastest > FAR_BEHIND * best_ns {
            break;
        }
    }
    let ns = median(samples).unwrap_or(warm_ns);
    if first {
        *meter = Some(Meter { end_ns, ratio: ns / offer.estimate_ns, best_ns: ns, check_ns: 0 });
    }
    Ok(ns)
}
