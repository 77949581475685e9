//! The fuzz targets' functions over mutated texts, on stable Rust: no panic, no stack overflow in a thread's usual 2
//! MiB, no input that takes longer than a second.
//!
//! `NAGA_PTX_MUTANTS=1000000 NAGA_PTX_SEED=1` chooses how many and which.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use naga_ptx_fuzz::mutate::{corpus, mutant};
use naga_ptx_fuzz::{compiled, generated, module, options};
use wgsl_generator::Random;

/// Compiling with a debug build on a busy machine; a hang is longer.
const MOST_TIME: Duration = Duration::from_secs(10);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `f` in a thread with the stack of any other, and returns what it found.
fn in_thread(f: impl FnOnce() -> Vec<String> + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap();
    let faults = thread.join().unwrap();
    assert!(faults.is_empty(), "{} faults, the first:\n{}", faults.len(), faults[0]);
}

#[test]
fn mutated_texts_never_panic() {
    in_thread(|| {
        let (count, corpus) = (number("NAGA_PTX_MUTANTS", 20_000), corpus());
        let limit =
            if std::env::var_os("NAGA_PTX_MUTANTS").is_some() { Duration::MAX } else { Duration::from_secs(40) };
        let mut random = Random::new(number("NAGA_PTX_SEED", 0));
        let (mut valid, mut done, mut tried, mut faults) = (0, 0, 0, Vec::new());
        let start = Instant::now();
        for _ in 0..count {
            if start.elapsed() > limit {
                break;
            }
            tried += 1;
            let text = mutant(&mut random, &corpus);
            let options = options(random.bits());
            // Faults of naga's own are not looked for.
            let Ok(Some((module, info))) = catch_unwind(|| module(&text)) else { continue };
            valid += 1;
            let before = Instant::now();
            match catch_unwind(AssertUnwindSafe(|| compiled(&module, &info, &options))) {
                Ok(compiled) => done += u32::from(compiled),
                Err(_) => faults.push(format!("a panic with {options:?}:\n{text}")),
            }
            if before.elapsed() > MOST_TIME {
                faults.push(format!("{:?} with {options:?}:\n{text}", before.elapsed()));
            }
        }
        println!("{tried} texts, {valid} valid, {done} compiled, {:.1?}", start.elapsed());
        assert!(valid > tried / 50 && done > valid / 2, "too few of the mutants mean anything");
        faults
    });
}

#[test]
fn generated_programs_compile_with_any_options() {
    in_thread(|| {
        let first = number("NAGA_PTX_SEED", 0);
        let seeds = first..first + number("NAGA_PTX_PROGRAMS", 300);
        let run = |seed: u64| catch_unwind(|| generated(seed, seed.wrapping_mul(0x9E37_79B9)));
        seeds.filter(|&seed| run(seed).is_err()).map(|seed| format!("seed {seed}")).collect()
    });
}
