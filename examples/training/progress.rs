//! The progress of a training run, for a terminal: steps, steps a second, time left and the loss.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar for `steps` steps. It is hidden when standard error is not a terminal.
pub fn bar(steps: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {per_sec}, {eta} left, loss {msg}");
    ProgressBar::new(steps).with_style(style.expect("the template is well formed"))
}
