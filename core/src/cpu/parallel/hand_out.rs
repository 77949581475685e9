//! Tasks by number, handed out to the thread whose loop it is and to helpers that come when they come.
//!
//! Not which threads help, or how many: `parallel.rs` says that, and gives what [`super::platform`] has. The decision to know: nothing
//! here names `std::sync` or rayon, so that `core/loom` compiles this very file with loom's types and tries every order in which
//! its threads can run.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::platform::{
    Arc, AtomicUsize, Condvar, Done, LOOKS, Mutex, MutexGuard, Ordering, PoisonError, Short, pause, spawn, within,
};

/// A thread takes one of so many parts, for each thread, of the tasks that are left: neighbours, so that memory is read and written in
/// long runs (copies lost 12 % on 16 threads where tasks were taken one by one), fewer as the end comes near.
const RUNS: usize = 2;

/// Threads that one asks for help by itself. With four, reductions and copies on 16 threads take 5 to 35 % longer
/// (benches/results/h200-2026-11-24b/cpu-loops.txt).
const FAN_OUT: usize = 2;

/// Requests for help that may lie unanswered, for each thread of the pool: more are asked for by a thread whose pool is busy.
pub(crate) const UNANSWERED: usize = 4;

/// A loop's task, by its number.
type Task<'a> = &'a (dyn Fn(usize) -> Done + Sync);

/// Calls `task` with all numbers below `count` on this thread and on up to `threads - 1` helpers; the first failure ends it. `wide`:
/// within the tasks there is no thread left for loops. `asked` counts this thread's requests for help that nobody has answered.
///
/// # Panics
/// When a task does: with the first panic, when no task runs any more.
pub(crate) fn hand_out(count: usize, threads: usize, wide: bool, asked: &Arc<AtomicUsize>, task: Task<'_>) -> Done {
    // SAFETY: the reference is used by threads inside of `Loop::work` alone. Helpers are there only if they came before the loop was
    // over, and `Loop::end` waits until they have left; it is reached whichever way this function is left.
    let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
    let (next, runs, asked) = (AtomicUsize::new(0), RUNS * threads, Arc::clone(asked));
    let (state, left) = (Mutex::new(State::default()), Condvar::new());
    let all = Arc::new(Loop { task, count, wide, runs, next, state, left, asked });
    {
        let _end = Finally(|| all.end());
        if all.asked.load(Ordering::Relaxed) < UNANSWERED * threads {
            all.ask_for(threads - 1);
        }
        all.work();
    }
    all.outcome()
}

/// Instead of the next number of a loop that has failed.
const STOPPED: usize = usize::MAX;

/// Tasks by number, taken by the thread whose loop it is and by helpers.
struct Loop {
    task: Task<'static>,
    count: usize,
    /// As many tasks as the pool has threads, or more.
    wide: bool,
    runs: usize,
    /// The next number to take; `count` when there is none, [`STOPPED`] when none is to run any more.
    next: AtomicUsize,
    state: Mutex<State>,
    /// The last helper has left.
    left: Condvar,
    asked: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// Threads that may be inside of a task, without the loop's own.
    helpers: usize,
    /// Whoever comes now comes too late.
    over: bool,
    failure: Option<Failure>,
}

enum Failure {
    Memory(Short),
    Panic(Box<dyn Any + Send>),
}

/// Calls what it holds when it goes, also by a panic.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A request for help, counted until it is answered or given up.
struct Request(Arc<AtomicUsize>);

impl Request {
    fn new(asked: &Arc<AtomicUsize>) -> Request {
        asked.fetch_add(1, Ordering::Relaxed);
        Request(Arc::clone(asked))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Loop {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks some threads of the pool, who ask as many more each, until there are `helpers`: each request costs its sender time.
    fn ask_for(self: &Arc<Loop>, helpers: usize) {
        for i in 0..FAN_OUT {
            let share = (helpers + i) / FAN_OUT;
            if share > 0 {
                let (own, request) = (Arc::clone(self), Request::new(&self.asked));
                spawn(move || {
                    drop(request);
                    own.help(share - 1);
                });
            }
        }
    }

    /// Answers a request, and asks `more` threads in turn.
    fn help(self: Arc<Loop>, more: usize) {
        {
            let mut state = self.state();
            if state.over {
                return;
            }
            state.helpers += 1;
        }
        let _leaves = Finally(|| self.leave());
        self.ask_for(more);
        self.work();
    }

    fn leave(&self) {
        let mut state = self.state();
        state.helpers -= 1;
        if state.helpers == 0 {
            self.left.notify_one();
        }
    }

    /// Takes numbers until there are none.
    fn work(&self) {
        within(self.wide, || self.run_all());
    }

    fn run_all(&self) {
        loop {
            let run = self.take();
            if run.is_empty() {
                return;
            }
            for i in run {
                let failure = match catch_unwind(AssertUnwindSafe(|| (self.task)(i))) {
                    Ok(Ok(())) if self.next.load(Ordering::Relaxed) != STOPPED => continue,
                    Ok(Ok(())) => return,
                    Ok(Err(short)) => Failure::Memory(short),
                    Err(panic) => Failure::Panic(panic),
                };
                self.next.store(STOPPED, Ordering::Relaxed);
                self.state().failure.get_or_insert(failure);
                return;
            }
        }
    }

    /// The next run of numbers, empty when all are taken.
    fn take(&self) -> Range<usize> {
        let mut start = self.next.load(Ordering::Relaxed);
        while start < self.count {
            let end = start + ((self.count - start) / self.runs).max(1);
            match self.next.compare_exchange_weak(start, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return start..end,
                Err(now) => start = now,
            }
        }
        0..0
    }

    /// Waits for those inside; nobody comes in afterwards.
    fn end(&self) {
        self.state().over = true;
        for _ in 0..LOOKS {
            if self.state().helpers == 0 {
                break;
            }
            pause();
        }
        let mut state = self.state();
        while state.helpers > 0 {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How an ended loop ended.
    fn outcome(&self) -> Done {
        let failure = self.state().failure.take();
        match failure {
            None => Ok(()),
            Some(Failure::Memory(short)) => Err(short),
            Some(Failure::Panic(panic)) => resume_unwind(panic),
        }
    }
}
