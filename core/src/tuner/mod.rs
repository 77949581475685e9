//! The tuner: which of several kernels serves an op, on this device, with this driver.
//!
//! Planners rank candidates; the tuner trusts none of them. Before a candidate's first use its results are checked against
//! the float64 oracle on a small product of the same kind (`case.rs`); one that is wrong or does not run is put in
//! quarantine, which is remembered and reported, and the next is used. Among those that are right, the fastest is found by
//! timing at the first use of a [`Key`], within a budget (`search.rs`), or known from an earlier process (`store.rs`) or from
//! the table that ships (`table.rs`). It never chooses a precision: that is part of the key.
//!
//! | to find | look in |
//! |---|---|
//! | what a backend does to be tuned | [`Planned`], [`Chooser`] |
//! | which ops share an answer | [`Key`] |
//! | the mode, the budget, progress | [`Options`], [`set_progress`] |
//! | files, export and merge | [`Store`], [`Table`] |
//! | what it knows and what it found wrong | [`Tuner`] |
//! | how it comes to a choice | `decide.rs` |
//!
//! Knows no GPU API; all of it is tested with runners that have neither device nor clock.

mod case;
mod choose;
mod copies;
mod decide;
mod device;
mod plans;
mod search;
mod settings;
mod store;
mod table;
mod trust;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

pub use crate::operation::Tuned;
pub use crate::plan::Candidate;
pub use crate::tuned::{Effort, Judged, Key, find};
pub use case::check_cases;
pub use choose::{Chooser, Planned};
pub use decide::Choice;
pub use search::{Check, Offer, Runner, Situation};
pub use settings::{BUDGET_VARIABLE, Callback, MODE_VARIABLE, Mode, Options, Place, Progress, set_progress};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use store::fuzzing;
pub use store::{Store, StoreError, Verdict};
pub use table::{Answer, Identity, Table, Timed};

use crate::Error;
use trust::VerdictSlot;

/// What one device's tuner knows.
#[derive(Debug)]
pub struct Tuner {
    identity: Identity,
    effort: Effort,
    options: Mutex<(Mode, Duration)>,
    store: Store,
    keys: RwLock<HashMap<Key, Arc<Slot>>>,
    /// By class and candidate.
    verdicts: Mutex<HashMap<(String, String), VerdictSlot>>,
    /// Those that were right and failed later, which the next process may try again.
    evicted: Mutex<HashSet<(String, String)>>,
    /// Answers given to this process ([`Tuner::merge`]), by the text of their key.
    merged: Mutex<HashMap<String, Arc<Answer>>>,
    /// Counts what makes plans that were chosen before worth choosing again.
    generation: AtomicU64,
}

/// One key: threads that need it wait for the one that decides, and for nobody else.
#[derive(Debug, Default)]
struct Slot {
    deciding: Mutex<()>,
    decided: RwLock<Option<Arc<Answer>>>,
    /// What earlier processes found out.
    remembered: OnceLock<Option<Arc<Answer>>>,
}

impl Slot {
    fn get(&self) -> Option<Arc<Answer>> {
        self.decided.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, answer: Option<Arc<Answer>>) {
        *self.decided.write().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

/// Whether nothing more can be had from the device.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::DeviceLost { .. } | Error::DevicePoisoned { .. })
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every statement leaves what is guarded valid, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tuner {
    /// A tuner for the device `identity`.
    pub fn new(identity: Identity, options: Options) -> Tuner {
        Tuner {
            identity,
            effort: options.effort,
            options: Mutex::new((options.mode, options.budget)),
            store: Store::open(&options.place),
            keys: RwLock::default(),
            verdicts: Mutex::default(),
            evicted: Mutex::default(),
            merged: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Whose answers these are.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Where answers are kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How large checks are.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// How a kernel is chosen.
    pub fn mode(&self) -> Mode {
        lock(&self.options).0
    }

    /// Most time spent on the first use of a key.
    pub fn budget(&self) -> Duration {
        lock(&self.options).1
    }

    /// Changes how kernels are chosen from now on. Keys that this process has decided are decided anew.
    pub fn set(&self, mode: Mode, budget: Duration) {
        *lock(&self.options) = (mode, budget);
        self.forget();
    }

    /// Takes the answers of `table` that say more than those known: into the store, or, where nothing is kept on disk or it cannot
    /// be written, those for this device into this process. How many were taken.
    pub fn merge(&self, table: &Table) -> usize {
        let stored = self.store.path().map(|_| {
            self.store.merge(table).inspect_err(|error| {
                log::warn!(
                    "of {} answers {} were stored, the others serve this process: {error}",
                    table.len(),
                    error.done
                );
            })
        });
        let taken = if let Some(Ok(taken)) = stored {
            taken
        } else {
            let own = table.answers().filter(|answer| answer.identity == self.identity);
            let mut merged = lock(&self.merged);
            let better: Vec<&Answer> =
                own.filter(|answer| merged.get(&answer.key).is_none_or(|known| answer.outranks(known))).collect();
            merged.extend(better.iter().map(|&answer| (answer.key.clone(), Arc::new(answer.clone()))));
            better.len().max(stored.map_or(0, |failed| failed.unwrap_or_else(|error| error.done)))
        };
        self.forget();
        taken
    }

    /// Forgets what this process knows of its own, files excepted: it is looked up or found out again.
    pub fn forget(&self) {
        self.keys.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.changed();
    }

    /// Forgets what is known of `key`, here, on disk and from the shipped table, so that its next use finds it out anew.
    pub fn retune(&self, key: &Key) {
        let text = key.to_string();
        lock(&self.merged).remove(&text);
        self.store.forget_answer(&self.identity, &text);
        let slot = Slot { remembered: OnceLock::from(None), ..Slot::default() };
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), Arc::new(slot));
        self.changed();
    }

    /// What this process has decided so far, by key.
    pub fn answers(&self) -> Table {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::new();
        for answer in keys.values().filter_map(|slot| slot.get()) {
            table.add(Answer::clone(&answer));
        }
        table
    }

    /// What this process has decided for `key`.
    pub fn answer(&self, key: &Key) -> Option<Answer> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone);
        known?.get().map(|answer| Answer::clone(&answer))
    }

    /// Grows whenever what was chosen before may no longer be what would be chosen.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The candidate that this process has decided on for `key` and knows to be right for `class`: nothing is checked or timed to answer.
    pub fn decided(&self, key: &Key, class: &str) -> Option<String> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone);
        let answer = known?.get()?;
        self.is_right(class, &answer.winner).then(|| answer.winner.clone())
    }

    /// What was found out before: merged into this process, on disk, shipped. Looked up once for each key.
    fn remembered(&self, key: &str, slot: &Slot) -> Option<Arc<Answer>> {
        let look_up = || {
            let stored = self.store.answer(&self.identity, key);
            stored.or_else(|| table::shipped(&self.identity, key).cloned()).map(Arc::new)
        };
        let merged = lock(&self.merged).get(key).cloned();
        merged.or_else(|| slot.remembered.get_or_init(look_up).clone())
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = keys.get(key) {
            return Arc::clone(slot);
        }
        drop(keys);
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(keys.entry(key.clone()).or_default())
    }
}

#[cfg(test)]
mod tests;
