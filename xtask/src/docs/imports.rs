//! Which modules of its crate a source names: by paths from `crate`, `self` or `super` on, those in braces one by one, and by names that a module
//! hands on, as those that they come from.
//!
//! Read as text: what a method call reaches is not seen, nor what a macro, a glob or another crate hands on. Comments and tests are left out.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::Document;

/// A module by its names from the root on; the root has none.
pub type Module = Vec<String>;

/// The sources of a crate, tests left out.
pub struct Crate {
    sources: BTreeMap<Module, Source>,
}

struct Source {
    /// Below the crate's folder of sources.
    path: String,
    text: String,
    /// The names that `use` makes here, each with its path from the root on.
    names: HashMap<String, Module>,
}

/// What a source names.
pub struct Import {
    pub line: usize,
    /// The module, or a path below the root that leads to none.
    pub module: Module,
}

impl Crate {
    /// The crate whose sources lie below `folder`.
    pub fn of(folder: &str, documents: &[Document]) -> Crate {
        let mut sources = BTreeMap::new();
        for document in documents {
            let Some(path) = document.path.strip_prefix(Path::new(folder)).ok().and_then(Path::to_str) else {
                continue;
            };
            let path = path.replace('\\', "/");
            let Some(stem) = path.strip_suffix(".rs").filter(|stem| !is_test(stem) && *stem != "main") else {
                continue;
            };
            let stem = if stem == "lib" { "" } else { stem.strip_suffix("/mod").unwrap_or(stem) };
            let module: Module = stem.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let text = without_tests(&document.text);
            let names = names(&module, &text);
            sources.insert(module, Source { path, text, names });
        }
        Crate { sources }
    }

    /// Each module, and the path of its source.
    pub fn modules(&self) -> impl Iterator<Item = (&Module, &str)> {
        self.sources.iter().map(|(module, source)| (module, source.path.as_str()))
    }

    /// What `module` names of the crate, in the order of its text.
    pub fn imports(&self, module: &Module) -> Vec<Import> {
        let Some(Source { text, .. }) = self.sources.get(module) else { return Vec::new() };
        let mut imports = Vec::new();
        for (at, path) in paths(text) {
            let Some(path) = absolute(module, &path.path) else { continue };
            imports.push(Import { line: 1 + text[..at].matches('\n').count(), module: self.resolved(&path, 0) });
        }
        imports
    }

    /// The innermost module that `path` leads to; where it leads to none, its first name.
    fn resolved(&self, path: &[String], hands: usize) -> Module {
        let mut at = 0;
        while at < path.len() && self.sources.contains_key(&path[..=at]) {
            at += 1;
        }
        let handed = path.get(at).and_then(|name| self.sources.get(&path[..at])?.names.get(name));
        match handed {
            // Names that hand each other on end somewhere, in code that compiles.
            Some(handed) if hands < 8 => self.resolved(&[&handed[..], &path[at + 1..]].concat(), hands + 1),
            _ => path[..at.max(1).min(path.len())].to_vec(),
        }
    }
}

/// Whether the source of this path, without its ending, is one of tests.
fn is_test(stem: &str) -> bool {
    let ends = ["tests", "_fuzzing", "pins", "wgsl/validate"];
    ends.iter().any(|end| stem.ends_with(end)) || stem.contains("tests/")
}

/// A path as it is written, and the name that `as` gives it.
struct Written {
    path: String,
    name: Option<String>,
}

/// The paths that `text` names from `crate`, `self` or `super` on, with their places.
fn paths(text: &str) -> Vec<(usize, Written)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(next) = ["crate::", "self::", "super::"].iter().filter_map(|root| text[at..].find(root)).min() {
        let start = at + next;
        at = start + "self::".len();
        let is_whole = !text[..start].ends_with(|c: char| is_word(c) || c == ':');
        if is_whole {
            at = expand(text, start, "", &mut paths);
        }
    }
    paths
}

/// Adds the paths of the tree that begins at `at` of `text`, behind `before`; gives where it ends.
fn expand(text: &str, at: usize, before: &str, paths: &mut Vec<(usize, Written)>) -> usize {
    let end = at + text[at..].find(|c: char| !is_word(c) && c != ':').unwrap_or(text.len() - at);
    let path = format!("{before}{}", &text[at..end]);
    if !(path.ends_with("::") && text[end..].starts_with('{')) {
        let name = text[end..].strip_prefix(" as ").and_then(|rest| words(rest).next());
        let path = path.trim_end_matches(':').trim_end_matches("::self").to_owned();
        paths.push((at, Written { path, name }));
        return end;
    }
    let mut at = end + 1;
    loop {
        let Some(next) = text[at..].find(|c: char| !c.is_whitespace() && c != ',') else { return text.len() };
        if text[at + next..].starts_with('}') {
            return at + next + 1;
        }
        at = expand(text, at + next, &path, paths);
        // What stands behind a name: `*`, `as other`.
        at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
    }
}

