//! For tests: what is too much for one run, a part of it every day.

/// One of `of` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    of: u64,
    at: u64,
}

/// The environment variable that names the part: a number, or `all`. Otherwise it is another one every day.
pub const PART_VARIABLE: &str = "POLYWARP_TEST_PART";

impl Part {
    /// Everything.
    pub const ALL: Part = Part { of: 1, at: 0 };

    /// Today's part of `of`.
    pub fn today(of: u64) -> Part {
        Part::named(of, std::env::var(PART_VARIABLE).ok().as_deref())
    }

    /// The first part of `of`, whatever the day.
    pub fn first(of: u64) -> Part {
        Part { of: of.max(1), at: 0 }
    }

    pub(super) fn named(of: u64, name: Option<&str>) -> Part {
        if name == Some("all") {
            return Part::ALL;
        }
        let day = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
        let at = name.and_then(|name| name.parse().ok()).unwrap_or_else(day);
        Part { of: of.max(1), at: at % of.max(1) }
    }

    /// One of `of` parts, another one for most others of this; this one where it is of fewer.
    pub(super) fn at_most(self, of: u64) -> Part {
        let of = self.of.min(of);
        Part { of, at: self.at % of }
    }

    /// Whether number `i` of a few things, each with a weight of its own, is in it: they follow each other day by day.
    pub fn is_turn_of(self, i: u64) -> bool {
        i % self.of == self.at
    }

    /// Whether number `i` is in it. Neighbours are scattered (Fibonacci hashing): things come by dtype and shape in turns, of
    /// which a fixed step would leave some out for good.
    pub fn takes(self, i: u64) -> bool {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % self.of == self.at
    }
}

impl Default for Part {
    fn default() -> Part {
        Part::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_together_are_everything_once() {
        let parts: Vec<Part> = (0..5).map(|at| Part::named(5, Some(&at.to_string()))).collect();
        for i in 0..1000 {
            assert_eq!(parts.iter().filter(|part| part.takes(i)).count(), 1, "{i}");
        }
        assert!((0..1000).all(|i| Part::named(5, Some("all")).takes(i) && Part::default().takes(i)));
        assert!((0..1000).any(|i| Part::today(3).takes(i)));
        for i in 0..10 {
            assert_eq!(parts.iter().filter(|part| part.is_turn_of(i)).count(), 1, "{i}");
        }
        assert!((0..10).all(|i| Part::ALL.is_turn_of(i)));
    }
}
