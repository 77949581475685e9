//! Threads that want the same answer, or another.

use std::sync::atomic::AtomicUsize;
use std::sync::{Barrier, Condvar};

use super::*;

/// Counts, and holds its first run until told.
struct Counting<'a> {
    timed: &'a AtomicUsize,
    gate: Option<&'a (Mutex<bool>, Condvar)>,
    clock_ns: u64,
}

impl Runner for Counting<'_> {
    fn situation(&self) -> Situation {
        Situation::Free
    }

    fn check(&mut self, _: usize) -> Result<Check> {
        Ok(Check::Right)
    }

    fn time(&mut self, candidate: usize, runs: u32) -> Result<f64> {
        if let Some((open, changed)) = self.gate.take() {
            let open = open.lock().unwrap();
            drop(changed.wait_while(open, |open| !*open).unwrap());
        }
        self.timed.fetch_add(1, Ordering::Relaxed);
        self.clock_ns += MS * u64::from(runs);
        Ok(1e6 * (2 - candidate) as f64)
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns
    }
}

#[test]
fn threads_with_one_key_tune_once() {
    let (tuner, timed, barrier) = (tuner(Mode::Full), AtomicUsize::new(0), Barrier::new(8));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let mut runner = Counting { timed: &timed, gate: None, clock_ns: 0 };
                let both = offers(&[1.0, 1.0]);
                let choice = tuner.decide(&key(Precision::Highest), CLASS, &both, &mut runner).unwrap();
                assert_eq!(choice.candidate, 1);
            });
        }
    });
    let alone = AtomicUsize::new(0);
    let mut runner = Counting { timed: &alone, gate: None, clock_ns: 0 };
    let fresh = super::Tuner::new(identity("1"), options(Mode::Full, Place::Nowhere));
    fresh.decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut runner).unwrap();
    assert_eq!(timed.into_inner(), alone.into_inner(), "eight threads time no more than one");
}

#[test]
fn another_key_does_not_wait() {
    let (tuner, timed) = (tuner(Mode::Full), AtomicUsize::new(0));
    let gate = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let mut runner = Counting { timed: &timed, gate: Some(&gate), clock_ns: 0 };
            tuner.decide(&key(Precision::Highest), "one", &offers(&[1.0, 1.0]), &mut runner).unwrap()
        });
        // Decided while the first is held in the middle of its timing.
        let mut runner = Counting { timed: &timed, gate: None, clock_ns: 0 };
        let other = tuner.decide(&key(Precision::High), "other", &offers(&[1.0, 1.0]), &mut runner).unwrap();
        assert_eq!(other.candidate, 1);
        assert!(!held.is_finished());
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        assert_eq!(held.join().unwrap().candidate, 1);
    });
}
