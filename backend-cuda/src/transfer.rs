//! Bytes to and from the device.
//!
//! Both ways go through page-locked pieces, on the one stream, so a transfer sees exactly the work given before it. A
//! write copies its bytes and returns; small ones share a piece. A read enqueues its copies when it is called; the bytes
//! arrive by the event behind them, for which a future's thread sleeps (`Waiter`) and a blocking read waits itself. Either
//! way only so much is under way: a longer transfer's call waits for its first pieces.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll, Waker};

use polywarp_core::{Buffer, Error, ReadFuture, Result};

use crate::device::CudaBackend;
use crate::fault::{Fault, lock};
use crate::native::Stream;
use crate::staging::{LARGEST_BYTES, Staging, StagingCache};

/// The piece that small writes share.
const SHARED_PIECE_BYTES: usize = 256 << 10;
/// Alignment of writes within a shared piece, for the copy engine's sake.
const WRITE_ALIGN_BYTES: usize = 64;
/// Bytes of writes that may be under way: the host waits rather than piling up memory without end.
const MOST_UPLOADING_BYTES: usize = 64 << 20;
/// Pieces of a blocking read that are under way at once.
const READ_AHEAD: usize = 4;
/// Pieces of a future's read: 64 MiB, all that is kept for reuse. Page-locking more would take as long as copying it.
const READ_LATER_AHEAD: usize = 16;

/// Writes that are under way.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// The piece being filled, and how much of it is.
    open: Option<(Staging, usize)>,
    under_way: VecDeque<Staging>,
    bytes: usize,
}

impl Uploads {
    /// Enqueues a copy of `data` to device memory.
    ///
    /// # Safety
    /// `to` is the address of `data.len()` bytes of device memory of the stream's context, allocated until the copy is
    /// done.
    unsafe fn write(&mut self, cache: &Arc<StagingCache>, stream: &Stream, mut to: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let (mut piece, used) = self.piece_for(data.len(), cache, stream)?;
            let (now, later) = data.split_at(data.len().min(piece.len() - used));
            // SAFETY: the bytes from `used` on were not used yet; the destination is part of what the caller promised.
            unsafe { piece.upload(stream, to, used, now)? };
            self.open = Some((piece, (used + now.len()).next_multiple_of(WRITE_ALIGN_BYTES)));
            to += now.len() as u64;
            data = later;
        }
        // Marked after every write, so that a piece is known to be free as soon as it is.
        match &mut self.open {
            Some((piece, _)) => piece.finish(stream),
            None => Ok(()),
        }
    }

    /// The open piece when `len` bytes fit there, else a fresh one.
    fn piece_for(&mut self, len: usize, cache: &Arc<StagingCache>, stream: &Stream) -> Result<(Staging, usize)> {
        if let Some((mut piece, used)) = self.open.take() {
            if len <= piece.len() - used {
                return Ok((piece, used));
            }
            if piece.is_done()? && len <= piece.len() {
                return Ok((piece, 0));
            }
            piece.finish(stream)?;
            self.bytes += piece.len();
            self.under_way.push_back(piece);
        }
        while let Some(oldest) = self.under_way.front_mut() {
            if self.bytes > MOST_UPLOADING_BYTES {
                oldest.wait("write")?;
            } else if !oldest.is_done()? {
                break;
            }
            self.bytes -= oldest.len();
            self.under_way.pop_front();
        }
        Ok((cache.take(len.clamp(SHARED_PIECE_BYTES, LARGEST_BYTES))?, 0))
    }

    /// Lets go of what is done, and waits for the rest.
    pub(crate) fn clear(&mut self) {
        self.open = None;
        self.under_way.clear();
        self.bytes = 0;
    }
}

/// Pieces of a read, in order, with the bytes wanted of each.
type Pieces = VecDeque<(Staging, usize)>;

fn collect(pieces: Pieces, bytes: &mut Vec<u8>) -> Result<()> {
    for (mut piece, len) in pieces {
        piece.collect(bytes, len)?;
    }
    Ok(())
}

