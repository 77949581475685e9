//! What `hand_out.rs` is made of, in loom's types; `core/src/cpu/parallel.rs` has the standard library's and rayon's.

use std::cell::Cell;

pub use std::sync::{Arc, PoisonError};

pub use loom::sync::atomic::{AtomicUsize, Ordering};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
pub use loom::thread::yield_now as pause;

/// A failure of a task.
#[derive(Debug, PartialEq, Eq)]
pub struct Short {
    pub bytes: u64,
}

/// How a task ends.
pub type Done = Result<(), Short>;

/// No look before the wait: loom lets the others go on where a thread yields, so that the wait would seldom be reached.
pub const LOOKS: usize = 0;

pub fn within(_: bool, work: impl FnOnce()) {
    work();
}

thread_local! {
    /// Calls of [`spawn`] that succeed before one panics. loom runs all threads of a model on one of the system's.
    static SPAWNS: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Lets `count` calls of [`spawn`] succeed, and the next one panic.
pub fn allow_spawns(count: usize) {
    SPAWNS.set(count);
}

/// A thread that runs `work` at any time from now on.
pub fn spawn(work: impl FnOnce() + 'static) {
    let left = SPAWNS.get();
    SPAWNS.set(left.wrapping_sub(1));
    assert!(left > 0, "no thread to be had");
    loom::thread::spawn(work);
}
