//! A .npy file as library and program read it: `cargo xtask prove fuzz`; `README.md` says more.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    polywarp_files::fuzzing::npy(bytes);
});
