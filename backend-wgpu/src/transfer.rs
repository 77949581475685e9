//! Bytes to and from the device.
//!
//! A read records its copy into a staging buffer and submits when it is called, so it sees exactly the work before it,
//! whenever its future is awaited. On native targets a thread waits for the device on behalf of pending futures; in a
//! browser the event loop does. wgpu copies multiples of 4 bytes: reads take the words round the range, writes patch the
//! first and last word by a small kernel (`patch.rs`) where the range cuts them.

use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
#[cfg(not(target_arch = "wasm32"))]
use std::sync::{Condvar, PoisonError};
use std::task::{Context, Poll, Waker};

use polywarp_core::{Backend, Buffer, Error, Largest, ReadFuture, Result};

use crate::device::WgpuBackend;
use crate::driver::Kept;
use crate::fault::{Fault, lock, unpanicked, watched, words};
use crate::memory::{Allocation, Raw};

/// Largest staging buffer: longer reads use several, all filled by one submission.
const STAGING_PIECE_BYTES: u64 = 256 << 20;

/// A value that arrives once.
///
/// wgpu tells of one while it holds locks, its own or the stream's: there it is stored, and whoever waits on a user's behalf
/// wakes the future afterwards. In a browser, where the event loop tells, that is at once.
#[derive(Debug)]
pub(crate) struct Arrival<T> {
    state: Mutex<State<T>>,
    #[cfg(not(target_arch = "wasm32"))]
    stored: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// Until it is taken.
    value: Option<T>,
    arrived: bool,
    waker: Option<Waker>,
}

impl<T> Arrival<T> {
    pub(crate) fn new() -> Arc<Arrival<T>> {
        Arc::new(Arrival {
            state: Mutex::new(State { value: None, arrived: false, waker: None }),
            #[cfg(not(target_arch = "wasm32"))]
            stored: Condvar::new(),
        })
    }

    /// Sets the value, unless one came before.
    pub(crate) fn arrive(&self, value: T) {
        let mut state = lock(&self.state);
        if state.arrived {
            return;
        }
        (state.value, state.arrived) = (Some(value), true);
        drop(state);
        #[cfg(not(target_arch = "wasm32"))]
        self.stored.notify_all();
        #[cfg(target_arch = "wasm32")]
        self.wake();
    }

    /// Blocks until the value is there.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn block(&self) {
        let mut state = lock(&self.state);
        while !state.arrived {
            state = self.stored.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes the future that waits, which runs a user's code: to be called without a lock. A panic in it is its own.
    fn wake(&self) {
        let waker = lock(&self.state).waker.take();
        if let Some(Err(panic)) = waker.map(|waker| catch_unwind(AssertUnwindSafe(|| waker.wake()))) {
            log::error!("a waker of a read has panicked");
            // Not dropped: what somebody panics with may panic in turn.
            std::mem::forget(panic);
        }
    }
}

/// Waits for an [`Arrival`].
pub(crate) struct Awaited<T>(pub(crate) Arc<Arrival<T>>);

impl<T> Future for Awaited<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // A waker's own code, to clone and to drop it, runs outside of the lock, which wgpu's callback waits for.
        let fresh = Some(context.waker().clone());
        let (value, _old) = {
            let mut state = lock(&self.0.state);
            let value = state.value.take();
            let kept = if value.is_none() { fresh } else { None };
            (value, std::mem::replace(&mut state.waker, kept))
        };
        value.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Whether a buffer was mapped.
pub(crate) type Mapped = Arrival<std::result::Result<(), String>>;

/// Tells a [`Mapped`], also when wgpu drops the callback without a call.
struct Teller(Arc<Mapped>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.arrive(Err("nothing was heard of it".to_owned()));
    }
}

/// Asks for `staging` to be mapped for reading.
pub(crate) fn map(staging: &wgpu::Buffer) -> Arc<Mapped> {
    let mapped = Mapped::new();
    let teller = Teller(Arc::clone(&mapped));
    let tell = move |result: std::result::Result<(), _>| {
        teller.0.arrive(result.map_err(|error: wgpu::BufferAsyncError| error.to_string()));
    };
    staging.map_async(wgpu::MapMode::Read, .., tell);
    mapped
}

