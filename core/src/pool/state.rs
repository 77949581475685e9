//! What a pool knows of its blocks: the free ones by size, and the counts. Also which sizes there are.
//!
//! Everything here runs under the pool's lock. Blocks that leave the cache are handed to the caller, who drops them after
//! unlocking: giving memory back can wait for the device.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::MemoryStats;

/// Smallest block; drivers round to at least this anyway.
const SMALLEST_CLASS_BYTES: u64 = 256;
/// From here on sizes step linearly.
const LINEAR_FROM_BYTES: u64 = 16 << 20;
/// The linear step; also what CUDA drivers round large allocations to.
const LINEAR_STEP_BYTES: u64 = 2 << 20;
/// Cached bytes that are kept however little was ever in use.
pub(super) const KEEP_AT_LEAST_BYTES: u64 = 256 << 20;

pub(super) struct State<B> {
    /// Free blocks by capacity, each list in the order of freeing; the last freed is reused first.
    free: BTreeMap<u64, Vec<(u64, Arc<B>)>>,
    pub(super) stats: MemoryStats,
    frees: u64,
}

impl<B> State<B> {
    pub(super) fn new(limit_bytes: Option<u64>) -> State<B> {
        let stats = MemoryStats { limit_bytes, ..MemoryStats::default() };
        State { free: BTreeMap::new(), stats, frees: 0 }
    }

    /// Lends a free block for the size class `class`, with the capacity it has.
    pub(super) fn take_free(&mut self, class: u64) -> Option<(Arc<B>, u64)> {
        let (&capacity, list) = self.free.range_mut(reusable(class)).next()?;
        let (_, block) = list.pop()?;
        if list.is_empty() {
            self.free.remove(&capacity);
        }
        self.stats.cached_bytes -= capacity;
        self.stats.in_use_bytes += capacity;
        self.note_peak();
        Some((block, capacity))
    }

    /// Takes a block back, and lets go of what is cached beyond need.
    pub(super) fn give_back(&mut self, block: Arc<B>, capacity_bytes: u64) -> Vec<Arc<B>> {
        self.stats.in_use_bytes -= capacity_bytes;
        self.stats.cached_bytes += capacity_bytes;
        self.frees += 1;
        let number = self.frees;
        self.free.entry(capacity_bytes).or_default().push((number, block));
        // Growth policy: what is cached never exceeds what was once in use at the same time.
        let keep = self.stats.peak_bytes.max(KEEP_AT_LEAST_BYTES);
        self.shrink_cache(keep.min(self.limit().saturating_sub(self.stats.in_use_bytes)))
    }

    /// Most bytes that may be held.
    pub(super) fn limit(&self) -> u64 {
        self.stats.limit_bytes.unwrap_or(u64::MAX)
    }

    pub(super) fn note_peak(&mut self) {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.in_use_bytes);
    }

    /// Takes blocks out of the cache, longest unused first, until at most `keep_bytes` are left.
    pub(super) fn shrink_cache(&mut self, keep_bytes: u64) -> Vec<Arc<B>> {
        if self.stats.cached_bytes <= keep_bytes {
            return Vec::new();
        }
        let numbers = |(&capacity, list): (&u64, &Vec<(u64, Arc<B>)>)| {
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

/// The capacities that may serve the size class `class`: a quarter more than asked for is waste that a fresh allocation of
/// the driver would not be worth.
pub(super) fn reusable(class: u64) -> std::ops::RangeInclusive<u64> {
    class..=class.saturating_add(class / 4)
}

/// The capacity that serves `size_bytes`: multiples of 16, at most a quarter larger (an eighth above 16 MiB).
pub(super) fn size_class(size_bytes: u64) -> u64 {
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
