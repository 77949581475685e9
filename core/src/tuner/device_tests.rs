//! How candidates are timed, on the CPU backend.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::gradient::{Gradient, Needs};
use crate::operation::{Arithmetic, HostResult, Operand, Operation};
use crate::ops::Matmul;
use crate::oracle::{Expected, HostTensor};
use crate::tuner::{Chooser, Identity, Judged, Key, Mode, Options, Place, Tuned};
use crate::{Backend, DType, Device, Layout, Scalar, Shape, TensorSpec};

/// Two names for one way to compute, which counts how often it was given to the device, and may be refused.
struct Counting {
    device: Device,
    given: AtomicUsize,
    refuse_from: usize,
    /// What each run was to write.
    outputs: Mutex<Vec<Buffer>>,
}

impl Counting {
    fn new(refuse_from: usize) -> Counting {
        Counting { device: Device::cpu(), given: AtomicUsize::new(0), refuse_from, outputs: Mutex::default() }
    }
}

impl Planned for Counting {
    type Plan = Op;

    fn backend(&self) -> &dyn Backend {
        self.device.backend()
    }

    fn copying(&self, bytes: u64) -> Result<Op> {
        Ok(crate::ops::Copy::of_bytes(bytes)?.into())
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Op>>> {
        let named = |name: &str| Candidate { name: name.to_owned(), plan: op.clone(), estimate_ns: 1.0 };
        Ok(vec![named("one"), named("other")])
    }

    fn plan(&self, op: &Op) -> Result<Op> {
        Ok(op.clone())
    }

    fn scratch<'a>(&self, _: &'a Op) -> &'a [u64] {
        &[]
    }

    fn run(&self, plan: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        if self.given.fetch_add(1, Ordering::Relaxed) >= self.refuse_from {
            return Err(Error::Backend { device: "cpu".into(), op: "matmul".into(), message: "refused".into() });
        }
        self.outputs.lock().unwrap().push(outputs[0].clone());
        self.backend().execute(plan, inputs, outputs)
    }

    fn records(&self) -> bool {
        false
    }
}

/// Gives `work` a runner for a product of ones, and returns the first element of what is in the output then.
fn with_runner(planned: &Counting, work: impl FnOnce(&mut DeviceRunner<'_, Counting>)) -> f32 {
    let backend = planned.backend();
    let dense = || TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[4, 4]).unwrap()));
    let op: Op = Matmul::product(dense(), dense(), dense()).check().unwrap().into();
    let buffer = |value: f32| {
        let buffer = backend.alloc(64).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(16)).unwrap();
        buffer
    };
    let (a, b, output) = (buffer(1.0), buffer(1.0), buffer(0.0));
    let candidates = planned.candidates(&op).unwrap();
    work(&mut DeviceRunner::new((planned, &candidates), &op, Effort::Normal, &[&a, &b], &[&output]));
    let bytes = backend.read_blocking(&output, 0..4).unwrap();
    f32::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn samples_replay_what_was_recorded_once() {
    let planned = Counting::new(usize::MAX);
    let given = || planned.given.load(Ordering::Relaxed);
    let first = with_runner(&planned, |runner| {
        assert!(runner.time(0, 8).unwrap() >= 0.0);
        assert_eq!(given(), 8);
        runner.time(0, 8).unwrap();
        assert_eq!(given(), 8, "the second sample is given to the device again, run by run");
        runner.time(0, 1).unwrap();
        assert_eq!(given(), 9);
        runner.time(0, 4).unwrap();
        assert_eq!(given(), 13);
    });
    assert_eq!(first, 4.0);
}

#[test]
fn runs_take_turns_on_copies_and_single_ones_are_the_users() {
    let planned = Counting::new(usize::MAX);
    with_runner(&planned, |runner| {
        let copying = |bytes| planned.copying(bytes);
        let copier = Copier { backend: planned.backend(), copying: &copying };
        runner.copies = Some(Copies::make(copier, runner.op, (runner.inputs, runner.outputs), 2).unwrap());
        runner.time(0, 7).unwrap();
        runner.time(1, 1).unwrap();
        let outputs = planned.outputs.lock().unwrap();
        let turns: Vec<usize> =
            outputs.iter().map(|output| outputs.iter().position(|first| first.same(output)).unwrap()).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0, 0]);
        assert!(outputs[0].same(runner.outputs[0]));
        // Each computes what the user's operands give.
        for output in outputs.iter() {
            let bytes = planned.backend().read_blocking(output, 0..4).unwrap();
            assert_eq!(f32::from_le_bytes(bytes.try_into().unwrap()), 4.0);
        }
    });
}

