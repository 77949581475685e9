//! A backend's side of recordings: [`Recorded`] is its own part of one, [`Recorders`] the state of the threads that record.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;

use crate::requests::launches;
use crate::{Error, Result};

/// A backend's part of a recording: launches ready to go, and the buffers they need.
pub struct Recorded {
    launches: usize,
    inner: Box<dyn Any + Send + Sync>,
}

impl Recorded {
    /// A recording of `launches` launches whose backend-specific part is `inner`. It owns, or keeps from reuse, every
    /// buffer that the launches touch; dropping it while a replay is under way on the device must be harmless.
    pub fn new(launches: usize, inner: impl Any + Send + Sync) -> Recorded {
        Recorded { launches, inner: Box::new(inner) }
    }

    /// How many launches one replay makes.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// The backend's own part; `None` when another backend recorded it.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({})", launches(self.launches))
    }
}

/// The threads that record on one backend, each with its own state `S` (what is recorded so far).
///
/// While nobody records, every method costs one relaxed load.
#[derive(Debug)]
pub struct Recorders<S> {
    recording: AtomicUsize,
    threads: Mutex<HashMap<ThreadId, Arc<Mutex<S>>>>,
}

impl<S> Default for Recorders<S> {
    fn default() -> Recorders<S> {
        Recorders { recording: AtomicUsize::new(0), threads: Mutex::default() }
    }
}

impl<S> Recorders<S> {
    /// The calling thread records from now on, starting with `state`.
    ///
    /// # Errors
    /// [`Error::Recording`] when it does already.
    pub fn begin(&self, device: &str, state: S) -> Result<()> {
        self.refuse(device, "a recording inside a recording", "end the outer one first, or record both as one")?;
        self.threads().insert(std::thread::current().id(), Arc::new(Mutex::new(state)));
        self.recording.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs `work` on the calling thread's recording; `None`, and `work` unused, when it does not record, or when called
    /// from inside of `work` (as by a buffer that is dropped there).
    pub fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> Option<R> {
        let state = self.current()?;
        let mut state = match state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Only this thread ever locks it.
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(work(&mut state))
    }

    /// Whether the calling thread records.
    pub fn recording(&self) -> bool {
        self.current().is_some()
    }

    /// Ends the calling thread's recording.
    ///
    /// # Errors
    /// [`Error::Recording`] when it does not record.
    pub fn end(&self, device: &str) -> Result<S> {
        let state = self.threads().remove(&std::thread::current().id());
        let state = state.ok_or_else(|| not_begun(device))?;
        self.recording.fetch_sub(1, Ordering::Relaxed);
        // Only this thread ever has it, and only inside of `with`.
        let state = Arc::into_inner(state).ok_or_else(|| not_begun(device))?;
        Ok(state.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses `what` while the calling thread records.
    ///
    /// # Errors
    /// [`Error::Recording`] with `advice`.
    pub fn refuse(&self, device: &str, what: &'static str, advice: &'static str) -> Result<()> {
        if self.recording() {
            return Err(Error::Recording { device: device.to_owned(), what, advice });
        }
        Ok(())
    }

    /// [`Recorders::refuse`] for [`crate::Backend::write`].
    ///
    /// # Errors
    /// [`Error::Recording`] while the calling thread records.
    pub fn refuse_write(&self, device: &str) -> Result<()> {
        self.refuse(device, "a write from the host", "make the tensor before recording, write to it between replays")
    }

    /// [`Recorders::refuse`] for [`crate::Backend::read`] and [`crate::Backend::read_blocking`].
    ///
    /// # Errors
    /// [`Error::Recording`] while the calling thread records.
    pub fn refuse_read(&self, device: &str) -> Result<()> {
        self.refuse(device, "a read", "nothing has run yet; return the tensor and read it after a replay")
    }

    /// [`Recorders::refuse`] for [`crate::Backend::synchronize`].
    ///
    /// # Errors
    /// [`Error::Recording`] while the calling thread records.
    pub fn refuse_synchronize(&self, device: &str) -> Result<()> {
        self.refuse(device, "waiting for the device", "wait after a replay")
    }

    /// [`Recorders::refuse`] for [`crate::Backend::timed`].
    ///
    /// # Errors
    /// [`Error::Recording`] while the calling thread records.
    pub fn refuse_timed(&self, device: &str) -> Result<()> {
        self.refuse(device, "timing", "time the replay")
    }

    /// [`Recorders::refuse`] for [`crate::Backend::replay`].
    ///
    /// # Errors
    /// [`Error::Recording`] while the calling thread records.
    pub fn refuse_replay(&self, device: &str) -> Result<()> {
        self.refuse(device, "a replay", "replay one recording after the other, or record both as one")
    }

    fn current(&self) -> Option<Arc<Mutex<S>>> {
        if self.recording.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.threads().get(&std::thread::current().id()).cloned()
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, Arc<Mutex<S>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of ending a recording that was not begun.
pub(crate) fn not_begun(device: &str) -> Error {
    let advice = "this thread does not record; begin first";
    Error::Recording { device: device.to_owned(), what: "the end of a recording", advice }
}

/// The error of a backend given what another backend recorded.
pub fn foreign_recording(device: &str) -> Error {
    Error::DeviceMismatch { op: "replay", lhs: device.to_owned(), rhs: "another backend's recording".to_owned() }
}
