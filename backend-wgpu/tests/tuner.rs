//! The tuner on real adapters: kernels that lie are caught and left out, whatever the user is doing, and nothing of the
//! user's changes for it.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{assert_alive, entries};
use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Candidate, Chooser, Effort, Identity, Key, Mode, Options, Place, Planned};
use polywarp_core::{Backend, Buffer, DType, Device, Error, Layout, Op, Precision, Result, Shape, TensorSpec};
use polywarp_shaders::{Plan, Slot};
use polywarp_wgpu::WgpuBackend;

/// What the first candidate does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Leaves out the last workgroup.
    LastTile,
    /// Computes with one element of K less.
    ShortK,
    /// Writes nothing.
    Nothing,
    /// Names a buffer that there is not.
    NoLaunch,
    /// Is right in its check and stops working later, as by a changed driver state.
    Later,
}

/// A backend whose planner puts a liar first.
struct Liar<'a> {
    inner: &'a WgpuBackend,
    lie: Lie,
    runs: AtomicUsize,
}

struct LiarsPlan {
    plan: Plan,
    lies: bool,
}

impl Planned for Liar<'_> {
    type Plan = LiarsPlan;

    fn backend(&self) -> &dyn Backend {
        self.inner
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<LiarsPlan>>> {
        let honest = self.inner.candidates(op)?;
        let mut liar = self.plan(op)?;
        let launch = &mut liar.plan.launches[0];
        match self.lie {
            Lie::LastTile if launch.grid[0] > 1 => launch.grid[0] -= 1,
            Lie::LastTile | Lie::Nothing => liar.plan.launches.clear(),
            Lie::NoLaunch => launch.bindings[0] = Slot::Scratch(99),
            Lie::ShortK => {
                // A product of the same shape, but for its K.
                let Op::Matmul(op) = op else { return Err(refused("not a product")) };
                let k = op.dims().k - 1;
                let cut = |spec: &TensorSpec, axis: usize| {
                    let layout = spec.layout.slice(axis, 0, k, 1)?;
                    Ok::<_, Error>(TensorSpec::new(spec.dtype, layout))
                };
                let rank = op.output.layout.rank();
                let short = Matmul { a: cut(&op.a, rank - 1)?, b: cut(&op.b, rank - 2)?, ..op.clone() };
                liar.plan = self.inner.plan(&short.check()?.into())?;
            }
            Lie::Later => {}
        }
        let liar = Candidate { name: "liar".to_owned(), plan: LiarsPlan { lies: true, ..liar }, estimate_ns: 1.0 };
        let honest = honest.into_iter().take(2).map(|c| {
            let plan = LiarsPlan { plan: c.plan, lies: false };
            Candidate { name: c.name, plan, estimate_ns: 1.0 }
        });
        Ok(std::iter::once(liar).chain(honest).collect())
    }

    fn plan(&self, op: &Op) -> Result<LiarsPlan> {
        Ok(LiarsPlan { plan: self.inner.plan(op)?, lies: false })
    }

    fn scratch<'a>(&self, plan: &'a LiarsPlan) -> &'a [u64] {
        &plan.plan.scratch_bytes
    }

    fn run(&self, plan: &LiarsPlan, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
        if plan.lies && self.runs.fetch_add(1, Ordering::Relaxed) > 0 && self.lie == Lie::Later {
            return Err(refused("the kernel is gone"));
        }
        self.inner.run(&plan.plan, inputs, output)
    }

    fn records(&self) -> bool {
        self.inner.records()
    }
}

fn refused(message: &str) -> Error {
    Error::Backend { device: "test".to_owned(), op: "matmul".to_owned(), message: message.to_owned() }
}

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(m: u64, n: u64, k: u64) -> Op {
    Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n])).check().unwrap().into()
}

fn options(mode: Mode) -> Options {
    Options { mode, budget: Duration::from_millis(50), place: Place::Nowhere, effort: Effort::Small }
}

fn chooser<P: Send + Sync>(backend: &WgpuBackend, mode: Mode) -> Chooser<P> {
    Chooser::new(Identity::new(backend.info(), &["test"]), options(mode))
}

/// Operands of `op` whose every product is 1 * 2.
fn operands(backend: &WgpuBackend, op: &Op) -> (Vec<Buffer>, Buffer) {
    let filled = |spec: &TensorSpec, value: f32| {
        let buffer = backend.alloc(spec.required_bytes()).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(spec.layout.elements() as usize)).unwrap();
        buffer
    };
    let inputs = op.inputs().iter().zip([1.0, 2.0]).map(|(spec, value)| filled(spec, value)).collect();
    (inputs, filled(&op.output(), -7.0))
}

