//! A caching pool of whole memory blocks, for any backend that allocates from a driver.
//!
//! A freed block goes to a list by size and may be handed out at once: backends that use it run work in the order it was
//! given, so what still uses the block runs before its next owner's work. Nothing is sub-allocated: a block belongs to
//! one owner, so a stray index of a user's kernel stays out of its neighbours. Content is whatever the last owner left.
//! What a block is, and how the driver makes one, is the [`Source`]'s; a dropped block goes back to the driver. Knows no
//! GPU API and is tested with a source that has none.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, MemoryStats, Result};

/// Smallest block; drivers round to at least this anyway.
const SMALLEST_CLASS_BYTES: u64 = 256;
/// From here on sizes step linearly.
const LINEAR_FROM_BYTES: u64 = 16 << 20;
/// The linear step; also what CUDA drivers round large allocations to.
const LINEAR_STEP_BYTES: u64 = 2 << 20;
/// Cached bytes that are kept however little was ever in use.
const KEEP_AT_LEAST_BYTES: u64 = 256 << 20;
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
    source: S,
    device: String,
    max_block_bytes: u64,
    reuse: Reuse,
    state: Mutex<State<S::Block>>,
    /// Driver allocations still to fail, for tests of the out-of-memory path.
    failures_to_inject: AtomicU32,
}

struct State<B> {
    /// Free blocks by capacity, each list in the order of freeing; the last freed is reused first.
    free: BTreeMap<u64, Vec<(u64, B)>>,
    stats: MemoryStats,
    frees: u64,
}

/// A block on loan: it goes back to the pool when dropped.
pub struct Lease<S: Source> {
    /// Taken only by dropping.
    block: Option<S::Block>,
    capacity_bytes: u64,
    /// Whether an application owns the memory: then it never enters the pool.
    foreign: bool,
    pool: Arc<Pool<S>>,
}

impl<S: Source> Lease<S> {
    /// The block.
    pub fn block(&self) -> Option<&S::Block> {
        self.block.as_ref()
    }

    /// Bytes it has; at least what was asked for.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Whether it is on loan from `pool`.
    pub fn belongs_to(&self, pool: &Arc<Pool<S>>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl<S: Source> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take().filter(|_| !self.foreign) {
            self.pool.release(block, self.capacity_bytes);
        }
    }
}

impl<S: Source> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?}, {} bytes)", self.block, self.capacity_bytes)
    }
}

