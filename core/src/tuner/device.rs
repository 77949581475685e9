//! Candidates on a real device: checked with buffers of their own, timed on the user's.
//!
//! Uses the [`crate::Backend`] trait alone. A check allocates about 2 MiB, keeps below the limit on memory, and runs in a
//! thread of its own while the calling one records. Several runs are timed as the replay of a recording: given one by one, short
//! ones wait for the host, and all candidates that are faster than it look alike. They take turns on copies of the operands
//! (`copies.rs`), so that those of one product do not come from a cache which they left alone in it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use super::case::{Trial, check_cases};
use super::choose::Planned;
use super::copies::{Copier, Copies};
use super::search::{Check, Runner, Situation, blames_candidate};
use super::{Effort, is_gone};
use crate::plan::Candidate;
use crate::{Buffer, Error, Largest, Op, Recorded, Result};

/// Runs candidates on a device.
pub(super) struct DeviceRunner<'a, B: Planned> {
    planned: &'a B,
    op: &'a Op,
    effort: Effort,
    candidates: &'a [Candidate<B::Plan>],
    inputs: &'a [&'a Buffer],
    outputs: &'a [&'a Buffer],
    /// Made when first needed.
    copies: Option<Copies>,
    /// Made when first needed, one for each length.
    trials: Vec<Trial>,
    /// What was timed last, for its next sample.
    repeated: Option<Repeated>,
}

/// Several runs of a candidate, recorded.
struct Repeated {
    candidate: usize,
    runs: u32,
    recorded: Recorded,
}

impl<'a, B: Planned> DeviceRunner<'a, B> {
    /// Runs `candidates` of `op` on `planned`, timed on these operands.
    pub(super) fn new(
        (planned, candidates): (&'a B, &'a [Candidate<B::Plan>]),
        op: &'a Op,
        effort: Effort,
        inputs: &'a [&'a Buffer],
        outputs: &'a [&'a Buffer],
    ) -> DeviceRunner<'a, B> {
        let (copies, repeated) = (None, None);
        DeviceRunner { planned, op, effort, candidates, inputs, outputs, copies, trials: Vec::new(), repeated }
    }
}

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

    fn settle(&mut self) -> Result<()> {
        if self.situation() == Situation::CannotWait {
            return Ok(());
        }
        match self.elsewhere(|| self.planned.backend().synchronize()) {
            Some(Ok(settled)) => settled,
            Some(Err(_)) | None => Ok(()), // the check will meet it
        }
    }

    fn check(&mut self, candidate: usize) -> Result<Check> {
        if self.situation() == Situation::CannotWait {
            return Ok(Check::Untried);
        }
        self.repeated = None; // its memory may be what the check needs
        let name = &self.candidates[candidate].name;
        // The smallest case that the planner offers this candidate for.
        for op in check_cases(self.op, self.effort) {
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
        // A driver that has meanwhile turned out to take no machine code: nothing is wrong with its candidates.
        if matches!(self.planned.named(self.op, name), Ok(None)) {
            return Ok(Check::Missing("it is not offered any more".to_owned()));
        }
        Ok(Check::Wrong("its planner offers it for no case small enough to check it".to_owned()))
    }

    fn compile_ns(&self, candidate: usize) -> u64 {
        let Candidate { name, plan, .. } = &self.candidates[candidate];
        // Its check may run other kernels than the user's op does: those of small products.
        let check = check_cases(self.op, self.effort).find_map(|op| self.planned.named(&op, name).ok().flatten());
        let check_time = check.map_or(Duration::ZERO, |plan| self.planned.compile_time(&plan));
        let time = self.planned.compile_time(plan).saturating_add(check_time);
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }

    fn time(&mut self, candidate: usize, runs: u32) -> Result<f64> {
        // Its memory may be what this one needs.
        self.repeated.take_if(|known| known.candidate != candidate);
        if runs > 1 && self.repeat(candidate, runs)? {
            let backend = self.planned.backend();
            if let Some(Repeated { recorded, .. }) = &self.repeated {
                return Ok(backend.timed(&mut || backend.replay(recorded))?.ns / f64::from(runs));
            }
        }
        if self.op.updates() {
            self.copy_operands()?;
        }
        let mut work = || self.run(candidate, runs);
        Ok(self.planned.backend().timed(&mut work)?.ns / f64::from(runs.max(1)))
    }

    fn now_ns(&self) -> u64 {
        clock_ns()
    }
}

/// What the numbers of checks are drawn from: the same on every run, so that a failure is found again.
const SEED: u64 = 0x706f_6c79_7761_7270;