fn values(backend: &WgpuBackend, buffer: &Buffer, count: usize) -> Vec<f32> {
    let bytes = backend.read_blocking(buffer, 0..4 * count as u64).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Every adapter as it is; software ones are fast enough for small products.
fn each(test: impl Fn(&WgpuBackend)) {
    for entry in entries() {
        let backend = entry.open(polywarp_wgpu::Options::default()).unwrap();
        println!("{backend:?}");
        test(&backend);
        assert_alive(&backend);
    }
}

#[test]
fn liars_are_caught_and_the_next_candidate_computes() {
    each(|backend| {
        for (lie, mode) in [
            (Lie::LastTile, Mode::Off),
            (Lie::ShortK, Mode::Cached),
            (Lie::Nothing, Mode::Full),
            (Lie::NoLaunch, Mode::Full),
            (Lie::Later, Mode::Off),
        ] {
            let liar = Liar { inner: backend, lie, runs: AtomicUsize::new(0) };
            let chooser = chooser(backend, mode);
            let op = product(70, 65, 33);
            let (inputs, output) = operands(backend, &op);
            chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
            assert_eq!(values(backend, &output, 70 * 65), vec![66.0; 70 * 65], "{lie:?}");
            let quarantine = chooser.tuner().quarantine();
            assert_eq!(quarantine.len(), 1, "{lie:?}: {quarantine:?}");
            assert_eq!(quarantine[0].candidate, "liar");
            println!("{lie:?} was caught: {}", quarantine[0].wrong.as_deref().unwrap_or_default());
            assert_eq!(values(backend, &inputs[0], 70 * 33), vec![1.0; 70 * 33], "{lie:?}: an input changed");
            // Known from now on: it never runs again.
            let runs = liar.runs.load(Ordering::Relaxed);
            chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
            assert_eq!(liar.runs.load(Ordering::Relaxed), runs, "{lie:?}");
        }
    });
}

#[test]
fn liars_are_caught_inside_of_a_recording_which_stays_whole() {
    each(|backend| {
        let liar = Liar { inner: backend, lie: Lie::Nothing, runs: AtomicUsize::new(0) };
        let chooser = chooser(backend, Mode::Full);
        let op = product(33, 34, 35);
        let (inputs, output) = operands(backend, &op);
        backend.begin_recording().unwrap();
        chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
        let recorded = backend.end_recording().unwrap();
        assert_eq!(chooser.tuner().quarantine().len(), 1);
        assert_eq!(recorded.launches(), 1, "the check is not part of the recording");
        assert!(chooser.tuner().answers().is_empty(), "nothing was timed");
        assert_eq!(values(backend, &output, 1), [-7.0], "nothing ran yet");
        backend.replay(&recorded).unwrap();
        assert_eq!(values(backend, &output, 33 * 34), vec![70.0; 33 * 34]);
    });
}

#[test]
fn a_check_respects_the_limit_on_memory() {
    each(|backend| {
        let liar = Liar { inner: backend, lie: Lie::Later, runs: AtomicUsize::new(0) };
        let chooser = chooser(backend, Mode::Full);
        let op = product(70, 65, 33);
        let (inputs, output) = operands(backend, &op);
        let in_use = backend.memory().in_use_bytes;
        backend.set_memory_limit(Some(in_use + 1024));
        chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
        assert_eq!(values(backend, &output, 70 * 65), vec![66.0; 70 * 65]);
        assert!(chooser.tuner().quarantine().is_empty() && chooser.tuner().answers().is_empty());
        assert_eq!(backend.memory().in_use_bytes, in_use);
        backend.set_memory_limit(None);
        chooser.execute(&liar, &op, &[&inputs[0], &inputs[1]], &output).unwrap();
        assert_eq!(chooser.tuner().quarantine().len(), 1, "with memory it is found out");
        assert_eq!(values(backend, &output, 70 * 65), vec![66.0; 70 * 65]);
    });
}

#[test]
fn tuning_keeps_the_order_of_work_and_repeats_bits() {
    each(|backend| {
        let tuner = backend.tuner().unwrap();
        tuner.set(Mode::Full, Duration::from_millis(200));
        let op = product(96, 80, 64);
        let Op::Matmul(matmul) = &op else { panic!() };
        let (inputs, output) = operands(backend, &op);
        // Work before the first use is not seen late, work after it not early.
        let fours = 4.0f32.to_le_bytes().repeat(96 * 64);
        backend.write(&inputs[0], 0, &fours).unwrap();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
        backend.write(&inputs[0], 0, &vec![0; fours.len()]).unwrap();
        assert_eq!(values(backend, &output, 96 * 80), vec![8.0 * 64.0; 96 * 80]);
        let answer = tuner.answer(&Key::of(&op).unwrap()).expect("it was tuned");
        println!("{}: {:?}", answer.key, answer.times);
        assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner && timed.ns > 0.0));
        // Nothing is compiled or timed any more.
        let compiled = backend.compiled_kernels();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
        assert_eq!(backend.compiled_kernels(), compiled);
        // Another precision has an answer of its own.
        let low: Op = Matmul { precision: Precision::Low, ..matmul.clone() }.check().unwrap().into();
        assert_eq!(tuner.answer(&Key::of(&low).unwrap()), None);
    });
}

#[test]
fn software_adapters_are_checked_but_not_timed_unless_asked() {
    each(|backend| {
        let tuner = backend.tuner().unwrap();
        let software = backend.info().kind == polywarp_core::DeviceKind::Software;
        if std::env::var_os("POLYWARP_TUNE").is_none() {
            assert_eq!(tuner.mode(), if software { Mode::Off } else { Mode::Full });
        }
        let device = Device::new(entries()[0].open(polywarp_wgpu::Options::default()).unwrap());
        let reference = Device::new(polywarp_core::harness::ReferenceBackend::default());
        assert!(device.tuner().is_some() && reference.tuner().is_none());
    });
}