impl<S: Source> Pool<S> {
    /// An empty pool over `source`.
    pub fn new(source: S, options: PoolOptions) -> Pool<S> {
        let stats = MemoryStats { limit_bytes: options.limit_bytes, ..MemoryStats::default() };
        Pool {
            source,
            device: options.device,
            max_block_bytes: options.max_block_bytes / GRANULE_BYTES * GRANULE_BYTES,
            reuse: options.reuse,
            state: Mutex::new(State { free: BTreeMap::new(), stats, frees: 0 }),
            failures_to_inject: AtomicU32::new(0),
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
        if let Some((block, capacity_bytes)) = self.take_free(class) {
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
        Lease { block: Some(block), capacity_bytes, foreign: true, pool: Arc::clone(self) }
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
            let room = limit_bytes.unwrap_or(u64::MAX).saturating_sub(state.stats.in_use_bytes);
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

    fn take_free(&self, class: u64) -> Option<(S::Block, u64)> {
        let mut state = self.lock();
        // A quarter more than asked for is waste that a fresh driver allocation would not be worth.
        let (&capacity, list) = state.free.range_mut(class..=class + class / 4).next()?;
        let (_, block) = list.pop()?;
        if list.is_empty() {
            state.free.remove(&capacity);
        }
        state.stats.cached_bytes -= capacity;
        state.stats.in_use_bytes += capacity;
        state.note_peak();
        Some((block, capacity))
    }

    /// Counts `class` bytes as in use before the driver is asked, making room under the limit.
    fn reserve(&self, class: u64, size_bytes: u64) -> Result<()> {
        let dropped = {
            let mut state = self.lock();
            let limit = state.stats.limit_bytes.unwrap_or(u64::MAX);
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
    fn create(&self, capacity_bytes: u64) -> Result<Option<S::Block>> {
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
        Ok(block)
    }

    fn ask(&self, capacity_bytes: u64) -> Result<Option<S::Block>> {
        let injected = self.failures_to_inject.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if injected.is_ok() {
            return Ok(None);
        }
        self.source.allocate(capacity_bytes)
    }

    fn lend(self: &Arc<Pool<S>>, block: S::Block, capacity_bytes: u64) -> Lease<S> {
        Lease { block: Some(block), capacity_bytes, foreign: false, pool: Arc::clone(self) }
    }

    fn release(&self, block: S::Block, capacity_bytes: u64) {
        let dropped = {
            let mut state = self.lock();
            state.stats.in_use_bytes -= capacity_bytes;
            if self.reuse == Reuse::Off {
                vec![block]
            } else {
                state.stats.cached_bytes += capacity_bytes;
                state.frees += 1;
                let number = state.frees;
                state.free.entry(capacity_bytes).or_default().push((number, block));
                // Growth policy: what is cached never exceeds what was once in use at the same time.
                let limit = state.stats.limit_bytes.unwrap_or(u64::MAX);
                let keep = state.stats.peak_bytes.max(KEEP_AT_LEAST_BYTES);
                let keep = keep.min(limit.saturating_sub(state.stats.in_use_bytes));
                state.shrink_cache(keep)
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
        }
    }
}

impl<S: Source> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {:?})", self.device, self.stats())
    }
}

impl<B> State<B> {
    fn note_peak(&mut self) {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.in_use_bytes);
    }

    /// Takes blocks out of the cache, longest unused first, until at most `keep_bytes` are left. The caller drops them
    /// after unlocking.
    fn shrink_cache(&mut self, keep_bytes: u64) -> Vec<B> {
        if self.stats.cached_bytes <= keep_bytes {
            return Vec::new();
        }
        let numbers = |(&capacity, list): (&u64, &Vec<(u64, B)>)| {
            list.iter().map(|&(number, _)| (number, capacity)).collect::<Vec<_>>()
        };
        let mut oldest: Vec<(u64, u64)> = self.free.iter().flat_map(numbers).collect();
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
            dropped.extend(std::mem::replace(list, kept).into_iter().map(|(_, block)| block));
            if list.is_empty() {
                self.free.remove(&capacity);
            }
        }
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
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A driver with a given amount of memory.
    #[derive(Debug, Default)]
    struct Driver {
        total: u64,
        held: Arc<AtomicU64>,
        /// Held until `reclaim`, as by work that is still pending.
        pending: AtomicU64,
        reclaims: AtomicU32,
    }

    #[derive(Debug)]
    struct Block(u64, Arc<AtomicU64>);

    impl Drop for Block {
        fn drop(&mut self) {
            self.1.fetch_sub(self.0, Ordering::Relaxed);
        }
    }

    impl Source for Driver {
        type Block = Block;

        fn allocate(&self, bytes: u64) -> Result<Option<Block>> {
            if self.held.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed) + bytes > self.total {
                return Ok(None);
            }
            self.held.fetch_add(bytes, Ordering::Relaxed);
            Ok(Some(Block(bytes, Arc::clone(&self.held))))
        }

        fn reclaim(&self) -> Result<()> {
            self.reclaims.fetch_add(1, Ordering::Relaxed);
            self.pending.store(0, Ordering::Relaxed);
            Ok(())
        }
    }

    fn pool(total: u64, limit_bytes: Option<u64>, reuse: Reuse) -> Arc<Pool<Driver>> {
        let options = PoolOptions { device: "fake:0".to_owned(), max_block_bytes: 1 << 40, limit_bytes, reuse };
        Arc::new(Pool::new(Driver { total, ..Driver::default() }, options))
    }

    fn held(pool: &Pool<Driver>) -> u64 {
        pool.source().held.load(Ordering::Relaxed)
    }

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

    #[test]
    fn freed_block_serves_the_next_of_its_size() {
        let pool = pool(1 << 30, None, Reuse::Cached);
        let first = pool.alloc(1000).unwrap();
        assert_eq!((first.capacity_bytes(), pool.stats().in_use_bytes), (1024, 1024));
        drop(first);
        assert_eq!((pool.stats().in_use_bytes, pool.stats().cached_bytes), (0, 1024));
        let again = pool.alloc(900).unwrap();
        assert_eq!((again.capacity_bytes(), pool.stats().driver_allocations), (1024, 1));
        assert_eq!(pool.alloc(10_000).unwrap().capacity_bytes(), 10_240);
        drop(again);
        pool.drop_cached();
        assert_eq!((held(&pool), pool.stats().cached_bytes, pool.stats().peak_bytes), (0, 0, 1024 + 10_240));
    }

    #[test]
    fn driver_without_memory_is_asked_again_after_freeing_and_waiting() {
        let pool = pool(4 << 20, None, Reuse::Cached);
        drop(pool.alloc(3 << 20).unwrap());
        assert_eq!(held(&pool), 3 << 20);
        // The cached 3 MiB make room.
        let kept = pool.alloc(2 << 20).unwrap();
        assert_eq!((held(&pool), pool.source().reclaims.load(Ordering::Relaxed)), (2 << 20, 1));
        // So does what pending work held.
        pool.source().pending.store(2 << 20, Ordering::Relaxed);
        let other = pool.alloc(1 << 20).unwrap();
        match pool.alloc(3 << 20) {
            Err(Error::OutOfMemory { device, requested, in_use, cached: 0, limit: None }) => {
                assert_eq!((device.as_str(), requested, in_use), ("fake:0", 3 << 20, 3 << 20));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(pool.stats().in_use_bytes, 3 << 20);
        drop((kept, other));
        assert!(pool.alloc(3 << 20).is_ok());
    }

    #[test]
    fn limit_refuses_and_shrinks_the_cache() {
        let pool = pool(1 << 30, Some(4 << 20), Reuse::Cached);
        let kept = pool.alloc(3 << 20).unwrap();
        let refused = pool.alloc(2 << 20);
        assert!(matches!(refused, Err(Error::OutOfMemory { limit: Some(4_194_304), .. })), "{refused:?}");
        drop(kept);
        pool.set_limit(Some(1 << 20));
        assert_eq!((held(&pool), pool.stats().cached_bytes), (0, 0));
        pool.set_limit(None);
        assert!(pool.alloc(1 << 29).is_ok());
        let huge = pool.alloc(1 << 41);
        assert!(matches!(huge, Err(Error::BufferTooBig { max: 1_099_511_627_776, .. })), "{huge:?}");
    }

    #[test]
    fn reuse_off_allocates_what_was_asked_and_frees_at_once() {
        let pool = pool(1 << 30, None, Reuse::Off);
        let lease = pool.alloc(1001).unwrap();
        assert_eq!((lease.capacity_bytes(), held(&pool)), (1008, 1008));
        drop(lease);
        assert_eq!((held(&pool), pool.stats().cached_bytes), (0, 0));
        assert_eq!(pool.alloc(0).unwrap().capacity_bytes(), 16);
    }

    #[test]
    fn adopted_block_is_never_pooled_or_counted() {
        let pool = pool(1 << 30, None, Reuse::Cached);
        let held = Arc::new(AtomicU64::new(64));
        let lease = pool.adopt(Block(64, Arc::clone(&held)), 64);
        assert_eq!((lease.capacity_bytes(), pool.stats().in_use_bytes), (64, 0));
        drop(lease);
        assert_eq!((held.load(Ordering::Relaxed), pool.stats()), (0, MemoryStats::default()));
    }

    #[test]
    fn injected_failures_leave_the_counts_as_they_were() {
        let pool = pool(1 << 30, None, Reuse::Cached);
        pool.inject_failures(1);
        assert!(pool.alloc(100).is_ok(), "the second attempt succeeds");
        pool.inject_failures(2);
        assert!(matches!(pool.alloc(5000), Err(Error::OutOfMemory { .. })));
        assert_eq!(pool.stats().in_use_bytes, 0);
        assert!(pool.alloc(5000).is_ok());
    }

    #[test]
    fn cache_is_bounded_by_the_peak() {
        let pool = pool(1 << 40, None, Reuse::Cached);
        for size in 0..64 {
            drop(pool.alloc((16 + size) << 20).unwrap());
        }
        assert!(pool.stats().cached_bytes <= KEEP_AT_LEAST_BYTES, "{:?}", pool.stats());
        assert_eq!(held(&pool), pool.stats().cached_bytes);
    }
}
