//! One operation: its family everywhere (`op NAME`), and the files of a new one (`new-op NAME --like OTHER`).
//!
//! What `op` runs is what a change of one operation can break: its cases on the CPU, on every GPU of the machine, on interpreted PTX and on
//! CUDA (the interpreted driver without a card), the lists and proofs that follow the registry, the kernels that ship and the documents.
//! `cargo xtask test` runs all of that for all operations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Cmd;
use crate::run::Run;
use crate::{Result, docs, prepare};

/// Where operations are named.
const OPS: &str = "core/src/ops/mod.rs";
/// Where their cases are.
const CASES: &str = "core/src/ops/cases/mod.rs";

/// Runs the family `name` everywhere.
pub fn run(name: &str) -> Result {
    let program = "cargo run --quiet --locked --package polywarp --bin polywarp --";
    Run::all(|run| {
        let said = Cmd::new(&format!("{program} devices --json")).output()?;
        let devices = devices(&said)?;
        for device in &devices {
            let line = format!("{program} check --device {device} --op {name}");
            run.step(&format!("cases on {device}"), |counts| Cmd::new(&line).run_counting(counts))?;
        }
        for (what, line) in [
            ("cases on interpreted PTX", "cargo test --locked --package polywarp-shaders --test suite -- shard"),
            ("cases on CUDA", "cargo test --locked --package polywarp-cuda --test conformance"),
        ] {
            run.step(what, |counts| Cmd::new(line).env("POLYWARP_TEST_FAMILY", name).run_counting(counts))?;
        }
        run.tests("lists and proofs", "cargo test --locked --package polywarp-core --lib -- ops:: gradients pins_of")?;
        run.tests("texts of kernels", "cargo test --locked --package polywarp-shaders --lib pins_of")?;
        run.step("documents", |_| docs::check())?;
        run.step("kernels that ship", |_| prepare::check())
    })
}

/// The ids of usable devices in what `polywarp devices --json` said.
fn devices(said: &str) -> Result<Vec<String>> {
    let json: serde_json::Value = serde_json::from_str(said).map_err(|e| format!("the list of devices: {e}"))?;
    let usable = json["devices"].as_array().into_iter().flatten().filter(|device| device["usable"] == true);
    let ids: Vec<String> = usable.filter_map(|device| device["id"].as_str().map(str::to_owned)).collect();
    if ids.is_empty() { Err("`polywarp devices` names no usable one".to_owned()) } else { Ok(ids) }
}

/// Makes the files of the operation `name` after those of `like`, and its lines in the lists.
pub fn new(name: &str, like: &str) -> Result {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if !is_name(name) {
        return Err(format!("`{name}` is no name of an operation: small letters, digits and _"));
    }
    let [file, cases] = files(name);
    if let Some(there) = [&file, &cases].into_iter().find(|path| path.exists()) {
        return Err(format!("{} is there already", there.display()));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let write = |path: &Path, text: String| fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()));
    let sources = files(like).map(|path| read(&path));
    let [source, source_cases] = [sources[0].clone()?, sources[1].clone()?];
    let lists = [read(Path::new(OPS))?, read(Path::new(CASES))?];
    let in_lists = [
        listed(&listed(&listed(&lists[0], "mod ", name, like)?, "pub use ", name, like)?, "    \"", name, like)?,
        listed(&lists[1], "pub mod ", name, like)?,
    ];
    // Nothing is written before everything is known to fit.
    for (path, text) in [(&file, source), (&cases, source_cases)] {
        write(path, renamed(&text, name, like))?;
    }
    for (path, text) in [OPS, CASES].into_iter().zip(in_lists) {
        write(Path::new(path), text)?;
    }
    println!("{} and {}, with lines in {OPS} and {CASES}.", file.display(), cases.display());
    println!(
        "Next: what it computes, its oracle and bound, its gradient with a case in core/src/ops/cases/gradients.rs;"
    );
    println!("then `POLYWARP_PINS=renew cargo test --lib pins_of`, `cargo xtask prepare`, `cargo xtask docs --write`,");
    println!("and `cargo xtask op {name}`.");
    Ok(())
}

/// The file of an operation, and that of its cases.
fn files(name: &str) -> [PathBuf; 2] {
    ["core/src/ops", "core/src/ops/cases"].map(|folder| Path::new(folder).join(format!("{name}.rs")))
}

