//! Recording on the CPU: the checked operations of one thread, kept with their memory and run again in order.
//!
//! There is nothing to prepare: a replay saves checking, allocating and building operations, not the work itself. Memory
//! that was allocated and dropped inside the recording serves later allocations inside it, as in a direct run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{HostBuffer, Pool};
use crate::{Op, Result};

/// Tells the recordings of one process apart; 0 is none.
static NEXT_TAPE: AtomicU64 = AtomicU64::new(1);

/// One operation on the memory it was recorded with.
#[derive(Debug)]
struct Step {
    op: Op,
    inputs: Vec<Arc<HostBuffer>>,
    outputs: Vec<Arc<HostBuffer>>,
}

/// What one thread has recorded so far.
#[derive(Debug)]
pub(super) struct Tape {
    pub(super) id: u64,
    steps: Vec<Step>,
    /// Allocated and dropped inside the recording.
    free: Vec<Arc<HostBuffer>>,
}

impl Tape {
    pub(super) fn new() -> Tape {
        Tape { id: NEXT_TAPE.fetch_add(1, Ordering::Relaxed), steps: Vec::new(), free: Vec::new() }
    }

    pub(super) fn record(&mut self, op: &Op, inputs: Vec<Arc<HostBuffer>>, outputs: Vec<Arc<HostBuffer>>) {
        self.steps.push(Step { op: op.clone(), inputs, outputs });
    }

    /// Takes memory that a buffer of this recording no longer needs.
    pub(super) fn give_back(&mut self, host: Arc<HostBuffer>) {
        self.free.push(host);
    }

    /// Memory of `lines` lines that a dropped buffer of this recording had.
    pub(super) fn reuse(&mut self, lines: usize) -> Option<Arc<HostBuffer>> {
        let at = self.free.iter().rposition(|host| host.lines() == lines)?;
        Some(self.free.swap_remove(at))
    }

    /// Ready to replay on the device whose memory comes from `pool`.
    pub(super) fn finish(self, pool: Pool) -> Steps {
        Steps { steps: self.steps, pool, running: Mutex::new(()) }
    }
}

/// A finished recording.
#[derive(Debug)]
pub(super) struct Steps {
    steps: Vec<Step>,
    pool: Pool,
    /// Replays share intermediate memory: one at a time.
    running: Mutex<()>,
}

impl Steps {
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn belongs_to(&self, pool: &Pool) -> bool {
        self.pool.same(pool)
    }

    /// `device` is for errors; the first one ends the replay.
    pub(super) fn run(&self, device: &str) -> Result<()> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for step in &self.steps {
            super::run(&step.op, &step.inputs, &step.outputs, &self.pool, device)?;
        }
        Ok(())
    }
}
