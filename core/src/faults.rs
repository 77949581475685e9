//! Where a device keeps the first position outside that it found, until a read fetches it: six words in its memory, and here what the host
//! must know to fetch them once and to lose none.
//!
//! [`crate::ops::Positions`] says what the words hold and updates them; `tensor/outside.rs` launches it and reads the words. Here is the
//! order of both: what updates the words may come from many threads, but not between their being copied and cleared. A device
//! that looks for nothing costs a read one relaxed load.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::{Backend, Buffer, Result};

/// Words that a fault takes; all 0 where there is none.
pub(crate) const WORDS: usize = 6;
/// Their bytes.
pub(crate) const WORDS_BYTES: u64 = 4 * WORDS as u64;

thread_local! {
    /// How often this thread enqueued a check, on any device.
    static CHECKS: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread enqueued a check: whether a recording holds one.
pub(crate) fn checks_of_thread() -> u64 {
    CHECKS.get()
}

/// A device's words.
#[derive(Default)]
pub(crate) struct Faults {
    /// Whether a check was enqueued since the words were last copied, or copies wait to be read.
    pending: AtomicBool,
    /// Shared by what updates the words, exclusive for what copies and clears them.
    order: RwLock<()>,
    words: OnceLock<Buffer>,
    copies: Mutex<Copies>,
}

/// Copies of the words.
#[derive(Default)]
struct Copies {
    /// Memory to copy to.
    spare: Option<Buffer>,
    /// Copies whose read failed, or was given up.
    unread: Vec<Buffer>,
}

impl Faults {
    /// The words, made and cleared at the first call, with all memory that looking takes.
    pub(crate) fn words(&self, backend: &dyn Backend) -> Result<&Buffer> {
        if let Some(words) = self.words.get() {
            return Ok(words);
        }
        let mut copies = self.copies();
        if let Some(words) = self.words.get() {
            return Ok(words);
        }
        let (words, spare) = (backend.alloc(WORDS_BYTES)?, backend.alloc(WORDS_BYTES)?);
        backend.write(&words, 0, &[0; WORDS_BYTES as usize])?;
        copies.spare = Some(spare);
        Ok(self.words.get_or_init(|| words))
    }

    /// Runs `enqueue`, which enqueues what may update the words.
    pub(crate) fn check(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<()> {
        CHECKS.set(CHECKS.get().wrapping_add(1));
        let _shared = self.order.read().unwrap_or_else(PoisonError::into_inner);
        enqueue()?;
        self.pending.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether there may be something to read.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// What a read must look at: copies that were not read, then one of the words as they are now, made by `copy` from the first buffer to the
    /// second. The words are cleared.
    pub(crate) fn take(
        &self,
        backend: &dyn Backend,
        copy: impl FnOnce(&Buffer, &Buffer) -> Result<()>,
    ) -> Result<Vec<Unread<'_>>> {
        if !self.pending.swap(false, Ordering::AcqRel) {
            return Ok(Vec::new());
        }
        let unread = |buffer| Unread { faults: self, buffer: Some(buffer) };
        let (earlier, spare) = {
            let mut copies = self.copies();
            (std::mem::take(&mut copies.unread), copies.spare.take())
        };
        let mut all: Vec<Unread<'_>> = earlier.into_iter().map(unread).collect();
        let Some(words) = self.words.get() else { return Ok(all) };
        let target = spare.map_or_else(|| backend.alloc(WORDS_BYTES), Ok);
        let copied = target.and_then(|target| {
            let _exclusive = self.order.write().unwrap_or_else(PoisonError::into_inner);
            copy(words, &target)?;
            // From here on the copy is all that tells of a fault.
            let target = unread(target);
            backend.write(words, 0, &[0; WORDS_BYTES as usize])?;
            Ok(target)
        });
        match copied {
            Ok(copied) => all.push(copied),
            Err(error) => {
                self.pending.store(true, Ordering::Release);
                return Err(error);
            }
        }
        Ok(all)
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of the words that is to be read. Where it is dropped before, as by an error or a future that nobody awaits, the next read has it.
pub(crate) struct Unread<'a> {
    faults: &'a Faults,
    buffer: Option<Buffer>,
}

impl Unread<'_> {
    /// Its memory, unless it was read.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        self.buffer.as_ref()
    }

    /// It was read: what it says is known to the caller.
    pub(crate) fn done(mut self) {
        self.faults.copies().spare = self.buffer.take();
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.faults.copies().unread.push(buffer);
            self.faults.pending.store(true, Ordering::Release);
        }
    }
}
