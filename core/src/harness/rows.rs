//! Tables of tests on one device: after each the device must still compute, and hold the memory it held before.
//!
//! A test answers with what is wrong; an error that it passes on is wrong too. [`demand`] ends it with such an answer.

use super::bad_input::{Row, still_computes};
use crate::{Device, Result};

/// What was wrong, when something was.
pub(super) type Answer = std::result::Result<(), String>;
/// One test of a table.
pub(super) type Test = fn(&Device) -> Result<Answer>;

/// Ends a test with what is wrong, unless the condition holds.
macro_rules! demand {
    ($condition:expr, $($what:tt)+) => {
        match $condition {
            true => {}
            false => return Ok(Err(format!($($what)+))),
        }
    };
}
pub(super) use demand;

/// Runs every row on `device`, which nobody else uses meanwhile.
pub(super) fn run(device: &Device, rows: impl IntoIterator<Item = (&'static str, Test)>) -> Vec<Row> {
    rows.into_iter().map(|(name, test)| Row { name, result: outcome(device, test) }).collect()
}

/// What came of `test`, and whether it left the device as it was.
pub(super) fn outcome(device: &Device, test: impl FnOnce(&Device) -> Result<Answer>) -> Answer {
    attempt(device, test, Watch::Memory).unwrap_or_else(|error| Err(format!("failed: {error}")))
}

/// What of the device must be as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// What it computes, and its memory.
    Memory,
    /// What it computes: others use it meanwhile, too.
    Numbers,
}

/// [`outcome`], with the device's errors as such.
pub(super) fn attempt(device: &Device, test: impl FnOnce(&Device) -> Result<Answer>, watch: Watch) -> Result<Answer> {
    // What a first call by positions takes for good; a device that cannot give it says so in the test.
    let _ = device.faults().words(device.backend());
    let before = device.memory().in_use_bytes;
    if let Err(wrong) = test(device)?.and_then(|()| still_computes(device)) {
        return Ok(Err(wrong));
    }
    device.synchronize()?;
    let after = device.memory().in_use_bytes;
    let is_held = watch == Watch::Memory && before != after;
    Ok(if is_held { Err(format!("{before} bytes in use before, {after} afterwards")) } else { Ok(()) })
}
