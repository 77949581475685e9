//! Recording: launches of one thread, kept with their memory, and made a graph that one call enqueues.
//!
//! Nothing is captured while a user's closure runs: launches are noted, as they would be made, and enqueued into a
//! capturing stream of their own at the end. So no other thread's work, and no failure half way, can spoil a capture.
//! Memory that was allocated and dropped inside the recording serves later allocations inside it, and stays with it.

use std::sync::Arc;

use polywarp_core::pool::{Lease, Pool};
use polywarp_core::{Part, Recorded, Result};

use crate::native::{Graph, Memory, Stream};
use crate::state::CudaBackend;
use crate::tape::{Step, Tape};

/// A finished recording.
#[derive(Debug)]
struct Replayable {
    /// `None` when nothing was recorded.
    graph: Option<Graph>,
    pool: Arc<Pool<Memory>>,
    /// What the graph launches, for profiles; it keeps the kernels.
    steps: Vec<Step>,
    /// Dropped after the graph: memory goes back to the pool when no replay can start any more. Those under way are
    /// earlier on the stream than whatever uses it next.
    _kept: Vec<Arc<Lease<Memory>>>,
}

impl CudaBackend {
    pub(crate) fn start_recording(&self) -> Result<()> {
        self.fault().check()?;
        self.recorders().begin(self.id(), Tape::default())
    }

    pub(crate) fn finish_recording(&self) -> Result<Recorded> {
        let tape = self.recorders().end(self.id())?;
        self.fault().check()?;
        let enqueue = |stream: &Stream| {
            tape.steps.iter().try_for_each(|step| {
                // SAFETY: the parameters were packed for this kernel from buffers that were checked then; the memory they
                // point to is kept by the tape, and then by the recording.
                unsafe { self.enqueue(stream, &step.kernel, step.grid, &step.params) }
            })
        };
        let graph = match tape.steps.len() {
            0 => None,
            _ => Some(self.with_room(|| Graph::capture(self.stream.context(), enqueue))?),
        };
        let launches = tape.steps.len();
        let replayable =
            Replayable { graph, pool: Arc::clone(&self.pool), steps: tape.steps, _kept: tape.memory.into_kept() };
        Ok(Recorded::new(launches, replayable))
    }

    pub(crate) fn replay_recorded(&self, recorded: &Recorded) -> Result<()> {
        self.recorders().refuse_replay(self.id())?;
        self.fault().check()?;
        let own = recorded.downcast::<Replayable>().filter(|own| Arc::ptr_eq(&own.pool, &self.pool));
        let own = own.ok_or_else(|| polywarp_core::foreign_recording(self.id()))?;
        if self.profiler.is_on() {
            let mut part = Part::default();
            let mut of = 0;
            return own.steps.iter().try_for_each(|step| {
                if step.part.number != of {
                    (of, part) = (step.part.number, step.part.again());
                }
                // SAFETY: as of the graph, which has the same launches.
                unsafe { self.enqueue_noted(&step.kernel, step.grid, &step.params, || part) }
            });
        }
        match &own.graph {
            // SAFETY: what the launches touch is kept by the recording, and after it by the order of the stream.
            Some(graph) => unsafe { graph.launch(&self.stream) },
            None => Ok(()),
        }
    }
}
