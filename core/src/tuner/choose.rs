//! What a backend does to be tuned, and how an op then runs: by the plan chosen before, or by a choice made now.
//!
//! A backend lists candidates and runs plans ([`Planned`]); [`Chooser`] does the rest with nothing but the [`Backend`]
//! trait. Checks have small buffers of their own; timing uses the user's, whose output is dense, shares nothing with the
//! inputs and is written whole by every candidate, so that the winner's last run leaves what one run would have left.

use std::sync::Arc;

use super::case::{Trial, reduced};
use super::plans::Plans;
use super::search::{Check, Offer, Runner, Situation, blames_candidate};
use super::{Effort, Identity, Key, Options, Tuner, is_gone};
use crate::{Backend, Buffer, Error, Op, Result};

/// One way to compute an op.
#[derive(Clone, Debug)]
pub struct Candidate<P> {
    /// Says which kernels: the same for ops of one [`Key`], on every run.
    pub name: String,
    /// How.
    pub plan: P,
    /// What the planner thinks it takes; only ratios matter.
    pub estimate_ns: f64,
}

/// A device whose ops are computed by plans.
pub trait Planned: Send + Sync {
    /// How an op is computed.
    type Plan: Send + Sync;

    /// The device itself.
    fn backend(&self) -> &dyn Backend;

    /// Every way to compute `op`, the most promising first; never none. What is offered for an op can be had for a small
    /// one of the same kind, too ([`Planned::named`]): that is where it is checked.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Self::Plan>>>;

    /// The first of [`Planned::candidates`], without the others.
    ///
    /// # Errors
    /// As [`Planned::candidates`].
    fn plan(&self, op: &Op) -> Result<Self::Plan>;

    /// The candidate called `name`, whether or not it is worth offering for `op`; `None` when there is none.
    ///
    /// # Errors
    /// As [`Planned::candidates`].
    fn named(&self, op: &Op, name: &str) -> Result<Option<Self::Plan>> {
        Ok(self.candidates(op)?.into_iter().find(|found| found.name == name).map(|found| found.plan))
    }

    /// Sizes in bytes of the scratch buffers of `plan`.
    fn scratch<'a>(&self, plan: &'a Self::Plan) -> &'a [u64];

    /// Runs `plan`, or records it when the calling thread records; whole or not at all.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn run(&self, plan: &Self::Plan, inputs: &[&Buffer], output: &Buffer) -> Result<()>;

    /// Whether the calling thread records.
    fn records(&self) -> bool;
}

/// A backend's tuner with the plans it has chosen.
#[derive(Debug)]
pub struct Chooser<P> {
    tuner: Tuner,
    plans: Plans<Chosen<P>>,
}

/// What was chosen for one op.
#[derive(Debug)]
struct Chosen<P> {
    name: String,
    plan: P,
    /// Whether there were others.
    alone: bool,
}

impl<P: Send + Sync> Chooser<P> {
    /// A chooser for the device `identity`.
    pub fn new(identity: Identity, options: Options) -> Chooser<P> {
        Chooser { tuner: Tuner::new(identity, options), plans: Plans::default() }
    }

    /// The tuner.
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    /// What [`Backend::execute`] does: runs `op` by the best candidate that works. One that fails although it was right
    /// before is taken out, and the next one runs in the same call.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub fn execute<B>(&self, planned: &B, op: &Op, inputs: &[&Buffer], output: &Buffer) -> Result<()>
    where
        B: Planned<Plan = P>,
    {
        let generation = self.tuner.generation();
        let known = self.plans.get(op, generation);
        let mut chosen = match known {
            Some(chosen) => chosen,
            None => match Key::of(op) {
                Some(key) => self.choose(planned, op, &key, inputs, output)?,
                None => return planned.run(&planned.plan(op)?, inputs, output),
            },
        };
        loop {
            match planned.run(&chosen.plan, inputs, output) {
                Err(error) if !chosen.alone => chosen = self.replace(planned, op, &chosen, error, inputs, output)?,
                ran => return ran,
            }
        }
    }

    /// The plan that would run `op` now: the one chosen before, else the planner's first. Nothing runs.
    ///
    /// # Errors
    /// As [`Planned::plan`].
    pub fn scratch_bytes<B: Planned<Plan = P>>(&self, planned: &B, op: &Op) -> Result<Vec<u64>> {
        if let Some(chosen) = self.plans.get(op, self.tuner.generation()) {
            return Ok(planned.scratch(&chosen.plan).to_vec());
        }
        Ok(planned.scratch(&planned.plan(op)?).to_vec())
    }

