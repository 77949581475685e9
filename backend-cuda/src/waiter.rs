//! Reads whose bytes arrive later: futures, and the one thread that sleeps for all of them. What begins them is `transfer.rs`.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll, Waker};

use polywarp_core::{Error, Result};

use crate::fault::{Fault, lock};
use crate::staging::Staging;

/// Pieces of a read, in order, with the bytes wanted of each.
pub(crate) type Pieces = VecDeque<(Staging, usize)>;

/// Appends what is wanted of `pieces` to `bytes`, once it is there.
pub(crate) fn collect(pieces: Pieces, bytes: &mut Vec<u8>) -> Result<()> {
    for (mut piece, len) in pieces {
        piece.collect(bytes, len)?;
    }
    Ok(())
}

/// Bytes that arrive once.
#[derive(Debug)]
pub(crate) struct Arrival(Mutex<(Option<Outcome>, Option<Waker>)>);

type Outcome = Result<Vec<u8>>;

impl Arrival {
    pub(crate) fn new() -> Arc<Arrival> {
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
pub(crate) struct Awaited(pub(crate) Option<Arc<Arrival>>);

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
pub(crate) struct Job {
    /// What arrived before.
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: Pieces,
    pub(crate) arrival: Arc<Arrival>,
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
    pub(crate) fn watch(&self, fault: &Fault, job: Job) -> Result<()> {
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
