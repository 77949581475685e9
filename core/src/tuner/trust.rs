//! Which candidates may be used: verdicts of checks, found once and kept.
//!
//! A verdict is about one candidate, on one device with one driver, for one class of ops ([`super::Key`]). Wrong results and
//! launches that fail are remembered on disk; so is a device that was lost while a candidate was checked or timed, so that the next
//! process does not walk into it as well. What only this machine's driver lacks, and what fails later although it was right,
//! is forgotten with the process.

use std::sync::{Arc, Mutex};

use super::search::{Check, Runner};
use super::store::{Record, Verdict};
use super::{Key, Tuner, is_gone, lock};
use crate::tuned::kernels_of;
use crate::{Error, Result};

/// What is known of one candidate; threads that check the same one wait for each other.
pub(super) type VerdictSlot = Arc<Mutex<Option<Verdict>>>;

/// Whether a candidate may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
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

impl Tuner {
    /// The candidates that this process must not use, each with its reason: wrong results, or a failure to run.
    pub fn quarantine(&self) -> Vec<Verdict> {
        let verdicts: Vec<_> = lock(&self.verdicts).values().cloned().collect();
        let mut wrong: Vec<Verdict> = verdicts.iter().filter_map(|slot| lock(slot).clone()).collect();
        wrong.retain(|verdict| verdict.wrong.is_some());
        wrong.sort_by(|a, b| (&a.class, &a.candidate).cmp(&(&b.class, &b.candidate)));
        wrong
    }

    /// Whether a candidate may be used: by what is known, or by a check.
    pub(super) fn usable(&self, class: &str, name: &str, candidate: usize, runner: &mut dyn Runner) -> Result<Trust> {
        // Numbers of slabs are no other kernels.
        let name = kernels_of(name);
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
        runner.settle()?;
        let before = runner.now_ns();
        let checked = runner.check(candidate);
        log::debug!("{class}: {name}: checked in {:.1} ms", (runner.now_ns() - before) as f64 / 1e6);
        let wrong = match checked {
            Ok(Check::Right) => None,
            Ok(Check::Untried) => return Ok(Trust::Unknown),
            Ok(Check::Wrong(why)) => Some(why),
            Ok(Check::Missing(why)) => {
                log::info!("{}: {name} is not used: {why}", self.identity.device);
                *verdict = Some(self.verdict(class, name, Some(why)));
                return Ok(Trust::Wrong);
            }
            Err(error) if is_gone(&error) => {
                // This process is past saving.
                self.lost(class, name, "checked", &error);
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

    /// Remembers that the device was lost while a candidate was `doing`: the next process must not walk into it as well.
    pub(super) fn lost(&self, class: &str, name: &str, doing: &str, error: &Error) {
        let wrong = Some(format!("the device was lost while it was {doing}: {error}"));
        self.store.put(&Record::Verdict(self.verdict(class, kernels_of(name), wrong)));
    }

    fn verdict(&self, class: &str, candidate: &str, wrong: Option<String>) -> Verdict {
        let (class, candidate) = (class.to_owned(), candidate.to_owned());
        Verdict { identity: self.identity.clone(), class, candidate, wrong }
    }

    fn verdict_slot(&self, class: &str, name: &str) -> VerdictSlot {
        let mut verdicts = lock(&self.verdicts);
        Arc::clone(verdicts.entry((class.to_owned(), kernels_of(name).to_owned())).or_default())
    }

    pub(super) fn is_wrong(&self, class: &str, name: &str) -> bool {
        let slot = self.verdict_slot(class, name);
        let verdict = lock(&slot);
        verdict.as_ref().is_some_and(|verdict| verdict.wrong.is_some())
    }

    /// Whether a candidate passed its check.
    pub(super) fn is_right(&self, class: &str, name: &str) -> bool {
        let slot = self.verdict_slot(class, name);
        let verdict = lock(&slot);
        verdict.as_ref().is_some_and(|verdict| verdict.wrong.is_none())
    }

    /// Takes a candidate out that did not run although it was right before: for as long as this process lives. The next one
    /// checks it again.
    pub fn failed(&self, key: &Key, class: &str, name: &str, error: &Error) {
        log::warn!("{}: {name} is not used any more for {class}: {error}", self.identity.device);
        let kernels = kernels_of(name);
        *lock(&self.verdict_slot(class, kernels)) = Some(self.verdict(class, kernels, Some(error.to_string())));
        lock(&self.evicted).insert((class.to_owned(), kernels.to_owned()));
        self.store.forget_verdict(&self.identity, class, kernels);
        let text = key.to_string();
        if self.store.answer(&self.identity, &text).is_some_and(|answer| answer.winner == name) {
            self.store.forget_answer(&self.identity, &text);
        }
        self.slot(key).set(None);
        self.changed();
    }

    /// Whether [`Tuner::failed`] took a candidate out.
    pub(super) fn is_evicted(&self, class: &str, name: &str) -> bool {
        lock(&self.evicted).contains(&(class.to_owned(), kernels_of(name).to_owned()))
    }

    pub(super) fn none_right(&self, class: &str) -> Error {
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
}
