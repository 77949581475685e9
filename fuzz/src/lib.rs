//! What the fuzz targets share: which panics are no fault.
//!
//! What each target does with its bytes is in the crate that reads them (feature `fuzzing`), where tests run the same function
//! over `corpus/`.

use std::backtrace::Backtrace;

/// Crates of others whose panics `polywarp::shader::guarded` is there for, as backtraces name them: the library makes them errors.
const GUARDED: [&str; 1] = [" naga::"];
/// Ours, and what else is no excuse.
const OURS: [&str; 2] = [" naga_ptx", " polywarp"];

/// Lets panics pass that the library catches, which libFuzzer's hook would take for faults; to be called once, after that hook was
/// set. A panic in polywarp itself stays a fault, wherever it is caught.
pub fn tolerate_guarded() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let guarded = std::thread::current().name() == Some(polywarp::shader::THREAD_NAME);
        if !guarded || !is_theirs(&Backtrace::force_capture().to_string()) {
            others(info);
        }
    }));
}

/// Whether the code that panicked, behind the standard library's, is of a guarded crate.
fn is_theirs(backtrace: &str) -> bool {
    let names = |line: &str, crates: &[&str]| crates.iter().any(|name| line.replace('<', " ").contains(name));
    // This file's own frames come first.
    let frames = backtrace.lines().filter(|line| !line.contains("polywarp_fuzz"));
    let mut known = frames.filter(|line| names(line, &GUARDED) || names(line, &OURS));
    known.next().is_some_and(|line| names(line, &GUARDED))
}
