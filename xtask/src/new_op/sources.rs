//! What sources declare, read as text: names that `ops!` exports, methods on types of others, traits for types of others.
//!
//! Sources are formatted: an item of a module starts its line, and a block ends with a brace that does.

use super::words::is_word;

/// A method that is written in an `impl` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method<'a> {
    pub of: &'a str,
    pub name: &'a str,
}

/// The name that a line declares behind one of `keywords`.
fn declared<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let line = line.trim_start();
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let item = ["const fn ", "unsafe fn "]
        .iter()
        .find(|prefix| item.starts_with(**prefix))
        .map_or(item, |_| item.split_once(' ').map_or(item, |(_, rest)| rest));
    let (keyword, rest) = item.split_once(' ')?;
    let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
    (keywords.contains(&keyword) && !name.is_empty()).then_some(name)
}

/// The types and traits that `source` declares, at any depth.
pub fn types(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| declared(line, &["struct", "enum", "trait", "type", "union"]))
}

/// The functions and methods that `source` declares.
pub fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| declared(line, &["fn"]))
}

/// A function of a module or of a type's `impl` block.
pub struct Function<'a> {
    /// What stands before `::` where it is called: the type; `None` for one of the module.
    pub of: Option<&'a str>,
    pub name: &'a str,
    /// From the name to the body.
    pub signature: &'a str,
}

/// The functions of `source` with what they take.
pub fn signatures(source: &str) -> Vec<Function<'_>> {
    let (mut found, mut of, mut at) = (Vec::new(), None, 0);
    for line in source.split_inclusive('\n') {
        if line.starts_with("impl") {
            // `impl<T> Trait for Type<T> {`, by its last name.
            let head = line.split(" {").next().unwrap_or_default().split(" for ").last().unwrap_or_default();
            of = head.split(|c| !is_word(c)).rfind(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        } else if line.starts_with('}') {
            of = None;
        } else if let Some(name) = declared(line, &["fn"]) {
            let rest = &source[at + line.find(name).unwrap_or(0)..];
            let signature = &rest[..rest.find(['{', ';']).unwrap_or(rest.len())];
            found.push(Function { of, name, signature });
        }
        at += line.len();
    }
    found
}

/// The constants and statics that `source` declares.
pub fn constants(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| declared(line, &["const", "static"]))
}

/// The names of a module that others see through `pub use module::*`: items that say `pub`, and what it hands on.
pub fn exported(source: &str) -> Vec<&str> {
    const ITEMS: [&str; 8] = ["struct", "enum", "trait", "type", "union", "const", "static", "fn"];
    let mut names: Vec<&str> =
        source.lines().filter(|line| line.starts_with("pub")).filter_map(|line| declared(line, &ITEMS)).collect();
    for (at, _) in source.match_indices("\npub use ") {
        let path = source[at + "\npub use ".len()..].split(';').next().unwrap_or_default();
        let listed = path.rsplit("::").next().unwrap_or_default();
        names.extend(listed.split(|c| !is_word(c)).filter(|name| !name.is_empty()));
    }
    names
}

/// The variants of enumerations whose names have `part` in them.
pub fn variants<'a>(source: &'a str, part: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in source.lines() {
        if declared(line, &["enum"]).is_some() {
            is_inside = line.ends_with('{');
        } else if line == "}" {
            is_inside = false;
        } else if is_inside {
            let name = line.trim_start();
            let name = &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())];
            if name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains(part) {
                found.push(name);
            }
        }
    }
    found
}

/// The blocks `impl TYPE {` at the start of a line: the type, and where the block starts and ends.
pub fn blocks(source: &str) -> Vec<(&str, [usize; 2])> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        if let Some(of) = line.trim_end().strip_prefix("impl ").and_then(|rest| rest.strip_suffix(" {"))
            && of.chars().all(is_word)
        {
            let end = source[at..].find("\n}").map_or(source.len(), |end| at + end);
            found.push((of, [at, end]));
        }
        at += line.len();
    }
    found
}

/// The methods of those blocks.
pub fn methods(source: &str) -> impl Iterator<Item = Method<'_>> {
    blocks(source).into_iter().flat_map(|(of, [start, end])| {
        let lines = source[start..end].lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
        lines.filter_map(|line| declared(line, &["fn"])).map(move |name| Method { of, name })
    })
}

/// Traits that `source` implements, with the type: `impl TRAIT for TYPE`, generic ones left out.
pub fn implemented(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.lines().filter_map(|line| {
        let (of, by) = line.strip_prefix("impl ")?.strip_suffix(" {")?.split_once(" for ")?;
        let last = |path: &'_ str| path.rfind("::").map_or(0, |at| at + 2);
        let is_plain = |name: &str| name.chars().all(is_word);
        let (of, by) = (&of[last(of)..], &by[last(by)..]);
        (is_plain(of) && is_plain(by)).then_some((of, by))
    })
}

/// The modules that have a file of their own: `mod NAME;`, with the file that `#[path]` names.
pub fn modules(source: &str) -> Vec<(Option<&str>, &str)> {
    let mut found = Vec::new();
    let mut path = None;
    for line in source.lines() {
        if let Some(named) = line.trim_start().strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(named);
        } else if let Some(name) = line.ends_with(';').then(|| declared(line, &["mod"])).flatten() {
            found.push((path.take(), name));
        } else if !line.trim_start().starts_with("#[") {
            path = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
#[path = \"x/host.rs\"]
pub(crate) mod host;
mod plan;
pub use options::{Form,
    Options};
use crate::A;

pub(crate) const LONGEST: u64 = 1;
pub enum FoldFn {
    LogFold,
    Sum(u8),
}
struct Private;
pub const fn fold() {}

impl Tensor {
    /// Text.
    pub fn fold(&self) {
        fn inner() {}
    }

    pub(crate) const fn unfold(&self) {}
}

impl fmt::Display for FoldFn {
    fn fmt() {}
}

impl Word for u8 {
}
";

    #[test]
    fn declarations_are_found() {
        assert_eq!(exported(SOURCE), ["LONGEST", "FoldFn", "fold", "Form", "Options"]);
        assert_eq!(types(SOURCE).collect::<Vec<_>>(), ["FoldFn", "Private"]);
        assert_eq!(variants(SOURCE, "Fold"), ["LogFold"]);
        assert_eq!(functions(SOURCE).collect::<Vec<_>>(), ["fold", "fold", "inner", "unfold", "fmt"]);
        let taken = signatures(
            "fn of(\n    x: &Fold,\n) -> u8 {\n}\nimpl<T> A<T> for Key {\n    fn of(self) {}\n}\nfn by();\n",
        );
        let taken: Vec<_> = taken.iter().map(|found| (found.of, found.name, found.signature.trim_end())).collect();
        assert_eq!(
            taken,
            [(None, "of", "of(\n    x: &Fold,\n) -> u8"), (Some("Key"), "of", "of(self)"), (None, "by", "by()")]
        );
        let of = "Tensor";
        assert_eq!(methods(SOURCE).collect::<Vec<_>>(), [Method { of, name: "fold" }, Method { of, name: "unfold" }]);
        assert_eq!(implemented(SOURCE).collect::<Vec<_>>(), [("Display", "FoldFn"), ("Word", "u8")]);
        assert_eq!(modules(SOURCE), [(Some("x/host.rs"), "host"), (None, "plan")]);
    }
}
