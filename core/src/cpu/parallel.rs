//! Work on large slices, shared out among the threads of the current rayon pool.
//!
//! Slices are cut into chunks of a fixed length; results do not depend on the number of threads. Below [`SERIAL`] elements the
//! caller's thread does all the work, because waking another one costs as much. Broadcasting a scalar is a closure that captures
//! it: `map1(|x| x + s, ..)`.
//!
//! A loop's own thread takes chunks like any other, and waits at its end only for those that others have taken. Rayon's loops take up other
//! tasks of the pool while they wait; here such a task, if it uses tensors, may want the lock of one that this thread's operation holds.
//! How numbers are handed out is in `parallel/hand_out.rs`; `core/loom` tries it in every order of its threads.

mod hand_out;

use std::cell::Cell;
use std::error::Error as _;
use std::marker::PhantomData;
use std::panic::catch_unwind;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::scratch::Done;
use super::simd::{self, Map1};

/// What [`hand_out`] is made of; `core/loom` has loom's.
mod platform {
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

    pub(crate) use super::super::scratch::{Done, Short};
    pub(super) use super::within;
    pub(crate) use rayon::spawn;

    /// Looks for the last helper's end before the loop's thread sleeps, which costs more than most chunks do (about 20 us).
    pub(crate) const LOOKS: usize = 200;

    /// What passes between two looks.
    pub(crate) fn pause() {
        (0..32).for_each(|_| std::hint::spin_loop());
    }
}

/// Elements below which one thread is faster: an addition of 64 Ki f32 takes about as long as waking a rayon worker (10 us).
pub const SERIAL: usize = if cfg!(miri) { 4 * CHUNK } else { 64 * 1024 };

/// Elements per task: three f32 operands of it (192 KiB) fit half of a 512 KiB L2.
pub const CHUNK: usize = if cfg!(miri) { 64 } else { 16 * 1024 };

/// Calls `task` with all numbers below `count`.
///
/// # Panics
/// When a task does: with the first panic, when no task runs any more.
fn tasks(count: usize, task: &(dyn Fn(usize) + Sync)) {
    let all = try_tasks(count, &|i| {
        task(i);
        Ok(())
    });
    debug_assert!(all.is_ok(), "these tasks cannot fail");
}

/// The same of tasks that can fail; the first failure ends it.
fn try_tasks(count: usize, task: &(dyn Fn(usize) -> Done + Sync)) -> Done {
    let threads = threads();
    let wide = count >= threads;
    let threads = threads.min(count);
    if threads <= 1 {
        return (0..count).try_for_each(task);
    }
    let asked = ASKED.try_with(Arc::clone).unwrap_or_default();
    hand_out::hand_out(count, threads, wide, &asked, task)
}

/// Threads that a loop here would have: those of the current pool, but one within a task of a loop that gives each of them something to do.
pub(crate) fn threads() -> usize {
    if WITHIN_WIDE.get() { 1 } else { pool_threads() }
}

/// Threads of the current pool; one where there is none, as the system refuses threads (a browser, a limit of the user's).
pub(crate) fn pool_threads() -> usize {
    static IS_REFUSED: OnceLock<bool> = OnceLock::new();
    let is_refused = || {
        // Rayon starts it at the first use otherwise, and panics when it cannot; in browsers it does without.
        if cfg!(target_family = "wasm") {
            return false;
        }
        let Err(error) = rayon::ThreadPoolBuilder::new().build_global() else { return false };
        // Without a source: somebody has started it, or could not.
        let Some(refusal) = error.source() else { return catch_unwind(rayon::current_num_threads).is_err() };
        log::warn!(
            "the CPU computes on one thread, as others were refused: {refusal}; raise the limit (`ulimit -u`) for more"
        );
        true
    };
    let is_worker = rayon::current_thread_index().is_some();
    if !is_worker && *IS_REFUSED.get_or_init(is_refused) { 1 } else { rayon::current_num_threads() }
}

thread_local! {
    /// Whether this thread runs a task of a loop with as many tasks as the pool has threads.
    static WITHIN_WIDE: Cell<bool> = const { Cell::new(false) };
    /// Requests of this thread's loops that no thread of the pool has answered.
    static ASKED: Arc<AtomicUsize> = Arc::default();
}

