//! A caching pool of whole memory blocks, for any backend that allocates from a driver.
//!
//! A freed block goes to a list by size and may be handed out at once: backends that use it run work in the order it was
//! given, so what still uses the block runs before its next owner's work. Nothing is sub-allocated: a block belongs to
//! one owner, so a stray index of a user's kernel stays out of its neighbours. Content is whatever the last owner left.
//! What a block is, and how the driver makes one, is the [`Source`]'s; a dropped block goes back to the driver. Sub-allocating
//! would not do: wgpu tracks hazards per buffer, and robust access guards the buffer and not a part of it. Knows no GPU API
//! and is tested with a source that has none. Next: `lease.rs`, what buffers hold; `state.rs`, sizes and counts.

mod lease;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Largest, MemoryStats, Result};
use state::{State, size_class};

pub use lease::{Allocation, Lease, Tape, TapeMemory};

/// Four-element loads and stores of 32-bit words stay whole at the end of every block.
const GRANULE_BYTES: u64 = 16;

/// Where the blocks of a pool come from.
pub trait Source: Send + Sync + fmt::Debug {
    /// Memory of the driver. Dropping it gives it back, once the device is done with it.
    type Block: Send + Sync + fmt::Debug + 'static;

    /// A block of `capacity_bytes` bytes; `None` when the driver has no memory left.
    ///
    /// # Errors
    /// What is wrong with the device for other reasons than memory.
    fn allocate(&self, capacity_bytes: u64) -> Result<Option<Self::Block>>;

    /// Waits until the device is done with everything that may still hold memory: called between a failed allocation
    /// and the second, last attempt.
    ///
    /// # Errors
    /// What is wrong with the device.
    fn reclaim(&self) -> Result<()>;
}

/// Whether freed blocks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// By size class, for the next allocation of about that size.
    Cached,
    /// Never: every allocation is the driver's own, of just the size asked for (in units of 16 bytes). For memory
    /// checkers, which see a whole block as valid.
    Off,
}

/// What a pool is told of its device.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The device's name, for errors.
    pub device: String,
    /// Most bytes of one block.
    pub max_block_bytes: u64,
    /// Most bytes held, in use and cached.
    pub limit_bytes: Option<u64>,
    /// Whether freed blocks are kept.
    pub reuse: Reuse,
}

/// A caching pool.
pub struct Pool<S: Source> {
    device: String,
    max_block_bytes: u64,
    reuse: Reuse,
    state: Mutex<State<S::Block>>,
    /// Driver allocations still to fail, for tests of the out-of-memory path.
    failures_to_inject: AtomicU32,
    // Last: a source may be all that keeps the driver's device, which goes after its blocks.
    source: S,
}

impl<S: Source> Pool<S> {
    /// An empty pool over `source`.
    pub fn new(source: S, options: PoolOptions) -> Pool<S> {
        Pool {
            device: options.device,
            max_block_bytes: options.max_block_bytes / GRANULE_BYTES * GRANULE_BYTES,
            reuse: options.reuse,
            state: Mutex::new(State::new(options.limit_bytes)),
            failures_to_inject: AtomicU32::new(0),
            source,
        }
    }

    /// Where its blocks come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// A block of at least `size_bytes`.
    ///
    /// # Errors
    /// [`Error::BufferTooBig`]; [`Error::OutOfMemory`] when the limit or the driver refuses even after the cache was
    /// freed and pending work waited for; what the source reports.
    pub fn alloc(self: &Arc<Pool<S>>, size_bytes: u64) -> Result<Lease<S>> {
        if size_bytes > self.max_block_bytes {
            let (device, max) = (self.device.clone(), self.max_block_bytes);
            return Err(Error::BufferTooBig { device, requested: size_bytes, max });
        }
        let class = self.allocated_bytes(size_bytes);
        let reused = self.lock().take_free(class);
        if let Some((block, capacity_bytes)) = reused {
            return Ok(self.lend(block, capacity_bytes));
        }
        self.reserve(class, size_bytes)?;
        match self.create(class) {
            Ok(Some(block)) => Ok(self.lend(block, class)),
            refused => {
                self.lock().stats.in_use_bytes -= class;
                match refused {
                    Err(error) => Err(error),
                    Ok(_) => Err(self.out_of_memory(size_bytes, None)),
                }
            }
        }
    }

