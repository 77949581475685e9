//! Valid programs with any options: `cargo fuzz run programs --features libfuzzer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|seeds: (u64, u64)| naga_ptx_fuzz::generated(seeds.0, seeds.1));
