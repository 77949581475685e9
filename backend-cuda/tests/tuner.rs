//! The tuner on a card, or on the interpreted driver: kernels that lie are caught and left out, also inside of a recording,
//! and what was tuned is remembered.

mod common;

use std::time::Duration;

use common::{assert_alive, first, scaled};
use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Candidate, Chooser, Effort, Identity, Key, Mode, Options, Place, Planned};
use polywarp_core::{Backend, Buffer, DType, Error, Layout, Op, Result, Shape, TensorSpec};
use polywarp_cuda::{CudaBackend, Work};
use polywarp_shaders::Slot;

/// What the first candidate does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Leaves out the last block.
    LastTile,
    /// Writes nothing.
    Nothing,
    /// Names a buffer that there is not.
    NoLaunch,
}

/// A backend whose planner puts a liar first.
struct Liar<'a> {
    inner: &'a CudaBackend,
    lie: Lie,
}

impl Planned for Liar<'_> {
    type Plan = Work;

    fn backend(&self) -> &dyn Backend {
        self.inner
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Work>>> {
        let mut plan = polywarp_shaders::plan(op, self.inner.caps())?;
        let launch = &mut plan.launches[0];
        match self.lie {
            Lie::LastTile if launch.grid[0] > 1 => launch.grid[0] -= 1,
            Lie::LastTile | Lie::Nothing => plan.launches.clear(),
            Lie::NoLaunch => launch.bindings[0] = Slot::Scratch(99),
        }
        let liar = Candidate { name: "liar".to_owned(), plan: Work::Portable(plan), estimate_ns: 1.0 };
        let honest = Planned::candidates(self.inner, op)?.into_iter().take(2);
        Ok(std::iter::once(liar).chain(honest.map(|c| Candidate { estimate_ns: 1.0, ..c })).collect())
    }

    fn plan(&self, op: &Op) -> Result<Work> {
        self.inner.plan(op)
    }

    fn scratch<'a>(&self, plan: &'a Work) -> &'a [u64] {
        self.inner.scratch(plan)
    }

    fn run(&self, plan: &Work, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
        self.inner.run(plan, inputs, output)
    }

    fn records(&self) -> bool {
        self.inner.records()
    }
}

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(m: u64, n: u64, k: u64) -> Op {
    Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n])).check().unwrap().into()
}

fn options(mode: Mode, place: Place) -> Options {
    Options { mode, budget: Duration::from_millis(50), place, effort: Effort::Small }
}

fn chooser(backend: &CudaBackend, mode: Mode) -> Chooser<Work> {
    Chooser::new(Identity::new(backend.info(), &["test"]), options(mode, Place::Nowhere))
}

/// Operands of `op` whose every product is 1 * 2.
fn operands(backend: &CudaBackend, op: &Op) -> (Vec<Buffer>, Buffer) {
    let filled = |spec: &TensorSpec, value: f32| {
        let buffer = backend.alloc(spec.required_bytes()).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(spec.layout.elements() as usize)).unwrap();
        buffer
    };
    let inputs = op.inputs().iter().zip([1.0, 2.0]).map(|(spec, value)| filled(spec, value)).collect();
    (inputs, filled(&op.output(), -7.0))
}

/// A backend whose driver has shown whether it takes machine code. The interpreted one does not, and from then on native
/// kernels are no candidates.
fn settled() -> Option<CudaBackend> {
    let backend = first()?;
    let op = product(8, 8, 8);
    let (inputs, output) = operands(&backend, &op);
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    Some(backend)
}

fn values(backend: &CudaBackend, buffer: &Buffer, count: usize) -> Vec<f32> {
    let bytes = backend.read_blocking(buffer, 0..4 * count as u64).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn liars_are_caught_and_the_next_candidate_computes() {
    let Some(backend) = settled() else { return };
    for (lie, mode) in [(Lie::LastTile, Mode::Off), (Lie::Nothing, Mode::Cached), (Lie::NoLaunch, Mode::Off)] {
        let liar = Liar { inner: &backend, lie };
        let chooser = chooser(&backend, mode);
        let op = product(70, 65, 33);
        let (inputs, output) = operands(&backend, &op);
        chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
        assert_eq!(values(&backend, &output, 70 * 65), vec![66.0; 70 * 65], "{lie:?}");
        let quarantine = chooser.tuner().quarantine();
        assert_eq!(quarantine.len(), 1, "{lie:?}: {quarantine:?}");
        assert_eq!(quarantine[0].candidate, "liar");
        println!("{lie:?} was caught: {}", quarantine[0].wrong.as_deref().unwrap_or_default());
        assert_eq!(values(&backend, &inputs[0], 70 * 33), vec![1.0; 70 * 33], "{lie:?}: an input changed");
    }
    assert_alive(&backend);
}

#[test]
fn liars_are_caught_inside_of_a_recording_which_stays_whole() {
    let Some(backend) = settled() else { return };
    let liar = Liar { inner: &backend, lie: Lie::Nothing };
    let chooser = chooser(&backend, Mode::Full);
    let op = product(33, 34, 35);
    let (inputs, output) = operands(&backend, &op);
    backend.begin_recording().unwrap();
    chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
    let recorded = backend.end_recording().unwrap();
    assert_eq!(chooser.tuner().quarantine().len(), 1);
    assert!(chooser.tuner().answers().is_empty(), "nothing was timed");
    assert_eq!(values(&backend, &output, 1), [-7.0], "nothing ran yet");
    backend.replay(&recorded).unwrap();
    assert_eq!(values(&backend, &output, 33 * 34), vec![70.0; 33 * 34]);
    assert_alive(&backend);
}

#[test]
fn tuning_ends_with_the_winners_result_and_is_remembered() {
    let Some(backend) = settled() else { return };
    let tuner = backend.tuner().unwrap();
    tuner.set(Mode::Full, Duration::from_millis(200));
    let n = scaled(1024, 40) as u64;
    let op = product(n, n, n);
    let (inputs, output) = operands(&backend, &op);
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    let count = (n * n) as usize;
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    let key = Key::of(&op).unwrap();
    let answer = tuner.answer(&key).expect("it was tuned");
    println!("{}: {:?}", answer.key, answer.times);
    assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner));
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    assert_eq!(tuner.answer(&key), Some(answer));
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    assert!(tuner.quarantine().iter().all(|verdict| verdict.candidate != "liar"));
}

#[test]
fn faults_of_the_user_are_not_blamed_on_kernels() {
    let (Some(backend), Some(other)) = (settled(), settled()) else { return };
    let tuner = backend.tuner().unwrap();
    let op = product(16, 17, 18);
    let (inputs, _) = operands(&backend, &op);
    let (_, foreign) = operands(&other, &op);
    let before = tuner.quarantine();
    let refused = backend.execute(&op, &[&inputs[0], &inputs[1]], &foreign);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })), "{refused:?}");
    assert_eq!(tuner.quarantine().len(), before.len(), "{:?}", tuner.quarantine());
}
