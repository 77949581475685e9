//! Ways to compute products that the harness alone does not meet, because planners put others first for small products: f32 split
//! into parts of f16, on every adapter with cooperative matrices, against the oracle.
//!
//! f32 runs at `High` too in every case. `POLYWARP_TEST_CANDIDATES=_coop` takes all candidates whose name contains that instead,
//! which compiles hundreds of kernels; `POLYWARP_TEST_FILTER` restricts cases by name, `POLYWARP_TEST_LEVEL=full` takes all sizes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::{assert_alive, entries};
use polywarp_core::harness::{Case, Level, Outcome, Wrap, Wrapped, run_case};
use polywarp_core::ops::{Matmul, REGISTRY};
use polywarp_core::plan::Plan;
use polywarp_core::tuner::Planned;
use polywarp_core::{Backend, Buffer, DType, Device, Op, Precision, Result};
use polywarp_wgpu::{Options, WgpuBackend};

/// A device that computes ops by one plan.
#[derive(Debug)]
struct Forced {
    backend: WgpuBackend,
    plan: Mutex<Plan>,
}

impl Wrap for Forced {
    fn inner(&self) -> &dyn Backend {
        &self.backend
    }

    fn execute(&self, _: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let plan = self.plan.lock().unwrap().clone();
        self.backend.run_plan(&plan, inputs, outputs)
    }
}

/// Cases of products that compute something; those of f32 once more, at `High`.
fn cases() -> Vec<Case> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let level = if variable("POLYWARP_TEST_LEVEL") == "full" { Level::Full } else { Level::Quick };
    let family = REGISTRY.iter().find(|family| family.name == "matmul").expect("products");
    let mut cases = (family.cases)(level);
    for at in 0..cases.len() {
        let Some(op) = cases[at].op.get::<Matmul>() else { continue };
        if op.a.dtype == DType::F32 && op.precision == Precision::Highest {
            let op = Matmul { precision: Precision::High, ..op.clone() };
            let high = Case::new("matmul", op, cases[at].values.clone());
            cases.push(Case { check: cases[at].check, ..high });
        }
    }
    cases.retain(|case| case.name.contains(&variable("POLYWARP_TEST_FILTER")));
    cases.retain(|case| case.op.output().layout.elements() > 0);
    cases
}

#[test]
fn products_of_parts_conform() {
    let wanted = std::env::var("POLYWARP_TEST_CANDIDATES").unwrap_or_else(|_| "_split".to_owned());
    for entry in entries() {
        let plan = Mutex::new(Plan::default());
        let device = Device::new(Wrapped(Forced { backend: entry.open(Options::default()).unwrap(), plan }));
        let Wrapped(forced) = device.backend_as::<Wrapped<Forced>>().unwrap();
        let (mut runs, mut failures) = (BTreeMap::<String, usize>::new(), Vec::new());
        for case in cases() {
            let Ok(found) = forced.backend.candidates(&case.op) else { continue };
            for candidate in found.into_iter().filter(|found| found.name.contains(&wanted)) {
                *forced.plan.lock().unwrap() = candidate.plan;
                match run_case(&device, &case, 0) {
                    Outcome::Pass { .. } => *runs.entry(candidate.name).or_default() += 1,
                    outcome => failures.push(format!("{} by {}: {outcome:?}", case.name, candidate.name)),
                }
            }
        }
        let total: usize = runs.values().sum();
        if total + failures.len() == 0 {
            println!("NOT RUN on {}: it has no candidate {wanted}", entry.id);
        }
        runs.iter().for_each(|(name, count)| println!("{}: {count:5} by {name}", entry.id));
        let first = &failures[..failures.len().min(20)];
        assert!(
            failures.is_empty(),
            "{}: {} of {} failed: {first:#?}",
            entry.id,
            failures.len(),
            total + failures.len()
        );
        assert_alive(&forced.backend);
    }
}
