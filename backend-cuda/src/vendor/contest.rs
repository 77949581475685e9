//! Several ways to compute one op, in turns: bursts, in which the card keeps its highest clocks, and stretches long enough for
//! heat and power to bring them down.
//!
//! A sample is one graph of launches over all sets of operands, timed by the card: neither the host's cost of a launch nor
//! the cache counts. Whoever takes part has been verified before; nothing here looks at results.

use std::time::{Duration, Instant};

use cudarc::driver::sys;
use polywarp_core::ops::Matmul;
use polywarp_core::{Backend, Buffer, Error, Recorded, Result};

use super::clocks::{Clocks, State};
use super::cublaslt::CublasLt;
use super::plan::{Graph, Plan};
use crate::state::CudaBackend;

/// Buffers of one launch.
#[derive(Clone, Debug)]
pub struct Operands {
    /// A and B.
    pub inputs: Vec<Buffer>,
    /// D.
    pub output: Buffer,
}

impl Operands {
    /// The inputs as [`Backend::execute`] takes them.
    pub fn inputs(&self) -> Vec<&Buffer> {
        self.inputs.iter().collect()
    }

    /// Fills the output with what no product gives (NaN, -1), so that one which writes nothing is not taken for right.
    ///
    /// # Errors
    /// [`Error::Backend`] with the driver's status.
    pub fn spoil(&self, backend: &CudaBackend) -> Result<()> {
        let address = backend.device_address(&self.output)?;
        let bytes = self.output.size_bytes() as usize;
        // SAFETY: the buffer is alive and as long; the context lives as long as the backend; in the order of its stream.
        let status = unsafe {
            sys::cuCtxSetCurrent(backend.context());
            sys::cuMemsetD8Async(address, 0xff, bytes, backend.stream())
        };
        match status {
            sys::CUresult::CUDA_SUCCESS => Ok(()),
            status => Err(Error::Backend {
                device: backend.info().id.clone(),
                op: "filling".to_owned(),
                message: format!("{status:?}"),
            }),
        }
    }
}

/// How long a sample is.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Nanoseconds that it should take at least: well above the grain of the card's clock, half a microsecond.
    pub sample_ns: f64,
    /// Launches in it at least.
    pub least_launches: usize,
}

impl Sampling {
    /// Most launches in a sample, but for more sets of operands than that.
    const MOST_LAUNCHES: usize = 400;

    /// Launches of a sample when one takes `ns`: all sets at least once.
    fn launches(self, ns: f64, sets: usize) -> usize {
        let wanted = (self.sample_ns / ns.max(1.0)) as usize;
        wanted.clamp(self.least_launches, Self::MOST_LAUNCHES.max(self.least_launches)).max(sets)
    }
}

/// One way to compute the op, ready to be launched again and again.
#[derive(Debug)]
pub struct Entrant<'a> {
    /// What it is called.
    pub name: String,
    work: Work<'a>,
    launches: usize,
    samples_ns: Vec<f64>,
}

/// Launches over all sets.
#[derive(Debug)]
enum Work<'a> {
    Ours(Recorded),
    Theirs(Graph<'a>),
}

impl<'a> Entrant<'a> {
    /// A way of this library: `run` enqueues one launch.
    ///
    /// # Errors
    /// Those of `run` and of recording.
    pub fn ours(
        backend: &CudaBackend,
        name: impl Into<String>,
        sets: &[Operands],
        sampling: Sampling,
        run: &dyn Fn(&Operands) -> Result<()>,
    ) -> Result<Entrant<'a>> {
        let launches = sampling.launches(once(backend, &mut || run(&sets[0]))?, sets.len());
        backend.begin_recording()?;
        let recorded = (0..launches).try_for_each(|i| run(&sets[i % sets.len()]));
        let ended = backend.end_recording();
        recorded?;
        Ok(Entrant { name: name.into(), work: Work::Ours(ended?), launches, samples_ns: Vec::new() })
    }

    /// One of cuBLASLt's.
    ///
    /// # Errors
    /// [`polywarp_core::Error::Backend`] with its status.
    pub fn theirs(
        backend: &CudaBackend,
        plan: &Plan<'a>,
        sets: &[Operands],
        sampling: Sampling,
    ) -> Result<Entrant<'a>> {
        let launches = sampling.launches(once(backend, &mut || plan.run(backend, &sets[0]))?, sets.len());
        let work = Work::Theirs(plan.capture(backend, sets, launches)?);
        Ok(Entrant { name: plan.name(), work, launches, samples_ns: Vec::new() })
    }

    /// Whether it is cuBLASLt's.
    pub fn is_vendor(&self) -> bool {
        matches!(self.work, Work::Theirs(_))
    }

    /// Nanoseconds of one launch in a sample that is taken now.
    ///
    /// # Errors
    /// Those of the device.
    pub fn sample(&self, backend: &CudaBackend) -> Result<f64> {
        let elapsed = backend.timed(&mut || match &self.work {
            Work::Ours(recorded) => backend.replay(recorded),
            Work::Theirs(graph) => graph.launch(backend),
        })?;
        Ok(elapsed.ns / self.launches as f64)
    }

    /// Nanoseconds of one launch: the median of its samples; NaN before the first.
    pub fn median_ns(&self) -> f64 {
        let mut samples = self.samples_ns.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Nanoseconds of one launch in the fastest sample; NaN before the first.
    pub fn fastest_ns(&self) -> f64 {
        self.samples_ns.iter().copied().fold(f64::NAN, f64::min)
    }
}

