//! How many tests ran: read from the closing lines of cargo's own runner and of cargo-nextest.

use std::fmt;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

impl Counts {
    /// What one line of a runner's output says, zero for all but closing lines.
    ///
    /// cargo: `test result: ok. 12 passed; 0 failed; 1 ignored; ...`, once per test binary.
    /// nextest: `     Summary [   1.2s] 13 tests run: 12 passed, 1 failed, 0 skipped`, once.
    pub fn of_line(line: &str) -> Counts {
        let line = line.trim_start();
        let closing = line.starts_with("test result: ") || line.starts_with("Summary [");
        let before = |what: &str| {
            let (head, _) = line.split_once(what).filter(|_| closing)?;
            head.trim_end().rsplit(' ').next()?.parse().ok()
        };
        Counts { passed: before("passed").unwrap_or(0), failed: before("failed").unwrap_or(0) }
    }

    /// What has no tests of its own, and passes or fails as a whole.
    pub fn of_one(is_right: bool) -> Counts {
        Counts { passed: is_right.into(), failed: (!is_right).into() }
    }

    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_read() {
        let cargo = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Counts::of_line(cargo), Counts { passed: 12, failed: 3 });
        let nextest = "     Summary [   1.234s] 13 tests run: 12 passed (1 slow), 1 failed, 0 skipped\n";
        assert_eq!(Counts::of_line(nextest), Counts { passed: 12, failed: 1 });
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["test shape::tests::add ... ok", "3 passed, 4 failed", "", "test result: "] {
            assert_eq!(Counts::of_line(line), Counts::default(), "{line:?}");
        }
    }
}