impl CudaBackend {
    pub(crate) fn write_bytes(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.recorders().refuse_write(self.id())?;
        self.fault().check()?;
        let address = self.own(buffer)?.address();
        let size = buffer.size_bytes();
        if offset_bytes.checked_add(data.len() as u64).is_none_or(|end| end > size) {
            return Err(outside("write", offset_bytes, data.len() as u64, size));
        }
        let mut uploads = lock(&self.uploads);
        // SAFETY: the range is inside of the buffer, as checked. The buffer may be dropped before the copy is done: its
        // memory then goes to the pool, whose next owner's work comes later on this stream, and the driver frees memory
        // only when nothing uses it.
        unsafe { uploads.write(&self.upload_pieces, &self.stream, address + offset_bytes, data) }
    }

    /// Checks a read and gives the address where it starts, and its length.
    fn check_read(&self, buffer: &Buffer, range: &Range<u64>) -> Result<(u64, u64)> {
        self.recorders().refuse_read(self.id())?;
        self.fault().check()?;
        let address = self.own(buffer)?.address();
        let len = range.end.checked_sub(range.start);
        match len.filter(|_| range.end <= buffer.size_bytes()) {
            Some(len) => Ok((address + range.start, len)),
            None => Err(outside("read", range.start, len.unwrap_or(0), buffer.size_bytes())),
        }
    }

    /// Enqueues the copy of one piece from `from` on, at most `len` bytes.
    fn begin_piece(&self, cache: &Arc<StagingCache>, from: u64, len: u64) -> Result<(Staging, usize)> {
        let len = len.min(LARGEST_BYTES as u64) as usize;
        let mut piece = cache.take(len)?;
        // SAFETY: the range is inside of a buffer, as `check_read` found; that it may be dropped meanwhile does no harm,
        // for the reasons given in `write_bytes`.
        unsafe { piece.download(&self.stream, from, len)? };
        Ok((piece, len))
    }

    /// Enqueues the copies of `len` bytes from `from` on through pieces of `cache`, of which `ahead` are under way at once: the
    /// bytes that arrived meanwhile, in a vector with room for all, and the pieces of the rest.
    fn begin_read(&self, cache: &Arc<StagingCache>, from: u64, len: u64, ahead: usize) -> Result<(Vec<u8>, Pieces)> {
        let mut bytes = Vec::with_capacity(self.host_size(len)?);
        let mut pieces = Pieces::new();
        let mut done = 0;
        while done < len {
            if pieces.len() == ahead
                && let Some((mut piece, len)) = pieces.pop_front()
            {
                piece.collect(&mut bytes, len)?;
            }
            let (piece, len) = self.begin_piece(cache, from + done, len - done)?;
            pieces.push_back((piece, len));
            done += len as u64;
        }
        Ok((bytes, pieces))
    }