    fn choose<B>(&self, planned: &B, op: &Op, key: &Key, inputs: &[&Buffer], output: &Buffer) -> Result<Arc<Chosen<P>>>
    where
        B: Planned<Plan = P>,
    {
        let generation = self.tuner.generation();
        let mut candidates = planned.candidates(op)?;
        let alone = candidates.len() == 1;
        let choice = {
            let offers: Vec<Offer<'_>> =
                candidates.iter().map(|c| Offer { name: &c.name, estimate_ns: c.estimate_ns }).collect();
            let effort = self.tuner.effort();
            let mut runner =
                DeviceRunner { planned, op, effort, candidates: &candidates, inputs, output, trials: vec![] };
            let class = if alone { String::new() } else { key.class(op) };
            self.tuner.decide(key, &class, &offers, &mut runner)?
        };
        if choice.candidate >= candidates.len() {
            return Err(Error::InvalidArgument { what: "plan", reason: "the planner offers none".to_owned() });
        }
        let Candidate { name, plan, .. } = candidates.swap_remove(choice.candidate);
        let chosen = Arc::new(Chosen { name, plan, alone });
        // A choice that something was learnt during is made again.
        if choice.settled && generation == self.tuner.generation() {
            self.plans.put(op, generation, &chosen);
        }
        Ok(chosen)
    }

    /// What runs instead of `chosen`, which ended with `error`; that error when nothing else may do better.
    fn replace<B>(
        &self,
        planned: &B,
        op: &Op,
        chosen: &Chosen<P>,
        error: Error,
        inputs: &[&Buffer],
        output: &Buffer,
    ) -> Result<Arc<Chosen<P>>>
    where
        B: Planned<Plan = P>,
    {
        let Some(key) = Key::of(op) else { return Err(error) };
        if matches!(error, Error::OutOfMemory { .. }) {
            // Not its fault: one with less scratch space may do, for this once.
            let scratch = |plan: &P| planned.scratch(plan).iter().copied().fold(0, u64::saturating_add);
            let needed = scratch(&chosen.plan);
            let class = key.class(op);
            let smaller = planned
                .candidates(op)?
                .into_iter()
                .find(|candidate| scratch(&candidate.plan) < needed && self.tuner.is_right(&class, &candidate.name));
            let Candidate { name, plan, .. } = smaller.ok_or(error)?;
            return Ok(Arc::new(Chosen { name, plan, alone: false }));
        }
        if !blames_candidate(&error) {
            return Err(error);
        }
        self.tuner.failed(&key, &key.class(op), &chosen.name, &error);
        self.choose(planned, op, &key, inputs, output)
    }
}

/// Runs candidates on a device.
struct DeviceRunner<'a, B: Planned> {
    planned: &'a B,
    op: &'a Op,
    effort: Effort,
    candidates: &'a [Candidate<B::Plan>],
    inputs: &'a [&'a Buffer],
    output: &'a Buffer,
    /// Made when first needed, one for each length.
    trials: Vec<Trial>,
}

/// How often the inner dimension of a check is doubled at most, for candidates that only serve long ones.
const MOST_DOUBLINGS: u32 = 6;

impl<B: Planned> Runner for DeviceRunner<'_, B> {
    fn situation(&self) -> Situation {
        if cfg!(target_arch = "wasm32") {
            Situation::CannotWait
        } else if self.planned.records() {
            Situation::Recording
        } else {
            Situation::Free
        }
    }

    fn check(&mut self, candidate: usize) -> Result<Check> {
        if self.situation() == Situation::CannotWait {
            return Ok(Check::Untried);
        }
        let name = &self.candidates[candidate].name;
        // The smallest case that the planner offers this candidate for.
        for longer in 0..=MOST_DOUBLINGS {
            let Some(op) = reduced(self.op, self.effort, longer) else { break };
            let plan = match self.planned.named(&op, name) {
                Ok(Some(plan)) => plan,
                Err(error) if is_gone(&error) => return Err(error),
                Ok(None) | Err(_) => continue,
            };
            let known = self.trials.iter().position(|trial| trial.op == op);
            let at = match known {
                Some(at) => at,
                None => {
                    self.trials.push(Trial::new(op, SEED)?);
                    self.trials.len() - 1
                }
            };
            return self.attempt(&self.trials[at], &plan);
        }
        Ok(Check::Wrong("its planner offers it for no case small enough to check it".to_owned()))
    }

    fn time(&mut self, candidate: usize, runs: u32) -> Result<f64> {
        let plan = &self.candidates[candidate].plan;
        let mut work = || (0..runs).try_for_each(|_| self.planned.run(plan, self.inputs, self.output));
        Ok(self.planned.backend().timed(&mut work)?.ns / f64::from(runs.max(1)))
    }

    fn now_ns(&self) -> u64 {
        clock_ns()
    }
}

