//! A tuning table that somebody exported: `cargo xtask prove fuzz`; `README.md` says more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polywarp_fuzz::tolerate_guarded;

fuzz_target!(init: tolerate_guarded(), |bytes: &[u8]| {
    polywarp_core::tuner::fuzzing::table(bytes);
});
