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
//!
//! Knows no GPU API; all of it is tested with runners that have neither device nor clock.

mod case;
mod choose;
mod copies;
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

pub use crate::plan::Candidate;
pub use crate::tuned::{Effort, Judged, Key, Tuned, find};
pub use case::check_cases;
pub use choose::{Chooser, Planned};
pub use search::{Check, Offer, Runner, Situation};
use search::{Found, Stopped, Task, search};
pub use settings::{BUDGET_VARIABLE, Callback, MODE_VARIABLE, Mode, Options, Place, Progress, set_progress};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use store::fuzzing;
pub use store::{Store, StoreError, Verdict};
pub use table::{Answer, Identity, Table, Timed};

use crate::{Error, Result};
use store::Record;
use trust::{Trust, VerdictSlot};

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

/// What [`Tuner::decide`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The candidate.
    pub candidate: usize,
    /// Whether asking again would give the same: no, when what can be found out was not, because the thread records or
    /// memory is short.
    pub settled: bool,
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

    /// The candidate that is settled for `key` and known to be right for `class`: nothing is checked or timed to answer.
    pub fn settled(&self, key: &Key, class: &str) -> Option<String> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone);
        let answer = known?.get()?;
        self.is_right(class, &answer.winner).then(|| answer.winner.clone())
    }

    /// Which of `offers`, in the planner's order, serves `key`; `class` names what a check of them covers. An answer of this process is followed
    /// first, then a remembered one; else candidates are timed, unless the mode or the situation forbids it: then the first right one serves.
    ///
    /// # Errors
    /// What is wrong with the device or the user's operands; [`Error::Backend`] when no candidate is right.
    pub fn decide(&self, key: &Key, class: &str, offers: &[Offer<'_>], runner: &mut dyn Runner) -> Result<Choice> {
        if offers.len() == 1 {
            return Ok(Choice { candidate: 0, settled: true }); // nothing to choose from, nothing to fall back on
        }
        let slot = self.slot(key);
        if let Some(choice) = self.follow(slot.get().as_deref(), class, offers, runner)? {
            return Ok(choice);
        }
        let _deciding = lock(&slot.deciding);
        if let Some(choice) = self.follow(slot.get().as_deref(), class, offers, runner)? {
            return Ok(choice);
        }
        let (mode, budget) = *lock(&self.options);
        let text = key.to_string();
        let remembered = if mode == Mode::Off { None } else { self.remembered(&text, &slot) };
        let followed = self.follow(remembered.as_deref(), class, offers, runner)?;
        let done = followed.is_some() && remembered.as_ref().is_some_and(|answer| answer.complete);
        let may_search = mode == Mode::Full && runner.situation() != Situation::CannotWait;
        if done || !may_search {
            if let Some(choice) = followed.filter(|choice| choice.settled) {
                slot.set(remembered);
                return Ok(choice);
            }
            return followed.map_or_else(|| self.first_right(class, offers, runner), Ok);
        }
        if runner.situation() == Situation::Recording {
            // For now: the next use outside of a recording times what there is.
            let choice = followed.map_or_else(|| self.first_right(class, offers, runner), Ok)?;
            return Ok(Choice { settled: false, ..choice });
        }
        match self.search(key, (&text, class), offers, remembered.as_deref(), budget, runner)? {
            Some((candidate, answer)) => {
                self.store.put(&Record::Answer(answer.clone()));
                slot.set(Some(Arc::new(answer)));
                Ok(Choice { candidate, settled: true })
            }
            // Nothing could be timed: every candidate failed, or there is no memory to check one.
            None => self.first_right(class, offers, runner),
        }
    }

    /// Times what nobody has timed; the fastest candidate that is right.
    fn search(
        &self,
        key: &Key,
        (text, class): (&str, &str),
        offers: &[Offer<'_>],
        remembered: Option<&Answer>,
        budget: Duration,
        runner: &mut dyn Runner,
    ) -> Result<Option<(usize, Answer)>> {
        let times = remembered.map(|answer| answer.times.as_slice()).unwrap_or_default();
        let known: Vec<(String, f64)> = times
            .iter()
            .filter(|timed| !self.is_wrong(class, &timed.candidate))
            .map(|timed| (timed.candidate.clone(), timed.ns))
            .collect();
        let task = Task { device: &self.identity.device, key: text, offers, known: &known, budget };
        let mut untried = false;
        runner.settle()?;
        let usable = &mut |candidate: usize, runner: &mut dyn Runner| {
            let trust = self.usable(class, offers[candidate].name, candidate, runner)?;
            untried |= trust == Trust::Unknown;
            Ok(trust == Trust::Right)
        };
        let mut found = search(&task, runner, usable).map_err(|Stopped { candidate, error }| {
            if let Some(candidate) = candidate.filter(|_| is_gone(&error)) {
                self.lost(class, offers[candidate].name, "timed", &error);
            }
            error
        })?;
        for (candidate, error) in &found.failed {
            self.failed(key, class, offers[*candidate].name, error);
        }
        // Memory for its check may be there another day, and so may what ran before.
        found.complete &= !untried && !offers.iter().any(|offer| self.is_evicted(class, offer.name));
        while let Some(winner) = found.winner() {
            // What an earlier process timed was not checked in this one.
            if self.usable(class, offers[winner].name, winner, runner)? == Trust::Right {
                let answer = self.answer_of(text, offers, &found, winner);
                log::debug!("{}: {text}: {} is best of {}", self.identity.device, answer.winner, answer.times.len());
                return Ok(Some((winner, answer)));
            }
            found.times.retain(|(candidate, _)| *candidate != winner);
        }
        Ok(None)
    }

    fn answer_of(&self, key: &str, offers: &[Offer<'_>], found: &Found, winner: usize) -> Answer {
        let timed = |&(candidate, ns): &(usize, f64)| Timed { candidate: offers[candidate].name.to_owned(), ns };
        let times = found.times.iter().map(timed).collect();
        let (identity, winner) = (self.identity.clone(), offers[winner].name.to_owned());
        Answer { identity, key: key.to_owned(), winner, complete: found.complete, times }
    }

    /// What `answer` says, where its winner is on offer and not wrong.
    fn follow(
        &self,
        answer: Option<&Answer>,
        class: &str,
        offers: &[Offer<'_>],
        runner: &mut dyn Runner,
    ) -> Result<Option<Choice>> {
        let Some(answer) = answer else { return Ok(None) };
        let names = offers.iter().map(|offer| offer.name);
        let Some(candidate) = find(names, &answer.winner) else { return Ok(None) };
        Ok(match self.usable(class, &answer.winner, candidate, runner)? {
            Trust::Right => Some(Choice { candidate, settled: true }),
            Trust::Unknown => Some(Choice { candidate, settled: false }),
            Trust::Wrong => None,
        })
    }

    /// The first candidate that is right; else the first of which nothing is known, because nothing can be found out now.
    fn first_right(&self, class: &str, offers: &[Offer<'_>], runner: &mut dyn Runner) -> Result<Choice> {
        let mut unknown = None;
        for (candidate, offer) in offers.iter().enumerate() {
            match self.usable(class, offer.name, candidate, runner)? {
                Trust::Right => return Ok(Choice { candidate, settled: true }),
                Trust::Unknown => unknown = unknown.or(Some(candidate)),
                Trust::Wrong => {}
            }
        }
        let settled = runner.situation() == Situation::CannotWait;
        unknown.map(|candidate| Choice { candidate, settled }).ok_or_else(|| self.none_right(class))
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
