//! The conformance harness: one suite, run unchanged on every device, that says whether its results can be trusted.
//!
//! [`run`] takes the cases of every family of [`crate::ops::REGISTRY`] and runs each on a [`Device`]. A backend of another
//! crate is tested the same way: wrap it in [`Device::new`], call [`run`], demand [`Report::ok`]. Besides values it watches
//! the bytes around results, the inputs, repeatability and typed refusals; [`bad_input`] tests the errors,
//! [`recording`] tests replays, [`fit`] what the device says of memory, `contract` what no single operation shows:
//! memory, order, users' kernels, functions of steps ([`Selection::contract`]).
//! [`broken`] proves that faults are caught, [`ReferenceBackend`] is the slow device that is right by construction.
//!
//! ```
//! use polywarp_core::Device;
//! use polywarp_core::harness::{self, ReferenceBackend, Selection};
//!
//! let device = Device::new(ReferenceBackend::default()); // a backend of your own
//! let report = harness::run(&device, &Selection::family("fill"), &mut |progress| {
//!     let _ = (progress.done, progress.total, progress.share); // a progress bar, and the part of the work
//! });
//! assert!(report.ok(), "{report}");
//! ```
//!
//! Next: [`Case`] (what is tested), `run.rs` (how), `core/src/ops/cases/` (the cases).

#[cfg(not(target_arch = "wasm32"))]
mod abreast;
pub mod bad_input;
pub mod broken;
#[cfg(not(target_arch = "wasm32"))]
pub mod contract;
pub mod fit;
pub mod gradients;
mod item;
pub mod part;
pub mod pins;
pub mod plain;
pub mod products;
pub mod recording;
mod reference;
mod report;
mod rows;
pub(crate) mod run;
mod wrapped;

pub use crate::case::{
    BenchCase, BenchSize, Case, Check, LayoutKind, Level, Metric, OUTPUT_OFFSET_BYTES, Suite, Values, output, values,
};
pub use part::Part;
pub use reference::ReferenceBackend;
pub use report::{Counts, Failure, FailureKind, HostSeconds, Miss, Outcome, Report, Unsupported};
pub use run::{run_case, run_case_async};
pub use wrapped::{Wrap, Wrapped};

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use self::item::{Item, Work};
use self::run::{Clocks, Reads};
use crate::{DType, Device, ops};

/// Which cases run. The default is all of the quick level, with seed 0.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// One family of [`crate::ops::REGISTRY`], `matmul`; or [`CONTRACT`].
    pub family: Option<String>,
    /// Cases with an operand or result of this dtype.
    pub dtype: Option<DType>,
    /// Cases whose name contains this; `name@seed`, as failures print it, is exactly that case with that seed.
    pub filter: Option<String>,
    /// A part of these; all of them by default.
    pub part: Part,
    /// With a part of the cases: those whose operands and results all have this dtype run every time, of a family the first six, and of a family
    /// the first case each of f16, of bf16 and of both, alone or beside this dtype. The first cases of other combinations run one of six at a
    /// time. Kernels for dtypes differ in how elements are loaded, stored and widened, which one case shows, while their indices, tails and
    /// loops are the same text.
    pub in_full: Option<DType>,
    /// How thorough.
    pub level: Level,
    /// Where all random values come from.
    pub seed: u64,
    /// Instead of the cases of the registry this many random fused programs over special values, from [`Selection::seed`] on.
    pub random_programs: u64,
    /// Cases known to fail on some device.
    pub expected_failures: Vec<ExpectedFailure>,
    /// Whether the rows of [`contract::run`] run as well.
    pub contract: Contract,
    /// Threads that run cases abreast, each a whole case; with 0 and 1, and in a browser, the caller's alone. The report is the same.
    pub threads: usize,
}

/// The name that rows of the contract are counted under, as those of a family.
pub const CONTRACT: &str = "contract";

/// Whether a run takes the rows of the contract (`contract::run`) as a family, [`CONTRACT`]: what a device promises beyond single operations.
/// They have no dtype: with [`Selection::dtype`] none is taken, nor in a browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contract {
    /// None of them.
    #[default]
    LeftOut,
    /// Those that [`Selection::filter`] names. A row that looks at the memory or the faults of the device is alone on it, after all others.
    Included,
}

/// Cases of one family and dtype that run every time, where a part of all runs ([`Selection::in_full`]).
const MOST_IN_FULL: usize = 6;

