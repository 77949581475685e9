//! Device memory: a caching pool of whole buffers.
//!
//! One tensor's storage is one `wgpu::Buffer`; nothing is sub-allocated. wgpu tracks reading and writing per buffer, so
//! two tensors in one buffer could not be one kernel's input and output; and WGSL's robust access guards the buffer,
//! not a part of it, so a stray index of a user's kernel could reach a neighbour. wgpu itself sub-allocates the
//! driver's memory below this. A freed buffer goes to a list by size and may be handed out at once: the work that still
//! uses it was recorded earlier on the one queue, so it runs earlier. Content is whatever the last owner left.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polywarp_core::{Error, MemoryStats, Recorders, Result};

use crate::fault::{Fault, lock, watched};
use crate::recording::Tape;

/// Smallest buffer; Vulkan drivers round to about this anyway.
const SMALLEST_CLASS_BYTES: u64 = 256;
/// From here on sizes step linearly.
const LINEAR_FROM_BYTES: u64 = 16 << 20;
/// The linear step.
const LINEAR_STEP_BYTES: u64 = 2 << 20;
/// Cached bytes that are kept however little was ever in use.
const KEEP_AT_LEAST_BYTES: u64 = 256 << 20;

/// What every pooled buffer can be used for; UNIFORM so that users' kernels may bind tensors as uniforms.
pub(crate) const USAGES: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST)
    .union(wgpu::BufferUsages::UNIFORM);

/// A driver's buffer, with the identity that cached bind groups know it by.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) buffer: wgpu::Buffer,
    /// Never reused in one process.
    pub(crate) id: u64,
    /// The recording that last used it (see `Stream::epoch`); 0 is none.
    pub(crate) epoch: AtomicU64,
    pub(crate) capacity_bytes: u64,
    /// How many hold it: the buffer it is lent to, and recordings. With the last it goes back to the pool.
    holders: AtomicU32,
    /// Whether an application owns it: then it never enters the pool.
    foreign: bool,
}

/// A buffer kept out of the pool.
#[derive(Debug)]
pub(crate) struct Held {
    raw: Arc<Raw>,
    pool: Arc<Pool>,
}

impl Held {
    pub(crate) fn raw(&self) -> &Arc<Raw> {
        &self.raw
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.raw.capacity_bytes
    }

    pub(crate) fn belongs_to(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pool.release(&self.raw);
    }
}

/// What a [`polywarp_core::Buffer`] of this backend holds: a buffer on loan from the pool, or from the recording `tape`
/// it was allocated in.
#[derive(Debug)]
pub(crate) struct Allocation {
    held: Option<Held>,
    pub(crate) size_bytes: u64,
    tape: u64,
}

impl Allocation {
    pub(crate) fn raw(&self) -> Option<&Arc<Raw>> {
        self.held.as_ref().map(Held::raw)
    }

    pub(crate) fn belongs_to(&self, pool: &Arc<Pool>) -> bool {
        self.held.as_ref().is_some_and(|held| held.belongs_to(pool))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(held) = self.held.take_if(|_| self.tape != 0) else { return };
        // Only inside that very recording may it be lent again: afterwards a replay writes to it at any time.
        let pool = Arc::clone(&held.pool);
        let mut held = Some(held);
        pool.tapes.with(|tape| {
            if let Some(held) = held.take_if(|_| tape.id == self.tape) {
                tape.give_back(held);
            }
        });
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    device: wgpu::Device,
    fault: Arc<Fault>,
    max_buffer_bytes: u64,
    max_binding_bytes: u64,
    state: Mutex<State>,
    /// Threads that record: their allocations and drops take another way.
    tapes: Recorders<Tape>,
    /// Driver allocations still to fail, for tests of the out-of-memory path.
    failures_to_inject: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    /// Free buffers by capacity; the last freed is reused first.
    free: BTreeMap<u64, Vec<(u64, Arc<Raw>)>>,
    /// Ids of buffers given back to the driver whose bind groups must go too.
    dead: Vec<u64>,
    stats: MemoryStats,
    frees: u64,
}

/// Ids of all driver buffers ever made; process-wide, so that a buffer of another device is never mistaken.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Pool {
    pub(crate) fn new(device: wgpu::Device, fault: Arc<Fault>, limit_bytes: Option<u64>) -> Pool {
        let limits = device.limits();
        let state = State { stats: MemoryStats { limit_bytes, ..MemoryStats::default() }, ..State::default() };
        Pool {
            device,
            fault,
            max_buffer_bytes: limits.max_buffer_size / 16 * 16,
            // Bindings of storage buffers are multiples of 4; 16 keeps four-element loads whole.
            max_binding_bytes: limits.max_storage_buffer_binding_size / 16 * 16,
            state: Mutex::new(state),
            tapes: Recorders::default(),
            failures_to_inject: AtomicU32::new(0),
        }
    }

    pub(crate) fn max_binding_bytes(&self) -> u64 {
        self.max_binding_bytes
    }

