//! Host memory for tensors: aligned, zero-filled when fresh, kept for reuse when freed.
//!
//! Fresh pages cost more than the arithmetic of a small op, so freed blocks go to a cache by size class and come back to
//! the next request of that class. A buffer is a lock around its bytes: ops hold read locks on what they read and one
//! write lock on what they write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use bytemuck::{Pod, Zeroable};

use super::recording::Tape;
use super::scratch::{self, Short};
use crate::{Buffer, Error, Largest, MemoryStats, Part, Profiler, Recorders, Result};

/// A cache line: the alignment of every buffer, enough for any vector load.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

const LINE_BYTES: u64 = 64;

/// What a [`Buffer`] of the CPU holds: memory on loan from the pool, or from the recording `tape` it was allocated in.
pub(super) struct Loan {
    host: Arc<HostBuffer>,
    tape: u64,
}

impl Loan {
    pub(super) fn host(&self) -> &Arc<HostBuffer> {
        &self.host
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.tape != 0 {
            // Only inside that very recording may it be used again: afterwards a replay writes to it at any time.
            let host = || Arc::clone(&self.host);
            self.host.pool.0.tapes.with(|tape| (tape.id == self.tape).then(|| tape.give_back(host())));
        }
    }
}

/// The bytes of one buffer; returns to its pool when dropped.
pub(super) struct HostBuffer {
    lines: RwLock<Vec<Line>>,
    pool: Pool,
}

/// Shared access to a buffer's bytes.
pub(super) struct ReadGuard<'a>(RwLockReadGuard<'a, Vec<Line>>);

/// Exclusive access to a buffer's bytes.
pub(super) struct WriteGuard<'a>(RwLockWriteGuard<'a, Vec<Line>>);

impl std::fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBuffer({} lines)", self.lines())
    }
}

impl HostBuffer {
    pub(super) fn lines(&self) -> usize {
        self.read().0.len()
    }

    pub(super) fn read(&self) -> ReadGuard<'_> {
        // A panic while writing leaves wrong numbers, not broken memory: poisoning adds nothing.
        ReadGuard(self.lines.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn write(&self) -> WriteGuard<'_> {
        WriteGuard(self.lines.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReadGuard<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl WriteGuard<'_> {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let lines = std::mem::take(self.lines.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.pool.give_back(lines);
    }
}

/// The cache of freed buffers and the count of live ones.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Threads that record: their allocations and drops take another way.
    tapes: Recorders<Tape>,
    profiler: Profiler<Ran>,
}

/// An operation that ran while the device was profiled.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) part: Part,
    /// The name of the operation whose routine it was.
    pub(super) routine: &'static str,
    pub(super) start: Instant,
    pub(super) ns: f64,
}

#[derive(Default)]
struct State {
    /// Freed buffers by length in lines.
    free: HashMap<usize, Vec<Vec<Line>>>,
    stats: MemoryStats,
    max_bytes: u64,
    /// Allocations still to fail, for tests of the out-of-memory path.
    failures_to_inject: u32,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.stats)
    }
}

impl Pool {
    /// An empty pool on a host of `max_bytes` memory.
    pub(super) fn new(max_bytes: u64) -> Pool {
        let state = Mutex::new(State { max_bytes, ..State::default() });
        Pool(Arc::new(Shared { state, tapes: Recorders::default(), profiler: Profiler::default() }))
    }

    /// The threads that record.
    pub(super) fn tapes(&self) -> &Recorders<Tape> {
        &self.0.tapes
    }

    /// What runs while the device is profiled.
    pub(super) fn profiler(&self) -> &Profiler<Ran> {
        &self.0.profiler
    }

