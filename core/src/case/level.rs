//! How many cases a run takes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How thorough a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every function, dtype and kind of layout; under a minute on a software GPU.
    #[default]
    Quick,
    /// All sizes, all pairs, large tensors: minutes.
    Full,
}

impl Level {
    /// The cases of this level: `quick` alone, or with those of `full`.
    pub(crate) fn list<T: Clone>(self, quick: &[T], full: &[T]) -> Vec<T> {
        let mut all = quick.to_vec();
        if self == Level::Full {
            all.extend_from_slice(full);
        }
        all
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Level::Quick { "quick" } else { "full" })
    }
}