    /// The bytes that an allocation of `size_bytes` takes: its rounding.
    pub fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        let class = match self.reuse {
            Reuse::Cached => size_class(size_bytes),
            Reuse::Off => size_bytes.checked_next_multiple_of(GRANULE_BYTES).unwrap_or(size_bytes).max(GRANULE_BYTES),
        };
        class.min(self.max_block_bytes.max(size_bytes))
    }

    /// A block of an application: never pooled and never counted, dropped with the lease.
    pub fn adopt(self: &Arc<Pool<S>>, block: S::Block, capacity_bytes: u64) -> Lease<S> {
        Lease { block: Arc::new(block), capacity_bytes, foreign: true, pool: Arc::clone(self) }
    }

    /// Bytes held.
    pub fn stats(&self) -> MemoryStats {
        self.lock().stats
    }

    /// Sets or lifts the limit on bytes held.
    pub fn set_limit(&self, limit_bytes: Option<u64>) {
        let dropped = {
            let mut state = self.lock();
            state.stats.limit_bytes = limit_bytes;
            let room = state.limit().saturating_sub(state.stats.in_use_bytes);
            state.shrink_cache(room)
        };
        drop(dropped);
    }

    /// Gives every free block back to the driver.
    pub fn drop_cached(&self) {
        let dropped = self.lock().shrink_cache(0);
        drop(dropped);
    }

    /// Makes the next `count` driver allocations fail.
    pub fn inject_failures(&self, count: u32) {
        self.failures_to_inject.store(count, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State<S::Block>> {
        // Every statement leaves the state valid, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `class` bytes as in use before the driver is asked, making room under the limit.
    fn reserve(&self, class: u64, size_bytes: u64) -> Result<()> {
        let dropped = {
            let mut state = self.lock();
            let limit = state.limit();
            let needed = state.stats.in_use_bytes.saturating_add(class);
            if needed > limit {
                drop(state);
                return Err(self.out_of_memory(size_bytes, Some(limit)));
            }
            let dropped = state.shrink_cache(limit - needed);
            state.stats.in_use_bytes = needed;
            dropped
        };
        drop(dropped);
        Ok(())
    }

    /// Asks the driver, and once more after everything that can be freed was.
    fn create(&self, capacity_bytes: u64) -> Result<Option<Arc<S::Block>>> {
        let mut block = self.ask(capacity_bytes)?;
        if block.is_none() {
            self.drop_cached();
            self.source.reclaim()?;
            block = self.ask(capacity_bytes)?;
        }
        if block.is_some() {
            let mut state = self.lock();
            state.stats.driver_allocations += 1;
            state.note_peak();
        }
        Ok(block.map(Arc::new))
    }

    fn ask(&self, capacity_bytes: u64) -> Result<Option<S::Block>> {
        let injected = self.failures_to_inject.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if injected.is_ok() {
            return Ok(None);
        }
        self.source.allocate(capacity_bytes)
    }

    fn lend(self: &Arc<Pool<S>>, block: Arc<S::Block>, capacity_bytes: u64) -> Lease<S> {
        Lease { block, capacity_bytes, foreign: false, pool: Arc::clone(self) }
    }

    fn release(&self, block: Arc<S::Block>, capacity_bytes: u64) {
        let dropped = match self.reuse {
            Reuse::Cached => self.lock().give_back(block, capacity_bytes),
            Reuse::Off => {
                self.lock().stats.in_use_bytes -= capacity_bytes;
                vec![block]
            }
        };
        // Outside the lock: giving memory back can wait for the device.
        drop(dropped);
    }

    fn out_of_memory(&self, requested: u64, limit: Option<u64>) -> Error {
        let stats = self.stats();
        Error::OutOfMemory {
            device: self.device.clone(),
            requested,
            in_use: stats.in_use_bytes,
            cached: stats.cached_bytes,
            limit,
            largest: Largest::default(),
        }
    }
}

impl<S: Source> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {:?})", self.device, self.stats())
    }
}
