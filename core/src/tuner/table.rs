//! Answers as data: what was fastest for which key on which device, to be kept, shipped, exported and merged.
//!
//! A table decides only among candidates that a planner offers and that passed their check on the device at hand, so one
//! from elsewhere can make a program slower, never wrong. Its JSON is versioned; a table of another version is refused.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{DeviceInfo, Error, Result};

/// What the file says it is.
const FORMAT: &str = "polywarp tuning table";
/// Version of the JSON and of the texts of keys.
pub(super) const VERSION: u32 = 1;
/// Longest table that is read.
const MOST_BYTES: usize = 32 << 20;
/// Longest name or key.
const MOST_TEXT_BYTES: usize = 400;
/// Most times in one answer.
const MOST_TIMES: usize = 1000;

/// Which device, driver and kernels an answer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The marketing name.
    pub device: String,
    /// The API it is reached through.
    pub api: String,
    /// Driver name and version.
    pub driver: String,
    /// State of the kernels, and of what the device lets them use.
    pub kernels: String,
}

impl Identity {
    /// The identity of the device `info`; `kernels` are all that decides which kernels it can be offered and what they do.
    pub fn new(info: &DeviceInfo, kernels: &[&str]) -> Identity {
        let mut hasher = Sha256::new();
        for part in kernels {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finalize();
        let kernels = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Identity { device: info.name.clone(), api: info.api.clone(), driver: info.driver.clone(), kernels }
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// For what device.
    #[serde(flatten)]
    pub identity: Identity,
    /// For what ops: the text of a [`super::Key`].
    pub key: String,
    /// The candidate that was fastest.
    pub winner: String,
    /// Whether every candidate worth it was timed.
    pub complete: bool,
    /// Nanoseconds of each candidate timed.
    pub times: Vec<Timed>,
}

/// The time of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Its name.
    pub candidate: String,
    /// Nanoseconds of one run on the first operands seen of the key.
    pub ns: f64,
}

/// A set of answers, one for each device and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    answers: BTreeMap<(Identity, String), Answer>,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    version: u32,
    answers: Vec<Answer>,
}

impl Answer {
    /// Why it cannot be an answer, if it cannot.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let Identity { device, api, driver, kernels } = &self.identity;
        let texts = [device, api, driver, kernels, &self.key, &self.winner];
        let names = self.times.iter().map(|timed| &timed.candidate);
        if texts.into_iter().chain(names).any(|text| text.len() > MOST_TEXT_BYTES) {
            return Some("a text is too long");
        }
        if self.winner.is_empty() || self.key.is_empty() {
            return Some("a text is missing");
        }
        if self.times.len() > MOST_TIMES || self.times.iter().any(|timed| !timed.ns.is_finite() || timed.ns < 0.0) {
            return Some("a time cannot be true");
        }
        None
    }

    /// Whether this says more than `other`, which is for the same device and key.
    pub(super) fn outranks(&self, other: &Answer) -> bool {
        (self.complete, self.times.len()) > (other.complete, other.times.len())
    }
}

impl Table {
    /// No answers.
    pub fn new() -> Table {
        Table::default()
    }

    /// Its answers, by device and key.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.values()
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Adds an answer; one that is there already gives way when it says less. Whether it was taken.
    pub fn add(&mut self, answer: Answer) -> bool {
        let place = (answer.identity.clone(), answer.key.clone());
        let taken = self.answers.get(&place).is_none_or(|old| answer.outranks(old));
        if taken {
            self.answers.insert(place, answer);
        }
        taken
    }

    /// The answer for `key` on `identity`.
    pub fn get(&self, identity: &Identity, key: &str) -> Option<&Answer> {
        self.answers.get(&(identity.clone(), key.to_owned()))
    }

    /// The table in `json`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for what is no such table, or one of another version.
    pub fn from_json(json: &str) -> Result<Table> {
        let invalid = |reason: String| Error::InvalidArgument { what: "tuning table", reason };
        if json.len() > MOST_BYTES {
            return Err(invalid(format!("{} bytes; the longest that is read has {MOST_BYTES}", json.len())));
        }
        let file: File = serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?;
        if file.format != FORMAT {
            return Err(invalid(format!("its format is not \"{FORMAT}\"")));
        }
        if file.version != VERSION {
            return Err(invalid(format!("it has version {}, this library reads {VERSION}: tune again", file.version)));
        }
        let mut table = Table::new();
        for answer in file.answers {
            if let Some(fault) = answer.fault() {
                return Err(invalid(format!("{fault} in the answer for `{:.80}`", answer.key)));
            }
            table.add(answer);
        }
        Ok(table)
    }

    /// The same answers, each with its winner's time alone: all that choosing reads, and a quarter of the bytes.
    pub fn winners(&self) -> Table {
        let mut table = self.clone();
        for answer in table.answers.values_mut() {
            answer.times.retain(|timed| timed.candidate == answer.winner);
        }
        table
    }

    /// The table as JSON, one answer to a line.
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"format\": \"{FORMAT}\", \"version\": {VERSION}, \"answers\": [");
        let mut separator = "\n";
        for answer in self.answers() {
            // Strings and finite numbers always have a JSON.
            let Ok(line) = serde_json::to_string(answer) else { continue };
            text.push_str(separator);
            text.push_str(&line);
            separator = ",\n";
        }
        text.push_str("\n]}\n");
        text
    }

    /// The answer for `key` on any driver and kernels of a device of this name.
    fn for_device(&self, device: &str, api: &str, key: &str) -> Option<&Answer> {
        self.answers().find(|a| a.key == key && a.identity.device == device && a.identity.api == api)
    }
}

/// The answers that ship with the library. Made by `polywarp tune --size large --export` on each device; its answers hold for
/// every driver: what was fastest with one is near the fastest with the next.
pub(super) fn shipped(identity: &Identity, key: &str) -> Option<&'static Answer> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| match Table::from_json(include_str!("shipped.json")) {
        Ok(table) => table,
        Err(error) => {
            log::error!("the shipped tuning table cannot be read, which is a bug of polywarp: {error}");
            Table::new()
        }
    });
    table.for_device(&identity.device, &identity.api, key)
}

#[cfg(test)]
#[path = "shipped_tests.rs"]
mod tests;
