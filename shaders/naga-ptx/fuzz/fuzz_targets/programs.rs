//! Valid programs with any options: `cargo fuzz run programs --features libfuzzer`; `README.md` says more.
#![no_main]

libfuzzer_sys::fuzz_target!(init: naga_ptx_fuzz::tolerate_naga(), |seeds: (u64, u64)| {
    naga_ptx_fuzz::generated(seeds.0, seeds.1)
});
