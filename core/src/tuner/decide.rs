//! How the tuner decides which candidate serves a key: what this process has decided, else what earlier processes know, else what a search
//! finds out now, else the first candidate that is right.
//!
//! Not here: how a search goes (`search.rs`), how a candidate is checked (`trust.rs`). The decision to know: a choice that is not settled is
//! kept nowhere, so that the next use of the key asks again.

use std::sync::Arc;
use std::time::Duration;

use super::search::{Found, Offer, Runner, Situation, Stopped, Task, search};
use super::store::Record;
use super::table::{Answer, Timed};
use super::trust::Trust;
use super::{Key, Mode, Slot, Tuner, find, is_gone, lock};
use crate::Result;

/// What [`Tuner::decide`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The candidate.
    pub candidate: usize,
    /// Whether asking again would give the same: no, when what can be found out was not, because the thread records or
    /// memory is short.
    pub settled: bool,
}

/// What the tuner is asked.
struct Question<'a> {
    key: &'a Key,
    /// The key, as answers are stored under it.
    text: &'a str,
    /// What a check of a candidate covers.
    class: &'a str,
    /// The candidates, in the planner's order.
    offers: &'a [Offer<'a>],
}

/// Whether candidates are timed for a key that this process has not decided.
enum Timing {
    Now,
    /// The calling thread records: the next use outside of a recording times them.
    Later,
    /// All are timed, or the mode or the situation forbids it.
    Never,
}

impl Tuner {
    /// Which of `offers`, in the planner's order, serves `key`; `class` names what a check of them covers. An answer of this process is followed
    /// first, then a remembered one; else candidates are timed, unless the mode or the situation forbids it: then the first right one serves.
    ///
    /// # Errors
    /// What is wrong with the device or the user's operands; [`Error::Backend`](crate::Error::Backend) when no candidate is right.
    pub fn decide(&self, key: &Key, class: &str, offers: &[Offer<'_>], runner: &mut dyn Runner) -> Result<Choice> {
        if offers.len() == 1 {
            return Ok(Choice { candidate: 0, settled: true }); // nothing to choose from, nothing to fall back on
        }
        let slot = self.slot(key);
        if let Some(choice) = self.follow(slot.get().as_deref(), class, offers, runner)? {
            return Ok(choice);
        }
        // One thread finds out; those that waited for it follow its answer.
        let _deciding = lock(&slot.deciding);
        if let Some(choice) = self.follow(slot.get().as_deref(), class, offers, runner)? {
            return Ok(choice);
        }
        self.find_out(&Question { key, text: &key.to_string(), class, offers }, &slot, runner)
    }

    /// [`Tuner::decide`] of a key that this process has not decided, by the one thread that does.
    fn find_out(&self, question: &Question<'_>, slot: &Slot, runner: &mut dyn Runner) -> Result<Choice> {
        let &Question { text, class, offers, .. } = question;
        let (mode, budget) = *lock(&self.options);
        let remembered = if mode == Mode::Off { None } else { self.remembered(text, slot) };
        let followed = self.follow(remembered.as_deref(), class, offers, runner)?;
        let all_timed = followed.is_some() && remembered.as_ref().is_some_and(|answer| answer.complete);
        let timing = match runner.situation() {
            _ if all_timed || mode != Mode::Full => Timing::Never,
            Situation::CannotWait => Timing::Never,
            Situation::Recording => Timing::Later,
            Situation::Free => Timing::Now,
        };
        let followed_or_first =
            |runner: &mut dyn Runner| followed.map_or_else(|| self.first_right(class, offers, runner), Ok);
        match timing {
            Timing::Now => {
                let Some((candidate, answer)) = self.search(question, remembered.as_deref(), budget, runner)? else {
                    // Nothing could be timed: every candidate failed, or there is no memory to check one.
                    return self.first_right(class, offers, runner);
                };
                self.store.put(&Record::Answer(answer.clone()));
                slot.set(Some(Arc::new(answer)));
                Ok(Choice { candidate, settled: true })
            }
            Timing::Later => Ok(Choice { settled: false, ..followed_or_first(runner)? }),
            Timing::Never => {
                if followed.is_some_and(|choice| choice.settled) {
                    slot.set(remembered);
                }
                followed_or_first(runner)
            }
        }
    }

    /// Times what nobody has timed; the fastest candidate that is right.
    fn search(
        &self,
        question: &Question<'_>,
        remembered: Option<&Answer>,
        budget: Duration,
        runner: &mut dyn Runner,
    ) -> Result<Option<(usize, Answer)>> {
        let &Question { key, text, class, offers } = question;
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
                let answer = self.answer_of(question, &found, winner);
                log::debug!("{}: {text}: {} is best of {}", self.identity.device, answer.winner, answer.times.len());
                return Ok(Some((winner, answer)));
            }
            found.times.retain(|(candidate, _)| *candidate != winner);
        }
        Ok(None)
    }

    fn answer_of(&self, question: &Question<'_>, found: &Found, winner: usize) -> Answer {
        let name = |candidate: usize| question.offers[candidate].name.to_owned();
        let times = found.times.iter().map(|&(candidate, ns)| Timed { candidate: name(candidate), ns }).collect();
        let (identity, key) = (self.identity.clone(), question.text.to_owned());
        Answer { identity, key, winner: name(winner), complete: found.complete, times }
    }

    /// What `answer` says, where its winner is on offer and not wrong. Not settled where the winner could not be checked now.
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

    /// The first candidate that is right; if none is known to be right, the first that could not be checked now.
    pub(super) fn first_right(&self, class: &str, offers: &[Offer<'_>], runner: &mut dyn Runner) -> Result<Choice> {
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
}