/// A staging buffer being filled, and how many of its bytes are wanted from where.
struct Piece {
    staging: wgpu::Buffer,
    wanted: Range<usize>,
    mapped: Arc<Mapped>,
}

/// A read that is under way on the device.
pub(crate) struct Pending {
    pieces: Vec<Piece>,
    fault: Arc<Fault>,
    #[cfg(not(target_arch = "wasm32"))]
    index: wgpu::SubmissionIndex,
    // Last: a read that outlives its backend drops its pieces before the device.
    _gpu: Kept<wgpu::Device>,
}

impl Pending {
    /// The bytes, once every piece is mapped.
    async fn collect(self) -> Result<Vec<u8>> {
        let total = self.pieces.iter().map(|piece| piece.wanted.len()).sum();
        let mut bytes = Vec::with_capacity(total);
        for piece in self.pieces {
            let outcome = Awaited(Arc::clone(&piece.mapped)).await;
            self.fault.check()?;
            outcome.map_err(|reason| self.fault.lose(&reason))?;
            let view = piece.staging.get_mapped_range(..).map_err(|error| Error::Backend {
                device: self.fault.device().to_owned(),
                op: "read".to_owned(),
                message: error.to_string(),
            })?;
            bytes.extend_from_slice(&view[piece.wanted.clone()]);
            drop(view);
            piece.staging.unmap();
        }
        Ok(bytes)
    }
}