/// `layer_norm` as `LayerNorm`.
fn type_name(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    name.split('_').map(capital).collect()
}

/// The type that the file of `like` is about, as `text` re-exports it.
fn known_type(text: &str, like: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(&format!("pub use {like}::")))?;
    let names = line.trim_start_matches(&format!("pub use {like}::")).trim_end_matches(';');
    names.trim_matches(['{', '}']).split(", ").next().map(str::to_owned)
}

fn renamed(text: &str, name: &str, like: &str) -> String {
    let known = fs::read_to_string(OPS).ok().and_then(|ops| known_type(&ops, like));
    let text = text.replace(&known.unwrap_or_else(|| type_name(like)), &type_name(name));
    text.replace(like, name)
}

/// `text` with the line of `like` that opens with `start` once more, for `name`, in its place by the alphabet.
fn listed(text: &str, start: &str, name: &str, like: &str) -> Result<String> {
    // The name, from what follows `start`.
    let named = |line: &str| -> Option<String> {
        let rest = line.strip_prefix(start)?;
        let end = rest.find([';', ':', '"', ' '])?;
        Some(rest[..end].to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let source = lines.iter().position(|line| named(line).is_some_and(|found| found == like));
    let source = source.ok_or_else(|| format!("no line `{start}{like}` to go by"))?;
    // The lines beside it of the same kind.
    let first = lines[..source].iter().rposition(|line| named(line).is_none()).map_or(0, |at| at + 1);
    let last = lines[source..].iter().position(|line| named(line).is_none()).map_or(lines.len(), |at| source + at);
    let before = lines[first..last].iter().position(|line| named(line).is_some_and(|found| found.as_str() > name));
    let known = known_type(text, like).unwrap_or_else(|| type_name(like));
    let line = match start {
        "pub use " => format!("pub use {name}::{};", type_name(name)),
        "    \"" => format!("    \"{name}\" {name} \"{}\",", "what it computes, in a line"),
        _ => lines[source].replace(&known, &type_name(name)).replace(like, name),
    };
    let at = before.map_or(last, |before| first + before);
    let mut all: Vec<&str> = lines[..at].to_vec();
    all.push(&line);
    all.extend(&lines[at..]);
    Ok(all.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "\
mod layer_norm;
mod softmax;

pub use layer_norm::LayerNorm;
pub use softmax::{Softmax, SoftmaxFn};

registry! {
    \"layer_norm\" layer_norm \"rows\",
    \"softmax\" softmax \"softmax\",
}
";

    #[test]
    fn lines_of_a_new_operation_stand_in_order() {
        let mut text = LISTS.to_owned();
        for start in ["mod ", "pub use ", "    \""] {
            text = listed(&text, start, "sort", "layer_norm").unwrap();
        }
        let want = "\
mod layer_norm;
mod softmax;
mod sort;

pub use layer_norm::LayerNorm;
pub use softmax::{Softmax, SoftmaxFn};
pub use sort::Sort;

registry! {
    \"layer_norm\" layer_norm \"rows\",
    \"softmax\" softmax \"softmax\",
    \"sort\" sort \"what it computes, in a line\",
}
";
        assert_eq!(text, want);
        assert!(listed(LISTS, "mod ", "sort", "no_such").unwrap_err().contains("mod no_such"));
    }

    #[test]
    fn devices_are_those_that_can_be_used() {
        let said = r#"{"devices": [{"id": "cuda", "usable": false}, {"id": "wgpu:0", "usable": true}]}"#;
        assert_eq!(devices(said), Ok(vec!["wgpu:0".to_owned()]));
        assert!(devices("{}").is_err());
    }

    #[test]
    fn types_are_named_after_files() {
        assert_eq!(type_name("scatter_add"), "ScatterAdd");
        assert_eq!(known_type(LISTS, "softmax").as_deref(), Some("Softmax"));
    }

    #[test]
    fn what_is_no_name_or_there_already_is_refused() {
        std::env::set_current_dir(crate::root()).unwrap();
        assert!(new("Sort", "softmax").unwrap_err().contains("small letters"));
        assert!(new("softmax", "layer_norm").unwrap_err().contains("is there already"));
    }
}
