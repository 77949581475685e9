//! The harness catches every deliberate fault, and finds none where there is none.

use polywarp_core::harness::broken::{Fault, broken};
use polywarp_core::harness::{
    self, CONTRACT, Contract, ExpectedFailure, FailureKind, Level, Part, ReferenceBackend, Report, Selection,
};
use polywarp_core::ops::REGISTRY;
use polywarp_core::{DType, Device};

fn report(fault: Fault, selection: &Selection) -> Report {
    let device = broken(Device::new(ReferenceBackend::default()), fault);
    harness::run(&device, selection, &mut |_| {})
}

fn kinds(report: &Report) -> Vec<FailureKind> {
    let mut kinds: Vec<FailureKind> = report.failures.iter().map(|failure| failure.kind).collect();
    kinds.dedup();
    kinds
}

/// One of so many cases is enough to see a fault, and to see none.
const EVERY: u64 = 8;

/// The f32 cases among them of one family, of one without such those of every dtype.
fn some_of(family: &str) -> Selection {
    let known = REGISTRY.iter().filter(|known| known.name == family).flat_map(|known| (known.cases)(Level::Quick));
    let dtype = known.into_iter().any(|case| case.uses(DType::F32)).then_some(DType::F32);
    Selection { dtype, part: Part::first(EVERY), ..Selection::family(family) }
}

/// Faults that spoil values whatever the op is.
const VALUE_FAULTS: [Fault; 5] =
    [Fault::MiddleElement, Fault::NothingDone, Fault::TailNotWritten, Fault::TailOffByOne, Fault::TileStale];

/// Every element of a fill is the same: a neighbour's value is the right one.
const ALIKE: &str = "fill";

#[test]
fn every_fault_is_caught_in_every_family_it_can_show_in() {
    // One of two families a day.
    let today = Part::today(2);
    for (_, family) in (0..).zip(REGISTRY.iter().map(|family| family.name)).filter(|(i, _)| today.is_turn_of(*i)) {
        for fault in VALUE_FAULTS {
            if family == ALIKE && matches!(fault, Fault::TailOffByOne | Fault::TileStale) {
                continue;
            }
            let report = report(fault, &some_of(family));
            assert!(
                !report.ok() && kinds(&report).contains(&FailureKind::Wrong),
                "{fault:?} in {family}: {:?}",
                kinds(&report)
            );
        }
    }
}

/// What an operation says of itself is what the harness looks for.
#[test]
fn results_that_change_and_terms_left_out_are_caught_in_every_family_of_sums() {
    let (mut repeating, mut summing) = (0, 0);
    for family in REGISTRY {
        let cases = (family.cases)(Level::Quick);
        if cases.iter().any(|case| case.op.facts().repeats) {
            let found = kinds(&report(Fault::Unrepeatable, &some_of(family.name)));
            assert!(found.contains(&FailureKind::NotRepeatable), "{}: {found:?}", family.name);
            repeating += 1;
        }
        if cases.iter().any(|case| case.op.shortened().unwrap().is_some()) {
            let found = kinds(&report(Fault::DropsProduct, &some_of(family.name)));
            assert!(found.contains(&FailureKind::Wrong), "{}: {found:?}", family.name);
            summing += 1;
        }
    }
    assert!(repeating >= 7 && summing >= 3, "{repeating} families repeat, {summing} sum up");
}

/// Faults of operands that are updated, and of results after the first.
const UPDATE_FAULTS: [Fault; 3] = [Fault::UpdateIgnored, Fault::UpdatedTwice, Fault::SecondOutputStale];

/// An update that is made once more changes nothing: the first fault stays.
const LASTING: &str = "positions";

