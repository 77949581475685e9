//! Models: what must hold of a loop whenever helpers come, fail or are refused.
//!
//! Each task writes a cell without a lock, as tasks of the backend write their chunks; loom fails a model in which two threads
//! reach one cell at a time, in which the loop's owner reads it before the writer's write is known to it, or in which nobody can
//! go on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::model::Builder;

use crate::hand_out::{UNANSWERED, hand_out};
use crate::platform::{Arc, AtomicUsize, Done, Ordering, Short, allow_spawns};

/// Cells that tasks write, each its own.
struct Cells(Vec<UnsafeCell<u32>>);

// SAFETY: loom runs one thread at a time, and fails the model where two would reach a cell.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(count: usize) -> Cells {
        Cells((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn count_up(&self, i: usize) {
        // SAFETY: the pointer is valid while it is used; loom looks for others.
        self.0[i].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn get(&self, i: usize) -> u32 {
        // SAFETY: as above.
        self.0[i].with(|cell| unsafe { *cell })
    }
}

/// Runs `model` in every order with at most two preemptions, or as many as the environment says.
fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(move || {
        allow_spawns(usize::MAX);
        model();
    });
}

/// [`hand_out`] of tasks that write their cells, what it gave, and the cells: none may be reached afterwards.
fn run(count: usize, threads: usize, task: impl Fn(usize) -> Done + Sync) -> (std::thread::Result<Done>, Vec<u32>) {
    let (cells, asked) = (Cells::new(count), Arc::new(AtomicUsize::new(0)));
    let all = |i| {
        cells.count_up(i);
        task(i)
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| hand_out(count, threads, false, &asked, &all)));
    let seen = (0..count).map(|i| cells.get(i)).collect();
    (outcome, seen)
}

#[test]
fn every_number_is_done_once_and_seen_by_the_owner() {
    for (count, threads) in [(1, 2), (3, 2), (4, 3)] {
        every_order(move || {
            let (outcome, seen) = run(count, threads, |_| Ok(()));
            assert_eq!(outcome.expect("no panic"), Ok(()));
            assert_eq!(seen, vec![1; count]);
        });
    }
}

/// Two helpers ask on in turn, so that one may come when the loop is over while the other is within.
#[test]
fn helpers_that_ask_on_find_a_loop_or_its_end() {
    every_order(|| {
        let (outcome, seen) = run(2, 4, |_| Ok(()));
        assert_eq!(outcome.expect("no panic"), Ok(()));
        assert_eq!(seen, [1, 1]);
    });
}

#[test]
fn a_failure_ends_the_loop_when_nobody_is_within() {
    every_order(|| {
        let fails = |i| if i == 1 { Err(Short { bytes: 7 }) } else { Ok(()) };
        let (outcome, seen) = run(3, 2, fails);
        assert_eq!(outcome.expect("no panic"), Err(Short { bytes: 7 }));
        assert!(seen[1] == 1 && seen.iter().all(|&times| times <= 1), "{seen:?}");
    });
}

#[test]
fn two_failures_at_once_give_one_of_them() {
    every_order(|| {
        let (outcome, _) = run(2, 2, |i| Err(Short { bytes: i as u64 }));
        assert!(outcome.expect("no panic").expect_err("it fails").bytes < 2);
    });
}

#[test]
fn a_panic_is_passed_on_when_nobody_is_within() {
    for place in [0, 2] {
        every_order(move || {
            let (outcome, seen) = run(3, 2, |i| if i == place { panic!("number {i}") } else { Ok(()) });
            let panic = outcome.expect_err("it panics");
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("number {place}")));
            assert!(seen.iter().all(|&times| times <= 1), "{seen:?}");
        });
    }
}

/// A pool that panics when it is asked: the helper that was there already is waited for.
#[test]
fn a_panic_of_spawn_ends_the_loop_when_nobody_is_within() {
    for allowed in [0, 1] {
        every_order(move || {
            allow_spawns(allowed);
            let (outcome, seen) = run(2, 3, |_| Ok(()));
            let panic = outcome.expect_err("it panics");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"no thread to be had"));
            assert!(seen.iter().all(|&times| times <= 1), "{seen:?}");
        });
    }
}

/// Requests are counted down by whoever answers them, and by a pool that takes none: else a thread would ask no more one day.
#[test]
fn requests_are_counted_until_they_are_answered() {
    for allowed in [0, usize::MAX] {
        every_order(move || {
            allow_spawns(allowed);
            let asked = Arc::new(AtomicUsize::new(0));
            let _ = catch_unwind(AssertUnwindSafe(|| hand_out(1, 2, false, &asked, &|_| Ok(()))));
            // The one request, of a helper that has not come yet, if there is one.
            let left = asked.load(Ordering::Relaxed);
            assert!(if allowed == 0 { left == 0 } else { left <= 1 }, "{left}");
        });
    }
}

/// Beyond the limit nobody is asked, and the owner does all by itself.
#[test]
fn too_many_unanswered_requests_are_not_added_to() {
    every_order(|| {
        allow_spawns(0);
        let asked = Arc::new(AtomicUsize::new(UNANSWERED * 2));
        assert_eq!(hand_out(3, 2, false, &asked, &|_| Ok(())), Ok(()));
        assert_eq!(asked.load(Ordering::Relaxed), UNANSWERED * 2);
    });
}
