//! The state that asynchronous faults leave behind: once work was lost, every later call says so.
//!
//! After a device is lost most wgpu calls appear to succeed (WebGPU, "Errors"), and after a refused submission buffers
//! hold stale data. Both must never be computed with, so the first fault stays and [`Fault::check`] opens every call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polywarp_core::{Error, Result};

/// Locks, also after a panic elsewhere: every structure guarded this way is left valid between statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What went wrong with a device for good, if anything.
#[derive(Debug)]
pub(crate) struct Fault {
    device: String,
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "nothing waits in a browser"))]
    patience: Option<Duration>,
    stuck: AtomicBool,
    set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Fault {
    pub(crate) fn new(device: String, patience: Option<Duration>) -> Fault {
        let (stuck, set) = (AtomicBool::new(false), AtomicBool::new(false));
        Fault { device, patience, stuck, set, error: Mutex::new(None) }
    }

    /// How long to wait for the device before it counts as lost.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Records that the device did not finish its work in time.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn give_up(&self) -> Error {
        self.stuck.store(true, Ordering::Release);
        self.lose(&format!("its work was not done within {:?}", self.patience.unwrap_or_default()))
    }

    /// Whether work is still running that nobody waits for any more.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// The fault, when there is one.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*lock(&self.error) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Records that the device is gone. A loss replaces an earlier refusal: it is why.
    pub(crate) fn lose(&self, reason: &str) -> Error {
        let reason = if reason.trim().is_empty() { "the driver gave no reason" } else { reason.trim() };
        let lost = Error::DeviceLost { device: self.device.clone(), reason: one_line(reason) };
        let mut error = lock(&self.error);
        if !matches!(*error, Some(Error::DeviceLost { .. })) {
            *error = Some(lost);
        }
        self.set.store(true, Ordering::Release);
        error.clone().unwrap_or(Error::DeviceLost { device: self.device.clone(), reason: one_line(reason) })
    }

    /// Records that recorded work was refused. The first fault stays.
    pub(crate) fn refuse(&self, op: &str, error: &wgpu::Error) -> Error {
        let refused = self.backend_error(op, error);
        let mut stored = lock(&self.error);
        let kept = stored.get_or_insert(refused).clone();
        self.set.store(true, Ordering::Release);
        kept
    }

    /// A fault of one call that harms nothing else.
    pub(crate) fn backend_error(&self, op: &str, error: &wgpu::Error) -> Error {
        Error::Backend { device: self.device.clone(), op: op.to_owned(), message: words(error) }
    }
}

/// wgpu's words on one line, causes included.
pub(crate) fn words(error: &wgpu::Error) -> String {
    match error {
        wgpu::Error::OutOfMemory { .. } => "out of memory".to_owned(),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            one_line(description)
        }
    }
}

/// Runs of white space become one space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs `work`, which panics in wgpu rather than failing for handles of another instance; `None` then.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}

/// Runs `work` and returns what wgpu complained of meanwhile on this thread.
///
/// In a browser complaints arrive later, through the device's handler of uncaptured errors, and `None` says nothing.
pub(crate) fn watched<T>(device: &wgpu::Device, work: impl FnOnce() -> T) -> (T, Option<wgpu::Error>) {
    #[cfg(not(target_arch = "wasm32"))]
    {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let internal = device.push_error_scope(Internal);
        let validation = device.push_error_scope(Validation);
        let memory = device.push_error_scope(OutOfMemory);
        let value = work();
        // On native targets the answer is there at once; the futures never wait. Scopes pop in reverse order.
        let memory = pollster::block_on(memory.pop());
        let validation = pollster::block_on(validation.pop());
        let internal = pollster::block_on(internal.pop());
        (value, memory.or(validation).or(internal))
    }
    #[cfg(target_arch = "wasm32")]
    {
        let _ = device;
        (work(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_first_refusal_stays_until_loss() {
        let fault = Fault::new("wgpu:7".to_owned(), None);
        assert!(fault.check().is_ok());
        let refusal =
            |text: &str| wgpu::Error::Validation { source: text.to_owned().into(), description: text.to_owned() };
        fault.refuse("submit", &refusal("first\n  cause"));
        fault.refuse("submit", &refusal("second"));
        let Err(Error::Backend { message, .. }) = fault.check() else { panic!("not refused") };
        assert_eq!(message, "first cause");
        fault.lose("gone");
        fault.lose("again");
        let Err(Error::DeviceLost { device, reason }) = fault.check() else { panic!("not lost") };
        assert_eq!((device.as_str(), reason.as_str()), ("wgpu:7", "gone"));
    }
}
