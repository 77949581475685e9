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
mod key;
mod plans;
mod search;
mod settings;
mod store;
mod table;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

pub use choose::{Candidate, Chooser, Planned};
pub use key::Key;
pub use search::{Check, Offer, Runner, Situation};
use search::{Found, Task, search};
pub use settings::{BUDGET_VARIABLE, Callback, Effort, MODE_VARIABLE, Mode, Options, Place, Progress, set_progress};
pub use store::{Store, Verdict};
pub use table::{Answer, Identity, Table, Timed};

use crate::{Error, Result};
use store::Record;

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
    /// Answers given to this process ([`Tuner::merge`]), by the text of their key.
    merged: Mutex<HashMap<String, Arc<Answer>>>,
    /// Counts what makes plans that were chosen before worth choosing again.
    generation: AtomicU64,
}

/// What is known of one candidate; threads that check the same one wait for each other.
type VerdictSlot = Arc<Mutex<Option<Verdict>>>;

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

/// Whether a candidate may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Right,
    Wrong,
    /// It was not checked, and cannot be now.
    Unknown,
}

impl Trust {
    fn of(verdict: &Verdict) -> Trust {
        if verdict.wrong.is_some() { Trust::Wrong } else { Trust::Right }
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

    /// Takes the answers of `table` that say more than those known: into this process where they are for this device, and
    /// into the store all of them. How many were taken.
    pub fn merge(&self, table: &Table) -> usize {
        let taken = match self.store.path() {
            Some(_) => self.store.merge(table),
            None => table.len(),
        };
        self.forget();
        let keys = table.answers().filter(|answer| answer.identity == self.identity);
        lock(&self.merged).extend(keys.map(|answer| (answer.key.clone(), Arc::new(answer.clone()))));
        taken
    }

    /// Forgets what this process knows of its own, files excepted: it is looked up or found out again.
    pub fn forget(&self) {
        self.keys.write().unwrap_or_else(PoisonError::into_inner).clear();
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
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.get(key)?.get().map(|answer| Answer::clone(&answer))
    }

    /// The candidates that this process must not use, each with its reason: wrong results, or a failure to run.
    pub fn quarantine(&self) -> Vec<Verdict> {
        let verdicts: Vec<_> = lock(&self.verdicts).values().cloned().collect();
        let mut wrong: Vec<Verdict> = verdicts.iter().filter_map(|slot| lock(slot).clone()).collect();
        wrong.retain(|verdict| verdict.wrong.is_some());
        wrong.sort_by(|a, b| (&a.class, &a.candidate).cmp(&(&b.class, &b.candidate)));
        wrong
    }

    /// Grows whenever what was chosen before may no longer be what would be chosen.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Which of `offers`, in the planner's order, serves `key`; `class` names what a check of them covers.
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
        let usable = &mut |candidate: usize, runner: &mut dyn Runner| {
            self.usable(class, offers[candidate].name, candidate, runner).map(|trust| trust == Trust::Right)
        };
        let mut found = search(&task, runner, usable)?;
        for (candidate, error) in &found.failed {
            self.failed(key, class, offers[*candidate].name, error);
        }
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
        let Some(candidate) = offers.iter().position(|offer| offer.name == answer.winner) else { return Ok(None) };
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

    /// Whether a candidate may be used: by what is known, or by a check.
    fn usable(&self, class: &str, name: &str, candidate: usize, runner: &mut dyn Runner) -> Result<Trust> {
        let slot = self.verdict_slot(class, name);
        // Held during the check: nobody checks the same twice, and other checks do not wait.
        let mut verdict = lock(&slot);
        if let Some(known) = &*verdict {
            return Ok(Trust::of(known));
        }
        if let Some(stored) = self.store.verdict(&self.identity, class, name) {
            if let Some(why) = &stored.wrong {
                log::warn!("{}: {name} is not used for {class}: {why}", self.identity.device);
            }
            return Ok(Trust::of(verdict.insert(stored)));
        }
        let wrong = match runner.check(candidate) {
            Ok(Check::Right) => None,
            Ok(Check::Untried) => return Ok(Trust::Unknown),
            Ok(Check::Wrong(why)) => Some(why),
            Ok(Check::Missing(why)) => {
                log::info!("{}: {name} is not used: {why}", self.identity.device);
                *verdict = Some(self.verdict(class, name, Some(why)));
                return Ok(Trust::Wrong);
            }
            Err(error) if is_gone(&error) => {
                // This process is past saving, the next one must not walk into it as well.
                let wrong = Some(format!("the device was lost while it was checked: {error}"));
                self.store.put(&Record::Verdict(self.verdict(class, name, wrong)));
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        if let Some(why) = &wrong {
            log::warn!(
                "{} ({}): {name} is not used for {class}: {why}; please report it",
                self.identity.device,
                self.identity.driver
            );
        }
        let found = verdict.insert(self.verdict(class, name, wrong));
        self.store.put(&Record::Verdict(found.clone()));
        Ok(Trust::of(found))
    }

    fn verdict(&self, class: &str, candidate: &str, wrong: Option<String>) -> Verdict {
        let (class, candidate) = (class.to_owned(), candidate.to_owned());
        Verdict { identity: self.identity.clone(), class, candidate, wrong }
    }

    fn verdict_slot(&self, class: &str, name: &str) -> VerdictSlot {
        let mut verdicts = lock(&self.verdicts);
        Arc::clone(verdicts.entry((class.to_owned(), name.to_owned())).or_default())
    }

    fn is_wrong(&self, class: &str, name: &str) -> bool {
        let slot = self.verdict_slot(class, name);
        let verdict = lock(&slot);
        verdict.as_ref().is_some_and(|verdict| verdict.wrong.is_some())
    }

    /// Whether a candidate passed its check.
    fn is_right(&self, class: &str, name: &str) -> bool {
        let slot = self.verdict_slot(class, name);
        let verdict = lock(&slot);
        verdict.as_ref().is_some_and(|verdict| verdict.wrong.is_none())
    }

    /// Takes a candidate out that did not run although it was right before: for as long as this process lives. The next one
    /// checks it again.
    pub fn failed(&self, key: &Key, class: &str, name: &str, error: &Error) {
        log::warn!("{}: {name} is not used any more for {class}: {error}", self.identity.device);
        *lock(&self.verdict_slot(class, name)) = Some(self.verdict(class, name, Some(error.to_string())));
        self.store.forget_verdict(&self.identity, class, name);
        let text = key.to_string();
        if self.store.answer(&self.identity, &text).is_some_and(|answer| answer.winner == name) {
            self.store.forget_answer(&self.identity, &text);
        }
        self.slot(key).set(None);
        self.changed();
    }

    fn none_right(&self, class: &str) -> Error {
        let reasons: Vec<String> = self
            .quarantine()
            .into_iter()
            .filter(|verdict| verdict.class == class)
            .map(|verdict| format!("{}: {}", verdict.candidate, verdict.wrong.unwrap_or_default()))
            .collect();
        Error::Backend {
            device: self.identity.device.clone(),
            op: class.split(' ').next().unwrap_or_default().to_owned(),
            message: format!(
                "no kernel for it computes what it should with driver {}; update the driver, or run `polywarp tune \
                 --clear` after a change to have them tried again ({})",
                self.identity.driver,
                reasons.join("; ")
            ),
        }
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
        Arc::clone(keys.entry(*key).or_default())
    }
}

#[cfg(test)]
mod tests;
