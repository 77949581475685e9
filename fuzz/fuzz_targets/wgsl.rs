//! WGSL that somebody wrote, read and compiled to every language: `cargo xtask prove fuzz`; `README.md` says more.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use naga_ptx_fuzz::mutate;
use polywarp_fuzz::tolerate_guarded;
use wgsl_generator::Random;

static CORPUS: OnceLock<Vec<String>> = OnceLock::new();

fuzz_target!(init: tolerate_guarded(), |bytes: &[u8]| {
    polywarp_shaders::fuzzing::fuzz(bytes);
});

// Mostly by tokens: a text changed by bytes is seldom WGSL any more.
fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let mut random = Random::new(u64::from(seed));
    let corpus = CORPUS.get_or_init(mutate::corpus);
    let text = match std::str::from_utf8(&data[..size]) {
        Ok(text) if !random.chance(10) => {
            let base = if text.is_empty() { random.pick(corpus) } else { text.to_owned() };
            let other = random.pick(corpus);
            mutate::mutated(&mut random, &base, &other)
        }
        _ => return fuzzer_mutate(data, size, most),
    };
    let length = text.len().min(most);
    data[..length].copy_from_slice(&text.as_bytes()[..length]);
    length
});
