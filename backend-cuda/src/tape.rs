//! What is noted of launches: those that a thread records, with their memory, and those that ran while the device was profiled.
//! Recording and replaying is `recording.rs`'s.

use std::sync::Arc;

use polywarp_core::Part;
use polywarp_core::pool::{self, Lease, TapeMemory};

use crate::kernels::Kernel;
use crate::native::{Event, Memory};

/// What a buffer of this backend holds.
pub(crate) type Allocation = pool::Allocation<Memory, Tape>;

/// One launch as it was asked for.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) params: Box<[u8]>,
    pub(crate) part: Part,
}

/// What one thread has recorded so far.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) steps: Vec<Step>,
    pub(crate) memory: TapeMemory<Memory>,
}

impl pool::Tape<Memory> for Tape {
    fn memory(&mut self) -> &mut TapeMemory<Memory> {
        &mut self.memory
    }
}

impl Tape {
    /// Notes a launch.
    pub(crate) fn launch(&mut self, kernel: &Arc<Kernel>, grid: [u32; 3], params: &[u8]) {
        self.steps.push(Step { kernel: Arc::clone(kernel), grid, params: params.into(), part: Part::current() });
    }

    /// How many launches there are.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Forgets the launches of a call that failed, all but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.steps.truncate(len);
    }

    /// Keeps memory that a launch uses.
    pub(crate) fn keep(&mut self, lease: &Arc<Lease<Memory>>) {
        self.memory.keep(lease);
    }
}

/// A launch that ran while the device was profiled.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) part: Part,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) start: Event,
    pub(crate) end: Event,
}
