//! Kernels that lie: a planner that offers one first must not get its results, whatever the user is doing.
//!
//! [`run`] is for any backend with several kernels for an op. Its planner is put behind one whose first candidate is a liar:
//! it computes less than was asked, nothing, is refused, or stops working after its check. Every time the result is right,
//! the liar is in quarantine and never runs again, and nothing of the user's has changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Answer, demand};
use crate::harness::bad_input::Row;
use crate::ops::Matmul;
use crate::tuner::{Candidate, Chooser, Effort, Identity, Mode, Options, Place, Planned};
use crate::{Backend, Buffer, DType, Error, Layout, Op, Result, Shape, TensorSpec};

/// What the first candidate does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Leaves out the last row of results.
    LastRow,
    /// Leaves out the last element of K.
    ShortK,
    /// Does nothing.
    Nothing,
    /// Is refused by the device.
    Refused,
    /// Is right in its check and stops working later, as by a driver that has changed.
    Later,
}

/// A planner with a liar in front.
struct Liar<'a, P: Planned> {
    inner: &'a P,
    lie: Lie,
    /// How often the liar ran.
    runs: AtomicUsize,
}

enum Plan<T> {
    Honest(T),
    Liar(T),
}

impl<'a, P: Planned> Liar<'a, P> {
    fn new(inner: &'a P, lie: Lie) -> Liar<'a, P> {
        Liar { inner, lie, runs: AtomicUsize::new(0) }
    }

    fn refusal(&self) -> Error {
        let device = self.inner.backend().info().id.clone();
        Error::Backend { device, op: "matmul".to_owned(), message: "the kernel is gone".to_owned() }
    }
}

impl<P: Planned> Planned for Liar<'_, P> {
    type Plan = Plan<P::Plan>;

    fn backend(&self) -> &dyn Backend {
        self.inner.backend()
    }

    fn copying(&self, bytes: u64) -> Result<Op> {
        self.inner.copying(bytes)
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Self::Plan>>> {
        let plan = match self.lie {
            Lie::LastRow => self.inner.plan(&less(op, true)?)?,
            Lie::ShortK => self.inner.plan(&less(op, false)?)?,
            Lie::Nothing | Lie::Refused | Lie::Later => self.inner.plan(op)?,
        };
        let liar = Candidate { name: "liar".to_owned(), plan: Plan::Liar(plan), estimate_ns: 1.0 };
        let honest = self.inner.candidates(op)?.into_iter().take(2);
        let honest = honest.map(|c| Candidate { estimate_ns: 1.0, ..c.map(Plan::Honest) });
        Ok(std::iter::once(liar).chain(honest).collect())
    }

    fn plan(&self, op: &Op) -> Result<Self::Plan> {
        self.inner.plan(op).map(Plan::Honest)
    }

    fn scratch<'a>(&self, plan: &'a Self::Plan) -> &'a [u64] {
        match plan {
            Plan::Honest(plan) | Plan::Liar(plan) => self.inner.scratch(plan),
        }
    }

    fn run(&self, plan: &Self::Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let plan = match plan {
            Plan::Honest(plan) => plan,
            Plan::Liar(plan) => {
                let earlier = self.runs.fetch_add(1, Ordering::Relaxed);
                match self.lie {
                    Lie::Nothing => return Ok(()),
                    Lie::Refused => return Err(self.refusal()),
                    Lie::Later if earlier > 0 => return Err(self.refusal()),
                    Lie::LastRow | Lie::ShortK | Lie::Later => plan,
                }
            }
        };
        self.inner.run(plan, inputs, outputs)
    }

    fn records(&self) -> bool {
        self.inner.records()
    }
}

/// `op`, a product, without its last row, or without the last element of K.
fn less(op: &Op, row: bool) -> Result<Op> {
    let Some(op) = op.get::<Matmul>() else {
        return Err(Error::InvalidArgument { what: "op", reason: "not a product".to_owned() });
    };
    let cut = |spec: &TensorSpec, from_end: usize| {
        let axis = spec.layout.rank() - from_end;
        let layout = spec.layout.slice(axis, 0, spec.layout.dims()[axis] - 1, 1)?;
        Ok::<_, Error>(TensorSpec::new(spec.dtype, layout))
    };
    let shorter = if row {
        Matmul { a: cut(&op.a, 2)?, output: cut(&op.output, 2)?, ..op.clone() }
    } else {
        Matmul { a: cut(&op.a, 1)?, b: cut(&op.b, 2)?, ..op.clone() }
    };
    Ok(shorter.check()?.into())
}

/// A product of m x k ones and k x n twos, and what came out.
struct Product<'a> {
    backend: &'a dyn Backend,
    op: Op,
    inputs: [Buffer; 2],
    output: Buffer,
    count: usize,
    k: u64,
}

