//! Test programs and examples, two at a time: cargo runs one after the other, and at the end of each all processors but one wait
//! for its longest test.
//!
//! What cargo builds it says in messages (`--message-format`); each program then runs as cargo would run it, a test in its
//! package's folder. What one prints comes whole, when it has ended. The longest start first.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::Result;
use crate::command::{Cmd, beside_this};
use crate::counts::Counts;

/// Programs at once. Each runs as many tests at once as there are processors, so that more would only take memory.
const AT_ONCE: usize = 2;

/// What runs longer hangs: the longest takes two minutes on two processors.
const LONGEST_RUN: Duration = Duration::from_secs(900);

/// Programs that take half a minute and more, the longest first: their folder, and their name, `lib` for the tests within a
/// library. The others follow as cargo names them, and the other examples.
const LONGEST: [(&str, &str); 11] = [
    ("shaders", "suite"),
    ("backend-wgpu", "suite"),
    ("core", "lib"),
    ("backend-cuda", "native"),
    ("shaders/naga-ptx", "suite"),
    ("core", "suite"),
    ("backend-wgpu", "conformance"),
    ("backend-cuda", "conformance"),
    ("examples", "train_digits_resnet"),
    ("examples", "train_characters"),
    ("shaders", "lib"),
];

/// Programs that measure times, which others beside them would lengthen: one at a time, after the rest.
const ALONE: [(&str, &str); 3] = [("backend-cuda", "cost"), ("backend-cuda", "order"), ("backend-wgpu", "cost")];

/// Examples that may take so many seconds for what they train, as the variable says.
const WITHIN: [(&str, &str, &str); 1] = [("train_digits_resnet", "POLYWARP_TRAIN_WITHIN", "60")];

/// Examples whose kernels a software GPU compiles for most of a minute: of Vulkan and GL they take one, another one every day.
const ONE_API: [&str; 7] = [
    "best_match",
    "digits",
    "text_to_vectors",
    "train_bert",
    "train_characters",
    "train_digits",
    "train_digits_resnet",
];

/// A program to run.
#[derive(Clone)]
struct Program {
    /// The arguments by which cargo runs it alone.
    selected: String,
    executable: PathBuf,
    /// Its package's, or that of the examples.
    folder: PathBuf,
    name: String,
    /// Where it runs, if not where this program does.
    runs_in: Option<PathBuf>,
    kind: Kind,
    variables: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Prints how many tests passed.
    Tests,
    /// Counts as one that passes where it ends well.
    Example,
}