/// `path` from the root on, as it is written in `module`; none for one that begins elsewhere, or leaves the crate.
fn absolute(module: &[String], path: &str) -> Option<Module> {
    let mut names = path.split("::").filter(|name| !name.is_empty()).peekable();
    let mut from = match *names.peek()? {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    names.next_if(|&name| name != "super");
    while names.next_if_eq(&"super").is_some() {
        from.pop()?;
    }
    from.extend(names.map(str::to_owned));
    Some(from)
}

/// The names that `use` makes in `module`; a path from nowhere in particular may be one of its own modules.
fn names(module: &[String], text: &str) -> HashMap<String, Module> {
    let mut made = HashMap::new();
    for (start, _) in text.match_indices("use ").filter(|(start, _)| !text[..*start].ends_with(is_word)) {
        let mut paths = Vec::new();
        expand(text, start + "use ".len(), "", &mut paths);
        for (_, Written { path, name }) in paths {
            let path = absolute(module, &path).or_else(|| absolute(module, &format!("self::{path}")));
            if let Some(path) = path
                && let Some(name) = name.or_else(|| path.last().cloned())
            {
                made.insert(name, path);
            }
        }
    }
    made
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned)
}

/// A text without comments and without the module of tests at its end.
fn without_tests(text: &str) -> String {
    let is_written_here = |at: usize| text[at..].lines().nth(1).is_some_and(|line| line.contains('{'));
    let mut modules = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    let end = modules.find(|&at| is_written_here(at)).unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the source at `path` of a small crate names, with lines.
    fn named(path: &str, text: &str) -> Vec<String> {
        let sources = [
            (
                "lib.rs",
                "mod ops;\npub use ops::{Matmul,\n    Sort as Sorted};\npub use dtype::DType; // pub use cpu::Cpu;\n",
            ),
            ("ops/mod.rs", "mod sort;\npub use matmul::Matmul;\npub(crate) use self::sort::Sort;"),
            ("ops/matmul.rs", ""),
            ("ops/sort.rs", ""),
            ("dtype.rs", ""),
            ("tensor.rs", ""),
            (path, text),
        ];
        let document =
            |(path, text): (&str, &str)| Document { path: format!("c/src/{path}").into(), text: text.into() };
        let of = Crate::of("c/src", &sources.map(document));
        let Some((module, _)) = of.modules().find(|(_, source)| *source == path) else { return Vec::new() };
        of.imports(module).into_iter().map(|import| format!("{} {}", import.line, import.module.join("::"))).collect()
    }

    #[test]
    fn modules_are_named_directly_in_braces_and_by_super() {
        assert_eq!(
            named("plan.rs", "use crate::tensor::b;\nfn f() { crate::new::c() } // crate::d"),
            ["1 tensor", "2 new"]
        );
        let nested = "use crate::{\n    DType, ops::{self, sort::Order, *},\n    tensor as t,\n};\nuse crate::dtype;";
        assert_eq!(named("plan.rs", nested), ["2 dtype", "2 ops", "2 ops::sort", "2 ops", "3 tensor", "5 dtype"]);
        assert_eq!(named("a.rs", "use super::tensor;"), ["1 tensor"]);
        assert_eq!(named("a/b.rs", "use super::own;\nuse super::super::tensor::Tensor;"), ["1 a", "2 tensor"]);
        assert_eq!(named("a/mod.rs", "use super::tensor;"), ["1 tensor"]);
        assert_eq!(named("ops/sort.rs", "fn f() { myself::x(); super::matmul::g() }"), ["1 ops::matmul"]);
    }

    #[test]
    fn names_that_modules_hand_on_are_those_that_they_come_from() {
        let text = "use crate::{Matmul, Sorted};\nuse crate::ops::Sort;\nuse crate::DType;\nuse crate::Cpu;";
        assert_eq!(named("plan.rs", text), ["1 ops::matmul", "1 ops::sort", "2 ops::sort", "3 dtype", "4 Cpu"]);
        assert_eq!(named("ops/sort.rs", "use super::Matmul;"), ["1 ops::matmul"]);
    }

    #[test]
    fn tests_and_what_they_name_are_left_out() {
        assert!(named("plan.rs", "#[cfg(test)]\nmod tests { use crate::ops::Sort; }").is_empty());
        assert_eq!(named("plan.rs", "#[cfg(test)]\nmod pins;\nuse crate::tensor::T;"), ["3 tensor"]);
        for path in ["plan/tests.rs", "plan_tests.rs", "store_fuzzing.rs", "tests/a.rs", "pins.rs"] {
            assert!(named(path, "use crate::tensor::T;").is_empty(), "{path}");
        }
    }
}
