//! The state that a fault leaves behind: once work went wrong on the device, every later call says so.
//!
//! A kernel that faults (an illegal address, a trap) ends its CUDA context for as long as the process lives: every call
//! answers with the same status, and so does a new backend on that device. Retrying cannot help; the typed
//! [`Error::DevicePoisoned`] says to restart. A device that is gone ([`Error::DeviceLost`]) is told apart from that; so is one
//! that was dropped while its work did not end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use polywarp_core::{Error, Largest, MemoryStats, Result};

use crate::driver::Api;
use crate::status::{Code, Severity, code, severity};

/// Locks, also after a panic elsewhere: every structure guarded this way is left valid between statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What went wrong with a device for good, if anything.
#[derive(Debug)]
pub(crate) struct Fault {
    device: String,
    patience: Option<Duration>,
    set: AtomicBool,
    error: Mutex<Option<Error>>,
    held: OnceLock<Held>,
}

/// Tells what the device's pool holds. It is asked while a call fails, under no lock.
struct Held(Box<dyn Fn() -> MemoryStats + Send + Sync>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// CUDA_ERROR_STREAM_DETACHED.
const STREAM_DETACHED: Code = 917;

/// What to do about a device that this process has lost.
fn advice(failed: Code) -> &'static str {
    match failed {
        code::NOT_INITIALIZED => {
            "; a process that was forked from one that used CUDA cannot: start it anew instead (exec, spawn)"
        }
        code::INVALID_CONTEXT | code::CONTEXT_IS_DESTROYED => {
            "; another library of this process has reset the device (cudaDeviceReset): leave that out, or open the device after it"
        }
        STREAM_DETACHED => "; the application has destroyed the green context it gave: keep that as long as the device",
        _ => "",
    }
}

impl Fault {
    pub(crate) fn new(device: String, patience: Option<Duration>) -> Fault {
        let (set, error, held) = (AtomicBool::new(false), Mutex::new(None), OnceLock::new());
        Fault { device, patience, set, error, held }
    }

    /// Says who knows what memory is held, for errors; the first stays.
    pub(crate) fn tell_held(&self, held: impl Fn() -> MemoryStats + Send + Sync + 'static) {
        let _ = self.held.set(Held(Box::new(held)));
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// How long to wait for the device before it counts as lost.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// The fault, when there is one.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_set() {
            return Ok(());
        }
        match &*lock(&self.error) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Whether anything went wrong for good. Nothing is freed then: freeing could wait for ever.
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Records that the device is gone. The first fault stays.
    pub(crate) fn lose(&self, reason: String) -> Error {
        self.keep(Error::DeviceLost { device: self.device.clone(), reason })
    }

    /// Records that the device did not finish its work in time.
    pub(crate) fn give_up(&self) -> Error {
        self.lose(format!("its work was not done within {:?}", self.patience.unwrap_or_default()))
    }

    /// What the status `failed` of `op` is as an error; a fault that stays is recorded. `requested` are the bytes that `op` was
    /// to have, 0 when only the driver knows.
    pub(crate) fn error(&self, api: &Api, op: &str, failed: Code, requested: u64) -> Error {
        self.judge(op, failed, requested, api.words(failed))
    }

    fn judge(&self, op: &str, failed: Code, requested: u64, words: String) -> Error {
        let device = self.device.clone();
        match severity(failed) {
            Severity::Poisoned => self.keep(Error::DevicePoisoned { device, first_error: words, op: op.to_owned() }),
            Severity::Lost => self.lose(format!("{op}: {words}{}", advice(failed))),
            // A call that failed because of an earlier fault is told as that fault.
            Severity::Call => match self.check() {
                Err(earlier) => earlier,
                Ok(()) if failed == code::OUT_OF_MEMORY => self.out_of_memory(op, requested),
                Ok(()) => Error::Backend { device, op: op.to_owned(), message: words },
            },
        }
    }

    /// Before there is a pool nothing is held.
    fn out_of_memory(&self, op: &str, requested: u64) -> Error {
        let stats = self.held.get().map(|held| (held.0)()).unwrap_or_default();
        log::info!("{}: {op}: the driver has no memory left", self.device);
        Error::OutOfMemory {
            device: self.device.clone(),
            requested,
            in_use: stats.in_use_bytes,
            cached: stats.cached_bytes,
            limit: None, // which only the pool itself refuses by
            largest: Largest::default(),
        }
    }

    fn keep(&self, error: Error) -> Error {
        let kept = lock(&self.error).get_or_insert(error).clone();
        self.set.store(true, Ordering::Release);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ILLEGAL_ADDRESS: Code = 700;
    const LAUNCH_FAILED: Code = 719;

    #[test]
    fn first_fault_stays_and_answers_every_later_failure() {
        let fault = Fault::new("cuda:7".to_owned(), None);
        let call = fault.judge("write", code::INVALID_VALUE, 0, "CUDA_ERROR_INVALID_VALUE".to_owned());
        assert!(matches!(call, Error::Backend { .. }) && fault.check().is_ok(), "{call:?}");
        let first = fault.judge("read", ILLEGAL_ADDRESS, 0, "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned());
        assert!(matches!(first, Error::DevicePoisoned { .. }), "{first:?}");
        for later in [
            fault.judge("launch", LAUNCH_FAILED, 0, "later".to_owned()),
            fault.judge("write", code::INVALID_VALUE, 0, "later".to_owned()),
            fault.lose("later".to_owned()),
            fault.check().unwrap_err(),
        ] {
            match later {
                Error::DevicePoisoned { device, first_error, op } => {
                    assert_eq!((device.as_str(), op.as_str()), ("cuda:7", "read"));
                    assert_eq!(first_error, "CUDA_ERROR_ILLEGAL_ADDRESS");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(fault.check().unwrap_err().to_string().contains("restart the process"));
    }

    #[test]
    fn out_of_memory_tells_what_was_asked_for_and_what_is_held() {
        let fault = Fault::new("cuda:7".to_owned(), None);
        let early = fault.judge("opening", code::OUT_OF_MEMORY, 0, String::new());
        assert!(matches!(early, Error::OutOfMemory { in_use: 0, cached: 0, .. }), "{early:?}");
        fault.tell_held(|| MemoryStats { in_use_bytes: 300, cached_bytes: 20, ..MemoryStats::default() });
        let late = fault.judge("loading", code::OUT_OF_MEMORY, 4096, String::new());
        let told = matches!(late, Error::OutOfMemory { requested: 4096, in_use: 300, cached: 20, limit: None, .. });
        assert!(told, "{late:?}");
        let unknown = fault.judge("making an event", code::OUT_OF_MEMORY, 0, String::new()).to_string();
        assert!(unknown.contains("the driver's own needs, 300 in use, 20 cached"), "{unknown}");
    }
}
