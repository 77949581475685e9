//! What a backend does to be tuned, and how an op then runs: by the plan chosen before, or by a choice made now.
//!
//! A backend lists candidates and runs plans ([`Planned`]); [`Chooser`] does the rest with nothing but the [`Backend`]
//! trait. Checks have small buffers of their own; timing uses the user's, whose output is dense, shares nothing with the
//! inputs and is written whole by every candidate, so that the winner's last run leaves what one run would have left. Of
//! operations that update an operand copies alone are used: there each run gives something else.

use std::sync::Arc;
use std::time::Duration;

use super::device::DeviceRunner;
use super::plans::Plans;
use super::search::{Offer, blames_candidate, is_too_large};
use super::{Identity, Options, Tuned, Tuner, find};
use crate::plan::Candidate;
use crate::{Backend, Buffer, Error, Op, Result};

/// A device whose ops are computed by plans.
pub trait Planned: Send + Sync {
    /// How an op is computed.
    type Plan: Send + Sync;

    /// The device itself.
    fn backend(&self) -> &dyn Backend;

    /// The op that copies the first `bytes` bytes of one buffer to the start of another: candidates are timed on copies of operands.
    ///
    /// # Errors
    /// Of more bytes than an op can have.
    fn copying(&self, bytes: u64) -> Result<Op>;

    /// Every way to compute `op`, the most promising first; never none. Every candidate for an op must also
    /// exist for a small op of its kind ([`Planned::named`]): that is where it is checked.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Self::Plan>>>;

    /// The first of [`Planned::candidates`], without the others.
    ///
    /// # Errors
    /// As [`Planned::candidates`].
    fn plan(&self, op: &Op) -> Result<Self::Plan>;

    /// The candidate called `name` ([`find`]), whether or not it is worth offering for `op`; `None` when there is none.
    ///
    /// # Errors
    /// As [`Planned::candidates`].
    fn named(&self, op: &Op, name: &str) -> Result<Option<Self::Plan>> {
        let mut offered = self.candidates(op)?;
        let at = find(offered.iter().map(|found| found.name.as_str()), name);
        Ok(at.map(|at| offered.swap_remove(at).plan))
    }

    /// Sizes in bytes of the scratch buffers of `plan`.
    fn scratch<'a>(&self, plan: &'a Self::Plan) -> &'a [u64];

    /// How long, roughly, compiling the kernels of `plan` takes; nothing when they only have to be loaded. Among the rest of
    /// the candidates one that takes longer than the tuner's budget is not tried.
    fn compile_time(&self, _plan: &Self::Plan) -> Duration {
        Duration::ZERO
    }

    /// Runs `plan`, or records it when the calling thread records; whole or not at all.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn run(&self, plan: &Self::Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()>;

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
    /// The planner offers nothing else: where it fails, nothing takes its place and nobody is to blame.
    alone: bool,
}

