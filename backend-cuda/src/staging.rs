//! Page-locked pieces of host memory that bytes pass through, kept for reuse.
//!
//! Page-locking costs more than most copies, so pieces are cached by size. A piece whose copy may still be under way is
//! never freed and never handed out: [`Staging`] goes back to the cache when its event has passed, and is leaked when
//! the device has a fault and it never will.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use polywarp_core::Result;

use crate::fault::lock;
use crate::native::{Context, Event, EventKind, Pinned, Stream};

/// Smallest piece: a page.
const SMALLEST_BYTES: usize = 4 << 10;
/// Largest piece. Longer copies use several, so that the host's part of one runs beside the device's of another.
pub(crate) const LARGEST_BYTES: usize = 4 << 20;
/// Bytes kept for reuse.
const MOST_CACHED_BYTES: usize = 64 << 20;

/// A piece, and the event that says when the device is done with it.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Taken only when the piece goes back to the cache or is leaked.
    parts: Option<(Pinned, Event)>,
    cache: Arc<StagingCache>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No copy is under way.
    Idle,
    /// A copy was enqueued, and the event not yet behind it: nothing tells its end.
    Enqueued,
    /// The event tells when the copies are done.
    Marked,
}

/// Free pieces.
#[derive(Debug)]
pub(crate) struct StagingCache {
    context: Arc<Context>,
    kind: EventKind,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// By size.
    pieces: BTreeMap<usize, Vec<(Pinned, Event)>>,
    bytes: usize,
}

impl StagingCache {
    /// A cache of pieces whose events wait as `kind` says.
    pub(crate) fn new(context: &Arc<Context>, kind: EventKind) -> Arc<StagingCache> {
        Arc::new(StagingCache { context: Arc::clone(context), kind, free: Mutex::default() })
    }

    /// A piece of at least `len` bytes (at most [`LARGEST_BYTES`]).
    pub(crate) fn take(self: &Arc<StagingCache>, len: usize) -> Result<Staging> {
        let size = len.clamp(SMALLEST_BYTES, LARGEST_BYTES).next_power_of_two();
        let mut free = lock(&self.free);
        let found = free.pieces.get_mut(&size).and_then(Vec::pop);
        if found.is_some() {
            free.bytes -= size;
        }
        drop(free);
        let parts = match found {
            Some(parts) => parts,
            None => (Pinned::new(&self.context, size)?, Event::new(&self.context, self.kind)?),
        };
        Ok(Staging { parts: Some(parts), cache: Arc::clone(self), state: State::Idle })
    }

    fn give(&self, parts: (Pinned, Event)) {
        let size = parts.0.len();
        let mut free = lock(&self.free);
        if free.bytes + size <= MOST_CACHED_BYTES {
            free.bytes += size;
            free.pieces.entry(size).or_default().push(parts);
        } else {
            // Outside the lock: unlocking pages takes its time.
            drop(free);
            drop(parts);
        }
    }
}

impl Staging {
    /// Bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.parts.as_ref().map_or(0, |(pinned, _)| pinned.len())
    }

    /// Enqueues a copy of `len` device bytes into it.
    ///
    /// # Safety
    /// `from` is the address of `len` bytes of device memory of this context, allocated until the copy is done.
    pub(crate) unsafe fn download(&mut self, stream: &Stream, from: u64, len: usize) -> Result<()> {
        debug_assert_eq!(self.state, State::Idle);
        let Some((pinned, _)) = &self.parts else { return Ok(()) };
        self.state = State::Enqueued;
        // SAFETY: the piece is neither dropped nor handed out before it is idle; the rest the caller promised.
        unsafe { stream.download(pinned, from, len)? };
        self.finish(stream)
    }

    /// Copies `data` into it at byte `at`, and enqueues a copy from there to the device. [`Staging::finish`] ends a run
    /// of these.
    ///
    /// # Safety
    /// `to` is the address of `data.len()` bytes of device memory of this context, allocated until the copy is done;
    /// none of the bytes of the piece was used since it was taken.
    pub(crate) unsafe fn upload(&mut self, stream: &Stream, to: u64, at: usize, data: &[u8]) -> Result<()> {
        let Some((pinned, _)) = &self.parts else { return Ok(()) };
        self.state = State::Enqueued;
        // SAFETY: no copy uses these bytes, as the caller promised, and `self` is borrowed mutably. The piece is neither
        // dropped nor handed out before it is idle.
        unsafe {
            pinned.fill(at, data);
            stream.upload(to, pinned, at, data.len())
        }
    }

    /// Marks the end of what was enqueued from it.
    pub(crate) fn finish(&mut self, stream: &Stream) -> Result<()> {
        if self.state != State::Idle
            && let Some((_, event)) = &self.parts
        {
            event.record(stream)?;
            self.state = State::Marked;
        }
        Ok(())
    }

    /// Whether the device is done with it.
    pub(crate) fn is_done(&mut self) -> Result<bool> {
        if self.state == State::Marked
            && let Some((_, event)) = &self.parts
            && event.is_done()?
        {
            self.state = State::Idle;
        }
        Ok(self.state == State::Idle)
    }

    /// Waits until the device is done with it.
    pub(crate) fn wait(&mut self, op: &str) -> Result<()> {
        if self.state == State::Marked
            && let Some((_, event)) = &self.parts
        {
            event.wait(op)?;
            self.state = State::Idle;
        }
        Ok(())
    }

    /// Appends its first `len` bytes to `bytes`, once they are there.
    pub(crate) fn collect(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
        self.wait("read")?;
        if let Some((pinned, _)) = &self.parts {
            // SAFETY: the copy is done: waited for above. The piece is borrowed mutably, so no other is enqueued.
            unsafe { pinned.append_to(bytes, len) };
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A fault has been recorded and comes back from every later call.
        let _ = self.wait("a copy");
        let Some(parts) = self.parts.take() else { return };
        if self.state == State::Idle {
            self.cache.give(parts);
        } else {
            std::mem::forget(parts);
        }
    }
}