#[test]
fn a_recording_gives_its_memory_back_before_the_next_candidate_runs() {
    let planned = Counting::new(usize::MAX);
    with_runner(&planned, |runner| {
        runner.time(0, 8).unwrap();
        runner.time(0, 1).unwrap();
        assert!(runner.repeated.is_some(), "the same candidate goes on with it");
        runner.time(1, 1).unwrap();
        assert!(runner.repeated.is_none());
        runner.time(1, 8).unwrap();
        runner.check(0).unwrap();
        assert!(runner.repeated.is_none());
    });
}

#[test]
fn a_candidate_that_fails_while_it_is_recorded_leaves_the_thread_free() {
    let planned = Counting::new(3);
    with_runner(&planned, |runner| {
        assert!(matches!(runner.time(0, 8), Err(Error::Backend { .. })));
        assert!(runner.repeated.is_none());
    });
    // Neither is possible while a thread records.
    planned.backend().synchronize().unwrap();
    planned.backend().begin_recording().unwrap();
    planned.backend().end_recording().unwrap();
}

/// y += x, with several kernels to choose from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Add {
    spec: TensorSpec,
}

impl Operation for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.spec));
        each(Operand::update(self.spec));
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.spec.layout.elements())
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("a test"))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let sums = before[0].values.iter().zip(&before[1].values).map(|(x, y)| x.as_f64() + y.as_f64());
        vec![sums.map(|sum| Expected::within(Scalar::F(sum), 1e-6)).collect()]
    }

    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        let count = self.spec.layout.elements() as usize;
        for (x, y) in inputs[0].chunks_exact(4).zip(outputs[0].chunks_exact_mut(4)).take(count) {
            let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let sum = number(x) + number(y);
            y.copy_from_slice(&sum.to_le_bytes());
        }
        Ok(())
    }

    fn tuned(&self) -> Option<&dyn Tuned> {
        Some(self)
    }
}

impl Tuned for Add {
    fn key(&self) -> Key {
        Key::new("add".to_owned())
    }

    fn class(&self) -> String {
        "add".to_owned()
    }

    fn small(&self, _: Effort, longer: u32) -> Option<Op> {
        (longer == 0).then(|| self.clone().into())
    }

    fn judged(&self, before: &[HostTensor]) -> Result<Vec<Judged>> {
        let expected = self.oracle(before).swap_remove(0);
        Ok(vec![Judged { positions: (0..expected.len() as u64).collect(), expected }])
    }
}

/// An addition to 1s of 2s, and what the user's operand holds after `work`.
fn with_update(planned: &Counting, work: impl FnOnce(&Op, &[&Buffer], &[&Buffer])) -> f32 {
    let backend = planned.backend();
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[16]).unwrap()));
    let buffer = |value: f32| {
        let buffer = backend.alloc(64).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(16)).unwrap();
        buffer
    };
    let (x, y) = (buffer(2.0), buffer(1.0));
    work(&Add { spec }.into(), &[&x], &[&y]);
    f32::from_le_bytes(backend.read_blocking(&y, 0..4).unwrap().try_into().unwrap())
}

#[test]
fn updates_are_timed_on_copies_and_the_users_operand_is_left_alone() {
    let planned = Counting::new(usize::MAX);
    let after = with_update(&planned, |op, inputs, outputs| {
        let candidates = planned.candidates(op).unwrap();
        let mut runner = DeviceRunner::new((&planned, &candidates), op, Effort::Normal, inputs, outputs);
        for runs in [1, 8, 1] {
            assert!(runner.time(0, runs).unwrap() >= 0.0);
        }
        assert!(matches!(runner.check(0).unwrap(), Check::Right));
    });
    assert_eq!(after, 1.0);
}

#[test]
fn an_update_is_made_once_though_candidates_are_tried_and_one_fails() {
    for mode in [Mode::Off, Mode::Full] {
        let planned = Counting::new(usize::MAX);
        let options = Options { mode, budget: Duration::from_millis(5), place: Place::Nowhere, effort: Effort::Small };
        let chooser = Chooser::new(Identity::new(planned.backend().info(), &["test"]), options);
        let after = with_update(&planned, |op, inputs, outputs| {
            chooser.execute(&planned, op, inputs, outputs).unwrap();
        });
        assert_eq!(after, 3.0, "{mode:?}");
    }
    // A kernel that was right and fails now: how far it came is not known, so no other one starts where it stopped.
    let planned = Counting::new(1);
    let options = Options { mode: Mode::Off, budget: Duration::ZERO, place: Place::Nowhere, effort: Effort::Small };
    let chooser = Chooser::new(Identity::new(planned.backend().info(), &["test"]), options);
    let after = with_update(&planned, |op, inputs, outputs| {
        let refused = chooser.execute(&planned, op, inputs, outputs);
        assert!(matches!(refused, Err(Error::Backend { .. })), "{refused:?}");
    });
    assert_eq!((after, planned.given.load(Ordering::Relaxed)), (1.0, 2), "checked once, tried once");
}