impl<B: Planned> DeviceRunner<'_, B> {
    /// `runs` runs of `candidate`: the first on the user's operands, the others on these and their copies in turn; on copies alone
    /// where an operand is updated.
    fn run(&self, candidate: usize, runs: u32) -> Result<()> {
        let plan = &self.candidates[candidate].plan;
        let of_user = usize::from(!self.op.updates());
        let turns = of_user + self.copies.as_ref().map_or(0, Copies::len);
        if turns == 0 {
            return Err(self.no_copies());
        }
        (0..runs as usize).try_for_each(|run| match (&self.copies, (run % turns).checked_sub(of_user)) {
            (Some(copies), Some(copy)) => {
                let (inputs, outputs) = copies.of(copy);
                self.planned.run(plan, &inputs, &outputs)
            }
            _ => self.planned.run(plan, self.inputs, self.outputs),
        })
    }

    /// Makes the copies of the operands, unless they are made.
    fn copy_operands(&mut self) -> Result<()> {
        if self.copies.is_none() {
            let (backend, copying) = (self.planned.backend(), |bytes| self.planned.copying(bytes));
            let copier = Copier { backend, copying: &copying };
            self.copies = Some(Copies::new(copier, self.op, self.inputs, self.outputs)?);
        }
        Ok(())
    }

    /// Why nothing can be timed where the user's operands must not be touched.
    fn no_copies(&self) -> Error {
        let memory = self.planned.backend().memory();
        Error::OutOfMemory {
            device: self.planned.backend().info().id.clone(),
            requested: super::copies::set_bytes(self.op),
            in_use: memory.in_use_bytes,
            cached: memory.cached_bytes,
            limit: memory.limit_bytes,
            largest: Largest::default(),
        }
    }

    /// Records `runs` runs of `candidate`, unless they are recorded already; false where the device does not record.
    fn repeat(&mut self, candidate: usize, runs: u32) -> Result<bool> {
        if self.repeated.as_ref().is_some_and(|known| (known.candidate, known.runs) == (candidate, runs)) {
            return Ok(true);
        }
        self.repeated = None; // its memory may be what this one needs
        self.copy_operands()?;
        let backend = self.planned.backend();
        if backend.begin_recording().is_err() {
            return Ok(false);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(candidate, runs)));
        // Ended in any case: the thread must not go on recording.
        let recorded = backend.end_recording();
        ran.unwrap_or_else(|panic| resume_unwind(panic))?;
        let recorded = recorded?;
        backend.replay(&recorded)?; // the first replay takes it to the device
        self.repeated = Some(Repeated { candidate, runs, recorded });
        Ok(true)
    }

    fn attempt(&self, trial: &Trial, plan: &B::Plan) -> Result<Check> {
        if !self.has_room(trial, plan) {
            return Ok(Check::Untried);
        }
        match self.elsewhere(|| judge(self.planned, trial, plan)) {
            Some(Ok(judged)) => judged,
            Some(Err(_)) => Ok(Check::Wrong("its check panicked".to_owned())),
            None => Ok(Check::Untried),
        }
    }

    /// What `work` returns, done by a thread that does not record, or that it panicked there; `None` where there can be no more
    /// threads.
    fn elsewhere<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<std::thread::Result<T>> {
        if !self.planned.records() {
            return Some(Ok(work()));
        }
        std::thread::scope(|scope| Some(std::thread::Builder::new().spawn_scoped(scope, work).ok()?.join()))
    }

    /// Whether the buffers of a check stay below the limit on memory.
    fn has_room(&self, trial: &Trial, plan: &B::Plan) -> bool {
        let backend = self.planned.backend();
        let memory = backend.memory();
        let inputs = trial.inputs().map(|bytes| bytes.len() as u64);
        let all = inputs
            .chain(trial.before().into_iter().map(|bytes| bytes.len() as u64))
            .chain(self.planned.scratch(plan).iter().copied());
        let needed = all.map(|bytes| backend.allocated_bytes(bytes)).fold(0, u64::saturating_add);
        memory.limit_bytes.is_none_or(|limit| memory.in_use_bytes.saturating_add(needed) <= limit)
    }
}

/// Runs `plan` on the operands of `trial`.
fn judge<B: Planned>(planned: &B, trial: &Trial, plan: &B::Plan) -> Result<Check> {
    let backend = planned.backend();
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

fn try_out<B: Planned>(planned: &B, trial: &Trial, plan: &B::Plan) -> Result<Vec<Vec<u8>>> {
    let backend = planned.backend();
    let upload = |bytes: &[u8]| {
        let buffer = backend.alloc(bytes.len() as u64)?;
        backend.write(&buffer, 0, bytes)?;
        Ok(buffer)
    };
    let inputs = trial.inputs().map(upload).collect::<Result<Vec<Buffer>>>()?;
    let before = trial.before();
    let outputs = before.iter().map(|bytes| upload(bytes)).collect::<Result<Vec<Buffer>>>()?;
    planned.run(plan, &inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())?;
    let read = |(output, before): (&Buffer, &Vec<u8>)| backend.read_blocking(output, 0..before.len() as u64);
    outputs.iter().zip(&before).map(read).collect()
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

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
