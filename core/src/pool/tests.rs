//! Tests of the pool, over a driver with a given amount of memory and no device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::state::{KEEP_AT_LEAST_BYTES, size_class};
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
        Err(Error::OutOfMemory { device, requested, in_use, cached: 0, limit: None, .. }) => {
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