impl<'a> Product<'a> {
    fn new(backend: &'a dyn Backend, [m, n, k]: [u64; 3]) -> Result<Product<'a>> {
        let spec = |rows, columns| {
            Ok::<_, Error>(TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[rows, columns])?)))
        };
        let filled = |count: u64, value: f32| {
            let buffer = backend.alloc(4 * count)?;
            backend.write(&buffer, 0, &value.to_le_bytes().repeat(count as usize))?;
            Ok::<_, Error>(buffer)
        };
        Ok(Product {
            backend,
            op: Matmul::product(spec(m, k)?, spec(k, n)?, spec(m, n)?).check()?.into(),
            inputs: [filled(m * k, 1.0)?, filled(k * n, 2.0)?],
            output: filled(m * n, -7.0)?,
            count: (m * n) as usize,
            k,
        })
    }

    fn execute<P: Planned>(&self, chooser: &Chooser<P::Plan>, planned: &P) -> Result<()> {
        chooser.execute(planned, &self.op, &[&self.inputs[0], &self.inputs[1]], &[&self.output])
    }

    /// Whether each of the first `count` floats of a buffer is `value`.
    fn all(&self, buffer: &Buffer, count: usize, value: f32) -> Result<bool> {
        let bytes = self.backend.read_blocking(buffer, 0..4 * count as u64)?;
        Ok(bytes == value.to_le_bytes().repeat(count))
    }

    fn is_right(&self) -> Result<bool> {
        self.all(&self.output, self.count, 2.0 * self.k as f32)
    }
}

fn chooser<P: Planned>(planned: &P, mode: Mode) -> Chooser<P::Plan> {
    let options = Options { mode, budget: Duration::from_millis(50), place: Place::Nowhere, effort: Effort::Small };
    Chooser::new(Identity::new(planned.backend().info(), &["test"]), options)
}

/// Runs every row with `planned` of a backend that nobody else uses meanwhile.
pub fn run<P: Planned>(planned: &P) -> Vec<Row> {
    let lies = [
        ("a kernel that leaves out a row", Lie::LastRow, Mode::Off),
        ("a kernel that leaves out an element of k", Lie::ShortK, Mode::Cached),
        ("a kernel that does nothing", Lie::Nothing, Mode::Full),
        ("a kernel that the device refuses", Lie::Refused, Mode::Full),
        ("a kernel that stops working after its check", Lie::Later, Mode::Off),
    ];
    let ended = |answer: Result<Answer>| answer.unwrap_or_else(|error| Err(format!("failed: {error}")));
    let mut rows: Vec<Row> = Vec::new();
    for (name, lie, mode) in lies {
        rows.push(Row { name, result: ended(is_caught(planned, lie, mode)) });
    }
    rows.push(Row { name: "a kernel that lies while commands are recorded", result: ended(while_recording(planned)) });
    rows.push(Row { name: "a check without memory for it", result: ended(without_memory(planned)) });
    rows
}

fn is_caught<P: Planned>(planned: &P, lie: Lie, mode: Mode) -> Result<Answer> {
    let liar = Liar::new(planned, lie);
    let chooser = chooser(&liar, mode);
    let product = Product::new(planned.backend(), [70, 65, 33])?;
    product.execute(&chooser, &liar)?;
    demand!(product.is_right()?, "the result is wrong");
    let quarantine = chooser.tuner().quarantine();
    let names: Vec<&str> = quarantine.iter().map(|verdict| verdict.candidate.as_str()).collect();
    demand!(names == ["liar"], "in quarantine: {quarantine:?}");
    demand!(product.all(&product.inputs[0], 70 * 33, 1.0)?, "an input changed");
    // Known from now on: it never runs again.
    let runs = liar.runs.load(Ordering::Relaxed);
    product.execute(&chooser, &liar)?;
    demand!(liar.runs.load(Ordering::Relaxed) == runs, "it ran again");
    demand!(product.is_right()?, "the second result is wrong");
    Ok(Ok(()))
}

fn while_recording<P: Planned>(planned: &P) -> Result<Answer> {
    let backend = planned.backend();
    let liar = Liar::new(planned, Lie::Nothing);
    let product = Product::new(backend, [33, 34, 35])?;
    if let Err(Error::Unsupported { .. }) = backend.begin_recording() {
        return Ok(Ok(()));
    }
    let chooser = chooser(&liar, Mode::Full);
    let executed = product.execute(&chooser, &liar);
    let recorded = backend.end_recording()?;
    executed?;
    demand!(chooser.tuner().quarantine().len() == 1, "it was not caught");
    demand!(chooser.tuner().answers().is_empty(), "something was timed");
    demand!(product.all(&product.output, 1, -7.0)?, "something ran before the replay");
    backend.replay(&recorded)?;
    demand!(product.is_right()?, "the result of the replay is wrong");
    // The check is not part of the recording: the same again, known by now, is as long.
    backend.begin_recording()?;
    let executed = product.execute(&chooser, &liar);
    let again = backend.end_recording()?;
    executed?;
    demand!(recorded.launches() == again.launches(), "{} launches, then {}", recorded.launches(), again.launches());
    Ok(Ok(()))
}

fn without_memory<P: Planned>(planned: &P) -> Result<Answer> {
    let backend = planned.backend();
    let liar = Liar::new(planned, Lie::Later);
    let chooser = chooser(&liar, Mode::Full);
    let product = Product::new(backend, [70, 65, 33])?;
    let in_use = backend.memory().in_use_bytes;
    backend.set_memory_limit(Some(in_use + 1024));
    let executed = product.execute(&chooser, &liar);
    backend.set_memory_limit(None);
    executed?;
    demand!(product.is_right()?, "the result is wrong");
    let tuner = chooser.tuner();
    demand!(tuner.quarantine().is_empty() && tuner.answers().is_empty(), "judged without a check");
    let after = backend.memory().in_use_bytes;
    demand!(after == in_use, "{in_use} bytes in use before, {after} afterwards");
    product.execute(&chooser, &liar)?;
    demand!(tuner.quarantine().len() == 1, "with memory it is not found out");
    demand!(product.is_right()?, "the second result is wrong");
    Ok(Ok(()))
}