#[test]
fn updates_that_are_left_out_or_made_twice_and_stale_results_are_caught() {
    let mut families = 0;
    for family in REGISTRY {
        let cases = (family.cases)(Level::Quick);
        let selection = Selection { part: Part::first(1), ..some_of(family.name) };
        let faults = UPDATE_FAULTS.into_iter().filter(|fault| match fault {
            Fault::SecondOutputStale => cases.iter().any(|case| case.op.outputs().len() > 1),
            Fault::UpdatedTwice if family.name == LASTING => false,
            _ => cases.iter().any(|case| case.op.updates()),
        });
        let faults: Vec<Fault> = faults.collect();
        families += u64::from(!faults.is_empty());
        for fault in faults {
            let found = kinds(&report(fault, &selection));
            assert!(found.contains(&FailureKind::Wrong), "{fault:?} in {}: {found:?}", family.name);
        }
    }
    assert!(families > 0);
}

#[test]
fn fault_specific_evidence_is_found() {
    let expected = [
        (Fault::BeforeStart, "unary", FailureKind::Guard),
        (Fault::PastEnd, "unary", FailureKind::Guard),
        (Fault::PastEnd, "copy", FailureKind::Guard),
        (Fault::InputChanged, "unary", FailureKind::InputChanged),
        (Fault::FastMath, "grouped_matmul", FailureKind::Wrong),
        (Fault::LowPrecision, "matmul", FailureKind::Wrong),
        (Fault::LowPrecision, "softmax", FailureKind::Wrong),
        (Fault::ReadsPadding, "reduce", FailureKind::Wrong),
        (Fault::ReadsPadding, "matmul", FailureKind::Wrong),
        (Fault::FastMath, "unary", FailureKind::Wrong),
        (Fault::FastMath, "reduce", FailureKind::Wrong),
        (Fault::FastMath, "matmul", FailureKind::Wrong),
    ];
    for (fault, family, kind) in expected {
        let report = report(fault, &some_of(family));
        assert!(kinds(&report).contains(&kind), "{fault:?} in {family}: {:?}", kinds(&report));
    }
    // In the families that say so, by a test of their own.
    let of_sums = [Fault::Unrepeatable, Fault::DropsProduct];
    let covered = |fault: &Fault| {
        let elsewhere = [&VALUE_FAULTS[..], &of_sums, &UPDATE_FAULTS].concat();
        elsewhere.contains(fault) || expected.iter().any(|row| row.0 == *fault)
    };
    assert!(Fault::ALL.iter().all(covered));
}

/// One product of 4,099 is far inside the float bound; only the exact-integer case can see that it is missing.
#[test]
fn dropped_product_at_long_k_is_caught_by_exact_integers_alone() {
    let selection = |filter: &str| Selection { filter: Some(filter.to_owned()), ..Selection::family("matmul") };
    let caught = report(Fault::DropsProduct, &selection("f32 [5,4099]x[4099,3] int(-4,4) exact"));
    assert_eq!((caught.selected, caught.total.failed), (1, 1), "{caught}");
}

#[test]
fn sound_device_passes_and_the_report_says_what_ran() {
    let report = report(Fault::None, &Selection { part: Part::first(EVERY), ..Selection::level(Level::Quick) });
    assert!(report.ok(), "{report}");
    assert_eq!(report.total.passed, report.selected);
    assert_eq!(report.families.len(), polywarp_core::ops::REGISTRY.len());
    let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(json["total"]["passed"], report.selected);
    assert_eq!(json["level"], "quick");
}

#[test]
fn asynchronous_run_judges_as_the_blocking_one() {
    for fault in [Fault::None, Fault::PastEnd, Fault::InputChanged, Fault::Unrepeatable, Fault::MiddleElement] {
        let selection = Selection { dtype: Some(DType::F32), ..Selection::family("reduce") };
        let device = broken(Device::new(ReferenceBackend::default()), fault);
        let mut told = 0;
        let mut awaited = pollster::block_on(harness::run_async(&device, &selection, &mut |at| told = at.done));
        let mut blocking = report(fault, &selection);
        (awaited.seconds, blocking.seconds) = (0.0, 0.0);
        (awaited.host_seconds, blocking.host_seconds) = Default::default();
        assert_eq!(told, awaited.selected);
        assert_eq!(awaited.ok(), matches!(fault, Fault::None), "{fault:?}");
        assert_eq!(serde_json::to_string(&awaited).unwrap(), serde_json::to_string(&blocking).unwrap(), "{fault:?}");
    }
}

