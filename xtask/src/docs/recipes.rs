//! The recipes of CONTRIBUTING.md name files that exist.
//!
//! A path is an inline code span with a `/` and no space, below a folder of this repository. `<op>` in it stands for any
//! name: then the folder before it must exist, with at least one file of that kind.

use std::fs;
use std::path::{Path, PathBuf};

use super::Document;

/// One complaint per path that is not there.
pub fn check(documents: &[Document]) -> Vec<String> {
    let recipes = documents.iter().filter(|document| document.path == Path::new("CONTRIBUTING.md"));
    let missing = recipes.flat_map(|document| paths(&document.text)).filter(|path| !exists(path));
    missing.map(|path| format!("CONTRIBUTING.md: no file `{path}`")).collect()
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
    fn placeholder_needs_one_file_of_its_kind() {
        assert!(!exists("src/docs/<check>.wgsl"));
        assert!(!exists("src/nowhere/<check>.rs"));
    }
}
