//! Ways to compute operations that the harness alone does not meet, because planners put others first, against the oracle: one case for every
//! way of every operation that has several; and all cases of products by f32 split into parts of f16, on every adapter with cooperative
//! matrices.
//!
//! Software GPUs take a part of the ways, another one every day; `POLYWARP_TEST_PART=all` takes all. In products f32 runs at `High` too;
//! `POLYWARP_TEST_CANDIDATES=_coop` takes all candidates whose name contains that instead, which compiles hundreds of kernels.
//! `POLYWARP_TEST_FILTER` restricts cases by name, `POLYWARP_TEST_LEVEL=full` takes all sizes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::common::{assert_alive, entries, ways};
use polywarp_core::harness::{Case, Level, Outcome, Part, Wrap, Wrapped, run_case};
use polywarp_core::ops::{Matmul, REGISTRY};
use polywarp_core::plan::Plan;
use polywarp_core::tuner::Planned;
use polywarp_core::{Backend, Buffer, DType, Device, DeviceKind, Op, Precision, Result};
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

#[test]
fn every_way_of_every_operation_conforms() {
    // GL runs the same plans, in another language, which the harness tests.
    for entry in entries().into_iter().filter(|entry| entry.api != "gl") {
        let plan = Mutex::new(Plan::default());
        let device = Device::new(Wrapped(Forced { backend: entry.open(Options::default()).unwrap(), plan }));
        let Wrapped(forced) = device.backend_as::<Wrapped<Forced>>().unwrap();
        let part = if device.info().kind == DeviceKind::Software { Part::today(80) } else { Part::ALL };
        let plans = |op: &Op| {
            let found = forced.backend.candidates(op).unwrap_or_default();
            found.into_iter().map(|found| (found.name, found.plan)).collect()
        };
        let start = Instant::now();
        let found = ways::ways(part, plans);
        println!("found in {:.1} s", start.elapsed().as_secs_f64());
        ways::hold(&entry.id, &found, |way| {
            *forced.plan.lock().unwrap() = way.plan.clone();
            run_case(&device, &way.case, 0)
        });
        assert_alive(&forced.backend);
    }
}