/// The other dtypes that run every time: one case of each family.
const OF_16_BITS: [DType; 2] = [DType::F16, DType::BF16];

impl Selection {
    /// All cases of `level`.
    pub fn level(level: Level) -> Selection {
        Selection { level, ..Selection::default() }
    }

    /// The quick cases of one family.
    pub fn family(family: &str) -> Selection {
        Selection { family: Some(family.to_owned()), ..Selection::default() }
    }

    /// The seed and the cases selected.
    fn cases(&self) -> (u64, Vec<Case>) {
        if self.random_programs > 0 {
            let seeds = (0..self.random_programs).map(|i| self.seed.wrapping_add(i));
            return (self.seed, seeds.filter_map(ops::cases::expr::random).collect());
        }
        let keep = |case: &Case| self.names(&case.name) && self.dtype.is_none_or(|dtype| case.uses(dtype));
        let families = ops::REGISTRY.iter().filter(|f| self.family.as_deref().is_none_or(|name| name == f.name));
        let cases = families.flat_map(|family| (family.cases)(self.level)).filter(keep);
        let (mut met, mut of_16_bits, mut of_family) = (HashSet::new(), HashSet::new(), HashMap::new());
        let mut always = |case: &Case| {
            let Some(dtype) = self.in_full else { return false };
            let dtypes = case.dtypes();
            let taken = of_family.entry(case.family).or_insert(0);
            let is_of_it = dtypes.iter().all(|&of| of == dtype);
            *taken += usize::from(is_of_it);
            let is_first = dtypes.iter().all(|of| *of == dtype || OF_16_BITS.contains(of))
                && of_16_bits.insert((case.family, OF_16_BITS.map(|of| dtypes.contains(&of))));
            let is_new = met.insert((case.family, dtypes)) && self.part.at_most(6).takes(met.len() as u64);
            is_first || is_new || (is_of_it && *taken <= MOST_IN_FULL)
        };
        // A case of today's part is the first of its dtypes as well.
        let takes = |&(i, ref case): &(u64, Case)| always(case) | self.part.takes(i);
        let cases = (0..).zip(cases).filter(takes).map(|(_, case)| case).collect();
        (self.exact().map_or(self.seed, |(_, seed)| seed), cases)
    }

    /// The name and the seed, where the filter is both.
    fn exact(&self) -> Option<(&str, u64)> {
        let (name, seed) = self.filter.as_deref()?.rsplit_once('@')?;
        Some((name, seed.parse().ok()?))
    }

    /// Whether the filter takes `name`.
    fn names(&self, name: &str) -> bool {
        match self.exact() {
            Some((exact, _)) => name == exact,
            None => name.contains(self.filter.as_deref().unwrap_or("")),
        }
    }
}

/// A case known to fail on a device for a reason outside this library. When it passes there, that is a failure: the entry
/// is out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedFailure {
    /// Part of the device's name, API or driver.
    pub device: String,
    /// Part of the case's name.
    pub case: String,
    /// Where the fault is described.
    pub link: String,
}

impl ExpectedFailure {
    fn applies(&self, device: &Device, case: &str) -> bool {
        let info = device.info();
        let on_device = [&info.name, &info.api, &info.driver].into_iter().any(|text| text.contains(&self.device));
        on_device && case.contains(&self.case)
    }
}

/// How far a run has come.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Cases run so far, this one included.
    pub done: u64,
    /// Cases selected.
    pub total: u64,
    /// The part of all cases' work that is done, above 0 and up to 1, by an estimate: cases differ a thousandfold.
    pub share: f64,
    /// The case just run, or row of the contract.
    pub name: &'a str,
    /// What it is counted under.
    pub family: &'static str,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// Runs the selected cases on `device`, telling `progress` after each. Stops early only when the device is lost.
