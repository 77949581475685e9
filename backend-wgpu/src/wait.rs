//! Waiting: for values that wgpu tells of later, for reads that are under way, for the device.
//!
//! Nothing here knows a backend. What is read, and from where, is `transfer.rs`'s.

use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
#[cfg(not(target_arch = "wasm32"))]
use std::sync::{Condvar, PoisonError};
use std::task::{Context, Poll, Waker};

use polywarp_core::Result;

use crate::driver::Kept;
#[cfg(not(target_arch = "wasm32"))]
use crate::fault::unpanicked;
use crate::fault::{Fault, lock, watched};

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
pub(crate) struct Piece {
    pub(crate) staging: wgpu::Buffer,
    pub(crate) wanted: Range<usize>,
    pub(crate) mapped: Arc<Mapped>,
}

/// A read that is under way on the device.
pub(crate) struct Pending {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) fault: Arc<Fault>,
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) index: wgpu::SubmissionIndex,
    // Last: a read that outlives its backend drops its pieces before the device.
    pub(crate) gpu: Kept<wgpu::Device>,
}

impl Pending {
    /// The bytes, once every piece is mapped.
    pub(crate) async fn collect(self) -> Result<Vec<u8>> {
        let total = self.pieces.iter().map(|piece| piece.wanted.len()).sum();
        let mut bytes = Vec::with_capacity(total);
        for piece in self.pieces {
            let outcome = Awaited(Arc::clone(&piece.mapped)).await;
            self.fault.check()?;
            outcome.map_err(|reason| self.fault.lose(&reason))?;
            // It was mapped: only a device that is gone has none.
            let view = piece.staging.get_mapped_range(..).map_err(|error| self.fault.lose(&error.to_string()))?;
            bytes.extend_from_slice(&view[piece.wanted.clone()]);
            drop(view);
            // The bytes are here. Destroyed meanwhile, the device has the buffer no more, and the next call says that it is lost.
            watched(&self.gpu, || piece.staging.unmap());
        }
        Ok(bytes)
    }
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
        pub(crate) fn watch(&self, pending: &Pending) -> Result<()> {
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