impl WgpuBackend {
    /// The part of `buffer` that this backend made.
    pub(crate) fn own<'a>(&self, buffer: &'a Buffer) -> Result<&'a Arc<Raw>> {
        let allocation = buffer.downcast::<Allocation>().filter(|allocation| allocation.belongs_to(&self.pool));
        allocation.map(Allocation::lease).ok_or_else(|| polywarp_core::foreign_buffer(self.fault.device()))
    }

    pub(crate) fn write_bytes(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.fault.check()?;
        let (raw, size_bytes) = (self.own(buffer)?, buffer.size_bytes());
        let end = offset_bytes.checked_add(data.len() as u64).filter(|&end| end <= size_bytes);
        let Some(end) = end else {
            return Err(outside("write", offset_bytes, data.len() as u64, size_bytes));
        };
        if data.is_empty() {
            return Ok(());
        }
        // The first word in part, whole words, and the last word in part (which may be the first as well).
        let head = (offset_bytes.next_multiple_of(4).min(end) - offset_bytes) as usize;
        let (head, rest) = data.split_at(head);
        let (body, tail) = rest.split_at(rest.len() / 4 * 4);
        let body_at = offset_bytes + head.len() as u64;
        let tail_at = body_at + body.len() as u64;
        if !head.is_empty() {
            self.patch(raw, offset_bytes, head)?;
        }
        // Bytes behind the buffer's size are nobody's: the last word can be written whole.
        let padded = if tail.is_empty() || end < size_bytes { None } else { Some(pad(tail)) };
        let held = || self.pool.stats();
        let mut stream = lock(&self.stream);
        // An upload submits what uses the buffer: an empty one would split recordings for nothing.
        if !body.is_empty() {
            stream.upload(raw, body_at, body, held)?;
        }
        if let Some(word) = padded {
            return stream.upload(raw, tail_at, &word, held);
        }
        drop(stream);
        if tail.is_empty() { Ok(()) } else { self.patch(raw, tail_at, tail) }
    }

    /// Records and submits a read of `range`; `None` for an empty one.
    pub(crate) fn begin_read(&self, buffer: &Buffer, range: Range<u64>) -> Result<Option<Pending>> {
        self.fault.check()?;
        let (raw, size_bytes) = (self.own(buffer)?, buffer.size_bytes());
        let len = range.end.checked_sub(range.start);
        let Some(len) = len.filter(|_| range.end <= size_bytes) else {
            return Err(outside("read", range.start, len.unwrap_or(0), size_bytes));
        };
        if len == 0 {
            return Ok(None);
        }
        let whole = range.start / 4 * 4..range.end.next_multiple_of(4).min(raw.capacity_bytes());
        let piece_bytes = STAGING_PIECE_BYTES.min(self.info().limits.max_buffer_bytes / 4 * 4).max(4);
        let mut staged = Vec::new();
        let mut at = whole.start;
        while at < whole.end {
            let stop = whole.end.min(at + piece_bytes);
            staged.push((self.staging(stop - at)?, at..stop));
            at = stop;
        }
        let index = {
            let mut stream = lock(&self.stream);
            stream.usable("read", raw)?;
            stream.note_use(raw);
            stream.encode(|encoder| {
                for (staging, from) in &staged {
                    let size = from.end - from.start;
                    encoder.copy_buffer_to_buffer(&raw.buffer, from.start, staging, 0, size);
                }
            })?;
            stream.submit()?
        };
        let Some(index) = index else {
            return Err(self.fault.lose("a submission vanished"));
        };
        let (pieces, error) = watched(&self.gpu, || {
            let pieces = staged.into_iter().map(|(staging, from)| {
                let wanted = range.start.max(from.start) - from.start..range.end.min(from.end) - from.start;
                let mapped = map(&staging);
                Piece { staging, wanted: wanted.start as usize..wanted.end as usize, mapped }
            });
            pieces.collect()
        });
        if let Some(error) = error {
            // The staging buffer was made and is not mapped yet: only a device that is gone refuses to map it.
            return Err(self.fault.lose(&words(&error)));
        }
        #[cfg(target_arch = "wasm32")]
        let _ = index;
        Ok(Some(Pending {
            pieces,
            fault: Arc::clone(&self.fault),
            #[cfg(not(target_arch = "wasm32"))]
            index,
            _gpu: self.gpu.clone(),
        }))
    }

    pub(crate) fn read_later(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let pending = match self.begin_read(buffer, range) {
            Ok(Some(pending)) => pending,
            Ok(None) => return Box::pin(std::future::ready(Ok(Vec::new()))),
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        #[cfg(not(target_arch = "wasm32"))]
        if let Err(error) = self.waiter.watch(&pending) {
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(pending.collect())
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_now(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let Some(pending) = self.begin_read(buffer, range)? else { return Ok(Vec::new()) };
        wait(&self.gpu, &self.fault, Some(pending.index.clone()))?;
        // Another thread's wait may have taken the callbacks; they arrive at once.
        pending.pieces.iter().for_each(|piece| piece.mapped.block());
        pollster::block_on(pending.collect())
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn read_now(&self, _buffer: &Buffer, _range: Range<u64>) -> Result<Vec<u8>> {
        Err(Error::WouldBlock { what: "read_blocking" })
    }

    fn staging(&self, size: u64) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let (buffer, error) = watched(&self.gpu, || self.gpu.create_buffer(&descriptor));
        match error {
            None => Ok(buffer),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                let stats = self.pool.stats();
                Err(Error::OutOfMemory {
                    device: self.fault.device().to_owned(),
                    requested: size,
                    in_use: stats.in_use_bytes,
                    cached: stats.cached_bytes,
                    limit: None,
                    largest: Largest::default(),
                })
            }
            Some(error) => Err(self.fault.backend_error("read", &error)),
        }
    }
}

fn pad(tail: &[u8]) -> [u8; 4] {
    let mut word = [0; 4];
    for (to, &from) in word.iter_mut().zip(tail) {
        *to = from;
    }
    word
}

fn outside(what: &'static str, start: u64, len: u64, size: u64) -> Error {
    let reason = format!("{len} bytes from byte {start} on are not inside a buffer of {size} bytes");
    Error::InvalidArgument { what, reason }
}

/// Waits for a submission (`None`: the last one) and lets its callbacks run.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn wait(device: &wgpu::Device, fault: &Fault, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
    fault.check()?;
    poll_as(device, fault, wgpu::PollType::Wait { submission_index: index, timeout: fault.patience() })
}

/// Lets callbacks of finished work, and of a lost device, run.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn poll(device: &wgpu::Device, fault: &Fault) -> Result<()> {
    poll_as(device, fault, wgpu::PollType::Poll)
}