/// Calls `work`, within which [`threads`] knows whether it is of a `wide` loop.
fn within(wide: bool, work: impl FnOnce()) {
    let outer = WITHIN_WIDE.replace(wide);
    work();
    WITHIN_WIDE.set(outer);
}

/// A slice whose chunks of `size` elements are handed out to threads; the last may be shorter.
struct Chunks<'a, T> {
    first: *mut T,
    len: usize,
    size: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: it is an exclusive reference to its elements, of which threads take chunks that do not overlap (`take`).
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    fn new(y: &'a mut [T], size: usize) -> Chunks<'a, T> {
        assert!(size > 0, "chunks of no elements");
        Chunks { first: y.as_mut_ptr(), len: y.len(), size, borrowed: PhantomData }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    /// # Safety
    /// `i` is below `count`, and taken once.
    unsafe fn take(&self, i: usize) -> &'a mut [T] {
        let start = i * self.size;
        // SAFETY: within the slice that was borrowed, as `i` is below `count`; of no other chunk, as each is taken once.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), self.size.min(self.len - start)) }
    }
}

/// Calls `task` with each element of `all`.
pub(crate) fn each<T: Send>(all: &mut [T], task: impl Fn(&mut T) + Sync) {
    chunks(all, 1, |_, one| one.iter_mut().for_each(&task));
}

/// The same of a task that can fail.
pub(crate) fn try_each<T: Send>(all: &mut [T], task: impl Fn(&mut T) -> Done + Sync) -> Done {
    try_chunks(all, 1, |_, one| one.iter_mut().try_for_each(&task))
}

/// Calls `task(i, chunk)` with every chunk of `size` elements of `y`.
pub(crate) fn chunks<T: Send>(y: &mut [T], size: usize, task: impl Fn(usize, &mut [T]) + Sync) {
    let all = Chunks::new(y, size);
    // SAFETY: every number below the count once.
    tasks(all.count(), &|i| task(i, unsafe { all.take(i) }));
}

/// The same of a task that can fail.
pub(crate) fn try_chunks<T: Send>(y: &mut [T], size: usize, task: impl Fn(usize, &mut [T]) -> Done + Sync) -> Done {
    let all = Chunks::new(y, size);
    // SAFETY: every number below the count once.
    try_tasks(all.count(), &|i| task(i, unsafe { all.take(i) }))
}

/// Calls `task(chunk of y, chunk of x)` with every chunk of `size` elements of `y` and the chunk of `x_size` elements of `x` that
/// has the same number.
///
/// # Panics
/// When `x` has no such chunk.
pub(crate) fn pairs<T: Send, X: Sync>(
    (y, size): (&mut [T], usize),
    (x, x_size): (&[X], usize),
    task: impl Fn(&mut [T], &[X]) + Sync,
) {
    chunks(y, size, |i, y| task(y, chunk(x, x_size, i)));
}

/// Chunk number `i` of `x`.
pub(crate) fn chunk<X>(x: &[X], size: usize, i: usize) -> &[X] {
    &x[i * size..x.len().min((i + 1) * size)]
}

/// `y[i] = f(x[i])`.
///
/// # Panics
/// When the lengths differ.
pub fn map1<T: Copy + Sync, U: Send>(f: impl Map1<T, U>, x: &[T], y: &mut [U]) {
    assert_eq!(x.len(), y.len(), "map1: lengths differ");
    if y.len() < SERIAL {
        return simd::map1(f, x, y);
    }
    pairs((y, CHUNK), (x, CHUNK), |y, x| simd::map1(f, x, y));
}

