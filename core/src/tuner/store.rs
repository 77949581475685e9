//! What the tuner keeps on disk: answers, and verdicts of checks.
//!
//! One file to each, so that processes which write at the same time lose nothing of each other's: named by a digest of what
//! it is about, written whole, and read only when its own digest is right and it is about what was asked. Anything else is a
//! warning and a miss, never an error. A verdict is about its check too, so that an older library's is not trusted. The rules of
//! the directory are [`UserDir`]'s.
//!
//! What cannot be written stops no computation: the first such failure is a warning, and [`Store::failure`] tells of it. Who
//! asks for a change of the files themselves ([`Store::merge`], [`Store::clear`]) gets the error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::settings::Place;
use super::table::{Answer, Identity, Table, VERSION};
use crate::user_dir::UserDir;

/// What the files end in.
const SUFFIX: &str = ".tuning";
/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;
/// What a check is: part of every verdict's name, so that one of an older check is not found and the candidate is checked again.
/// The number goes up with every change between versions of what a check computes with, demands or allows: `case.rs`, an
/// op's oracle, its bound.
const CHECK: &str = concat!(env!("CARGO_PKG_VERSION"), " 1");
/// Hexadecimal digits of a SHA-256.
const DIGEST_DIGITS: usize = 64;
/// The file that [`Store::check`] writes and removes; no record's name.
const PROBE: &str = "writable.probe";
/// Its size: what a record takes on most disks.
const PROBE_BYTES: usize = 4096;

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    Answer(Answer),
    Verdict(Verdict),
}

/// What a check of one candidate found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// On what device.
    #[serde(flatten)]
    pub identity: Identity,
    /// What was computed: dtypes, layouts, epilogue, but no sizes.
    pub class: String,
    /// The candidate.
    pub candidate: String,
    /// Why it is not used; `None` when it may be.
    pub wrong: Option<String>,
}

impl Record {
    /// The file it belongs in.
    fn name(&self) -> String {
        match self {
            Record::Answer(answer) => answer_name(&answer.identity, &answer.key),
            Record::Verdict(verdict) => verdict_name(&verdict.identity, &verdict.class, &verdict.candidate),
        }
    }
}

fn answer_name(identity: &Identity, key: &str) -> String {
    name(identity, &["answer", key])
}

fn verdict_name(identity: &Identity, class: &str, candidate: &str) -> String {
    name(identity, &["verdict", CHECK, class, candidate])
}

