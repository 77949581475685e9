//! Cases run abreast: several threads each take the next case, lay out its operands, have the device run it, compute its oracle and compare.
//!
//! So the oracle of one case, in float64 on one core, goes on while the device works on another, and the kernels of several are compiled at the
//! same time. The decision to know: threads share whole cases, not phases of them, because any of the phases may be the longest: the oracle
//! beside a fast card, the compiler behind wgpu. What is told comes in the order of the cases, whichever ends first, and a case draws its values
//! from its name, so a report does not depend on the number of threads. Nothing is tuned meanwhile: kernels would be timed beside the work of other
//! threads, and the answers kept.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::item::Item;
use super::run::{Clocks, Reads};
use super::{FailureKind, Outcome};
use crate::Device;
use crate::tuner::{Mode, Tuner};

/// Elements of operands that cases under way have together, unless one alone has more (so does a row that must be alone): an element takes up to 48 bytes in a list of operands and as many in
/// the oracle's, so 2^24 take some 2 GiB.
const MOST_ELEMENTS: u64 = 1 << 24;

/// What has been handed out.
#[derive(Default)]
struct Handed {
    next: usize,
    running: usize,
    elements: u64,
    is_over: bool,
}

/// Runs `items` on `threads` threads and tells of each in order; ends after the first that lost the device.
pub(super) fn run(
    device: &Device,
    items: &[Item],
    seed: u64,
    threads: usize,
    clocks: &Clocks,
    tell: &mut dyn FnMut(usize, Outcome),
) {
    let _untimed = Untimed::begin(device);
    let (handed, has_ended) = (Mutex::new(Handed::default()), Condvar::new());
    let lock = || -> MutexGuard<'_, Handed> { handed.lock().unwrap_or_else(PoisonError::into_inner) };
    let work = |results: mpsc::Sender<(usize, Outcome)>| {
        loop {
            let mut state = lock();
            let (number, elements) = loop {
                let Some(item) = items.get(state.next).filter(|_| !state.is_over) else { return };
                let elements = item.elements();
                if state.running == 0 || state.elements.saturating_add(elements) <= MOST_ELEMENTS {
                    break (state.next, elements);
                }
                state = has_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.next += 1;
            state.running += 1;
            state.elements = state.elements.saturating_add(elements);
            drop(state);
            let outcome = pollster::block_on(items[number].outcome(device, seed, Reads::Blocking, clocks));
            let mut state = lock();
            state.running -= 1;
            state.elements -= elements;
            state.is_over |= is_lost(&outcome);
            drop(state);
            has_ended.notify_all();
            // Nobody listens any more when the telling itself has panicked.
            if results.send((number, outcome)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        let (mut early, mut next) = (BTreeMap::new(), 0);
        for (number, outcome) in results {
            early.insert(number, outcome);
            while let Some(outcome) = early.remove(&next) {
                let is_over = is_lost(&outcome);
                tell(next, outcome);
                if is_over {
                    return;
                }
                next += 1;
            }
        }
    });
}

/// While it lives the device times no candidates; those that are known to be fast serve as before.
struct Untimed<'a>(Option<(&'a Tuner, Mode, Duration)>);

impl Untimed<'_> {
    fn begin(device: &Device) -> Untimed<'_> {
        let tuner = device.tuner().filter(|tuner| tuner.mode() == Mode::Full);
        Untimed(tuner.map(|tuner| {
            let before = (tuner, tuner.mode(), tuner.budget());
            tuner.set(Mode::Cached, tuner.budget());
            before
        }))
    }
}

impl Drop for Untimed<'_> {
    fn drop(&mut self) {
        if let Some((tuner, mode, budget)) = self.0 {
            tuner.set(mode, budget);
        }
    }
}

pub(super) fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Fail(failure) if failure.kind == FailureKind::DeviceLost)
}