    /// Whether both are one pool.
    pub(super) fn same(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of at least `size_bytes`; `device` is for errors.
    pub(super) fn alloc(&self, size_bytes: u64, device: &str) -> Result<Buffer> {
        let bytes = allocated_bytes(size_bytes);
        let lines = bytes / LINE_BYTES;
        let recording = self.0.tapes.with(|tape| (tape.id, tape.reuse(lines as usize)));
        let (tape, reused) = recording.unwrap_or((0, None));
        if let Some(host) = reused {
            return Ok(Buffer::new(bytes, Arc::new(Loan { host, tape })));
        }
        let mut state = self.state();
        if size_bytes > state.max_bytes {
            let max = state.max_bytes;
            return Err(Error::BufferTooBig { device: device.to_owned(), requested: size_bytes, max });
        }
        let cached = state.free.get_mut(&(lines as usize)).and_then(Vec::pop);
        let memory = match cached {
            Some(memory) => {
                state.stats.cached_bytes -= bytes;
                memory
            }
            None => {
                let limit = state.stats.limit_bytes.unwrap_or(u64::MAX);
                if state.stats.in_use_bytes + state.stats.cached_bytes + bytes > limit {
                    state.empty_cache();
                }
                if state.stats.in_use_bytes + bytes > limit {
                    return Err(state.out_of_memory(size_bytes, device));
                }
                let fresh = state.ask(lines as usize).or_else(|_| {
                    state.empty_cache();
                    state.ask(lines as usize)
                });
                let fresh = fresh.map_err(|_| state.out_of_memory(size_bytes, device))?;
                state.stats.driver_allocations += 1;
                fresh
            }
        };
        state.stats.in_use_bytes += bytes;
        state.stats.peak_bytes = state.stats.peak_bytes.max(state.stats.in_use_bytes);
        drop(state);
        let host = Arc::new(HostBuffer { lines: RwLock::new(memory), pool: self.clone() });
        Ok(Buffer::new(bytes, Arc::new(Loan { host, tape })))
    }

    fn give_back(&self, lines: Vec<Line>) {
        let mut state = self.state();
        let bytes = lines.len() as u64 * LINE_BYTES;
        state.stats.in_use_bytes -= bytes;
        // Never hold more than was once needed at the same time, nor than is allowed now.
        let most = state.stats.peak_bytes.min(state.stats.limit_bytes.unwrap_or(u64::MAX));
        if state.stats.in_use_bytes + state.stats.cached_bytes + bytes <= most {
            state.stats.cached_bytes += bytes;
            state.free.entry(lines.len()).or_default().push(lines);
        }
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.state().stats
    }

    pub(super) fn empty_cache(&self) {
        self.state().empty_cache();
    }

    /// The error for `requested` bytes that were refused.
    pub(super) fn out_of_memory(&self, requested: u64, device: &str) -> Error {
        self.state().out_of_memory(requested, device)
    }

    /// Makes the next `count` allocations fail.
    pub(super) fn inject_failures(&self, count: u32) {
        self.state().failures_to_inject = count;
    }

    pub(super) fn set_limit(&self, limit_bytes: Option<u64>) {
        let mut state = self.state();
        state.stats.limit_bytes = limit_bytes;
        if limit_bytes.is_some_and(|limit| state.stats.in_use_bytes + state.stats.cached_bytes > limit) {
            state.empty_cache();
        }
    }
}

impl State {
    /// Zeroed memory of the system.
    fn ask(&mut self, lines: usize) -> std::result::Result<Vec<Line>, Short> {
        match self.failures_to_inject.checked_sub(1) {
            Some(rest) => {
                self.failures_to_inject = rest;
                Err(Short::OutOfMemory { bytes: lines as u64 * LINE_BYTES })
            }
            None => scratch::zeroed(lines),
        }
    }

    fn out_of_memory(&self, requested: u64, device: &str) -> Error {
        let MemoryStats { in_use_bytes, cached_bytes, limit_bytes, .. } = self.stats;
        let device = device.to_owned();
        Error::OutOfMemory {
            device,
            requested,
            in_use: in_use_bytes,
            cached: cached_bytes,
            limit: limit_bytes,
            largest: Largest::default(),
        }
    }

    fn empty_cache(&mut self) {
        self.free.clear();
        self.stats.cached_bytes = 0;
    }
}

/// What a buffer of `size_bytes` takes.
pub(super) fn allocated_bytes(size_bytes: u64) -> u64 {
    size_class(size_bytes.max(1).div_ceil(LINE_BYTES)).saturating_mul(LINE_BYTES)
}

/// Lengths rounded up to a multiple of an eighth of their power of two: at most 12.5 % is lost, and nearby sizes share.
fn size_class(lines: u64) -> u64 {
    let step = (lines.next_power_of_two() / 16).max(1);
    lines.div_ceil(step).saturating_mul(step)
}

/// Physical memory, where the system tells.
pub(super) fn host_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_reused_and_counted() {
        let pool = Pool::new(1 << 30);
        let a = pool.alloc(1000, "cpu").unwrap();
        let held = pool.stats().in_use_bytes;
        assert_eq!((held, pool.stats().cached_bytes), (a.size_bytes(), 0));
        drop(a);
        assert_eq!((pool.stats().in_use_bytes, pool.stats().cached_bytes), (0, held));
        let _b = pool.alloc(990, "cpu").unwrap();
        assert_eq!((pool.stats().driver_allocations, pool.stats().cached_bytes), (1, 0));
        pool.empty_cache();
        assert_eq!(pool.stats().in_use_bytes, held);
    }

    #[test]
    fn alloc_over_the_limit_says_what_is_held_and_recovers() {
        let pool = Pool::new(1 << 30);
        pool.set_limit(Some(4096));
        let a = pool.alloc(2048, "cpu").unwrap();
        let err = pool.alloc(4096, "cpu").unwrap_err();
        assert!(
            matches!(err, Error::OutOfMemory { requested: 4096, in_use: 2048, cached: 0, limit: Some(4096), .. }),
            "{err}"
        );
        drop(a);
        // The cached 2048 bytes are given up for the larger request.
        assert!(pool.alloc(4096, "cpu").is_ok());
        let err = pool.alloc(2 << 30, "cpu").unwrap_err();
        assert!(matches!(err, Error::BufferTooBig { max, .. } if max == 1 << 30), "{err}");
    }

    #[test]
    fn cache_counts_against_a_limit_that_came_later() {
        let pool = Pool::new(1 << 30);
        let (a, _b) = (pool.alloc(4096, "cpu").unwrap(), pool.alloc(4096, "cpu").unwrap());
        pool.set_limit(Some(4096));
        drop(a);
        assert!(matches!(pool.alloc(4096, "cpu"), Err(Error::OutOfMemory { .. })));
        assert_eq!((pool.stats().in_use_bytes, pool.stats().cached_bytes), (4096, 0));
    }

    #[test]
    fn size_classes_waste_at_most_an_eighth() {
        for lines in 1..5000 {
            let class = size_class(lines);
            assert!(class >= lines && class - lines <= lines / 8, "{lines} -> {class}");
        }
    }
}