fn name(identity: &Identity, subject: &[&str]) -> String {
    let mut hasher = Sha256::new();
    let Identity { device, api, driver, kernels } = identity;
    for part in [device.as_str(), api, driver, kernels].iter().chain(subject) {
        // With lengths, so that ("a", "bc") and ("ab", "c") differ.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().take(20).map(|byte| format!("{byte:02x}")).chain([SUFFIX.to_owned()]).collect()
}

/// First line: what it is, its version and the digest of the rest.
fn encode(record: &Record) -> Option<Vec<u8>> {
    let body = serde_json::to_vec(record).ok()?;
    let mut file = format!("polywarp-tuning {VERSION} {}\n", hex(&body)).into_bytes();
    file.extend(body);
    Some(file)
}

/// The record in `file`, or why there is none.
fn decode(file: &[u8]) -> Result<Record, &'static str> {
    let end = file.iter().position(|&byte| byte == b'\n').ok_or("it is cut short")?;
    let (head, body) = (&file[..end], &file[end + 1..]);
    let start = format!("polywarp-tuning {VERSION} ");
    let digest = head.strip_prefix(start.as_bytes()).ok_or("it is of another version")?;
    if digest.len() != DIGEST_DIGITS || hex(body).as_bytes() != digest {
        return Err("its digest is wrong");
    }
    let record: Record = serde_json::from_slice(body).map_err(|_| "it cannot be read")?;
    match &record {
        Record::Answer(answer) => answer.fault().map_or(Ok(record), Err),
        Record::Verdict(_) => Ok(record),
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a [`Store`] could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreError {
    /// The directory or file; `None` where nothing is kept because no directory was chosen.
    pub path: Option<PathBuf>,
    /// Why, in words that follow the path.
    pub reason: String,
    /// How many answers were taken, or files removed, all the same.
    pub done: usize,
}

impl StoreError {
    fn new(path: &Path, what: &str, error: &std::io::Error) -> StoreError {
        StoreError { path: Some(path.to_path_buf()), reason: format!("{what}: {error}"), done: 0 }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} {}", path.display(), self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for StoreError {}

/// The files of this user; without a directory there are none.
#[derive(Clone, Debug, Default)]
pub struct Store {
    directory: Option<UserDir>,
    /// Why the directory that was chosen is not used.
    refused: Option<StoreError>,
    /// The first failure of what nobody waited for.
    failure: Arc<OnceLock<StoreError>>,
}

impl Store {
    /// The store at `place`.
    pub fn open(place: &Place) -> Store {
        let Place::At(path) = place else { return Store::default() };
        match UserDir::open(path.clone()) {
            Ok(directory) => Store { directory: Some(directory), ..Store::default() },
            Err(reason) => {
                static WARNED: std::sync::Once = std::sync::Once::new();
                WARNED.call_once(|| log::warn!("tuning is not kept on disk: {} {reason}", path.display()));
                let refused = StoreError { path: Some(path.clone()), reason, done: 0 };
                Store { refused: Some(refused), ..Store::default() }
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        self.directory.as_ref().map(UserDir::path)
    }

    /// Whether something can be kept here now, which is tried: a directory may be read-only, and a disk full.
    ///
    /// # Errors
    /// Why nothing can be kept.
    pub fn check(&self) -> Result<(), StoreError> {
        let directory = self.directory()?;
        let written = directory.write(PROBE, &[0; PROBE_BYTES]);
        let removed = written.and_then(|()| directory.remove(PROBE));
        removed.map_err(|error| StoreError::new(directory.path(), "cannot be written", &error))
    }

    /// The first answer or verdict that could not be kept or forgotten since this was opened, if any.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.get()
    }

    fn directory(&self) -> Result<&UserDir, StoreError> {
        let nowhere = || StoreError { path: None, reason: "no directory was chosen".to_owned(), done: 0 };
        self.directory.as_ref().ok_or_else(|| self.refused.clone().unwrap_or_else(nowhere))
    }

    pub(super) fn answer(&self, identity: &Identity, key: &str) -> Option<Answer> {
        match self.read(&answer_name(identity, key))? {
            Record::Answer(answer) if answer.identity == *identity && answer.key == key => Some(answer),
            _ => self.foreign(key),
        }
    }

    pub(super) fn verdict(&self, identity: &Identity, class: &str, candidate: &str) -> Option<Verdict> {
        match self.read(&verdict_name(identity, class, candidate))? {
            Record::Verdict(found)
                if found.identity == *identity && found.class == class && found.candidate == candidate =>
            {
                Some(found)
            }
            _ => self.foreign(candidate),
        }
    }

    fn foreign<T>(&self, what: &str) -> Option<T> {
        log::warn!("what is kept for {what} is about something else, and not used");
        None
    }

    /// Keeps `record`; a failure costs the next process some time, and is noted.
    pub(super) fn put(&self, record: &Record) {
        self.note(self.keep(record));
    }

    fn keep(&self, record: &Record) -> Result<(), StoreError> {
        let directory = self.directory()?;
        let fail = |error: std::io::Error| StoreError::new(directory.path(), "cannot be written", &error);
        let bytes = encode(record).ok_or_else(|| fail(std::io::Error::other("no JSON can be made of it")))?;
        directory.write_soon(&record.name(), &bytes).map_err(fail)
    }

    pub(super) fn forget_answer(&self, identity: &Identity, key: &str) {
        self.note(self.remove(&answer_name(identity, key)));
    }

    pub(super) fn forget_verdict(&self, identity: &Identity, class: &str, candidate: &str) {
        self.note(self.remove(&verdict_name(identity, class, candidate)));
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let directory = self.directory()?;
        let fail = |error: std::io::Error| StoreError::new(&directory.path().join(name), "cannot be removed", &error);
        directory.remove(name).map_err(fail)
    }

    /// Says what went wrong, once aloud: what holds one file back holds back the others too. Of a directory that is not used
    /// [`Store::open`] has told.
    fn note(&self, done: Result<(), StoreError>) {
        let Err(error) = done else { return };
        if self.directory.is_none() {
            return;
        }
        match self.failure.set(error.clone()) {
            Ok(()) => log::warn!("tuning is not kept on disk: {error}"),
            Err(_) => log::info!("tuning is not kept on disk either: {error}"),
        }
    }

    fn read(&self, name: &str) -> Option<Record> {
        let directory = self.directory.as_ref()?;
        let ignored = |why: &dyn std::fmt::Display| {
            log::warn!("{} is not used: {why}", directory.path().join(name).display());
            None
        };
        match directory.read(name, MOST_BYTES) {
            Ok(Some(bytes)) => decode(&bytes).map_or_else(|why| ignored(&why), Some),
            Ok(None) => None,
            Err(error) => ignored(&error),
        }
    }

    fn records(&self) -> Vec<Record> {
        let Some(directory) = &self.directory else { return Vec::new() };
        let names = directory.names(SUFFIX).unwrap_or_else(|error| {
            log::warn!("{} cannot be listed: {error}", directory.path().display());
            Vec::new()
        });
        names.iter().filter_map(|name| self.read(name).filter(|record| record.name() == *name)).collect()
    }

    /// Every answer kept, of every device.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        for record in self.records() {
            if let Record::Answer(answer) = record {
                table.add(answer);
            }
        }
        table
    }

    /// Every candidate that failed a check, on every device.
    pub fn quarantine(&self) -> Vec<Verdict> {
        let failed = |record| match record {
            Record::Verdict(verdict) if verdict.wrong.is_some() => Some(verdict),
            _ => None,
        };
        self.records().into_iter().filter_map(failed).collect()
    }

    /// Keeps the answers of `table` that say more than those already there; how many.
    ///
    /// # Errors
    /// The first that could not be kept, with the number of those that were; the rest is not tried.
    pub fn merge(&self, table: &Table) -> Result<usize, StoreError> {
        self.directory()?;
        let mut own = self.table();
        let mut done = 0;
        for answer in table.answers() {
            if own.add(answer.clone()) {
                self.keep(&Record::Answer(answer.clone())).map_err(|error| StoreError { done, ..error })?;
                done += 1;
            }
        }
        Ok(done)
    }

    /// Forgets everything: answers and verdicts. How many files there were.
    ///
    /// # Errors
    /// The first file that could not be removed, with the number of those that were; all are tried.
    pub fn clear(&self) -> Result<usize, StoreError> {
        let directory = self.directory()?;
        let names = directory.names(SUFFIX);
        let names = names.map_err(|error| StoreError::new(directory.path(), "cannot be listed", &error))?;
        let (mut done, mut failure) = (0, None);
        for name in &names {
            match self.remove(name) {
                Ok(()) => done += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(done), |error| Err(StoreError { done, ..error }))
    }
}

#[cfg(any(test, feature = "fuzzing"))]
#[path = "store_fuzzing.rs"]
pub mod fuzzing;
#[cfg(test)]
#[path = "store_tests.rs"]
pub(super) mod tests;