/// What runs beside the tests that cargo built.
pub enum Also {
    /// An example, as the step that builds has left it.
    Example(String),
    /// The test program of that folder and name once more, with variables and what it prints of its own.
    Again(&'static str, &'static str, Vec<(&'static str, String)>),
}

impl Program {
    /// The program that cargo says it built; `message` is cargo's line. `None` for other messages.
    fn of_message(message: &serde_json::Value) -> Option<Program> {
        let (target, executable) = (&message["target"], message["executable"].as_str()?);
        if message["profile"]["test"] != true {
            return None;
        }
        let (name, kind) = (target["name"].as_str()?, target["kind"][0].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        // `path+file:///folder#name@version`; `#version` alone where the folder has the package's name.
        let (source, id) = message["package_id"].as_str()?.split_once('#')?;
        let package = id.split_once('@').map_or_else(|| source.rsplit('/').next(), |(name, _)| Some(name))?;
        let (name, selected) = match kind {
            "bin" | "example" | "test" => (name, format!("--{kind} {name}")),
            _ => ("lib", "--lib".to_owned()),
        };
        Some(Program {
            selected: format!("test --locked --package {package} {selected}"),
            executable: executable.into(),
            folder: folder.to_owned(),
            name: name.to_owned(),
            runs_in: Some(folder.to_owned()),
            kind: Kind::Tests,
            variables: Vec::new(),
        })
    }

    /// An example beside this program: `cargo run` would build the library and half of its dependencies once more, with the features
    /// of one package instead of the workspace's.
    fn example(name: &str, whole: bool) -> Result<Program> {
        let within = WITHIN.iter().filter(|row| row.0 == name).map(|row| (row.1, row.2.to_owned()));
        let api = if day().is_multiple_of(2) { "vulkan" } else { "gl" };
        let is_of_one = cfg!(target_os = "linux") && !whole && ONE_API.contains(&name);
        let api = is_of_one.then(|| ("WGPU_BACKEND", api.to_owned()));
        Ok(Program {
            selected: format!("run --locked --example {name}"),
            executable: beside_this(&format!("examples/{name}"))?,
            folder: "examples".into(),
            name: name.to_owned(),
            runs_in: None,
            kind: Kind::Example,
            variables: within.chain(api).collect(),
        })
    }

    /// Whether these tests have run before, without the variables.
    fn is_again(&self) -> bool {
        self.kind == Kind::Tests && !self.variables.is_empty()
    }

    /// This one of tests once more.
    fn again(&self, variables: Vec<(&'static str, String)>) -> Program {
        Program { variables, ..self.clone() }
    }

    /// Where it stands in `list`.
    fn place(&self, list: &[(&str, &str)]) -> Option<usize> {
        list.iter().position(|&(folder, name)| self.folder.ends_with(folder) && self.name == name)
    }

    /// `command` with what is set for it.
    fn set(&self, command: Cmd) -> Cmd {
        self.variables.iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    /// As it runs.
    fn command(&self) -> Cmd {
        let command = self.set(Cmd::new("").program(&self.executable));
        // What it says of itself is wanted where it runs once more.
        let command = if self.is_again() { command.arg("--nocapture") } else { command };
        self.runs_in.iter().fold(command, |command, folder| command.within(folder))
    }

    /// What it prints goes here, no other's.
    fn printed(&self) -> PathBuf {
        self.executable.with_extension(if self.is_again() { "again.printed" } else { "printed" })
    }
}

/// Builds what `line` names, a `cargo test` of the workspace, and runs it and `also` with the variables that `with` sets. After a
/// failure no other program starts. `whole`: examples run on every device, not on today's alone.
pub fn run(line: &str, also: Vec<Also>, whole: bool, with: impl Fn(Cmd) -> Cmd + Sync, counts: &mut Counts) -> Result {
    let said = Cmd::new(line).args(["--no-run", "--message-format", "json-render-diagnostics"]).output()?;
    let mut programs = of_messages(&said)?;
    for also in also {
        programs.push(match also {
            Also::Example(name) => Program::example(&name, whole)?,
            Also::Again(folder, name, variables) => {
                let first = programs.iter().find(|program| program.place(&[(folder, name)]).is_some());
                first.ok_or(format!("cargo built no {name} of {folder}"))?.again(variables)
            }
        });
    }
    programs.sort_by_key(|program| program.place(&LONGEST).unwrap_or(LONGEST.len()));
    let (alone, beside) = programs.into_iter().partition(|program| program.place(&ALONE).is_some());
    run_at_once(AT_ONCE, beside, &with, counts)?;
    run_at_once(1, alone, &with, counts)
}

/// Today's number.
pub fn day() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400)
}

fn run_at_once(
    most: usize,
    programs: Vec<Program>,
    with: &(impl Fn(Cmd) -> Cmd + Sync),
    counts: &mut Counts,
) -> Result {
    let state = Mutex::new(State { waiting: programs.into(), counts, failed: None });
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                while let Some(program) = { lock().next() } {
                    // Which one it is that hangs, if one does.
                    println!("-- {} starts", program.selected);
                    let (start, printed) = (Instant::now(), program.printed());
                    let outcome = with(program.command()).run_within(LONGEST_RUN, &printed);
                    let text = std::fs::read(&printed).unwrap_or_default();
                    let text = String::from_utf8_lossy(&text);
                    let mut state = lock();
                    println!("\n-- {}: {:.1} s\n{text}", program.selected, start.elapsed().as_secs_f64());
                    match program.kind {
                        Kind::Tests => text.lines().for_each(|line| state.counts.add(Counts::of_line(line))),
                        Kind::Example => state.counts.add(Counts::of_one(outcome.is_ok())),
                    }
                    if let Err(why) = outcome {
                        let again = with(program.set(Cmd::new(&format!("cargo {}", program.selected))));
                        state.failed.get_or_insert(format!("{why}; to repeat it: {again}"));
                    }
                }
            });
        }
    });
    let failed = lock().failed.take();
    failed.map_or(Ok(()), Err)
}

struct State<'a> {
    waiting: VecDeque<Program>,
    counts: &'a mut Counts,
    failed: Option<String>,
}

impl State<'_> {
    fn next(&mut self) -> Option<Program> {
        if self.failed.is_some() { None } else { self.waiting.pop_front() }
    }
}

/// The test programs among cargo's messages.
fn of_messages(said: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let message = serde_json::from_str(line).map_err(|e| format!("cargo printed {line}: {e}"))?;
        programs.extend(Program::of_message(&message));
    }
    if programs.is_empty() { Err("cargo built no test program".to_owned()) } else { Ok(programs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let message = |id: &str, kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/core/Cargo.toml",
                "target": {"kind": [kind], "name": "suite"}, "profile": {"test": test}, "executable": "/w/target/suite-1",
            })
            .to_string()
        };
        let test = message("path+file:///w/core#polywarp-core@0.1.0", "test", true);
        let library = message("path+file:///w/xtask#0.1.0", "lib", true);
        let program = message("path+file:///w/xtask#0.1.0", "bin", false);
        let found = of_messages(&[test, program.clone(), library].join("\n")).unwrap();
        let selected: Vec<&str> = found.iter().map(|program| program.selected.as_str()).collect();
        assert_eq!(
            selected,
            ["test --locked --package polywarp-core --test suite", "test --locked --package xtask --lib"]
        );
        assert_eq!(
            (found[0].executable.as_path(), found[0].folder.as_path()),
            (Path::new("/w/target/suite-1"), Path::new("/w/core"))
        );
        assert!(of_messages(&program).is_err());
    }

    #[test]
    fn examples_of_one_api_are_there() {
        for name in ONE_API.into_iter().chain(WITHIN.map(|row| row.0)) {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.rs")).is_file(), "{name}");
        }
    }

    #[test]
    fn programs_with_a_place_are_there() {
        for (folder, program) in LONGEST.into_iter().chain(ALONE) {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
            let is = [format!("tests/{program}.rs"), format!("tests/{program}/main.rs"), format!("{program}.rs")]
                .iter()
                .any(|file| path.join(file).is_file());
            assert!(is || (program == "lib" && path.join("src/lib.rs").is_file()), "{folder} {program}");
        }
    }
}
