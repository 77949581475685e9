//! Any bytes as WGSL: `cargo fuzz run text --features libfuzzer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naga_ptx_fuzz::text(bytes));
