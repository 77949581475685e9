//! The rooms of `polywarp-core`: modules stand on floors, and import from their own floor and those below alone.
//!
//! Reads `crate::` paths as text, those in braces too; what a method call reaches is not seen. Tests may look anywhere.

use std::collections::HashMap;
use std::path::Path;

use super::Document;

const SOURCES: &str = "core/src";

/// From the ground up.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "words: dtypes, shapes, expressions, what an oracle says, plans as data, errors",
        &[
            "axis",
            "dtype",
            "element",
            "erfinv",
            "error",
            "expr",
            "float8",
            "kernel",
            "largest",
            "layout",
            "oracle",
            "plan",
            "precision",
            "replace_file",
            "rounding",
            "scalar",
            "shape",
            "spec",
            "user_dir",
        ],
    ),
    (
        "what an operation is, and WGSL that planners share",
        &["case", "gradient", "graph", "operation", "tuned", "wgsl"],
    ),
    (
        "devices: the trait, memory, recording, choosing between candidates",
        &[
            "backend",
            "buffer",
            "device",
            "faults",
            "fit",
            "info",
            "ledger",
            "live",
            "pool",
            "profile",
            "recorders",
            "recording",
            "requests",
            "tuner",
        ],
    ),
    ("the CPU: threads, vectors, products, and the device over them", &["cpu"]),
    ("operations and tensors, one file each", &["batches", "generator", "ops", "retry", "tape", "tensor"]),
    ("the proof", &["harness"]),
];

pub fn check(documents: &[Document]) -> Vec<String> {
    let sources: Vec<(String, &str)> = documents.iter().filter_map(source).collect();
    let Some((_, root)) = sources.iter().find(|(path, _)| path == "lib.rs") else {
        return vec![format!("{SOURCES}/lib.rs is not there")];
    };
    let exported = exported(root);
    let floor = |module: &str| FLOORS.iter().position(|(_, modules)| modules.contains(&module));
    let mut complaints = Vec::new();
    for (path, text) in &sources {
        let module = path.split(['/', '.']).next().unwrap_or_default();
        if path == "lib.rs" {
            continue;
        }
        let Some(own) = floor(module) else {
            complaints
                .push(format!("{SOURCES}/{path}: `{module}` stands on no floor; xtask/src/docs/rooms.rs has the list"));
            continue;
        };
        for name in imported(&without_tests(text)) {
            let target = exported.get(name.as_str()).map_or(name.as_str(), String::as_str);
            if floor(target).is_some_and(|other| other > own) {
                let (own, other) = (FLOORS[own].0, floor(target).map_or("", |other| FLOORS[other].0));
                complaints.push(format!("{SOURCES}/{path} ({own}) imports `{name}` from above ({other})"));
            }
        }
    }
    complaints
}

/// A source of the crate that is no test: its path within, and its text.
fn source(document: &Document) -> Option<(String, &str)> {
    let path = document.path.strip_prefix(Path::new(SOURCES)).ok()?.to_str()?.replace('\\', "/");
    let is_test =
        ["tests.rs", "pins.rs", "wgsl/validate.rs"].iter().any(|end| path.ends_with(end)) || path.contains("tests/");
    (path.ends_with(".rs") && !is_test).then_some((path, document.text.as_str()))
}

/// What the crate's root exports: each name with the module that it comes from.
fn exported(root: &str) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let Some((module, rest)) = path.split_once("::") else { continue };
        for name in words(rest) {
            names.insert(name, module.to_owned());
        }
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned)
}

/// A text without comments and without the module of tests at its end.
fn without_tests(text: &str) -> String {
    let is_written_here = |at: usize| text[at..].lines().nth(1).is_some_and(|line| line.contains('{'));
    let mut modules = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    let end = modules.find(|&at| is_written_here(at)).unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The first words behind `crate::`, of each path.
fn imported(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            let mut depth = 0;
            let mut top = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    _ if depth == 0 => top.push(c),
                    _ => {}
                }
            }
            names.extend(top.split(',').filter_map(|entry| words(entry).next()));
        } else {
            names.extend(words(part).next());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> Document {
        Document { path: format!("{SOURCES}/{path}").into(), text: text.to_owned() }
    }

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let root = "mod ops;\npub use ops::{Matmul,\n    Sort};\npub use dtype::DType;\n";
        check(&[document("lib.rs", root), document(path, text)])
    }

    #[test]
    fn imports_from_above_are_told_and_others_are_not() {
        assert!(
            complaints("ops/sort.rs", "use crate::{DType, cpu::{parallel, simd}};\nuse crate::tensor::Tensor;")
                .is_empty()
        );
        let found = complaints("cpu/mod.rs", "use crate::DType;\nfn f() { crate::ops::sort() }");
        assert!(found.len() == 1 && found[0].contains("cpu/mod.rs") && found[0].contains("`ops`"), "{found:?}");
        assert_eq!(complaints("plan.rs", "use crate::{DType,\n    Sort};").len(), 1, "through the root");
        assert!(complaints("plan.rs", "// crate::ops\n#[cfg(test)]\nmod tests { use crate::ops::Sort; }").is_empty());
        assert_eq!(complaints("plan.rs", "#[cfg(test)]\nmod pins;\nuse crate::ops::Sort;").len(), 1);
        assert!(complaints("new_room.rs", "")[0].contains("stands on no floor"));
    }
}
