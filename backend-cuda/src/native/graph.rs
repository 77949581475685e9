//! Graphs: launches recorded once, enqueued by one call.

use std::fmt;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUgraphExec;
use polywarp_core::Result;

use super::{Context, Stream};
use crate::fault::lock;
use crate::status::code;

/// CU_STREAM_CAPTURE_MODE_RELAXED: other threads, and this one, may go on allocating meanwhile.
const RELAXED: u32 = 2;

/// Launches ready to be enqueued together.
pub(crate) struct Graph {
    context: Arc<Context>,
    /// An executable graph is launched by one thread at a time.
    exec: Mutex<CUgraphExec>,
}

// SAFETY: the handle may be used from any thread, by one at a time: the lock sees to that.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// What `enqueue` gives to the stream it is handed, in that order. Nothing of it runs.
    pub(crate) fn capture(context: &Arc<Context>, enqueue: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        let op = "ending a recording";
        // A stream of its own: nothing else can slip in, and a failure leaves no other stream capturing.
        let stream = Stream::new(context)?;
        // SAFETY: the stream is alive.
        context.call(op, |api| unsafe { (api.cuStreamBeginCapture_v2)(stream.raw(), RELAXED) })?;
        let enqueued = enqueue(&stream);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream captures since the call above; the pointer is to a live local. Ended in every case.
        let ended = context.call(op, |api| unsafe { (api.cuStreamEndCapture)(stream.raw(), &mut graph) });
        if let Err(error) = enqueued.and(ended) {
            if !graph.is_null() {
                // SAFETY: the call above made it, and nobody else has it.
                context.free("a graph", |api| unsafe { (api.cuGraphDestroy)(graph) });
            }
            return Err(error);
        }
        let mut exec = std::ptr::null_mut();
        let instantiated = context.attempt(|api| {
            // SAFETY: the graph was made just now and is destroyed once, when it has been instantiated.
            unsafe {
                let made = (api.cuGraphInstantiateWithFlags)(&mut exec, graph, 0);
                (api.cuGraphDestroy)(graph);
                made
            }
        })?;
        match instantiated {
            code::SUCCESS => Ok(Graph { context: Arc::clone(context), exec: Mutex::new(exec) }),
            failed => Err(context.error(op, failed)),
        }
    }

    /// Enqueues all of it behind what `stream` has.
    ///
    /// # Safety
    /// What its launches touch is allocated until they are done.
    pub(crate) unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        let exec = lock(&self.exec);
        // SAFETY: the graph is alive, and no other thread launches it meanwhile; the rest the caller promised.
        self.context.call("replay", |api| unsafe { (api.cuGraphLaunch)(*exec, stream.raw()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let exec = *lock(&self.exec);
        // SAFETY: made by `capture`, destroyed once; the driver keeps one that is still running until it is done.
        self.context.free("a graph", |api| unsafe { (api.cuGraphExecDestroy)(exec) });
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.context.fault.device())
    }
}
