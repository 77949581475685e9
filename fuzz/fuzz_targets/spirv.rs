//! SPIR-V that somebody's compiler wrote, read as a user's kernel: `cargo xtask prove fuzz`; `README.md` says more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polywarp_fuzz::tolerate_guarded;

fuzz_target!(init: tolerate_guarded(), |bytes: &[u8]| {
    polywarp_shaders::fuzzing::fuzz_spirv(bytes);
});
