//! One operation: its family everywhere (`op NAME`), and the files of a new one (`new-op NAME --like OTHER`).
//!
//! What `op` runs is what a change of one operation can break: its cases on the CPU, on every GPU of the machine, on interpreted PTX and on
//! CUDA (the interpreted driver without a card), the lists and proofs that follow the registry, the kernels that ship and the documents.
//! `cargo xtask test` runs all of that for all operations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Cmd;
use crate::run::Run;
use crate::{Result, library, prepare};

/// Where operations are named.
const OPS: &str = "core/src/ops/mod.rs";

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
        run.step("documents", |_| library::run(&["docs"]))?;
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

/// Makes the files of the operation `name` after those of `like`, and its line in the list.
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
    let write = |path: &Path, text: &str| {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(path, text)).map_err(|e| format!("{}: {e}", path.display()))
    };
    let list = listed(&read(Path::new(OPS))?, name, like)?;
    let [like_file, like_cases] = files(like);
    let known = known_type(&read(&like_file)?).map_or_else(|| type_name(like), str::to_owned);
    let mut sources = vec![like_file, like_cases];
    // Those of its planner and its host routine, where it has any.
    parts(&Path::new(OPS).with_file_name(like), &mut sources)?;
    let texts = sources.iter().map(|source| Ok((moved(source, name, like), read(source)?)));
    let texts = texts.collect::<Result<Vec<(PathBuf, String)>>>()?;
    // Nothing is written before everything is known to fit.
    for (path, text) in &texts {
        write(path, &renamed(text, [&known, like], [&type_name(name), name]))?;
    }
    write(Path::new(OPS), &list)?;
    let made: Vec<String> = texts.iter().map(|(path, _)| path.display().to_string()).collect();
    println!("{}, with a line in {OPS}.", made.join(", "));
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

/// The type that the file of an operation is about: the first that it implements the trait for.
fn known_type(source: &str) -> Option<&str> {
    source.lines().find_map(|line| line.strip_prefix("impl Operation for ")?.strip_suffix(" {"))
}

/// The Rust files in `folder` and below it, by name; none where there is no folder.
fn parts(folder: &Path, found: &mut Vec<PathBuf>) -> Result {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?.flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            parts(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Where the copy of `source` lies: `like` as a folder or a file is `name`.
fn moved(source: &Path, name: &str, like: &str) -> PathBuf {
    let (folder, file) = (Path::new(like), format!("{like}.rs"));
    let parts = source.components().map(|part| match Path::new(part.as_os_str()) {
        path if path == folder => PathBuf::from(name),
        path if path == Path::new(&file) => PathBuf::from(format!("{name}.rs")),
        path => path.to_owned(),
    });
    parts.collect()
}

/// `text` with one type and one name instead of others. Types that begin with it go along (`SoftmaxFn`), and names at the end of others
/// (`log_softmax`); WGSL files (`softmax.wgsl`) and what other modules call theirs (`softmax_rows`) stay.
fn renamed(text: &str, [known, like]: [&str; 2], [of, name]: [&str; 2]) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (part, behind) = rest.split_at(rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len()));
        let is_file = part.ends_with(like) && behind.starts_with(".wgsl");
        match part.strip_suffix(like) {
            Some(before) if !is_file && (before.is_empty() || before.ends_with('_')) => {
                renamed += &format!("{before}{name}")
            }
            _ if is_word(first) => renamed += &part.replace(known, of),
            _ => renamed += part,
        }
        rest = behind;
    }
    renamed
}

/// `text` with one more line in the list of operations, in its place by the alphabet.
fn listed(text: &str, name: &str, like: &str) -> Result<String> {
    // `    operation softmax "softmax along an axis";`
    let named = |line: &str| {
        line.strip_prefix("    operation ")
            .or(line.strip_prefix("    program "))
            .map(str::trim_start)
            .and_then(|rest| rest.split_once(' '))
            .map(|(name, _)| name.to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let source = lines
        .iter()
        .position(|line| line.starts_with("    operation ") && named(line).is_some_and(|found| found == like));
    let source = source.ok_or_else(|| format!("no line `operation {like}` in {OPS} to go by"))?;
    let first = lines[..source].iter().rposition(|line| named(line).is_none()).map_or(0, |at| at + 1);
    let last = lines[source..].iter().position(|line| named(line).is_none()).map_or(lines.len(), |at| source + at);
    let before = lines[first..last].iter().position(|line| named(line).is_some_and(|found| found.as_str() > name));
    let at = before.map_or(last, |before| first + before);
    let line = format!("    operation {name} \"what it computes, in a line\";");
    let mut all: Vec<&str> = lines[..at].to_vec();
    all.push(&line);
    all.extend(&lines[at..]);
    Ok(all.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
mod walk;

ops! {
    program arange \"evenly spaced numbers\";
    operation layer_norm \"rows\";
    operation softmax \"softmax\";
}
";

    #[test]
    fn the_line_of_a_new_operation_stands_in_order() {
        let want = LIST.replace("}\n", "    operation sort \"what it computes, in a line\";\n}\n");
        assert_eq!(listed(LIST, "sort", "layer_norm"), Ok(want));
        let want = LIST
            .replace("    operation layer", "    operation fold \"what it computes, in a line\";\n    operation layer");
        assert_eq!(listed(LIST, "fold", "softmax"), Ok(want));
        assert!(listed(LIST, "sort", "no_such").unwrap_err().contains("no line `operation no_such`"));
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
        assert_eq!(known_type("use x;\nimpl Operation for LogSumExp {\n"), Some("LogSumExp"));
    }

    #[test]
    fn names_and_types_are_those_of_the_new_one_and_what_is_shared_stays() {
        let text =
            "use crate::ops::{Softmax, SoftmaxFn}; fn log_softmax(); softmax_rows::rows(\"softmax.wgsl\", softmax, é)";
        let want = "use crate::ops::{Sort, SortFn}; fn log_sort(); softmax_rows::rows(\"softmax.wgsl\", sort, é)";
        assert_eq!(renamed(text, ["Softmax", "softmax"], ["Sort", "sort"]), want);
        let moved = |path: &str| moved(Path::new(path), "sort", "softmax");
        assert_eq!(moved("core/src/ops/softmax/plan/tests.rs"), Path::new("core/src/ops/sort/plan/tests.rs"));
        assert_eq!(moved("core/src/ops/cases/softmax.rs"), Path::new("core/src/ops/cases/sort.rs"));
    }

    #[test]
    fn what_is_no_name_or_there_already_is_refused() {
        std::env::set_current_dir(crate::root()).unwrap();
        assert!(new("Sort", "softmax").unwrap_err().contains("small letters"));
        assert!(new("softmax", "layer_norm").unwrap_err().contains("is there already"));
    }
}
