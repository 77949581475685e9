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
/// Version of one answer's JSON and of the texts of keys.
pub(super) const VERSION: u32 = 1;
/// Version of a table's JSON. Version 1, which is still read, repeated the identity in every answer.
const TABLE_VERSION: u32 = 2;
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

/// A table's JSON. Tables are long, and one ships in every program: what many answers share stands once.
#[derive(Deserialize)]
struct File {
    format: String,
    version: u32,
    devices: Option<Vec<OfDevice>>,
    /// What version 1 has instead.
    answers: Option<Vec<Answer>>,
}

/// The answers for one device.
#[derive(Deserialize)]
struct OfDevice {
    #[serde(flatten)]
    identity: Identity,
    answers: Vec<Line>,
}

/// One answer without its device.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    winner: String,
    /// Nanoseconds of the winner, when its time is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ns: Option<f64>,
    /// Nanoseconds by candidate, else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    times: Vec<(String, f64)>,
    /// Not every candidate worth it was timed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
}

impl Line {
    fn new(answer: &Answer) -> Line {
        let Answer { key, winner, complete, times, .. } = answer;
        let (ns, times) = match &times[..] {
            [only] if only.candidate == *winner => (Some(only.ns), Vec::new()),
            all => (None, all.iter().map(|timed| (timed.candidate.clone(), timed.ns)).collect()),
        };
        Line { key: key.clone(), winner: winner.clone(), ns, times, incomplete: !complete }
    }

    fn into_answer(self, identity: Identity) -> Answer {
        let own = self.ns.map(|ns| (self.winner.clone(), ns));
        let times = own.into_iter().chain(self.times).map(|(candidate, ns)| Timed { candidate, ns }).collect();
        Answer { identity, key: self.key, winner: self.winner, complete: !self.incomplete, times }
    }
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
        let lines = |OfDevice { identity, answers }: OfDevice| {
            answers.into_iter().map(move |line| line.into_answer(identity.clone()))
        };
        let answers: Vec<Answer> = match (file.version, file.devices, file.answers) {
            (1, None, Some(answers)) => answers,
            (TABLE_VERSION, Some(devices), None) => devices.into_iter().flat_map(lines).collect(),
            (1 | TABLE_VERSION, ..) => return Err(invalid("it has no answers, or those of two versions".to_owned())),
            (other, ..) => {
                let reason =
                    format!("it has version {other}, this library reads those up to {TABLE_VERSION}: tune again");
                return Err(invalid(reason));
            }
        };
        let mut table = Table::new();
        for answer in answers {
            if let Some(fault) = answer.fault() {
                return Err(invalid(format!("{fault} in the answer for `{:.80}`", answer.key)));
            }
            table.add(answer);
        }
        Ok(table)
    }

    /// The same answers, each with its winner's time alone, in whole nanoseconds: all that choosing reads, and the
    /// smaller part of the bytes.
    pub fn winners(&self) -> Table {
        let mut table = self.clone();
        for answer in table.answers.values_mut() {
            answer.times.retain(|timed| timed.candidate == answer.winner);
            answer.times.iter_mut().for_each(|timed| timed.ns = timed.ns.round());
        }
        table
    }

    /// The table as JSON, one answer to a line.
    pub fn to_json(&self) -> String {
        // Strings and finite numbers always have a JSON.
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let device = |identity: &Identity, answers: Vec<String>| {
            let identity = json(serde_json::to_string(identity));
            let open = identity.strip_suffix('}').unwrap_or_default();
            format!("\n{open},\"answers\":[\n{}\n]}}", answers.join(",\n"))
        };
        let mut devices: Vec<(&Identity, Vec<String>)> = Vec::new();
        for answer in self.answers() {
            let line = json(serde_json::to_string(&Line::new(answer)));
            match devices.last_mut() {
                Some((identity, lines)) if **identity == answer.identity => lines.push(line),
                _ => devices.push((&answer.identity, vec![line])),
            }
        }
        let devices: Vec<String> = devices.into_iter().map(|(identity, lines)| device(identity, lines)).collect();
        let devices = devices.join(",");
        format!("{{\"format\": \"{FORMAT}\", \"version\": {TABLE_VERSION}, \"devices\": [{devices}\n]}}\n")
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
