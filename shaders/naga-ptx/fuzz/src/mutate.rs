//! Texts to fuzz with, and changes by which most of them stay nearly WGSL: token by token, where a fuzzer's own changes
//! are byte by byte and seldom get past the parser.
//!
//! Used by the tests on stable Rust and as libFuzzer's mutator of `fuzz_targets/text.rs`.

use std::path::Path;

use wgsl_generator::{Random, Settings, generate};

/// Texts to start from: the compiler's own tests, the library's shaders, generated programs, and what was once at
/// fault.
///
/// # Panics
/// Without the repository round this crate.
pub fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for folder in ["../tests/in", "../tests/refused", "../tests/device", "found", "../../wgsl", "../../wgsl/element"] {
        let path = root.join(folder);
        // A clone has no folder of faults before there is one.
        if folder == "found" && !path.exists() {
            continue;
        }
        let mut paths: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
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

/// `base` with few of its tokens changed; some of the new ones come from `other`.
pub fn mutated(random: &mut Random, base: &str, other: &str) -> String {
    let mut parts: Vec<&str> = tokens(base);
    let others = tokens(other);
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

/// One of the texts, changed.
pub fn mutant(random: &mut Random, corpus: &[String]) -> String {
    let (base, other) = (random.pick(corpus), random.pick(corpus));
    mutated(random, &base, &other)
}
