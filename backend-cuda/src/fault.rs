//! The state that a fault leaves behind: once work went wrong on the device, every later call says so.
//!
//! A kernel that faults (an illegal address, a trap) ends its CUDA context for as long as the process lives: every call
//! answers with the same status, and so does a new backend on that device. Retrying cannot help; the typed
//! [`Error::DevicePoisoned`] says to restart. A device that is gone ([`Error::DeviceLost`]) is told apart from that; so is one
//! that was dropped while its work did not end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polywarp_core::{Error, Result};

use crate::driver::{Api, Code, code};

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
}

/// What a status means for everything after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The one call failed.
    Call,
    /// The context has ended; only another process can go on.
    Poisoned,
    /// The device or its driver is gone.
    Lost,
}

/// cuda.h says of each poisoning status that "the context cannot be used" or that "the process must be terminated".
pub(crate) fn severity(failed: Code) -> Severity {
    match failed {
        code::ILLEGAL_ADDRESS
        | code::LAUNCH_TIMEOUT
        | code::ASSERT
        | code::HARDWARE_STACK_ERROR
        | code::ILLEGAL_INSTRUCTION
        | code::MISALIGNED_ADDRESS
        | code::INVALID_ADDRESS_SPACE
        | code::INVALID_PC
        | code::LAUNCH_FAILED
        | code::ECC_UNCORRECTABLE
        | code::NVLINK_UNCORRECTABLE
        | code::UNKNOWN => Severity::Poisoned,
        // Our context was current and alive: a forked process has none of its parent's, and another library may reset them all.
        code::NOT_INITIALIZED
        | code::INVALID_CONTEXT
        | code::DEINITIALIZED
        | code::DEVICE_UNAVAILABLE
        | code::CONTEXT_IS_DESTROYED => Severity::Lost,
        _ => Severity::Call,
    }
}

/// What to do about a device that this process has lost.
fn advice(failed: Code) -> &'static str {
    match failed {
        code::NOT_INITIALIZED => {
            "; a process that was forked from one that used CUDA cannot: start it anew instead (exec, spawn)"
        }
        code::INVALID_CONTEXT | code::CONTEXT_IS_DESTROYED => {
            "; another library of this process has reset the device (cudaDeviceReset): leave that out, or open the device after it"
        }
        _ => "",
    }
}

impl Fault {
    pub(crate) fn new(device: String, patience: Option<Duration>) -> Fault {
        Fault { device, patience, set: AtomicBool::new(false), error: Mutex::new(None) }
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

    /// What the status `failed` of `op` is as an error; a fault that stays is recorded.
    pub(crate) fn error(&self, api: &Api, op: &str, failed: Code) -> Error {
        self.judge(op, failed, api.words(failed))
    }

    fn judge(&self, op: &str, failed: Code, words: String) -> Error {
        let device = self.device.clone();
        match severity(failed) {
            Severity::Poisoned => self.keep(Error::DevicePoisoned { device, first_error: words, op: op.to_owned() }),
            Severity::Lost => self.lose(format!("{op}: {words}{}", advice(failed))),
            // A call that failed because of an earlier fault is told as that fault.
            Severity::Call => match self.check() {
                Err(earlier) => earlier,
                Ok(()) if failed == code::OUT_OF_MEMORY => {
                    Error::OutOfMemory { device, requested: 0, in_use: 0, cached: 0, limit: None }
                }
                Ok(()) => Error::Backend { device, op: op.to_owned(), message: words },
            },
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

    #[test]
    fn first_fault_stays_and_answers_every_later_failure() {
        let fault = Fault::new("cuda:7".to_owned(), None);
        let call = fault.judge("write", code::INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE".to_owned());
        assert!(matches!(call, Error::Backend { .. }) && fault.check().is_ok(), "{call:?}");
        let first = fault.judge("read", code::ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned());
        assert!(matches!(first, Error::DevicePoisoned { .. }), "{first:?}");
        for later in [
            fault.judge("launch", code::LAUNCH_FAILED, "later".to_owned()),
            fault.judge("write", code::INVALID_VALUE, "later".to_owned()),
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
    fn severity_tells_one_call_from_the_context_and_the_device() {
        assert_eq!(severity(code::OUT_OF_MEMORY), Severity::Call);
        assert_eq!(severity(code::NOT_READY), Severity::Call);
        assert_eq!(severity(code::LAUNCH_FAILED), Severity::Poisoned);
        assert_eq!(severity(code::CONTEXT_IS_DESTROYED), Severity::Lost);
    }
}