/// `x[i] = f(x[i])`.
pub fn map1_in_place<T: Copy + Default + Send>(f: impl Map1<T, T>, x: &mut [T]) {
    if x.len() < SERIAL {
        return simd::map1_in_place(f, x);
    }
    chunks(x, CHUNK, |_, x| simd::map1_in_place(f, x));
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::Ordering;

    use super::hand_out::UNANSWERED;
    use super::*;
    use crate::cpu::scratch::Short;
    use crate::cpu::vmath;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool")
    }

    #[test]
    fn every_task_runs_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 16] {
            for count in [0, 1, 2, 5, if cfg!(miri) { 40 } else { 1000 }] {
                let mut seen = vec![0; count];
                pool(threads).install(|| chunks(&mut seen, 1, |_, seen| seen[0] += 1));
                assert!(seen.iter().all(|times| *times == 1), "{count} on {threads}");
            }
        }
    }

    /// Loops inside of a task, from threads inside and outside of the pool, while it has other work.
    #[test]
    fn loops_within_loops_end() {
        let sum = |n: usize| {
            let mut rows = vec![vec![0_u64; 300]; n];
            each(&mut rows, |row| chunks(row, 7, |i, part| part.fill(i as u64)));
            rows.iter().flatten().sum::<u64>()
        };
        // Miri takes a millisecond for what a processor does in one microsecond.
        let (rows, tasks, threads) = if cfg!(miri) { (3, 4, 2) } else { (40, 50, 5) };
        let expected = sum(rows);
        let pool = pool(3);
        pool.scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| assert_eq!(sum(rows), expected))));
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| assert_eq!(sum(rows), expected)))));
    }

    #[test]
    fn the_first_failure_ends_a_loop() {
        let late = AtomicUsize::new(0);
        let fails = |i: usize| match i {
            3 => Err(Short::OutOfMemory { bytes: 7 }),
            _ => {
                late.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        };
        let outcome = pool(4).install(|| try_tasks(1_000_000, &fails));
        assert_eq!(outcome, Err(Short::OutOfMemory { bytes: 7 }));
        assert!(late.load(Ordering::Relaxed) < 1_000_000 - 1, "all were done");
    }

    /// A panic reaches the thread whose loop it is, and no task runs afterwards, when what it borrows may be gone.
    #[test]
    fn a_panic_ends_a_loop_and_is_passed_on() {
        for place in [0, 999] {
            let inside = AtomicUsize::new(0);
            let run = || {
                tasks(1000, &|i| {
                    inside.fetch_add(1, Ordering::SeqCst);
                    let panics = i == place;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert!(!panics, "number {i}");
                });
            };
            let panic = pool(4).install(|| catch_unwind(AssertUnwindSafe(run))).expect_err("it panics");
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("number {place}")));
            assert_eq!(inside.load(Ordering::SeqCst), 0);
        }
    }

    /// Threads that all have tasks of one loop are not asked for another.
    #[test]
    fn loops_within_the_tasks_of_a_wide_loop_are_serial() {
        pool(4).install(|| {
            for (count, expected) in [(4, 1), (3, 4)] {
                tasks(count, &|_| assert_eq!(threads(), expected));
                assert_eq!(threads(), 4, "and afterwards");
            }
        });
    }

    /// A busy pool is not sent requests without end.
    #[test]
    fn requests_that_nobody_answers_have_a_limit() {
        let pool = pool(2);
        let (release, held) = std::sync::mpsc::channel::<()>();
        pool.spawn(move || assert!(held.recv().is_err(), "nothing is sent"));
        pool.install(|| {
            for _ in 0..1000 {
                tasks(4, &|_| ());
            }
            assert!(ASKED.with(|asked| asked.load(Ordering::Relaxed)) <= 2 * UNANSWERED);
        });
        drop(release);
    }

    /// Lengths round the chunk and the serial limit, at odd offsets into a larger buffer.
    #[test]
    fn maps_at_any_length_and_offset_match_serial() {
        let big: Vec<f32> = (0..5 * SERIAL).map(|i| (i as f32 * 0.37) % 50.0 - 25.0).collect();
        let lengths = [0, 1, CHUNK - 1, CHUNK, SERIAL - 1, SERIAL, SERIAL + 1, 2 * SERIAL + 17, 3 * SERIAL + CHUNK - 1];
        for (i, n) in lengths.into_iter().enumerate() {
            let a = &big[i..i + n];
            let (mut y, mut z) = (vec![f32::NAN; n], vec![f32::NAN; n]);
            map1(vmath::Exp, a, &mut y);
            simd::map1(vmath::Exp, a, &mut z);
            assert_eq!(y, z);
            map1_in_place(|x: f32| x + 1.0, &mut y);
            assert!(y.iter().zip(&z).all(|(y, z)| *y == z + 1.0));
        }
    }
}