pub fn run(device: &Device, selection: &Selection, progress: &mut dyn FnMut(&Progress<'_>)) -> Report {
    #[cfg(not(target_arch = "wasm32"))]
    if selection.threads > 1 {
        return run_abreast(device, selection, progress);
    }
    pollster::block_on(run_reading(device, selection, progress, Reads::Blocking))
}

#[cfg(not(target_arch = "wasm32"))]
fn run_abreast(device: &Device, selection: &Selection, progress: &mut dyn FnMut(&Progress<'_>)) -> Report {
    let (seed, items) = selection.items();
    let total = items.len() as u64;
    let threads = selection.threads.min(items.len().max(1));
    let (mut report, clocks) = (Report::new(device, selection.level, seed, total), Clocks::default());
    let mut work = Work::all(&items);
    let start = std::time::Instant::now();
    abreast::run(device, &items, seed, threads, &clocks, &mut |number, outcome| {
        // It ends by itself where the device is lost.
        let _ = tell(device, selection, &mut report, (number as u64, &items[number]), outcome, &mut work, progress);
    });
    report.end();
    Report { seconds: start.elapsed().as_secs_f64(), threads, host_seconds: clocks.seconds(), ..report }
}

/// [`run`] for where nothing may block: in a browser. There is no clock there, and [`Report::seconds`] stays 0.
pub async fn run_async(device: &Device, selection: &Selection, progress: &mut dyn FnMut(&Progress<'_>)) -> Report {
    run_reading(device, selection, progress, Reads::Awaited).await
}

async fn run_reading(
    device: &Device,
    selection: &Selection,
    progress: &mut dyn FnMut(&Progress<'_>),
    reads: Reads,
) -> Report {
    let (seed, items) = selection.items();
    let total = items.len() as u64;
    let (mut report, clocks) = (Report::new(device, selection.level, seed, total), Clocks::default());
    #[cfg(not(target_arch = "wasm32"))]
    let start = std::time::Instant::now();
    let mut work = Work::all(&items);
    for numbered in (0..).zip(&items) {
        let outcome = numbered.1.outcome(device, seed, reads, &clocks).await;
        if tell(device, selection, &mut report, numbered, outcome, &mut work, progress).is_break() {
            break;
        }
    }
    #[cfg(not(target_arch = "wasm32"))]
    {
        report.seconds = start.elapsed().as_secs_f64();
    }
    report.host_seconds = clocks.seconds();
    report.end();
    report
}

/// Counts what came of an item and tells it; a break where the device is lost.
fn tell(
    device: &Device,
    selection: &Selection,
    report: &mut Report,
    (number, item): (u64, &Item),
    outcome: Outcome,
    work: &mut Work,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> ControlFlow<()> {
    let (name, family) = (item.name(), item.family());
    let outcome = expected(selection, device, name, report.seed, outcome);
    report.add(name, family, &outcome);
    let share = work.share_with(item);
    progress(&Progress { done: number + 1, total: report.selected, share, name, family, outcome: &outcome });
    let is_lost = matches!(&outcome, Outcome::Fail(failure) if failure.kind == FailureKind::DeviceLost);
    if is_lost { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn expected(selection: &Selection, device: &Device, name: &str, seed: u64, outcome: Outcome) -> Outcome {
    let Some(known) = selection.expected_failures.iter().find(|known| known.applies(device, name)) else {
        return outcome;
    };
    match outcome {
        Outcome::Fail(_) => Outcome::ExpectedFail { link: known.link.clone() },
        Outcome::Pass { .. } => {
            let text = format!("it is listed as failing here ({}) but passes: remove the entry", known.link);
            Outcome::Fail(Failure::named(name, seed, FailureKind::UnexpectedPass, text))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that panics in one kind of operation, and in another is lost.
    #[cfg(feature = "cpu")]
    #[derive(Debug)]
    struct Faulty {
        inner: crate::cpu::CpuBackend,
        panics_in: &'static str,
        lost_in: &'static str,
    }

    #[cfg(feature = "cpu")]
    impl Wrap for Faulty {
        fn inner(&self) -> &dyn crate::Backend {
            &self.inner
        }

        fn execute(&self, op: &crate::Op, inputs: &[&crate::Buffer], outputs: &[&crate::Buffer]) -> crate::Result<()> {
            assert!(op.name() != self.panics_in, "on purpose");
            if op.name() == self.lost_in {
                return Err(crate::Error::DeviceLost { device: "cpu".to_owned(), reason: "on purpose".to_owned() });
            }
            crate::Backend::execute(&self.inner, op, inputs, outputs)
        }
    }

    #[cfg(feature = "cpu")]
    fn told(device: &Device, threads: usize) -> (Report, Vec<(u64, String, Outcome)>) {
        let selection = Selection { threads, ..Selection::family("unary") };
        let mut told = Vec::new();
        let report = run(device, &selection, &mut |progress| {
            told.push((progress.done, progress.name.to_owned(), progress.outcome.clone()));
        });
        (Report { seconds: 0.0, threads: 0, host_seconds: HostSeconds::default(), ..report }, told)
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn threads_change_no_report_and_no_order() {
        let (inner, panics_in) = (crate::cpu::CpuBackend::new(), "sqrt");
        let device = Device::new(Wrapped(Faulty { inner, panics_in, lost_in: "" }));
        let (alone, told_alone) = told(&device, 1);
        let (abreast, told_abreast) = told(&device, 4);
        assert_eq!(told_alone, told_abreast);
        assert_eq!(serde_json::to_string(&alone).unwrap(), serde_json::to_string(&abreast).unwrap());
        // Panics are failures of their cases, and every other case is as well as without them.
        let is_panic = |(_, name, outcome): &&(u64, String, Outcome)| {
            assert!(!matches!(outcome, Outcome::Fail(_)) || name.contains("sqrt"), "{name}");
            matches!(outcome, Outcome::Fail(Failure { kind: FailureKind::Panic, .. }))
        };
        let panicked = told_abreast.iter().filter(is_panic).count() as u64;
        assert!(panicked > 0 && alone.total.failed == panicked && alone.total.passed > panicked);
        assert_eq!(told_abreast.len() as u64, alone.selected);
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn share_of_the_work_grows_with_the_size_of_cases_up_to_one() {
        let (mut before, mut steps) = (0.0, Vec::new());
        run(&Device::cpu(), &Selection::family("unary"), &mut |progress| {
            steps.push(progress.share - before);
            before = progress.share;
        });
        let least = steps.iter().copied().fold(1.0, f64::min);
        let most = steps.iter().copied().fold(0.0, f64::max);
        assert!(least > 0.0 && most > 10.0 * least && (before - 1.0).abs() < 1e-9, "{least} to {most}, then {before}");
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn lost_device_ends_the_run_at_its_case() {
        let lost_in = "sqrt";
        let device = Device::new(Wrapped(Faulty { inner: crate::cpu::CpuBackend::new(), panics_in: "", lost_in }));
        let (alone, told_alone) = told(&device, 1);
        let (abreast, told_abreast) = told(&device, 4);
        assert_eq!(told_alone, told_abreast);
        assert_eq!((alone.total.failed, abreast.total.failed), (1, 1));
        assert!((told_alone.len() as u64) < alone.selected);
    }

    #[test]
    fn part_with_f32_in_full_meets_every_dtype_of_every_family() {
        let (_, all) = Selection::default().cases();
        let kinds = |cases: &[Case]| cases.iter().map(|case| (case.family, case.dtypes())).collect::<HashSet<_>>();
        let f32s = |cases: &[Case]| {
            let of_f32 = cases.iter().filter(|case| case.dtypes().iter().all(|&dtype| dtype == DType::F32));
            let mut of_family: HashMap<&str, Vec<String>> = HashMap::new();
            for case in of_f32 {
                of_family.entry(case.family).or_default().push(case.name.clone());
            }
            of_family.values_mut().for_each(|names| names.truncate(MOST_IN_FULL));
            of_family
        };
        let usual = |cases: &[Case]| {
            let is_usual = |of: &DType| *of == DType::F32 || OF_16_BITS.contains(of);
            let usual = kinds(cases).into_iter().filter(|(_, dtypes)| dtypes.iter().all(is_usual));
            usual.map(|(family, dtypes)| (family, OF_16_BITS.map(|of| dtypes.contains(&of)))).collect::<HashSet<_>>()
        };
        let (mut met, mut kinds_met) = (HashSet::new(), HashSet::new());
        for day in 0..3 {
            let selection = Selection { part: Part::named(3, Some(&day.to_string())), ..Selection::default() };
            let (_, some) = Selection { in_full: Some(DType::F32), ..selection.clone() }.cases();
            assert!(some.len() < all.len() && usual(&some) == usual(&all), "{day}");
            kinds_met.extend(kinds(&some));
            let (found, want) = (f32s(&some), f32s(&all));
            for (family, names) in &want {
                assert_eq!(found.get(family), Some(names), "{family} on day {day}");
            }
            let names: HashSet<String> = some.into_iter().map(|case| case.name).collect();
            let (_, part) = selection.cases();
            assert!(part.iter().all(|case| names.contains(&case.name)), "{day}");
            met.extend(names);
        }
        assert_eq!((met.len(), kinds_met), (all.len(), kinds(&all)));
    }
}
