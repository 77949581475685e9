//! The recipes of CONTRIBUTING.md name files that exist, and that of an operation has few steps.
//!
//! A path is an inline code span with a `/` and no space, below a folder of this repository. `<op>` in it stands for any
//! name: then the folder before it must exist, with at least one file of that kind.

use std::fs;
use std::path::{Path, PathBuf};

use super::Document;

/// The recipe that must stay short.
const OPERATION: &str = "## Add a portable operation";
const MOST_STEPS: usize = 4;

/// One complaint per path that is not there, and one for a recipe of an operation that has grown.
pub fn check(documents: &[Document]) -> Vec<String> {
    let recipes = documents.iter().filter(|document| document.path == Path::new("CONTRIBUTING.md"));
    let complaints = recipes.flat_map(|document| {
        let missing = paths(&document.text).filter(|path| !exists(path));
        let missing = missing.map(|path| format!("CONTRIBUTING.md: no file `{path}`"));
        let steps = steps(&document.text, OPERATION);
        let long = (!(1..=MOST_STEPS).contains(&steps))
            .then(|| format!("CONTRIBUTING.md: {steps} steps under `{OPERATION}`, {MOST_STEPS} at most"));
        missing.chain(long).collect::<Vec<_>>()
    });
    complaints.collect()
}

/// The numbered steps below `heading`, up to the next heading.
fn steps(text: &str, heading: &str) -> usize {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    lines.filter(|line| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())).count()
}

/// The paths of the text: spans of inline code that look like one and start at a file or folder of the top.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    // Inside a line, every second piece between backticks is code; the marks of a fence leave empty pieces.
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        let first = span.split('/').next().unwrap_or_default();
        span.contains('/') && !span.contains(char::is_whitespace) && Path::new(first).exists()
    })
}

fn exists(path: &str) -> bool {
    let Some((before, after)) = path.split_once('<') else { return Path::new(path).exists() };
    let (folder, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let suffix = after.split_once('>').map_or("", |(_, suffix)| suffix);
    let names = fs::read_dir(PathBuf::from(folder)).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with(prefix) && (suffix.contains('/') || name.ends_with(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_spans_below_the_top() {
        // Tests run in the crate's folder, so its `src` is at the top.
        let text = "edit `src/docs/<check>.rs`, `src/nothing.rs`; run `src/x y`, say `a/b`, call `f()`";
        let found: Vec<&str> = paths(text).collect();
        assert_eq!(found, ["src/docs/<check>.rs", "src/nothing.rs"]);
        assert!(exists(found[0]) && !exists(found[1]));
    }

    #[test]
    fn steps_are_those_below_the_heading() {
        let text = "## A\n1. one\n   more, 2. not\n2. two\n\n## B\n1. one\n2. two\n3. three\n";
        assert_eq!((steps(text, "## A"), steps(text, "## B"), steps(text, "## C")), (2, 3, 0));
    }

    #[test]
    fn placeholder_needs_one_file_of_its_kind() {
        assert!(!exists("src/docs/<check>.wgsl"));
        assert!(!exists("src/nowhere/<check>.rs"));
    }
}
