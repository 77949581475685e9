//! Recording work once and replaying it often, at a small part of the host's cost.
//!
//! [`Recording`] is what users hold. A backend sees [`Backend::begin_recording`](crate::Backend::begin_recording),
//! `end_recording` and `replay`; `recorders.rs` has what its side is made of. The decision to know: work is recorded *instead of*
//! run, on every backend, so that a closure that fails half way leaves nothing behind and a recording may update state (weights,
//! counters) without a surprising first step.

use std::fmt;

use crate::requests::{Noting, launches};
use crate::{Device, Part, Recorded, Requests, Result, faults};

/// Work recorded by [`Device::record`], and what its closure returned.
///
/// ```
/// use polywarp_core::{Device, Tensor};
///
/// let device = Device::cpu();
/// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0], [3])?;
/// let step = device.record(|| x.mul(&x)?.sum(..))?;
/// assert_eq!(step.replay()?.item::<f32>()?, 14.0);
/// x.write(&[1.0_f32, 1.0, 1.0])?; // the next replay reads x again
/// assert_eq!(step.replay()?.item::<f32>()?, 3.0);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
///
/// * Inputs are the very tensors that the closure used: overwrite them between replays by
///   [`Tensor::write`](crate::Tensor::write) from the host or [`Tensor::assign`](crate::Tensor::assign) on the device.
/// * Outputs are the tensors that the closure returned. Every replay overwrites them; take a
///   [`copy`](crate::Tensor::copy) of what must outlive the next one.
/// * Shapes, dtypes, constants and seeds are those of the recording: [`Tensor::random`](crate::Tensor::random) gives the same numbers
///   at every replay. What a [`Generator`](crate::Generator) draws, as for [`Tensor::dropout`](crate::Tensor::dropout), is new at each: its
///   state lives on the device.
/// * Every buffer that the work uses stays alive, and counts as memory in use, until the recording and all tensors of it
///   are dropped.
/// * Only the recording thread's work on this one device is recorded. Other threads, and other devices, work as ever.
/// * What it saves is the host's time: checking, planning, allocating and binding. `cargo run --release --example replay`
///   measures it on the device at hand.
/// * Reads, writes from the host, `synchronize`, timing and replays cannot be recorded: they fail with
///   [`Error::Recording`](crate::Error::Recording), which says what to do. Do them before, or between replays.
pub struct Recording<T> {
    outputs: T,
    recorded: Recorded,
    /// Whether it looks for positions outside.
    has_checks: bool,
    device: Device,
}

impl Device {
    /// Records what `work` asks of this device, to be run again and again at a small part of the host's cost.
    ///
    /// Nothing runs yet: `work`'s tensors have no content before the first [`Recording::replay`], which hands them out.
    /// See [`Recording`] for an example, how to change inputs, and what cannot be recorded.
    ///
    /// # Errors
    /// What `work` returns: nothing was run then, and the device is as it was. [`Error::Recording`](crate::Error::Recording) inside of `work` for
    /// what cannot be recorded, and here when this thread records on this device already; [`Error::Unsupported`](crate::Error::Unsupported) where
    /// a backend cannot record; [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub fn record<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Recording<T>> {
        Recording::record(self, work)
    }
}

impl<T> Recording<T> {
    fn record(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<Recording<T>> {
        /// Ends the recording when `work` panics.
        struct Ended<'a>(&'a Device);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                // Nobody is left to take a recording or its error.
                let _ = self.0.backend().end_recording();
            }
        }
        let _noting = Noting::new();
        // Memory that is made inside of a recording may be that of something earlier in it, and cannot be written.
        device.faults().words(device.backend())?;
        device.backend().begin_recording()?;
        let ended = Ended(device);
        let checks = faults::checks_of_thread();
        let outputs = work()?;
        let has_checks = faults::checks_of_thread() != checks;
        std::mem::forget(ended);
        let recorded = device.backend().end_recording()?;
        Ok(Recording { outputs, recorded, has_checks, device: device.clone() })
    }

    /// Enqueues the recorded work after all work given to the device so far, and hands out what the closure returned.
    /// Like every operation it does not wait for the device.
    ///
    /// # Errors
    /// [`Error::Recording`](crate::Error::Recording) while this thread records on the device; [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub fn replay(&self) -> Result<&T> {
        let requests = self.device.backend().requests();
        let start = requests.and_then(Requests::begin);
        let replay = || self.device.backend().replay(&self.recorded);
        if self.has_checks {
            self.device.faults().check(replay)?
        } else {
            replay()?
        }
        if let Some(requests) = requests {
            requests.end(start, Part::default(), "replay");
        }
        Ok(&self.outputs)
    }

    /// What the closure returned, as the last replay left it; undefined content before the first.
    pub fn outputs(&self) -> &T {
        &self.outputs
    }

    /// The device it was recorded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many kernels (on the CPU: operations) one replay runs.
    pub fn launches(&self) -> usize {
        self.recorded.launches()
    }
}

impl<T> fmt::Debug for Recording<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({} on {})", launches(self.launches()), self.device.id())
    }
}