    pub(crate) fn max_buffer_bytes(&self) -> u64 {
        self.max_buffer_bytes
    }

    /// A buffer of at least `size_bytes`. `reclaim` submits recorded work, waits for it and lets go of what only cached
    /// bind groups keep alive; it is called when the driver has no memory left, before the second and last attempt.
    pub(crate) fn alloc(self: &Arc<Pool>, size_bytes: u64, reclaim: &dyn Fn() -> Result<()>) -> Result<Allocation> {
        let class = self.class_within_limits(size_bytes)?;
        let recording = self.tapes.with(|tape| (tape.id, tape.reuse(class)));
        let (tape, reused) = recording.unwrap_or((0, None));
        if let Some(held) = reused {
            return Ok(Allocation { held: Some(held), size_bytes, tape });
        }
        if let Some(raw) = self.reuse(class) {
            return Ok(self.lend(&raw, size_bytes, tape));
        }
        self.reserve(class, size_bytes)?;
        let made = self.create(class).or_else(|| {
            self.drop_cached();
            reclaim().ok()?;
            self.create(class)
        });
        match made {
            Some(raw) => Ok(self.lend(&raw, size_bytes, tape)),
            None => {
                let mut state = lock(&self.state);
                state.stats.in_use_bytes -= class;
                drop(state);
                self.fault.check()?;
                Err(self.out_of_memory(size_bytes, None))
            }
        }
    }

    /// A buffer of an application, never pooled and never counted.
    pub(crate) fn adopt(self: &Arc<Pool>, buffer: wgpu::Buffer) -> Allocation {
        let size_bytes = buffer.size();
        let raw = Raw {
            buffer,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            epoch: AtomicU64::new(0),
            capacity_bytes: size_bytes,
            holders: AtomicU32::new(0),
            foreign: true,
        };
        self.lend(&Arc::new(raw), size_bytes, 0)
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        lock(&self.state).stats
    }

    pub(crate) fn set_limit(&self, limit_bytes: Option<u64>) {
        let dropped = {
            let mut state = lock(&self.state);
            state.stats.limit_bytes = limit_bytes;
            let limit = limit_bytes.unwrap_or(u64::MAX);
            state.shrink_cache(limit)
        };
        drop(dropped);
    }

    /// Gives every free buffer back to wgpu, which frees it when the device is done with it.
    pub(crate) fn drop_cached(&self) {
        let dropped = lock(&self.state).shrink_cache(0);
        drop(dropped);
    }

    /// Ids whose bind groups must be forgotten before their memory is really free.
    pub(crate) fn take_dead(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.state).dead)
    }

    /// Makes the next `count` driver allocations fail.
    pub(crate) fn inject_failures(&self, count: u32) {
        self.failures_to_inject.store(count, Ordering::Relaxed);
    }

    fn class_within_limits(&self, size_bytes: u64) -> Result<u64> {
        let device = || self.fault.device().to_owned();
        if size_bytes > self.max_buffer_bytes {
            return Err(Error::BufferTooBig { device: device(), requested: size_bytes, max: self.max_buffer_bytes });
        }
        if size_bytes > self.max_binding_bytes {
            return Err(Error::BindingTooLarge { device: device(), size: size_bytes, limit: self.max_binding_bytes });
        }
        Ok(self.allocated_bytes(size_bytes))
    }

    /// What a buffer of `size_bytes`, if it is within the limits, takes.
    pub(crate) fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        let most = self.max_binding_bytes.min(self.max_buffer_bytes);
        if size_bytes > most { size_bytes } else { size_class(size_bytes).min(most) }
    }

    fn reuse(&self, class: u64) -> Option<Arc<Raw>> {
        let mut state = lock(&self.state);
        // A quarter more than asked for is waste that a fresh driver allocation would not be worth.
        let capacity = state.free.range(class..=class + class / 4).next().map(|(&capacity, _)| capacity)?;
        let list = state.free.get_mut(&capacity)?;
        let (_, raw) = list.pop()?;
        if list.is_empty() {
            state.free.remove(&capacity);
        }
        state.stats.cached_bytes -= capacity;
        state.stats.in_use_bytes += capacity;
        state.note_peak();
        Some(raw)
    }

    /// Counts `class` bytes as in use before the driver is asked, making room under the limit.
    fn reserve(&self, class: u64, size_bytes: u64) -> Result<()> {
        let dropped = {
            let mut state = lock(&self.state);
            let limit = state.stats.limit_bytes.unwrap_or(u64::MAX);
            let needed = state.stats.in_use_bytes.saturating_add(class);
            if needed > limit {
                drop(state);
                return Err(self.out_of_memory(size_bytes, Some(limit)));
            }
            let dropped = state.shrink_cache(limit - needed);
            state.stats.in_use_bytes = needed;
            state.note_peak();
            dropped
        };
        drop(dropped);
        Ok(())
    }

    fn create(&self, capacity_bytes: u64) -> Option<Arc<Raw>> {
        let injected = self.failures_to_inject.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if injected.is_ok() {
            return None;
        }
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: capacity_bytes, usage: USAGES, mapped_at_creation: false };
        let (buffer, error) = watched(&self.device, || self.device.create_buffer(&descriptor));
        if let Some(error) = error {
            log::debug!("{}: a buffer of {capacity_bytes} bytes was refused: {error}", self.fault.device());
            return None;
        }
        lock(&self.state).stats.driver_allocations += 1;
        Some(Arc::new(Raw {
            buffer,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            epoch: AtomicU64::new(0),
            capacity_bytes,
            holders: AtomicU32::new(0),
            foreign: false,
        }))
    }

    /// The threads that record.
    pub(crate) fn tapes(&self) -> &Recorders<Tape> {
        &self.tapes
    }

    /// Keeps `raw`, which is held already, from going back to the pool.
    pub(crate) fn hold(self: &Arc<Pool>, raw: &Arc<Raw>) -> Held {
        raw.holders.fetch_add(1, Ordering::Relaxed);
        Held { raw: Arc::clone(raw), pool: Arc::clone(self) }
    }

    fn lend(self: &Arc<Pool>, raw: &Arc<Raw>, size_bytes: u64, tape: u64) -> Allocation {
        Allocation { held: Some(self.hold(raw)), size_bytes, tape }
    }

    fn release(&self, raw: &Arc<Raw>) {
        if raw.holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let dropped = {
            let mut state = lock(&self.state);
            if raw.foreign {
                state.dead.push(raw.id);
                return;
            }
            let capacity = raw.capacity_bytes;
            state.stats.in_use_bytes -= capacity;
            state.stats.cached_bytes += capacity;
            state.frees += 1;
            let number = state.frees;
            state.free.entry(capacity).or_default().push((number, Arc::clone(raw)));
            // Growth policy: what is cached never exceeds what was once in use at the same time.
            let limit = state.stats.limit_bytes.unwrap_or(u64::MAX);
            let keep = state.stats.peak_bytes.max(KEEP_AT_LEAST_BYTES);
            let keep = keep.min(limit.saturating_sub(state.stats.in_use_bytes));
            state.shrink_cache(keep)
        };
        drop(dropped);
    }

    fn out_of_memory(&self, requested: u64, limit: Option<u64>) -> Error {
        let stats = self.stats();
        Error::OutOfMemory {
            device: self.fault.device().to_owned(),
            requested,
            in_use: stats.in_use_bytes,
            cached: stats.cached_bytes,
            limit,
        }
    }
}

