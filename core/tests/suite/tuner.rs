//! Choosing among kernels through the traits alone, on a device that is right by construction: what fails later is replaced
//! within the same call, what is short of memory is not blamed, and a decided op costs next to nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::products::{operands, product, values};
use polywarp_core::harness::ReferenceBackend;
use polywarp_core::tuner::{Candidate, Chooser, Effort, Identity, Mode, Options, Place, Planned};
use polywarp_core::{Backend, Buffer, Error, Op, Result};

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Right,
    /// Right, until it was run so often.
    FailsAfter(u32),
    /// Right, and needs this much scratch space.
    Scratch([u64; 1]),
    /// Right, but for the last element.
    Wrong,
    /// Nothing: for timing the host.
    Nothing,
}

#[derive(Debug)]
struct Device {
    inner: ReferenceBackend,
    kernels: Vec<(&'static str, Does)>,
    runs: AtomicU32,
}

struct Plan {
    op: Op,
    does: Does,
}

impl Planned for Device {
    type Plan = Plan;

    fn backend(&self) -> &dyn Backend {
        &self.inner
    }

    fn copying(&self, bytes: u64) -> Result<Op> {
        Ok(polywarp_core::ops::Copy::of_bytes(bytes)?.into())
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Plan>>> {
        let made = self.kernels.iter().map(|&(name, does)| Candidate {
            name: name.to_owned(),
            plan: Plan { op: op.clone(), does },
            estimate_ns: 1.0,
        });
        Ok(made.collect())
    }

    fn plan(&self, op: &Op) -> Result<Plan> {
        Ok(Plan { op: op.clone(), does: self.kernels[0].1 })
    }

    fn scratch<'a>(&self, plan: &'a Plan) -> &'a [u64] {
        if let Does::Scratch(bytes) = &plan.does { bytes } else { &[] }
    }

    fn run(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        match plan.does {
            Does::Nothing => return Ok(()),
            Does::FailsAfter(most) if self.runs.fetch_add(1, Ordering::Relaxed) >= most => {
                let (device, op) = ("test".to_owned(), "matmul".to_owned());
                return Err(Error::Backend { device, op, message: "launch failed".to_owned() });
            }
            Does::Scratch([bytes]) => drop(self.inner.alloc(bytes)?),
            _ => {}
        }
        self.inner.execute(&plan.op, inputs, outputs)?;
        if plan.does == Does::Wrong {
            let spec = plan.op.output();
            let at = spec.required_bytes() - spec.dtype.size_bytes();
            self.inner.write(outputs[0], at, &vec![0x3C; spec.dtype.size_bytes() as usize])?;
        }
        Ok(())
    }

    fn records(&self) -> bool {
        false
    }
}

fn device(kernels: &[(&'static str, Does)]) -> Device {
    Device { inner: ReferenceBackend::default(), kernels: kernels.to_vec(), runs: AtomicU32::new(0) }
}

fn chooser(device: &Device, mode: Mode) -> Chooser<Plan> {
    let options = Options { mode, budget: Duration::from_millis(20), place: Place::Nowhere, effort: Effort::Small };
    Chooser::new(Identity::new(device.inner.info(), &["test"]), options)
}

#[test]
fn a_kernel_that_fails_later_is_replaced_within_the_call() {
    for mode in [Mode::Off, Mode::Full] {
        let device = device(&[("fails", Does::FailsAfter(40)), ("works", Does::Right)]);
        let (chooser, op) = (chooser(&device, mode), product(8, 9, 10));
        let (inputs, output) = operands(&device.inner, &op);
        for call in 0..80 {
            device.inner.write(&output, 0, &[0xFF; 4]).unwrap();
            chooser.execute(&device, &op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
            assert_eq!(values(&device.inner, &output, 1), [20.0], "{mode:?}, call {call}");
        }
        if mode == Mode::Off {
            let quarantine = chooser.tuner().quarantine();
            assert!(quarantine.len() == 1 && quarantine[0].candidate == "fails", "{quarantine:?}");
        }
    }
}

#[test]
fn when_every_kernel_fails_the_error_is_typed_and_lists_them() {
    let device = device(&[("one", Does::FailsAfter(1)), ("two", Does::FailsAfter(0))]);
    let (chooser, op) = (chooser(&device, Mode::Off), product(8, 9, 10));
    let (inputs, output) = operands(&device.inner, &op);
    let refused = chooser.execute(&device, &op, &[&inputs[0], &inputs[1]], &[&output]);
    let Err(Error::Backend { message, .. }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("one") && message.contains("two"), "{message}");
}

#[test]
fn a_wrong_element_keeps_a_kernel_out() {
    let device = device(&[("wrong", Does::Wrong), ("right", Does::Right)]);
    let (chooser, op) = (chooser(&device, Mode::Full), product(30, 31, 32));
    let (inputs, output) = operands(&device.inner, &op);
    chooser.execute(&device, &op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
    let quarantine = chooser.tuner().quarantine();
    assert!(quarantine.len() == 1 && quarantine[0].candidate == "wrong", "{quarantine:?}");
    assert_eq!(values(&device.inner, &output, 1), [64.0]);
}

#[test]
fn short_of_scratch_space_another_kernel_serves_and_nobody_is_blamed() {
    let device = device(&[("large", Does::Scratch([1 << 20])), ("small", Does::Right)]);
    let (chooser, op) = (chooser(&device, Mode::Off), product(8, 9, 10));
    let (inputs, output) = operands(&device.inner, &op);
    let run = || chooser.execute(&device, &op, &[&inputs[0], &inputs[1]], &[&output]);
    run().unwrap();
    // Both were right; now there is no room for the first.
    device.inner.set_memory_limit(Some(device.inner.memory().in_use_bytes + 64 * 1024));
    run().unwrap();
    assert_eq!(values(&device.inner, &output, 1), [20.0]);
    assert!(chooser.tuner().quarantine().is_empty());
    // Where nothing else would do, the error says what is missing.
    let alone = self::device(&[("large", Does::Scratch([1 << 20]))]);
    let (inputs, output) = operands(&alone.inner, &op);
    alone.inner.set_memory_limit(Some(alone.inner.memory().in_use_bytes));
    let refused = self::chooser(&alone, Mode::Off).execute(&alone, &op, &[&inputs[0], &inputs[1]], &[&output]);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
}

#[test]
fn a_decided_op_costs_a_look_up() {
    let device = device(&[("nothing", Does::Nothing)]);
    let (chooser, op) = (chooser(&device, Mode::Off), product(512, 512, 512));
    let (inputs, output) = operands(&device.inner, &product(1, 1, 1));
    let inputs = [&inputs[0], &inputs[1]];
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..10_000 {
            chooser.execute(&device, std::hint::black_box(&op), &inputs, &[&output]).unwrap();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / 1e4);
    }
    println!("choosing a plan for a decided op: {best:.0} ns");
    assert!(best < 5000.0, "{best} ns"); // loose, for shared machines without optimisation
}
