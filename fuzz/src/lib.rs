//! What the fuzz targets share: the reader of .npy files, which is the program's and of no library, and which panics are no fault.
//!
//! What each target does with its bytes is in the crate that reads them (feature `fuzzing`), where tests run the same function
//! over `corpus/`.
// The program uses the rest.
#![allow(dead_code)]

#[path = "../../src/cli/npy.rs"]
mod npy;
#[path = "../../src/cli/npy/fuzzing.rs"]
mod npy_fuzzing;

use npy::{read_from, write};
pub use npy_fuzzing::fuzz as npy;

/// As the program's `cli` has it for `npy.rs`.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Crates of others whose panics `polywarp::shader::guarded` is there for: the library makes them errors.
const GUARDED: [&str; 5] = ["/naga-", "/npyz-", "/py_literal-", "/pest", "/num-bigint-"];

/// Lets panics pass that the library catches, which libFuzzer's hook would take for faults; to be called once, after that hook was
/// set. A panic in polywarp itself stays a fault, wherever it is caught.
pub fn tolerate_guarded() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        let guarded = std::thread::current().name() == Some(polywarp::shader::THREAD_NAME);
        if !guarded || !GUARDED.iter().any(|name| file.contains(name)) {
            others(info);
        }
    }));
}
