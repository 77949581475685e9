//! What a device is asked and what it launches, while a profile or a recording is under way: which operation each launch is part of, and the lists
//! that backends note in.
//!
//! `profile.rs` makes tables of it. While nothing is profiled or recorded an operation pays one relaxed load for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use serde::Serialize;

use crate::{Error, Op, Result};

/// One launch of a kernel; on the CPU, one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launched {
    /// The operation it was part of.
    pub part: Part,
    /// The kernel's name.
    #[serde(serialize_with = "text")]
    pub kernel: Arc<str>,
    /// Workgroups along x, y, z; zeros on the CPU.
    pub grid: [u32; 3],
    /// Nanoseconds from the beginning of the profile to its start. The device's clock is read once before the work begins, and the host waits
    /// for that: beside [`Request::start_ns`] a launch may seem late by the time of this wait, and never early.
    pub start_ns: f64,
    /// Nanoseconds that it ran.
    pub ns: f64,
}

/// Something that the host asked of the device: an operation, a launch of a user's kernel, a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// The operation, with the number that its launches have; the default for a user's kernel, and for a replay, whose operations have
    /// numbers of their own. An operation that was recorded meanwhile has no launches.
    pub part: Part,
    /// The name of the operation or of the kernel, or `replay`.
    #[serde(serialize_with = "text")]
    pub name: Arc<str>,
    /// The thread that asked: 0 called [`Device::profile`](crate::Device::profile), others count from 1.
    pub thread: u32,
    /// Nanoseconds from the beginning of the profile until it was asked.
    pub start_ns: f64,
    /// Nanoseconds until the host went on; on the CPU it computes meanwhile.
    pub ns: f64,
}

/// A name, as serde has it.
pub(crate) fn text<S: serde::Serializer>(name: &Arc<str>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(name)
}

/// Which operation a launch is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The operation's name; empty for a user's kernel.
    pub op: &'static str,
    /// Bytes that the operation must read and write at least ([`crate::Cost`]).
    pub bytes: u64,
    /// Counts operations: launches of one have the same number. 0 for a user's kernel.
    pub number: u64,
}

/// Profiles and recordings under way in this process.
static NOTED: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A number that no operation has had.
fn next() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

thread_local! {
    static CURRENT: Cell<Part> = const { Cell::new(Part { op: "", bytes: 0, number: 0 }) };
}

impl Part {
    /// The operation that the calling thread executes; while nothing is profiled or recorded, none.
    pub fn current() -> Part {
        CURRENT.get()
    }

    /// `op`, run once more.
    pub fn of(op: &Op) -> Part {
        let cost = op.cost();
        Part { op: op.name(), bytes: cost.bytes_read.saturating_add(cost.bytes_written), number: next() }
    }

    /// The same operation run once more, as by a replay.
    #[must_use]
    pub fn again(self) -> Part {
        Part { number: if self.number == 0 { 0 } else { next() }, ..self }
    }

    /// Notes that the calling thread executes `op` for as long as the result lives.
    pub(crate) fn begin(op: &Op) -> Option<Running> {
        if NOTED.load(Ordering::Relaxed) == 0 || CURRENT.get().number != 0 {
            return None; // an operation inside of another is part of that
        }
        CURRENT.set(Part::of(op));
        Some(Running(()))
    }
}

/// An operation under way on this thread.
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(Part::default());
    }
}

/// While it lives, operations note what they are.
pub(crate) struct Noting(());

impl Noting {
    pub(crate) fn new() -> Noting {
        NOTED.fetch_add(1, Ordering::Relaxed);
        Noting(())
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        NOTED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A backend's side of a profile: what its launches note, `T` each, while one is under way.
#[derive(Debug)]
pub struct Profiler<T> {
    is_on: AtomicBool,
    noted: Mutex<Vec<T>>,
}

impl<T> Default for Profiler<T> {
    fn default() -> Profiler<T> {
        Profiler { is_on: AtomicBool::new(false), noted: Mutex::default() }
    }
}

impl<T> Profiler<T> {
    /// Whether a profile is under way.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes a launch.
    pub fn note(&self, launch: T) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
    }

    /// Runs `work` and hands out what was noted meanwhile, by any thread.
    ///
    /// # Errors
    /// What `work` returns; [`Error::InvalidArgument`] inside of another profile of this device.
    pub fn during(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Vec<T>> {
        /// Ends the profile when `work` panics, too.
        struct Ended<'a, T>(&'a Profiler<T>);
        impl<T> Drop for Ended<'_, T> {
            fn drop(&mut self) {
                self.0.is_on.store(false, Ordering::Relaxed);
            }
        }
        if self.is_on.swap(true, Ordering::Relaxed) {
            let reason =
                "the device is being profiled; end that profile first, or profile both parts as one".to_owned();
            return Err(Error::InvalidArgument { what: "profile", reason });
        }
        let ended = Ended(self);
        let take = || std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        drop(take());
        work()?;
        drop(ended);
        Ok(take())
    }
}

/// What is asked of a backend while it is profiled ([`Backend::requests`](crate::Backend::requests)). Else each request costs one relaxed load.
#[derive(Debug, Default)]
pub struct Requests(Profiler<Asked>);

#[derive(Debug)]
struct Asked {
    part: Part,
    name: Arc<str>,
    thread: ThreadId,
    start: Instant,
    end: Instant,
}

impl Requests {
    /// When the request began that [`Requests::end`] will note; `None` while nothing is profiled.
    pub fn begin(&self) -> Option<Instant> {
        self.0.is_on().then(Instant::now)
    }

    /// Notes a request that began at `start`.
    pub fn end(&self, start: Option<Instant>, part: Part, name: &str) {
        if let Some(start) = start {
            let (thread, end) = (std::thread::current().id(), Instant::now());
            self.0.note(Asked { part, name: name.into(), thread, start, end });
        }
    }

    /// Runs `work`, and hands out what was asked meanwhile, in order.
    pub(crate) fn during(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Request>> {
        let begin = Instant::now();
        let mut asked = self.0.during(work)?;
        asked.sort_by_key(|asked| asked.start);
        let mut threads = vec![std::thread::current().id()];
        let request = |Asked { part, name, thread, start, end }: Asked| {
            let place = threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
                threads.push(thread);
                threads.len() - 1
            });
            let ns = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e9;
            Request { part, name, thread: place as u32, start_ns: ns(begin, start), ns: ns(start, end) }
        };
        Ok(asked.into_iter().map(request).collect())
    }
}

/// `1 launch`, `2 launches`.
pub(crate) fn launches(count: usize) -> String {
    format!("{count} launch{}", if count == 1 { "" } else { "es" })
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(feature = "cpu")]
    fn requests_of_other_threads_have_their_number_and_none_is_noted_afterwards() {
        let device = crate::Device::cpu();
        let x = crate::Tensor::zeros(&device, crate::DType::F32, [4]).unwrap();
        let ((), profile) = device
            .profile(|| {
                x.exp()?;
                std::thread::scope(|scope| scope.spawn(|| x.neg().map(|_| ())).join().unwrap())
            })
            .unwrap();
        let asked: Vec<(&str, u32)> = profile.requests.iter().map(|r| (&*r.name, r.thread)).collect();
        assert_eq!(asked, [("exp", 0), ("neg", 1)]);
        x.exp().unwrap();
        let list = device.backend().requests().unwrap();
        assert!(list.begin().is_none() && list.0.noted.lock().unwrap().is_empty());
    }
}
