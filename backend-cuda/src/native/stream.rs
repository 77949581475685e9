//! Streams and events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUstream};
use polywarp_core::Result;

use super::Context;
use crate::status::code;

/// CU_STREAM_NON_BLOCKING: not ordered with the legacy default stream of other libraries.
const NON_BLOCKING: u32 = 1;

/// A queue of work that runs in order.
pub(crate) struct Stream {
    context: Arc<Context>,
    raw: CUstream,
}

// SAFETY: streams and events may be used from any thread, by several at once: the driver locks for itself.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a live local.
        context.call("making a stream", |api| unsafe { (api.cuStreamCreate)(&mut raw, NON_BLOCKING) })?;
        Ok(Stream { context: Arc::clone(context), raw })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Waits until everything given to it is done.
    pub(crate) fn synchronize(&self, op: &str) -> Result<()> {
        // SAFETY: the stream is alive as long as `self`.
        self.context.wait(
            op,
            |api| unsafe { (api.cuStreamQuery)(self.raw) },
            |api| unsafe { (api.cuStreamSynchronize)(self.raw) },
        )
    }

    /// Whether everything given to it is done, now or before `patience` is over.
    pub(crate) fn is_done_within(&self, patience: Duration) -> Result<bool> {
        // SAFETY: the stream is alive as long as `self`.
        self.context.poll("waiting for its work", patience, |api| unsafe { (api.cuStreamQuery)(self.raw) })
    }

    /// Lets later work wait for `event`, which may be another device's.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<()> {
        // SAFETY: both are alive, and the driver keeps what the event stands for.
        self.context.call("waiting for an event", |api| unsafe { (api.cuStreamWaitEvent)(self.raw, event.raw, 0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Destroying does not wait: pending work is finished, and then the driver frees the stream.
        // SAFETY: made by `new`, destroyed once.
        self.context.free("a stream", |api| unsafe { (api.cuStreamDestroy_v2)(self.raw) });
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.context.fault.device())
    }
}

/// What an event is good for (cuda.h, `CUevent_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Keeps the time. CU_EVENT_DEFAULT.
    Timing,
    /// Waiting for it is quick, and may keep a processor busy. CU_EVENT_DISABLE_TIMING.
    Quick,
    /// Waiting for it sleeps. CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC.
    Sleeping,
}

/// A point in a stream.
pub(crate) struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: as for `Stream`.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>, kind: EventKind) -> Result<Event> {
        let flags = match kind {
            EventKind::Timing => 0,
            EventKind::Quick => 2,
            EventKind::Sleeping => 3,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a live local.
        context.call("making an event", |api| unsafe { (api.cuEventCreate)(&mut raw, flags) })?;
        Ok(Event { context: Arc::clone(context), raw })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Sets it behind all work given to `stream` so far.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive; a stream of another context gives a status.
        self.context.call("recording an event", |api| unsafe { (api.cuEventRecord)(self.raw, stream.raw) })
    }

    /// Whether the work before it is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is alive as long as `self`.
        match self.context.attempt(|api| unsafe { (api.cuEventQuery)(self.raw) })? {
            code::SUCCESS => Ok(true),
            code::NOT_READY => Ok(false),
            failed => Err(self.context.error("asking for an event", failed)),
        }
    }

    /// Waits until the work before it is done.
    pub(crate) fn wait(&self, op: &str) -> Result<()> {
        // SAFETY: the event is alive as long as `self`.
        self.context.wait(
            op,
            |api| unsafe { (api.cuEventQuery)(self.raw) },
            |api| unsafe { (api.cuEventSynchronize)(self.raw) },
        )
    }

    /// Nanoseconds from `self` to `end`; both keep the time and are done.
    pub(crate) fn ns_until(&self, end: &Event) -> Result<f64> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both are alive, and the pointer is to a live local; events without time give a status.
        self.context.call("reading the clock", |api| unsafe {
            (api.cuEventElapsedTime)(&mut milliseconds, self.raw, end.raw)
        })?;
        Ok(f64::from(milliseconds) * 1e6)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once; the driver keeps one that is still waited for.
        self.context.free("an event", |api| unsafe { (api.cuEventDestroy_v2)(self.raw) });
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.context.fault.device())
    }
}
