//! Handing work to the device: when, how much at once, and the bytes that go before it.
//!
//! A recording is submitted when enough has gathered, when it is old, or when somebody waits. Short uploads run before the
//! recording that is submitted next, so one that would overtake its users submits them first. Long ones are recorded in their
//! place, from staging buffers of our own (in a browser, which tells of no refusal here, all are wgpu's).

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use polywarp_core::{Error, Largest, MemoryStats, Result};

use super::{Set, Stream};
#[cfg(not(target_arch = "wasm32"))]
use crate::fault::words;
use crate::fault::{lock, watched};
use crate::memory::Raw;
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::{is_lost, poll, wait};

/// Bytes bound by recorded launches from which on waiting longer would leave the device idle: about 60 us of work for a
/// card with 4 TB/s, twice what a submission costs the host.
const SUBMIT_AT_BOUND_BYTES: u64 = 256 << 20;
/// Age of a recording at which the next launch submits it.
#[cfg(not(target_arch = "wasm32"))]
const SUBMIT_AT_AGE: std::time::Duration = std::time::Duration::from_micros(500);
/// Bytes of uploads that may wait for the next submission; wgpu holds a copy of them.
const SUBMIT_AT_UPLOAD_BYTES: u64 = 64 << 20;
/// Longest upload whose copy wgpu makes (`Queue::write_buffer`). Where it finds no memory for one, the device is lost to it.
#[cfg(not(target_arch = "wasm32"))]
const STAGED_BY_WGPU_BYTES: usize = 64 << 10;
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
        // Pieces bound the copy that wgpu keeps until the device has read it.
        let mut at = offset_bytes;
        for piece in data.chunks(SUBMIT_AT_UPLOAD_BYTES as usize) {
            self.upload_piece(raw, at, piece, &held)?;
            at += piece.len() as u64;
            self.upload_bytes += piece.len() as u64;
            if self.upload_bytes >= SUBMIT_AT_UPLOAD_BYTES {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Sees to it that `piece` arrives before what is recorded next.
    fn upload_piece(&mut self, raw: &Raw, at: u64, piece: &[u8], held: impl Fn() -> MemoryStats) -> Result<()> {
        #[cfg(not(target_arch = "wasm32"))]
        if piece.len() > STAGED_BY_WGPU_BYTES {
            return self.stage(raw, at, piece, held);
        }
        // wgpu's uploads run before the recording they are submitted with: one that touches the buffer must go first.
        if self.uses(raw) {
            self.submit()?;
        }
        let ((), error) = watched(&self.device, || self.queue.write_buffer(&raw.buffer, at, piece));
        error.map_or(Ok(()), |error| Err(self.refused_upload(&error, piece.len() as u64, held)))
    }

    /// Copies `piece` through a staging buffer of our own: one that wgpu cannot make for itself ends the device.
    #[cfg(not(target_arch = "wasm32"))]
    fn stage(&mut self, raw: &Raw, at: u64, piece: &[u8], held: impl Fn() -> MemoryStats) -> Result<()> {
        self.usable("write", raw)?;
        let size = piece.len() as u64;
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: true };
        let (staging, error) = watched(&self.device, || self.device.create_buffer(&descriptor));
        if let Some(error) = error {
            return Err(self.refused_upload(&error, size, held));
        }
        let (filled, error) = watched(&self.device, || {
            let filled = staging.get_mapped_range_mut(..).map(|mut view| view.copy_from_slice(piece));
            staging.unmap();
            filled
        });
        // It was made mapped: only a device that is gone has none.
        filled.map_err(|error| self.fault.lose(&error.to_string()))?;
        if let Some(error) = error {
            return Err(self.refused("write", &error));
        }
        // In its place among what is recorded, and known to use the buffer: a later upload submits it first.
        self.encode(|encoder| encoder.copy_buffer_to_buffer(&staging, 0, &raw.buffer, at, size))?;
        self.mark(raw);
        self.add_bound_bytes(size);
        Ok(())
    }

    /// The error of an upload that wgpu refused: no memory for its copy, unless the device is gone.
    fn refused_upload(&self, error: &wgpu::Error, requested: u64, held: impl Fn() -> MemoryStats) -> Error {
        match (error, self.refused("write", error)) {
            (wgpu::Error::OutOfMemory { .. }, Error::Backend { .. }) => {
                out_of_memory(self.fault.device(), requested, held())
            }
            (_, refused) => refused,
        }
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
fn out_of_memory(device: &str, requested: u64, held: MemoryStats) -> Error {
    let MemoryStats { in_use_bytes: in_use, cached_bytes: cached, .. } = held;
    Error::OutOfMemory {
        device: device.to_owned(),
        requested,
        in_use,
        cached,
        limit: None,
        largest: Largest::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_without_memory_says_what_the_pool_holds() {
        let held = MemoryStats { in_use_bytes: 4096, cached_bytes: 512, ..MemoryStats::default() };
        let error = out_of_memory("wgpu:0", 64, held);
        assert!(
            matches!(error, Error::OutOfMemory { requested: 64, in_use: 4096, cached: 512, limit: None, .. }),
            "{error:?}"
        );
    }
}