#[test]
fn nothing_selected_is_a_failure() {
    let report = report(Fault::None, &Selection { filter: Some("no such case".into()), ..Selection::default() });
    assert!(!report.ok() && report.problem().is_some());
    assert!(!report_of_family("no such family").ok());
}

#[test]
fn one_of_so_many_cases_runs() {
    let all = report_of_family("fill").selected;
    let of = |parts| {
        let selection = Selection { part: Part::first(parts), ..Selection::family("fill") };
        report(Fault::None, &selection).selected
    };
    assert_eq!([of(0), of(1)], [all, all]);
    assert!((all / 8..all / 2).contains(&of(4)), "{} of {all}", of(4));
    // The first of those that a filter leaves is always among them.
    assert!(of(u64::MAX) >= 1);
}

fn report_of_family(family: &str) -> Report {
    report(Fault::None, &Selection::family(family))
}

/// The name that a failure prints, given as a filter, runs that case alone and fails in the same way.
#[test]
fn failure_name_runs_the_case_alone_with_the_same_numbers() {
    let first = report(Fault::TailOffByOne, &Selection { seed: 77, ..Selection::family("reduce") });
    let failure = first.failures[0].clone();
    assert!(failure.case.ends_with("@77"));
    let again = report(Fault::TailOffByOne, &Selection { filter: Some(failure.case.clone()), ..Selection::default() });
    assert_eq!(again.selected, 1);
    assert_eq!(again.failures[0].misses, failure.misses);
    assert_eq!((again.seed, &again.failures[0].case), (77, &failure.case));
}

#[test]
fn expected_failure_that_passes_is_a_failure() {
    let known = |device: &str| ExpectedFailure {
        device: device.into(),
        case: "fill/".into(),
        link: "https://example.org/driver-bug".into(),
    };
    let with = |device| Selection { expected_failures: vec![known(device)], ..Selection::family("fill") };
    let surprised = report(Fault::None, &with("float64 oracle"));
    assert!(!surprised.ok());
    assert!(surprised.failures.iter().all(|failure| failure.kind == FailureKind::UnexpectedPass));
    assert!(report(Fault::None, &with("another device")).ok());
    let failing = report(Fault::PastEnd, &with("float64 oracle"));
    assert!(failing.total.failed < failing.selected && failing.total.expected_failures > 0);
}

#[cfg(feature = "cpu")]
mod short_oracles {
    //! A stranger's operation whose oracle says too little.

    use std::sync::atomic::{AtomicUsize, Ordering};

    use polywarp_core::gradient::{Gradient, Needs};
    use polywarp_core::harness::gradients::{prove, prove_adjoint};
    use polywarp_core::harness::{Case, FailureKind, Outcome, Values, output, run_case};
    use polywarp_core::operation::{Arithmetic, HostResult, Operand, Operation};
    use polywarp_core::ops::RuleBuilder;
    use polywarp_core::oracle::{Expected, HostTensor};
    use polywarp_core::{DType, Device, Layout, Result, Shape, TensorSpec};

    static RUNS: AtomicUsize = AtomicUsize::new(0);