/// What the numbers of checks are drawn from: the same on every run, so that a failure is found again.
const SEED: u64 = 0x706f_6c79_7761_7270;

impl<B: Planned> DeviceRunner<'_, B> {
    fn attempt(&self, trial: &Trial, plan: &B::Plan) -> Result<Check> {
        if !self.has_room(trial, plan) {
            return Ok(Check::Untried);
        }
        if !self.planned.records() {
            return judge(self.planned, trial, plan);
        }
        // A thread of its own does not record.
        std::thread::scope(|scope| {
            let check = std::thread::Builder::new().spawn_scoped(scope, || judge(self.planned, trial, plan));
            match check.map(|thread| thread.join()) {
                Ok(Ok(judged)) => judged,
                Ok(Err(_)) => Ok(Check::Wrong("its check panicked".to_owned())),
                Err(_) => Ok(Check::Untried), // no more threads
            }
        })
    }

    /// Whether the buffers of a check stay below the limit on memory.
    fn has_room(&self, trial: &Trial, plan: &B::Plan) -> bool {
        let backend = self.planned.backend();
        let memory = backend.memory();
        let inputs = trial.inputs().map(|bytes| bytes.len() as u64);
        let all = inputs.chain([trial.before().len() as u64]).chain(self.planned.scratch(plan).iter().copied());
        let needed = all.map(|bytes| backend.allocated_bytes(bytes)).fold(0, u64::saturating_add);
        memory.limit_bytes.is_none_or(|limit| memory.in_use_bytes.saturating_add(needed) <= limit)
    }
}

/// Runs `plan` on the operands of `trial`.
fn judge<B: Planned>(planned: &B, trial: &Trial, plan: &B::Plan) -> Result<Check> {
    let backend = planned.backend();
    // What earlier work did to the device is not this candidate's doing.
    backend.synchronize()?;
    // An error that does not come twice is no verdict for ever.
    let tried = match try_out(planned, trial, plan) {
        Err(error) if blames_candidate(&error) && !error.is_unsupported() => try_out(planned, trial, plan),
        tried => tried,
    };
    match tried {
        Ok(bytes) => {
            let wrong = trial.judge(&bytes, backend.info().subnormals);
            Ok(wrong.map_or(Check::Right, Check::Wrong))
        }
        Err(Error::OutOfMemory { .. }) => Ok(Check::Untried),
        Err(error) if error.is_unsupported() => Ok(Check::Missing(error.to_string())),
        Err(error) if blames_candidate(&error) => {
            backend.synchronize()?; // an error that stays is the device's
            Ok(Check::Wrong(format!("it does not run: {error}")))
        }
        Err(error) => Err(error),
    }
}

fn try_out<B: Planned>(planned: &B, trial: &Trial, plan: &B::Plan) -> Result<Vec<u8>> {
    let backend = planned.backend();
    let upload = |bytes: &[u8]| {
        let buffer = backend.alloc(bytes.len() as u64)?;
        backend.write(&buffer, 0, bytes)?;
        Ok(buffer)
    };
    let inputs = trial.inputs().map(upload).collect::<Result<Vec<Buffer>>>()?;
    let before = trial.before();
    let output = upload(&before)?;
    planned.run(plan, &inputs.iter().collect::<Vec<_>>(), &output)?;
    backend.read_blocking(&output, 0..before.len() as u64)
}

#[cfg(not(target_arch = "wasm32"))]
fn clock_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// There is no clock, and nothing is timed.
#[cfg(target_arch = "wasm32")]
fn clock_ns() -> u64 {
    0
}
