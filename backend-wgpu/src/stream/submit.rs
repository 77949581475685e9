//! Handing work to the device: when, how much at once, and the bytes that go before it.
//!
//! A recording is submitted when enough has gathered, when it is old, or when somebody waits. Uploads run before the
//! recording that is submitted next, so one that would overtake its users submits them first.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use polywarp_core::{Error, MemoryStats, Result};

use super::{Set, Stream};
#[cfg(not(target_arch = "wasm32"))]
use crate::fault::words;
use crate::fault::{lock, watched};
use crate::memory::Raw;
#[cfg(not(target_arch = "wasm32"))]
use crate::transfer::{is_lost, poll, wait};

/// Bytes bound by recorded launches from which on waiting longer would leave the device idle: about 60 us of work for a
/// card with 4 TB/s, twice what a submission costs the host.
const SUBMIT_AT_BOUND_BYTES: u64 = 256 << 20;
/// Age of a recording at which the next launch submits it.
#[cfg(not(target_arch = "wasm32"))]
const SUBMIT_AT_AGE: std::time::Duration = std::time::Duration::from_micros(500);
/// Bytes of uploads that may wait for the next submission; wgpu holds a copy of them.
const SUBMIT_AT_UPLOAD_BYTES: u64 = 64 << 20;
/// Submissions under way at most: the host waits rather than piling up memory without end.
#[cfg(not(target_arch = "wasm32"))]
const MOST_IN_FLIGHT: usize = 64;

impl Stream {
    /// Uploads `data` (offset and length multiples of 4) so that all work recorded earlier sees the old bytes. `held` is asked
    /// when the driver has no memory, for the error.
    pub(crate) fn upload(
        &mut self,
        raw: &Raw,
        offset_bytes: u64,
        data: &[u8],
        held: impl Fn() -> MemoryStats,
    ) -> Result<()> {
        // An upload runs before the recording it is submitted with: one that touches the buffer must go first.
        if self.uses(raw) {
            self.submit()?;
        }
        // Pieces bound the copy that wgpu keeps until the device has read it.
        let mut at = offset_bytes;
        for piece in data.chunks(SUBMIT_AT_UPLOAD_BYTES as usize) {
            let (_, error) = watched(&self.device, || self.queue.write_buffer(&raw.buffer, at, piece));
            if let Some(error) = error {
                return Err(match error {
                    wgpu::Error::OutOfMemory { .. } => refused_upload(self.fault.device(), piece.len() as u64, held()),
                    error => self.fault.backend_error("write", &error),
                });
            }
            at += piece.len() as u64;
            self.upload_bytes += piece.len() as u64;
            if self.upload_bytes >= SUBMIT_AT_UPLOAD_BYTES {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Submits what is recorded and uploaded. `None` when there is nothing.
    pub(crate) fn submit(&mut self) -> Result<Option<wgpu::SubmissionIndex>> {
        self.fault.check()?;
        self.forget_dead();
        self.close_pass();
        if self.encoder.is_none() && self.upload_bytes == 0 {
            return Ok(None);
        }
        let encoder = self.encoder.take();
        let (index, error) = watched(&self.device, || {
            if !self.params.is_empty() {
                self.queue.write_buffer(&self.params_buffer, 0, &self.params);
            }
            self.queue.submit(encoder.map(wgpu::CommandEncoder::finish))
        });
        self.params.clear();
        self.set = Set::default();
        self.epoch += 1;
        self.bound_bytes = 0;
        self.upload_bytes = 0;
        #[cfg(not(target_arch = "wasm32"))]
        {
            self.started = None;
        }
        self.submissions += 1;
        if let Some(error) = error {
            #[cfg(not(target_arch = "wasm32"))]
            {
                poll(&self.device, &self.fault)?;
                if is_lost(&self.device) {
                    return Err(self.fault.lose(&words(&error)));
                }
            }
            // The recording is lost and its outputs hold old bytes: nothing after it may be trusted.
            return Err(self.fault.refuse("submit", &error));
        }
        // A lost device takes submissions in silence; polling lets its callback tell.
        #[cfg(not(target_arch = "wasm32"))]
        poll(&self.device, &self.fault)?;
        self.in_flight.push_back(index.clone());
        self.bound_in_flight()?;
        Ok(Some(index))
    }

    /// The error of a call that wgpu refused and that recorded nothing: the loss of the device where it is the cause, else
    /// the call's own.
    pub(super) fn refused(&self, op: &str, error: &wgpu::Error) -> Error {
        #[cfg(not(target_arch = "wasm32"))]
        {
            if let Err(fault) = poll(&self.device, &self.fault) {
                return fault;
            }
            if is_lost(&self.device) {
                return self.fault.lose(&words(error));
            }
        }
        self.fault.backend_error(op, error)
    }

    /// Forgets bind groups of buffers that left the pool: they would keep the memory alive.
    fn forget_dead(&mut self) {
        let dead = std::mem::take(&mut *lock(&self.dead));
        if dead.is_empty() || self.groups.is_empty() {
            return;
        }
        let dead: HashSet<u64> = dead.into_iter().collect();
        // The first word is a layout's id, from another series of numbers. In keys of users' kernels offsets and sizes
        // stand between the ids; one that happens to equal an id costs a bind group.
        self.groups.retain(|key, _| !key.iter().skip(1).any(|id| dead.contains(id)));
    }

    /// Whether the recording, not yet submitted, uses `raw`.
    fn uses(&self, raw: &Raw) -> bool {
        raw.epoch.load(Ordering::Relaxed) == self.epoch
    }

    pub(crate) fn submit_when_due(&mut self) -> Result<()> {
        #[cfg(not(target_arch = "wasm32"))]
        let old = match self.started {
            Some(started) => started.elapsed() >= SUBMIT_AT_AGE,
            None => {
                self.started = Some(std::time::Instant::now());
                false
            }
        };
        #[cfg(target_arch = "wasm32")]
        let old = false;
        if old || self.bound_bytes >= SUBMIT_AT_BOUND_BYTES {
            self.submit()?;
        }
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn bound_in_flight(&mut self) -> Result<()> {
        if self.in_flight.len() <= MOST_IN_FLIGHT {
            return Ok(());
        }
        let oldest = self.in_flight.pop_front();
        wait(&self.device, &self.fault, oldest)
    }

    #[cfg(target_arch = "wasm32")]
    fn bound_in_flight(&mut self) -> Result<()> {
        self.in_flight.clear();
        Ok(())
    }
}

/// The driver has no memory for the copy of an upload. No limit of the pool's was reached.
fn refused_upload(device: &str, requested: u64, held: MemoryStats) -> Error {
    let MemoryStats { in_use_bytes: in_use, cached_bytes: cached, .. } = held;
    Error::OutOfMemory { device: device.to_owned(), requested, in_use, cached, limit: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_upload_says_what_the_pool_holds() {
        let held = MemoryStats { in_use_bytes: 4096, cached_bytes: 512, ..MemoryStats::default() };
        let error = refused_upload("wgpu:0", 64, held);
        assert!(
            matches!(error, Error::OutOfMemory { requested: 64, in_use: 4096, cached: 512, limit: None, .. }),
            "{error:?}"
        );
    }
}
