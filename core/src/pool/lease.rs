//! Memory on loan: from the pool ([`Lease`]), and what a backend's buffers hold ([`Allocation`]).
//!
//! An allocation that a thread makes while it records goes its own way: it stays with the recording, which writes to it at
//! every replay, and only later allocations of the same recording may have its memory ([`TapeMemory`]).

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::state::reusable;
use super::{Pool, Source};
use crate::{Recorders, Result};

/// A block on loan: it goes back to the pool when dropped. Stands for the block.
pub struct Lease<S: Source> {
    /// Shared only with the pool, and only while being dropped.
    pub(super) block: Arc<S::Block>,
    pub(super) capacity_bytes: u64,
    /// Whether an application owns the memory: then it never enters the pool.
    pub(super) foreign: bool,
    pub(super) pool: Arc<Pool<S>>,
}

impl<S: Source> Lease<S> {
    /// Bytes it has; at least what was asked for.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Whether it is on loan from `pool`.
    pub fn belongs_to(&self, pool: &Arc<Pool<S>>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl<S: Source> Deref for Lease<S> {
    type Target = S::Block;

    fn deref(&self) -> &S::Block {
        &self.block
    }
}

impl<S: Source> Drop for Lease<S> {
    fn drop(&mut self) {
        if !self.foreign {
            self.pool.release(Arc::clone(&self.block), self.capacity_bytes);
        }
    }
}

impl<S: Source> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?}, {} bytes)", self.block, self.capacity_bytes)
    }
}

/// Tells the recordings of one process apart; 0 is none.
static NEXT_TAPE: AtomicU64 = AtomicU64::new(1);

/// What one thread has recorded so far, as a backend keeps it; it knows the memory of its recording.
pub trait Tape<S: Source>: Send + fmt::Debug + 'static {
    /// The memory.
    fn memory(&mut self) -> &mut TapeMemory<S>;
}

/// The memory of one recording.
pub struct TapeMemory<S: Source> {
    id: u64,
    /// What launches use, by where the lease is.
    kept: HashMap<usize, Arc<Lease<S>>>,
    /// Allocated and dropped inside the recording: later allocations inside it may have them.
    free: Vec<Arc<Lease<S>>>,
}

impl<S: Source> Default for TapeMemory<S> {
    fn default() -> TapeMemory<S> {
        let id = NEXT_TAPE.fetch_add(1, Ordering::Relaxed);
        TapeMemory { id, kept: HashMap::new(), free: Vec::new() }
    }
}

impl<S: Source> TapeMemory<S> {
    /// Keeps memory that a launch uses from going back to the pool.
    pub fn keep(&mut self, lease: &Arc<Lease<S>>) {
        self.kept.entry(Arc::as_ptr(lease).addr()).or_insert_with(|| Arc::clone(lease));
    }

    /// What the finished recording must hold as long as it may be replayed.
    pub fn into_kept(self) -> Vec<Arc<Lease<S>>> {
        self.kept.into_values().collect()
    }

    fn reuse(&mut self, class: u64) -> Option<Arc<Lease<S>>> {
        let at = self.free.iter().rposition(|lease| reusable(class).contains(&lease.capacity_bytes))?;
        Some(self.free.swap_remove(at))
    }
}

impl<S: Source> fmt::Debug for TapeMemory<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TapeMemory({} kept, {} free)", self.kept.len(), self.free.len())
    }
}

/// What a buffer of a backend holds: memory from the pool, or of the recording it was allocated in. Stands for the lease.
pub struct Allocation<S: Source, T: Tape<S>> {
    lease: Arc<Lease<S>>,
    /// The recording; 0 is none.
    tape: u64,
    recorders: Arc<Recorders<T>>,
}

impl<S: Source, T: Tape<S>> Allocation<S, T> {
    /// Memory for at least `size_bytes`. `recorders` are the threads that record on the backend.
    ///
    /// # Errors
    /// As [`Pool::alloc`].
    pub fn new(pool: &Arc<Pool<S>>, recorders: &Arc<Recorders<T>>, size_bytes: u64) -> Result<Allocation<S, T>> {
        let recorded = recorders.with(|tape| {
            let memory = tape.memory();
            (memory.id, memory.reuse(pool.allocated_bytes(size_bytes)))
        });
        let (tape, reused) = recorded.unwrap_or((0, None));
        let lease = match reused {
            Some(lease) => lease,
            None => Arc::new(pool.alloc(size_bytes)?),
        };
        Ok(Allocation { lease, tape, recorders: Arc::clone(recorders) })
    }

    /// Memory of an application, as [`Pool::adopt`].
    pub fn adopt(
        pool: &Arc<Pool<S>>,
        recorders: &Arc<Recorders<T>>,
        block: S::Block,
        capacity_bytes: u64,
    ) -> Allocation<S, T> {
        let lease = Arc::new(pool.adopt(block, capacity_bytes));
        Allocation { lease, tape: 0, recorders: Arc::clone(recorders) }
    }

    /// The memory.
    pub fn lease(&self) -> &Arc<Lease<S>> {
        &self.lease
    }
}

impl<S: Source, T: Tape<S>> Deref for Allocation<S, T> {
    type Target = Lease<S>;

    fn deref(&self) -> &Lease<S> {
        &self.lease
    }
}

impl<S: Source, T: Tape<S>> Drop for Allocation<S, T> {
    fn drop(&mut self) {
        if self.tape == 0 {
            return;
        }
        // Only inside that very recording may it be lent again: afterwards a replay writes to it at any time.
        self.recorders.with(|tape| {
            let memory = tape.memory();
            if memory.id == self.tape {
                memory.free.push(Arc::clone(&self.lease));
            }
        });
    }
}

impl<S: Source, T: Tape<S>> fmt::Debug for Allocation<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocation({:?})", self.lease)
    }
}
