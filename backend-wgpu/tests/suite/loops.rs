//! Drivers that end loops: they are found, the library's kernels keep below, users' kernels are looked at; and groups are found in
//! less than a pass over all of them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::{self, each, entries, entries_of_today};
use polywarp_core::harness::{Level, Outcome, Part, Wrap, Wrapped, run_case};
use polywarp_core::ops::REGISTRY;
use polywarp_core::plan::{Caps, Plan};
use polywarp_core::{Backend, Buffer, DType, Device, Error, Kernel, Op, Result, Tensor};
use polywarp_wgpu::{Options, WgpuBackend};

#[test]
fn drivers_that_end_loops_are_found() {
    for entry in entries() {
        let backend = entry.open(Options::default()).unwrap();
        let start = Instant::now();
        let again = entry.open(Options::default()).unwrap();
        println!("{}: {:?} rounds; opened again in {:?}", entry.name, backend.caps().max_loop_rounds, start.elapsed());
        assert_eq!(backend.caps().max_loop_rounds, again.caps().max_loop_rounds);
        if entry.name.contains("llvmpipe") {
            let limit = backend.caps().max_loop_rounds.expect("llvmpipe ends loops");
            assert!((60_000..66_000).contains(&limit), "{limit}");
        }
    }
}

#[test]
fn users_loops_that_the_driver_would_end_are_refused() {
    each(|backend| {
        let text = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main() {
                for (var i = 0u; i < 300u; i++) {
                    for (var j = 0u; j < ROUNDSu; j++) { x[0] += j; }
                }
            }";
        let launch = |rounds: u32| {
            let buffer = backend.alloc(16)?;
            let kernel = Kernel::wgsl(text.replace("ROUNDS", &rounds.to_string()));
            backend.launch(&kernel, [1, 1, 1], &[common::bind(0, &buffer)])
        };
        launch(100).unwrap();
        match (backend.caps().max_loop_rounds, launch(1000)) {
            (None, Ok(())) => {}
            (Some(limit), Err(Error::Unsupported { what, reason, .. })) => {
                assert!(what.contains("300601 rounds") && reason.contains(&limit.to_string()), "{what}: {reason}");
                assert!(reason.contains("line 3, column 17"), "{reason}");
            }
            (limit, outcome) => panic!("{limit:?}: {outcome:?}"),
        }
        backend.synchronize().unwrap();
    });
}

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

/// Families, each with fewer rounds than any driver allows: products of a hundred elements along k are cut, and reductions of a
/// few thousand.
///
/// All plans are checked. Only some run, others every day, because a software GPU takes a tenth of a second or more to compile each: the
/// third number says one of how many.
const FEW: [(&str, u32, u64); 4] =
    [("matmul", 264, 60), ("grouped_matmul", 264, 60), ("reduce", 180, 30), ("argreduce", 180, 8)];

#[test]
fn sums_that_are_cut_for_few_rounds_conform() {
    let Some(entry) = entries().into_iter().next() else { return };
    let backend = entry.open(Options::default()).unwrap();
    let free = backend.caps().clone();
    let device = Device::new(Wrapped(Forced { backend, plan: Mutex::default() }));
    let Wrapped(forced) = device.backend_as::<Wrapped<Forced>>().unwrap();
    for (name, few, one_of) in FEW {
        let caps = Caps { max_loop_rounds: Some(few), ..free.clone() };
        let family = REGISTRY.iter().find(|family| family.name == name).expect(name);
        let today = Part::today(one_of);
        let (mut planned, mut cut) = (0, 0);
        for case in (family.cases)(Level::Quick).iter().filter(|case| case.op.output().layout.elements() > 0) {
            // Long ones run on their own. Scales of blocks want slabs that hold a block, as every real limit leaves them.
            if case.name.contains("70000") || case.name.contains(" blocks") {
                continue;
            }
            let (Ok(plan), Ok(whole)) =
                (polywarp_core::ops::plan(&case.op, &caps), polywarp_core::ops::plan(&case.op, &free))
            else {
                continue;
            };
            if plan == whole {
                continue;
            }
            assert!(plan.loop_rounds() <= u64::from(few), "{}", case.name);
            planned += 1;
            if !today.is_turn_of(planned) {
                continue;
            }
            *forced.plan.lock().unwrap() = plan;
            let outcome = run_case(&device, case, 0);
            assert!(!matches!(outcome, Outcome::Fail(_)), "{}: {outcome:?}", case.name);
            cut += 1;
        }
        println!("{name}: {cut} of {planned} cases");
        assert!(cut > 2, "{name}: {cut} cases were cut");
    }
}

/// Groups that take a minute where every tile goes through all of them.
const GROUPS: u64 = 70_001;

#[test]
fn seventy_thousand_groups_take_seconds() {
    let devices = entries_of_today().into_iter().map(|entry| Device::new(entry.open(Options::default()).unwrap()));
    for device in std::iter::once(Device::cpu()).chain(devices) {
        let (k, n) = (8, 4);
        let a = Tensor::full(&device, DType::F32, [GROUPS, k], 1.0).unwrap();
        let of_group = |group: u64| (group % 7) as f32;
        let b: Vec<f32> =
            (0..GROUPS).flat_map(|group| std::iter::repeat_n(of_group(group), (k * n) as usize)).collect();
        let b = Tensor::from_slice(&device, &b, [GROUPS, k, n]).unwrap();
        // The first group owns two rows, the last none.
        let ends: Vec<i32> = (0..GROUPS as i32).map(|group| (group + 2).min(GROUPS as i32)).collect();
        let ends = Tensor::from_slice(&device, &ends, [GROUPS]).unwrap();
        let start = Instant::now();
        let d: Vec<f32> = a.grouped_matmul(&b, &ends).unwrap().to_vec().unwrap();
        let taken = start.elapsed();
        println!("{}: {taken:?}", device.info().id);
        let wrong = (0..GROUPS).find(|&row| d[(row * n) as usize] != 8.0 * of_group(row.saturating_sub(1)));
        assert_eq!(wrong, None, "a row of {}", device.info().id);
        assert!(taken < Duration::from_secs(30), "{}: {taken:?}", device.info().id);
    }
}

#[test]
fn sums_of_two_million_products_are_whole() {
    for entry in entries() {
        let backend = entry.open(Options::default()).unwrap();
        let limit = backend.caps().max_loop_rounds;
        let device = Device::new(backend);
        let k = 2_000_000;
        let a = Tensor::full(&device, DType::F32, [1, k], 1.0).unwrap();
        let b = Tensor::full(&device, DType::F32, [k, 2], 1.0).unwrap();
        let d: Vec<f32> = a.matmul(&b).unwrap().to_vec().unwrap();
        assert_eq!(d, [k as f32; 2], "{}: {limit:?}", entry.name);
    }
}