impl State {
    fn note_peak(&mut self) {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.in_use_bytes);
    }

    /// Takes buffers out of the cache, longest unused first, until at most `keep_bytes` are left. The caller drops them
    /// after unlocking: dropping can call into the driver.
    fn shrink_cache(&mut self, keep_bytes: u64) -> Vec<Arc<Raw>> {
        if self.stats.cached_bytes <= keep_bytes {
            return Vec::new();
        }
        let mut oldest: Vec<(u64, u64)> = Vec::new();
        for (&capacity, list) in &self.free {
            oldest.extend(list.iter().map(|&(number, _)| (number, capacity)));
        }
        oldest.sort_unstable();
        let mut drop_from: HashMap<u64, u64> = HashMap::new();
        for (number, capacity) in oldest {
            if self.stats.cached_bytes <= keep_bytes {
                break;
            }
            self.stats.cached_bytes -= capacity;
            drop_from.insert(capacity, number);
        }
        let mut dropped = Vec::new();
        for (capacity, newest_dropped) in drop_from {
            let Some(list) = self.free.get_mut(&capacity) else { continue };
            // Numbers ascend within a list.
            let kept = list.split_off(list.partition_point(|&(number, _)| number <= newest_dropped));
            dropped.extend(std::mem::replace(list, kept).into_iter().map(|(_, raw)| raw));
            if list.is_empty() {
                self.free.remove(&capacity);
            }
        }
        self.dead.extend(dropped.iter().map(|raw| raw.id));
        dropped
    }
}

/// The capacity that serves `size_bytes`: multiples of 16, at most a quarter larger (an eighth above 16 MiB).
fn size_class(size_bytes: u64) -> u64 {
    if size_bytes <= SMALLEST_CLASS_BYTES {
        return SMALLEST_CLASS_BYTES;
    }
    let step = if size_bytes > LINEAR_FROM_BYTES {
        LINEAR_STEP_BYTES
    } else {
        // Four classes per power of two.
        size_bytes.next_power_of_two() / 8
    };
    size_bytes.checked_next_multiple_of(step).unwrap_or(size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_class_holds_the_request_within_a_quarter() {
        let powers = (0..45).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1, (1 << p) + (1 << p) / 3]);
        for size in powers.filter(|&s| s > 0) {
            let class = size_class(size);
            assert!(class >= size && class.is_multiple_of(16), "{size} -> {class}");
            assert!(class <= 256 || class - size <= size / 4, "{size} -> {class}");
            assert_eq!(size_class(class), class, "{size} -> {class}");
        }
    }
}
