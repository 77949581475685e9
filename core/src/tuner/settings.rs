//! How much the tuner may do, and how it says what it does.
//!
//! The environment decides unless a program does: `POLYWARP_TUNE=off|cached|full`, `POLYWARP_TUNE_BUDGET_MS`, and
//! `POLYWARP_CACHE` for where answers are kept (`off`: nowhere). Nothing here measures anything.

use crate::tuned::Effort;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::user_dir::{CACHE_VARIABLE, UserDir};

/// The environment variable that chooses the [`Mode`].
pub const MODE_VARIABLE: &str = "POLYWARP_TUNE";

/// The environment variable that sets the budget of one key, in milliseconds.
pub const BUDGET_VARIABLE: &str = "POLYWARP_TUNE_BUDGET_MS";

/// Time spent on one key unless somebody says otherwise.
const BUDGET: Duration = Duration::from_millis(50);

/// Tuning that takes longer than this in all is worth a word to the user.
const WORTH_A_WORD: Duration = Duration::from_secs(1);

/// How a kernel is chosen among those that passed their check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The planner's first; nothing is timed, and no answer is looked up.
    Off,
    /// The one that was fastest when this was tuned, here or where the shipped table was made; else the planner's first.
    Cached,
    /// As `Cached`, and what nobody has tuned yet is tuned at its first use.
    #[default]
    Full,
}

impl Mode {
    /// The mode called `name`.
    pub fn parse(name: &str) -> Option<Mode> {
        match name {
            "off" => Some(Mode::Off),
            "cached" => Some(Mode::Cached),
            "full" => Some(Mode::Full),
            _ => None,
        }
    }
}

/// Where answers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: they are forgotten with the process.
    Nowhere,
    /// In this directory, under the rules of [`UserDir`].
    At(PathBuf),
}

impl Place {
    /// Where the environment says.
    pub fn from_env() -> Place {
        let chosen = std::env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty());
        let path = match chosen {
            Some(value) if value == "off" => return Place::Nowhere,
            Some(value) => Some(PathBuf::from(value).join("tuning")),
            None => UserDir::usual("tuning"),
        };
        path.filter(|path| path.is_absolute()).map_or(Place::Nowhere, Place::At)
    }
}

/// Everything that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How a kernel is chosen.
    pub mode: Mode,
    /// Most time spent on the first use of one key, beyond the check and the run of the candidate that serves it at once; but
    /// for one candidate that takes longer than expected.
    pub budget: Duration,
    /// Where answers are kept.
    pub place: Place,
    /// How large the checks are.
    pub effort: Effort,
}

impl Options {
    /// As the environment says. `usual` is the mode when it says nothing: tuning pays on hardware, not on a simulation of it.
    pub fn from_env(usual: Mode, effort: Effort) -> Options {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mode = read(MODE_VARIABLE).and_then(|value| {
            let mode = Mode::parse(&value);
            if mode.is_none() {
                log::warn!("{MODE_VARIABLE}={value} is not known: there are off, cached and full");
            }
            mode
        });
        let budget = read(BUDGET_VARIABLE).and_then(|value| {
            let ms: Option<u64> = value.parse().ok();
            if ms.is_none() {
                log::warn!("{BUDGET_VARIABLE}={value} is not a number of milliseconds");
            }
            ms.map(Duration::from_millis)
        });
        let (mode, budget) = (mode.unwrap_or(usual), budget.unwrap_or(BUDGET));
        Options { mode, budget, place: Place::from_env(), effort }
    }

    /// Nothing is timed and nothing kept.
    pub fn off() -> Options {
        Options { mode: Mode::Off, budget: BUDGET, place: Place::Nowhere, effort: Effort::Normal }
    }
}

/// What is being tuned, once tuning has taken more than a second of this process.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The device's name.
    pub device: String,
    /// The key.
    pub key: String,
    /// The candidate about to be timed.
    pub candidate: String,
    /// Candidates done.
    pub done: usize,
    /// Candidates in all.
    pub total: usize,
    /// Time this process has spent on tuning.
    pub spent: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { device, key, candidate, done, total, spent } = self;
        write!(f, "{device}: tuning {key}: {} of {total}, {candidate}; {:.1} s so far", done + 1, spent.as_secs_f64())
    }
}

/// What is called with each [`Progress`].
pub type Callback = Box<dyn Fn(&Progress) + Send + Sync>;
static CALLBACK: Mutex<Option<Arc<Callback>>> = Mutex::new(None);
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

/// Who is told what is being tuned, once tuning has taken more than a second of this process in all. Without a callback it
/// is logged at level info. The callback runs in the thread that tunes.
pub fn set_progress(callback: Option<Callback>) {
    *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner) = callback.map(Arc::new);
}

/// Adds to the time spent.
pub(super) fn spend(ns: u64) {
    SPENT_NS.fetch_add(ns, Ordering::Relaxed);
}

/// Says what comes next, if it is time to; `since_ns` of the current search are not counted yet.
pub(super) fn report(since_ns: u64, progress: impl FnOnce(Duration) -> Progress) {
    let spent = Duration::from_nanos(SPENT_NS.load(Ordering::Relaxed).saturating_add(since_ns));
    if spent < WORTH_A_WORD {
        return;
    }
    let callback = CALLBACK.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let progress = progress(spent);
    match callback {
        Some(callback) => callback(&progress),
        None => log::info!("{progress}"),
    }
}