/// Whether the device is gone though no callback said so: then, and only then, a fresh buffer cannot be mapped.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn is_lost(device: &wgpu::Device) -> bool {
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let descriptor = wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false };
    let map = || device.create_buffer(&descriptor).map_async(wgpu::MapMode::Read, .., |_| {});
    matches!(watched(device, map).1, Some(wgpu::Error::Validation { .. }))
}

#[cfg(not(target_arch = "wasm32"))]
fn poll_as(device: &wgpu::Device, fault: &Fault, how: wgpu::PollType) -> Result<()> {
    // wgpu reports a device that is lost while waiting by a panic rather than by a `PollError`.
    match unpanicked(|| device.poll(how)) {
        Some(Ok(_)) => fault.check(),
        Some(Err(wgpu::PollError::Timeout)) => Err(fault.give_up()),
        Some(Err(error)) => Err(fault.check().err().unwrap_or_else(|| fault.lose(&error.to_string()))),
        None => Err(fault.check().err().unwrap_or_else(|| fault.lose("waiting for the device failed"))),
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use waiter::Waiter;

/// The thread that waits for the device while futures of reads are pending.
#[cfg(not(target_arch = "wasm32"))]
mod waiter {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::thread::JoinHandle;

    use polywarp_core::{Error, Result};

    use super::{Mapped, Pending, wait};
    use crate::driver::Kept;
    use crate::fault::{Fault, lock};

    type Job = (wgpu::SubmissionIndex, Vec<Arc<Mapped>>);

    /// Starts with the first asynchronous read and ends with the backend. Wakers run on it, under no lock; one that waits for
    /// another read there waits for ever.
    #[derive(Debug)]
    pub(crate) struct Waiter {
        fault: Arc<Fault>,
        running: Mutex<Option<Running>>,
        device: Kept<wgpu::Device>,
    }

    #[derive(Debug)]
    struct Running {
        jobs: Sender<Job>,
        thread: JoinHandle<()>,
    }

    impl Drop for Waiter {
        /// Waits for the thread: one that went later could destroy the device while the process ends, in which NVIDIA's driver
        /// crashes. It ends when what it waits for has come, or its patience; where work never does, the device is leaked.
        fn drop(&mut self) {
            let Some(Running { jobs, thread }) = lock(&self.running).take() else { return };
            drop(jobs);
            // What a future wakes may drop the backend in this very thread.
            if !self.fault.is_stuck() && thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    impl Waiter {
        pub(crate) fn new(device: Kept<wgpu::Device>, fault: Arc<Fault>) -> Waiter {
            Waiter { fault, running: Mutex::new(None), device }
        }

        /// Sees to it that `pending` arrives.
        pub(super) fn watch(&self, pending: &Pending) -> Result<()> {
            let mapped = pending.pieces.iter().map(|piece| Arc::clone(&piece.mapped)).collect();
            let job = (pending.index.clone(), mapped);
            let mut running = lock(&self.running);
            let running = match &mut *running {
                Some(running) => running,
                none => none.insert(self.start()?),
            };
            running.jobs.send(job).map_err(|_| self.failed("its thread ended"))
        }

        fn start(&self) -> Result<Running> {
            let (jobs, receiver) = channel::<Job>();
            let (device, fault) = (self.device.clone(), Arc::clone(&self.fault));
            let run = move || {
                while let Ok((index, mapped)) = receiver.recv() {
                    if let Err(error) = wait(&device, &fault, Some(index)) {
                        // The callbacks may never come now; the fault is what the futures report.
                        mapped.iter().for_each(|arrival| arrival.arrive(Err(error.to_string())));
                    }
                    for arrival in mapped {
                        // Another thread's wait may have taken the callback.
                        arrival.block();
                        arrival.wake();
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("polywarp-wgpu-wait".to_owned()).spawn(run);
            spawned.map(|thread| Running { jobs, thread }).map_err(|error| self.failed(&error.to_string()))
        }

        fn failed(&self, reason: &str) -> Error {
            let message = format!("no thread waits for the device: {reason}");
            Error::Backend { device: self.fault.device().to_owned(), op: "read".to_owned(), message }
        }
    }
}
