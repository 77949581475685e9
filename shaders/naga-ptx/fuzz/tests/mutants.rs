//! The fuzz targets' functions over mutated texts, on stable Rust: no panic, no stack overflow in a thread's usual 2 MiB,
//! no input that takes longer than a second.
//!
//! `NAGA_PTX_MUTANTS=1000000 NAGA_PTX_SEED=1` chooses how many and which.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use naga_ptx_fuzz::{compiled, generated, module, options};
use wgsl_generator::{Random, Settings, generate};

/// Compiling with a debug build on a busy machine; a hang is longer.
const MOST_TIME: Duration = Duration::from_secs(10);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for folder in ["../tests/in", "../tests/refused", "../tests/device", "../../wgsl", "../../wgsl/element"] {
        let mut paths: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        let wgsl = paths.iter().filter(|path| path.extension().is_some_and(|e| e == "wgsl"));
        texts.extend(wgsl.map(|path| std::fs::read_to_string(path).unwrap()));
    }
    texts.extend((0..40).map(|seed| generate(seed, &Settings { size: 10, ..Settings::varied(seed) }).wgsl));
    texts.retain(|text| text.len() < 20_000);
    assert!(texts.len() > 50);
    texts
}

/// Words, numbers and single signs, with what is between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        tokens.push(&rest[..length]);
        rest = &rest[length..];
    }
    tokens
}

const WORDS: [&str; 40] = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "7",
    "31",
    "32",
    "33",
    "255",
    "65536",
    "2147483647",
    "4294967295u",
    "-1",
    "1.5f",
    "0.0",
    "i32",
    "u32",
    "f32",
    "f16",
    "f64",
    "i64",
    "u64",
    "bool",
    "vec2",
    "vec3",
    "vec4",
    "mat2x2",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    "==",
    "&",
    "min",
    "max",
    "return",
    "break",
];

fn mutant(random: &mut Random, corpus: &[String]) -> String {
    let base = random.pick(corpus);
    let other = random.pick(corpus);
    let mut parts: Vec<&str> = tokens(&base);
    let others = tokens(&other);
    let solid = |parts: &[&str], at: usize| (at..parts.len()).find(|&i| !parts[i].trim().is_empty());
    for _ in 0..1 + random.below(6) / 4 {
        let Some(at) = solid(&parts, random.below(parts.len().max(1))) else { continue };
        match random.below(8) {
            0 => {
                parts.remove(at);
            }
            1 => parts[at] = random.pick(&WORDS),
            2 => parts.insert(at, random.pick(&WORDS)),
            3 => parts[at] = random.pick(&others),
            4 => {
                // One of the text's own words for another: most likely to stay valid.
                let from = random.below(parts.len());
                parts[at] = parts[from];
            }
            5 => {
                let end = (at + 1 + random.below(20)).min(parts.len());
                let copy: Vec<&str> = parts[at..end].to_vec();
                let to = random.below(parts.len());
                parts.splice(to..to, copy);
            }
            6 => {
                let end = (at + 1 + random.below(12)).min(parts.len());
                parts.drain(at..end);
            }
            _ => {
                // A number for another number.
                let numbers: Vec<usize> =
                    (0..parts.len()).filter(|&i| parts[i].starts_with(|c: char| c.is_ascii_digit())).collect();
                if !numbers.is_empty() {
                    let i = random.pick(&numbers);
                    parts[i] = random.pick(&WORDS[..16]);
                }
            }
        }
        if parts.is_empty() {
            break;
        }
    }
    let mut text = parts.concat();
    if random.chance(10) && !text.is_empty() {
        // Any byte, as long as it is still text.
        let mut bytes = text.clone().into_bytes();
        let at = random.below(bytes.len());
        bytes[at] = (random.bits() & 127) as u8;
        text = String::from_utf8(bytes).unwrap_or(text);
    }
    text
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