    /// Two copies of the input. Its oracle gives `known` results of `elements` elements.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Twice {
        input: TensorSpec,
        outputs: [TensorSpec; 2],
        known: usize,
        elements: usize,
    }

    impl Operation for Twice {
        fn name(&self) -> &'static str {
            "twice"
        }

        fn operands(&self, each: &mut dyn FnMut(Operand)) {
            each(Operand::read(self.input));
            self.outputs.iter().for_each(|output| each(Operand::write(*output)));
        }

        fn validate(&self) -> Result<()> {
            Ok(())
        }

        fn arithmetic(&self) -> Arithmetic {
            Arithmetic::flops(0)
        }

        fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
            let result = before[0].values.iter().take(self.elements).map(|&x| Expected::exact(x)).collect();
            vec![result; self.known]
        }

        fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
            let rule = RuleBuilder::new(self, needs)?;
            let gradient = rule.gradient(0)?;
            rule.finish(vec![Some(gradient)])
        }

        fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
            RUNS.fetch_add(1, Ordering::Relaxed);
            for (output, spec) in outputs.iter_mut().zip(&self.outputs) {
                let (start, size) = (spec.layout.offset() as usize * 8, spec.layout.elements() as usize * 8);
                output[start..start + size].copy_from_slice(&inputs[0][..size]);
            }
            Ok(())
        }
    }

    #[test]
    fn an_oracle_that_gives_too_little_is_named_before_anything_runs() {
        let dense = TensorSpec::new(DType::F64, Layout::contiguous(Shape::new(&[5]).unwrap()));
        let result = output(DType::F64, &[5]).unwrap();
        let of = |known, elements| Twice { input: dense, outputs: [result; 2], known, elements };
        let run = |op: Twice| run_case(&Device::cpu(), &Case::new("twice", op, vec![Values::Normal]), 0);
        let whole = run(of(2, 5));
        assert!(matches!(whole, Outcome::Pass { .. }), "{whole:?}");
        let before = RUNS.load(Ordering::Relaxed);
        for (op, words) in [
            (of(1, 5), "the oracle of twice gave 1 results of 2"),
            (of(0, 5), "the oracle of twice gave 0 results of 2"),
            (of(3, 5), "the oracle of twice gave 3 results of 2"),
            (of(2, 4), "the oracle of twice gave 4 elements of 5 of output 0"),
        ] {
            let Outcome::Fail(failure) = run(op.clone()) else { panic!("{words}") };
            assert!(failure.kind == FailureKind::Oracle && failure.message == words, "{failure}");
            let op = op.into();
            assert_eq!(prove(&op, &[Values::Normal], 0).unwrap_err(), words);
            assert_eq!(prove_adjoint(&op, &[Values::Normal], 0, 1).unwrap_err(), words);
        }
        assert_eq!(RUNS.load(Ordering::Relaxed), before);
    }
}

fn of_contract(filter: &str, threads: usize) -> Selection {
    let filter = Some(filter.to_owned());
    Selection { filter, contract: Contract::Included, threads, ..Selection::family(CONTRACT) }
}

#[test]
fn rows_of_the_contract_are_a_family_whose_faults_are_caught() {
    let selection = of_contract("contract/outside", 1);
    let broken = report(Fault::UpdateIgnored, &selection);
    assert!(kinds(&broken).contains(&FailureKind::Contract), "{broken}");
    assert!(broken.selected == 11 && broken.families.keys().eq([CONTRACT]), "{broken}");
    // A failure's name is a filter that selects it alone.
    let again = report(Fault::UpdateIgnored, &of_contract(&broken.failures[0].case, 4));
    assert_eq!(again.failures, &broken.failures[..1]);
    let whole = report(Fault::None, &selection);
    assert!(whole.ok() && whole.total.passed == 11, "{whole}");
}

#[test]
fn rows_of_the_contract_are_taken_only_where_asked() {
    let device = Device::cpu();
    let mut told = Vec::new();
    let wanted = Selection { contract: Contract::Included, threads: 2, ..Selection::family("fill") };
    let mixed = Selection { family: None, filter: Some("threads".to_owned()), ..wanted.clone() };
    let report = harness::run(&device, &mixed, &mut |progress| {
        told.push(progress.name.to_owned());
        assert_eq!((progress.family, progress.total), (CONTRACT, 2));
    });
    // The CPU runs no users' kernels.
    assert!(report.ok() && report.total.unsupported == 1, "{report}");
    assert_eq!(
        told,
        ["contract/outside positions outside: threads lose none", "contract/order threads share the device"]
    );
    assert!(harness::run(&device, &wanted, &mut |_| {}).families.keys().eq(["fill"]));
    for none in [
        Selection { contract: Contract::LeftOut, ..of_contract("", 1) },
        Selection { dtype: Some(DType::F32), ..of_contract("", 1) },
        of_contract("no such row", 1),
    ] {
        let nothing = harness::run(&device, &none, &mut |_| {});
        assert!(!nothing.ok() && nothing.selected == 0, "{nothing}");
    }
}
