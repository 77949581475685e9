//! The words in which an operation says how its kernels are chosen ([`Tuned`](crate::tuner::Tuned)): the [`Key`] that answers are stored under, and
//! what of a result is compared.

use std::fmt;

use crate::oracle::Expected;

/// An operation, reduced to what decides which of its kernels is best, as text: the same on every machine, what answers are
/// stored under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The key of this text.
    pub fn new(text: impl Into<String>) -> Key {
        Key(text.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How large the products are that kernels are checked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Up to 144 in each dimension: for devices that compute in software.
    Small,
    /// Up to 384: several tiles of every kernel, and their tails.
    #[default]
    Normal,
}

/// What of a result is compared.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Elements of the output, by their row-major positions, ascending.
    pub positions: Vec<u64>,
    /// What they must be.
    pub expected: Vec<Expected>,
}

/// The kernels of a candidate: its name without the number of slabs that K is cut into, which differs between ops of one key.
pub(crate) fn kernels_of(name: &str) -> &str {
    match name.rsplit_once("_slabs") {
        Some((kernels, slabs)) if !slabs.is_empty() && slabs.bytes().all(|digit| digit.is_ascii_digit()) => {
            &name[..kernels.len() + "_slabs".len()]
        }
        _ => name,
    }
}

/// Which of `names` is the candidate called `wanted`: that very one, or else the first of the same kernels with another
/// number of slabs.
pub fn find<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> Option<usize> {
    let mut alike = None;
    for (at, name) in names.enumerate() {
        if name == wanted {
            return Some(at);
        }
        if alike.is_none() && kernels_of(name) == kernels_of(wanted) {
            alike = Some(at);
        }
    }
    alike
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_takes_the_very_name_before_one_of_the_same_kernels() {
        let names = ["tiled_slabs4", "tiled", "tiled_slabs8", "other_slabs"];
        for (wanted, at) in [("tiled", Some(1)), ("tiled_slabs8", Some(2)), ("tiled_slabs3", Some(0)), ("tile", None)] {
            assert_eq!(find(names.into_iter(), wanted), at, "{wanted}");
        }
        assert_eq!(find(names.into_iter(), "other_slabs2"), Some(3));
        assert_eq!(
            (kernels_of("a_slabs12"), kernels_of("a_slabs12x"), kernels_of("a")),
            ("a_slabs", "a_slabs12x", "a")
        );
    }
}