impl CublasLt {
    /// The fastest of its heuristics for `op` that is right: `is_right` looks at the output of the first set, which was
    /// spoilt before.
    ///
    /// # Errors
    /// Those of the device and of `is_right`. `Ok(Err(..))` says in words why there is none.
    pub fn best<'a>(
        &'a self,
        backend: &CudaBackend,
        op: &Matmul,
        sets: &[Operands],
        sampling: Sampling,
        is_right: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<std::result::Result<Entrant<'a>, String>> {
        // A single launch is a fair measure above this; below, all heuristics are sampled.
        const LONG_NS: f64 = 1e6;
        let plans = match self.plans(backend, op) {
            Ok(plans) => plans,
            Err(why) => return Ok(Err(why)),
        };
        let mut timed = Vec::new();
        for plan in plans {
            timed.push((once(backend, &mut || plan.run(backend, &sets[0]))?, plan));
        }
        let fastest = timed.iter().map(|(ns, _)| *ns).fold(f64::INFINITY, f64::min);
        timed.retain(|(ns, _)| fastest < LONG_NS || *ns <= 1.05 * fastest);
        let mut entrants = Vec::new();
        for (_, plan) in &timed {
            entrants.push(Entrant::theirs(backend, plan, sets, sampling)?);
        }
        rounds(backend, &mut entrants, 1, 3, Duration::ZERO)?;
        let mut both: Vec<(Entrant, Plan)> =
            entrants.into_iter().zip(timed.into_iter().map(|(_, plan)| plan)).collect();
        both.sort_by(|x, y| x.0.median_ns().total_cmp(&y.0.median_ns()));
        let mut wrong = 0;
        for (mut entrant, plan) in both {
            sets[0].spoil(backend)?;
            plan.run(backend, &sets[0])?;
            if is_right()? {
                entrant.samples_ns.clear();
                return Ok(Ok(entrant));
            }
            wrong += 1;
        }
        Ok(Err(match wrong {
            0 => "it has no heuristic for this product".to_owned(),
            wrong => format!("its results are beyond the bound, by all of {wrong} heuristics"),
        }))
    }
}

/// The better of two runs, nanoseconds: the first one loads kernels.
fn once(backend: &CudaBackend, run: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let first = backend.timed(run)?.ns;
    Ok(backend.timed(run)?.ns.min(first))
}

/// Takes samples in turns: `warm_up` of each that are thrown away, then `rounds` of each that are kept, fewer when they have
/// taken `most` (three at least).
///
/// # Errors
/// Those of the device.
pub fn rounds(
    backend: &CudaBackend,
    entrants: &mut [Entrant],
    warm_up: usize,
    rounds: usize,
    most: Duration,
) -> Result<()> {
    const LEAST: usize = 3;
    let start = Instant::now();
    for round in 0..warm_up + rounds {
        if round >= warm_up + LEAST && start.elapsed() > most {
            break;
        }
        for entrant in entrants.iter_mut() {
            let sample = entrant.sample(backend)?;
            entrant.samples_ns.extend((round >= warm_up).then_some(sample));
        }
    }
    Ok(())
}

/// What one entrant did in its long turns.
#[derive(Clone, Copy, Debug)]
pub struct Sustained {
    /// Nanoseconds of one launch, on average.
    pub ns: f64,
    /// The card's state at the ends of its turns, where NVML says it.
    pub state: Option<State>,
}

/// Runs the entrants in turns of a quarter second, `length` for each in all.
///
/// # Errors
/// Those of the device.
pub fn sustained(
    backend: &CudaBackend,
    entrants: &[&Entrant],
    length: Duration,
    clocks: Option<&Clocks>,
) -> Result<Vec<Sustained>> {
    const TURN: Duration = Duration::from_millis(250);
    // What still feels the other's heat and clocks.
    const SETTLING: Duration = Duration::from_millis(80);
    let mut totals = vec![(0.0f64, 0usize, Vec::new()); entrants.len()];
    let start = Instant::now();
    while start.elapsed() < length * entrants.len() as u32 {
        for (entrant, (ns, launches, states)) in entrants.iter().zip(&mut totals) {
            let turn = Instant::now();
            let mut settled = false;
            // A sample may be longer than a turn, and one counts at least.
            let mut counted = false;
            while turn.elapsed() < TURN || !counted {
                let each = entrant.sample(backend)?;
                if settled {
                    *ns += each * entrant.launches as f64;
                    *launches += entrant.launches;
                    counted = true;
                }
                settled = turn.elapsed() > SETTLING;
            }
            states.extend(clocks.and_then(Clocks::now));
        }
    }
    let summed = totals
        .into_iter()
        .map(|(ns, launches, states)| Sustained { ns: ns / launches as f64, state: State::mean(&states) });
    Ok(summed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_long_enough_and_touch_every_set() {
        let sampling = Sampling { sample_ns: 400_000.0, least_launches: 10 };
        assert_eq!(sampling.launches(2000.0, 4), 200);
        assert_eq!(sampling.launches(1e9, 4), 10);
        assert_eq!(sampling.launches(0.0, 4), 400);
        assert_eq!(sampling.launches(1e9, 64), 64);
    }
}