/// One call of [`Chooser::execute`].
struct Call<'a, B> {
    planned: &'a B,
    op: &'a Op,
    inputs: &'a [&'a Buffer],
    outputs: &'a [&'a Buffer],
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
    pub fn execute<B>(&self, planned: &B, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()>
    where
        B: Planned<Plan = P>,
    {
        let call = Call { planned, op, inputs, outputs };
        let mut chosen = self.chosen(&call)?;
        // Ends: each failure takes a candidate out, or goes on to one with less scratch space or further down the list.
        loop {
            let Err(error) = planned.run(&chosen.plan, inputs, outputs) else { return Ok(()) };
            if op.updates() {
                // How far it came is not known: what it updated must not be updated once more.
                return Err(self.blame(op, &chosen, error));
            }
            chosen = self.replace(&call, &chosen, error)?;
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

    /// What was chosen before, else a choice made now.
    fn chosen<B: Planned<Plan = P>>(&self, call: &Call<'_, B>) -> Result<Arc<Chosen<P>>> {
        let generation = self.tuner.generation();
        if let Some(chosen) = self.plans.get(call.op, generation) {
            return Ok(chosen);
        }
        if let Some(tuned) = call.op.tuned() {
            return self.choose(call, tuned);
        }
        let plan = call.planned.plan(call.op)?;
        let chosen = Arc::new(Chosen { name: String::new(), plan, alone: true });
        self.plans.put(call.op, generation, &chosen);
        Ok(chosen)
    }

    /// Asks the tuner.
    fn choose<B: Planned<Plan = P>>(&self, call: &Call<'_, B>, tuned: &dyn Tuned) -> Result<Arc<Chosen<P>>> {
        let &Call { planned, op, .. } = call;
        let generation = self.tuner.generation();
        let (key, class) = (&tuned.key(), tuned.class());
        // Another op of a decided key: only its plan is made.
        if let Some(name) = self.tuner.decided(key, &class)
            && let Some(plan) = planned.named(op, &name)?
        {
            let chosen = Arc::new(Chosen { name, plan, alone: false });
            self.plans.put(op, generation, &chosen);
            return Ok(chosen);
        }
        let mut candidates = planned.candidates(op)?;
        let alone = candidates.len() == 1;
        let choice = self.tuner.decide(key, &class, &offers(&candidates), &mut self.runner(call, &candidates))?;
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

    fn runner<'a, B: Planned<Plan = P>>(
        &self,
        call: &Call<'a, B>,
        candidates: &'a [Candidate<P>],
    ) -> DeviceRunner<'a, B> {
        DeviceRunner::new((call.planned, candidates), call.op, self.tuner.effort(), call.inputs, call.outputs)
    }

    /// What runs instead of `failed`, which ended with `error`; that error when nothing else may do better.
    fn replace<B: Planned<Plan = P>>(
        &self,
        call: &Call<'_, B>,
        failed: &Chosen<P>,
        error: Error,
    ) -> Result<Arc<Chosen<P>>> {
        let Some(tuned) = call.op.tuned().filter(|_| !failed.alone) else { return Err(error) };
        if matches!(error, Error::OutOfMemory { .. }) || is_too_large(&error) {
            // Not its fault: it stays what is chosen, and another one serves for this once.
            return self.with_less_scratch(call, tuned, failed)?.ok_or(error);
        }
        if !blames_candidate(&error) {
            return Err(error);
        }
        self.blame(call.op, failed, error);
        self.choose(call, tuned)
    }

    /// The first right candidate with less scratch space than `failed`, or with as little and further down the list.
    fn with_less_scratch<B: Planned<Plan = P>>(
        &self,
        call: &Call<'_, B>,
        tuned: &dyn Tuned,
        failed: &Chosen<P>,
    ) -> Result<Option<Arc<Chosen<P>>>> {
        let scratch = |plan: &P| call.planned.scratch(plan).iter().copied().fold(0, u64::saturating_add);
        let most = scratch(&failed.plan);
        let offered = call.planned.candidates(call.op)?;
        let failed_at = offered.iter().position(|found| found.name == failed.name).unwrap_or(offered.len());
        let mut fitting = Vec::new();
        for (at, candidate) in offered.into_iter().enumerate() {
            let needed = scratch(&candidate.plan);
            if needed < most || needed == most && at > failed_at {
                fitting.push(candidate);
            }
        }
        let mut runner = self.runner(call, &fitting);
        let Ok(choice) = self.tuner.first_right(&tuned.class(), &offers(&fitting), &mut runner) else {
            return Ok(None);
        };
        let Candidate { name, plan, .. } = fitting.swap_remove(choice.candidate);
        Ok(Some(Arc::new(Chosen { name, plan, alone: false })))
    }
}

impl<P> Chooser<P> {
    /// Takes the candidate that ended with `error` out of what is chosen from, where it is to blame; the error.
    fn blame(&self, op: &Op, chosen: &Chosen<P>, error: Error) -> Error {
        if let Some(tuned) = op.tuned()
            && !chosen.alone
            && blames_candidate(&error)
        {
            self.tuner.failed(&tuned.key(), &tuned.class(), &chosen.name, &error);
        }
        error
    }
}

fn offers<P>(candidates: &[Candidate<P>]) -> Vec<Offer<'_>> {
    candidates.iter().map(|found| Offer { name: &found.name, estimate_ns: found.estimate_ns }).collect()
}