    pub(crate) fn read_now(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let (from, len) = self.check_read(buffer, &range)?;
        let (mut bytes, pieces) = self.begin_read(&self.quick_pieces, from, len, READ_AHEAD)?;
        collect(pieces, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read_later(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let begin = || {
            let (from, len) = self.check_read(buffer, &range)?;
            let (bytes, pieces) = self.begin_read(&self.sleeping_pieces, from, len, READ_LATER_AHEAD)?;
            if len == 0 {
                return Ok(None);
            }
            let arrival = Arrival::new();
            self.waiter.watch(self.fault(), Job { bytes, pieces, arrival: Arc::clone(&arrival) })?;
            Ok(Some(arrival))
        };
        match begin() {
            Ok(Some(arrival)) => Box::pin(Awaited(Some(arrival))),
            Ok(None) => Box::pin(std::future::ready(Ok(Vec::new()))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn host_size(&self, len: u64) -> Result<usize> {
        usize::try_from(len).map_err(|_| outside("read", 0, len, u64::MAX))
    }
}

fn outside(what: &'static str, start: u64, len: u64, size: u64) -> Error {
    let reason = format!("{len} bytes from byte {start} on are not inside a buffer of {size} bytes");
    Error::InvalidArgument { what, reason }
}

/// Bytes that arrive once.
#[derive(Debug)]
struct Arrival(Mutex<(Option<Outcome>, Option<Waker>)>);

type Outcome = Result<Vec<u8>>;

impl Arrival {
    fn new() -> Arc<Arrival> {
        Arc::new(Arrival(Mutex::new((None, None))))
    }

    /// Sets the value, unless one is there, and wakes who waits.
    fn arrive(&self, value: Outcome) {
        let waker = {
            let mut state = lock(&self.0);
            state.0.get_or_insert(value);
            state.1.take()
        };
        if let Some(waker) = waker {
            wake(waker);
        }
    }
}

/// Wakes, which runs a user's code, on the thread that all reads wait for: a panic there is the user's, and ends no other read.
fn wake(waker: Waker) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        log::error!("a waker of a read has panicked");
        // Not dropped: what somebody panics with may panic in turn.
        std::mem::forget(panic);
    }
}

/// Waits for an [`Arrival`], which is given away with its value.
struct Awaited(Option<Arc<Arrival>>);

impl Future for Awaited {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Outcome> {
        let Some(arrival) = &self.0 else {
            // Nothing would ever wake who waits for a second value.
            let reason = "the future has given its bytes already; start another read".to_owned();
            return Poll::Ready(Err(Error::InvalidArgument { what: "read", reason }));
        };
        // A waker's own code, to clone and to drop it, runs outside of the lock, for which the thread that waits may wait.
        let fresh = Some(task.waker().clone());
        let (value, _old) = {
            let mut state = lock(&arrival.0);
            let value = state.0.take();
            let kept = if value.is_none() { fresh } else { None };
            (value, std::mem::replace(&mut state.1, kept))
        };
        let Some(value) = value else { return Poll::Pending };
        self.0 = None;
        Poll::Ready(value)
    }
}

/// A read that somebody awaits, or has stopped awaiting.
struct Job {
    /// What arrived before.
    bytes: Vec<u8>,
    pieces: Pieces,
    arrival: Arc<Arrival>,
}

impl Job {
    fn finish(mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let outcome = collect(std::mem::take(&mut self.pieces), &mut bytes);
        self.arrival.arrive(outcome.map(|()| bytes));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Only heard when the thread ended before the job was done.
        let message = "no thread waits for the device any more".to_owned();
        let error = Error::Backend { device: String::new(), op: "read".to_owned(), message };
        self.arrival.arrive(Err(error));
    }
}

/// The thread that sleeps for pending futures. Starts with the first asynchronous read and ends with the backend.
#[derive(Debug, Default)]
pub(crate) struct Waiter(Mutex<Option<Sender<Job>>>);

impl Waiter {
    fn watch(&self, fault: &Fault, job: Job) -> Result<()> {
        let mut jobs = lock(&self.0);
        let sender = match &*jobs {
            Some(sender) => sender.clone(),
            None => {
                let sender = start(fault)?;
                *jobs = Some(sender.clone());
                sender
            }
        };
        sender.send(job).map_err(|_| failed(fault, "its thread ended"))
    }
}

fn start(fault: &Fault) -> Result<Sender<Job>> {
    let (sender, receiver) = channel::<Job>();
    let run = move || receiver.into_iter().for_each(Job::finish);
    let spawned = std::thread::Builder::new().name("polywarp-cuda-wait".to_owned()).spawn(run);
    spawned.map(|_| sender).map_err(|error| failed(fault, &error.to_string()))
}

fn failed(fault: &Fault, reason: &str) -> Error {
    let message = format!("no thread waits for the device: {reason}");
    Error::Backend { device: fault.device().to_owned(), op: "read".to_owned(), message }
}
