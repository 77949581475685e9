//! The files of a new operation, after those of another: `new-op NAME --like OTHER`.
//!
//! The copy compiles and its family conforms as made, so that a change starts from what is right. Whatever would not compile is refused before
//! anything is written, with the reason and what to take instead.

mod renaming;
mod sources;
mod words;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::Result;
use renaming::{Renaming, with_own_benches};
use sources::Method;

/// Where operations are named.
const OPS: &str = "core/src/ops/mod.rs";

/// What there always is to take: an operation with kernels of its own, and a graph of others.
const INSTEAD: &str = "`softmax`, which has kernels, or `logsumexp`, a graph of other operations";

/// Operations whose copies do not compile for what their own texts do not show, with the reason.
const REFUSED: [(&str, &str); 3] = [
    ("copy", "its type is called like the trait `Copy`"),
    ("reduce", "graphs take its `ReduceFn`, and not the copy's"),
    ("sparse24", "how `SparseMatmul` is tuned stands in core/src/ops/matmul/tuned.rs"),
];

/// Makes the files of the operation `name` after those of `like`, and its line in the list.
pub fn new(name: &str, like: &str) -> Result {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if !is_name(name) {
        return Err(format!("`{name}` is no name of an operation: small letters, digits and _"));
    }
    let list = listed(&read(Path::new(OPS))?, name, like)?;
    let made = copy(name, like, &Others::read()?)?;
    if let Some((there, _)) = made.iter().find(|(path, _)| path.exists()) {
        return Err(format!("{} is there already", there.display()));
    }
    // Nothing is written before everything is known to fit.
    for (path, text) in &made {
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(path, text)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    fs::write(OPS, &list).map_err(|e| format!("{OPS}: {e}"))?;
    let made: Vec<String> = made.iter().map(|(path, _)| path.display().to_string()).collect();
    println!("{}, with a line in {OPS}.", made.join(", "));
    println!("Next: what it computes, its oracle and bound, its gradient with a case in core/src/ops/cases/gradients;");
    println!("then `POLYWARP_PINS=renew cargo test --lib pins_of`, `cargo xtask prepare`, `cargo xtask docs --write`,");
    println!("and `cargo xtask op {name}`.");
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The files of `name`, made of those of `like`.
fn copy(name: &str, like: &str, others: &Others) -> Result<Vec<(PathBuf, String)>> {
    let refused = |why: &str| format!("a copy of `{like}` would not compile: {why}; take {INSTEAD}");
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == like) {
        return Err(refused(why));
    }
    let mut paths = vec![Path::new(OPS).with_file_name(format!("{like}.rs"))];
    let cases = Path::new("core/src/ops/cases");
    paths.push(cases.join(format!("{like}.rs")));
    // Those of its planner and its host routine, and more cases, where it has any.
    parts(&Path::new(OPS).with_file_name(like), &mut paths)?;
    parts(&cases.join(like), &mut paths)?;
    let texts = paths.iter().map(|path| read(path)).collect::<Result<Vec<String>>>()?;
    let known = known_type(&texts[0]).map_or_else(|| type_name(like), str::to_owned);
    let of = type_name(name);
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let renaming = Renaming::new([like, name], [&known, &of], &borrowed);
    let renamed = paths.iter().zip(&texts).map(|(path, text)| {
        let text = renaming.of(text);
        let text = if path.starts_with(cases) { with_own_benches(&text, name) } else { text };
        (moved(path, name, like), text)
    });
    let made: Vec<(PathBuf, String)> = renamed.collect();
    let taken = || renaming.types().into_iter().find_map(|of| others.taking(of, &paths, &made));
    match fault(&made, name, others).or_else(taken) {
        Some(why) => Err(refused(&why)),
        None => Ok(made),
    }
}

/// What the other files of core declare.
#[derive(Default)]
struct Others {
    exported: HashMap<String, String>,
    methods: HashSet<(String, String)>,
    /// Functions that files name as items of `ops`.
    of_ops: HashSet<String>,
    /// The functions in files of operations.
    taking: Vec<Taking>,
}

/// A function in the file of an operation.
struct Taking {
    path: PathBuf,
    /// What stands before it where it is called: its type, or the module that its file is.
    called: String,
    /// Whether it is one of the module.
    is_free: bool,
    /// The types in its signature that its file does not declare.
    types: HashSet<String>,
}

impl Others {
    fn read() -> Result<Others> {
        let mut paths = Vec::new();
        parts(Path::new("core/src"), &mut paths)?;
        let mut others = Others::default();
        for path in paths {
            let text = read(&path)?;
            others.methods.extend(sources::methods(&text).map(|Method { of, name }| (of.to_owned(), name.to_owned())));
            for part in text.split("ops::").skip(1) {
                let group = part.strip_prefix('{').and_then(|group| group.split('}').next());
                let one = &part[..part.find(|c| !words::is_word(c) && c != ':').unwrap_or(part.len())];
                // What goes on is a module.
                let items = group.unwrap_or(one).split(',').map(str::trim).filter(|item| !item.contains("::"));
                others.of_ops.extend(items.filter(|name| !is_type(name)).map(str::to_owned));
            }
            if path.parent() == Path::new(OPS).parent() {
                let exported = sources::exported(&text).into_iter();
                others.exported.extend(exported.map(|name| (name.to_owned(), path.display().to_string())));
            }
            if path.starts_with("core/src/ops") {
                others.taking.extend(taking(&path, &text));
            }
        }
        Ok(others)
    }

    /// A function of another operation's file, none of `copied`, that takes the type `of` and that `made` calls: it does not take the copy's.
    fn taking(&self, of: &str, copied: &[PathBuf], made: &[(PathBuf, String)]) -> Option<String> {
        let others = self.taking.iter().filter(|taking| taking.types.contains(of) && !copied.contains(&taking.path));
        let mut called = others.filter(|taking| made.iter().any(|(_, text)| taking.is_called_in(text)));
        called.next().map(|taking| format!("`{}` of {} takes `{of}`", taking.called, taking.path.display()))
    }
}

/// The functions of the file at `path`.
fn taking(path: &Path, text: &str) -> Vec<Taking> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let own: HashSet<&str> = sources::types(text).collect();
    let functions = sources::signatures(text).into_iter().map(|function| Taking {
        path: path.to_owned(),
        called: format!("{}::{}", function.of.unwrap_or(stem), function.name),
        is_free: function.of.is_none(),
        types: words_of(function.signature)
            .filter(|word| is_type(word) && !own.contains(word))
            .map(str::to_owned)
            .collect(),
    });
    functions.filter(|taking| !taking.types.is_empty()).collect()
}

impl Taking {
    /// Whether `text` calls it by its path, or has it from there by `use stem::{name, ...}`.
    fn is_called_in(&self, text: &str) -> bool {
        let ends = |at: usize| text[at + self.called.len()..].chars().next().is_none_or(|c| !words::is_word(c));
        let starts = |at: usize| text[..at].chars().next_back().is_none_or(|c| !words::is_word(c));
        let by_path = text.match_indices(&self.called).any(|(at, _)| starts(at) && ends(at));
        let (module, name) = self.called.split_once("::").unwrap_or_default();
        let listed = format!("{module}::{{");
        let in_group = |part: &str| words_of(part.split('}').next().unwrap_or_default()).any(|word| word == name);
        by_path || self.is_free && text.split(&listed).skip(1).any(in_group)
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !words::is_word(c)).filter(|word| !word.is_empty())
}

fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Why `made`, the files of `name` with the operation's own first, would not compile.
fn fault(made: &[(PathBuf, String)], name: &str, others: &Others) -> Option<String> {
    let texts = || made.iter().map(|(_, text)| text.as_str());
    let own: HashSet<&str> = texts().flat_map(sources::types).collect();
    // Names that two modules hand on through `pub use` are ambiguous to who uses them.
    let is_used = |name: &str| is_type(name) || others.of_ops.contains(name);
    let exported = sources::exported(&made[0].1).into_iter();
    if let Some(twice) = exported.filter(|name| is_used(name)).find(|name| others.exported.contains_key(*name)) {
        return Some(format!("`{twice}` is exported by {} too", others.exported[twice]));
    }
    let foreign = || texts().flat_map(sources::methods).filter(|method| !own.contains(method.of));
    let mut seen = HashSet::new();
    if let Some(method) = foreign().find(|method| {
        !seen.insert(*method) || others.methods.contains(&(method.of.to_owned(), method.name.to_owned()))
    }) {
        return Some(format!("`{}` has a method `{}` already", method.of, method.name));
    }
    if let Some((of, by)) =
        texts().flat_map(sources::implemented).find(|(of, by)| !own.contains(of) && !own.contains(by))
    {
        return Some(format!("`{of}` is implemented for `{by}` already"));
    }
    let has = |path: &Path| made.iter().any(|(made, _)| made == path);
    for (path, text) in made {
        let folder = path.parent()?;
        for (named, module) in sources::modules(text) {
            let file = match named {
                Some(named) => folder.join(named),
                None => path.with_extension("").join(format!("{module}.rs")),
            };
            if !has(&file) {
                return Some(format!("{} names a module {}, which is not copied", path.display(), file.display()));
            }
        }
        for part in text.split("include_str!(\"").skip(1) {
            let file = plain(&folder.join(part.split('"').next()?));
            if !file.exists() {
                return Some(format!("{} includes {}, which is not there", path.display(), file.display()));
            }
        }
    }
    unknown(made, name)
}

/// `a/b/../c` as `a/c`: a folder that is not there yet has no parent to ask for.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// A name behind a path to the copy's own module that none of its files declares.
fn unknown(made: &[(PathBuf, String)], name: &str) -> Option<String> {
    let mut declared: HashSet<&str> = HashSet::from(["self"]);
    for (_, text) in made {
        declared.extend(sources::types(text).chain(sources::functions(text)).chain(sources::exported(text)));
        declared.extend(sources::modules(text).into_iter().map(|(_, module)| module));
        declared.extend(sources::constants(text));
    }
    for (path, text) in made {
        for root in ["super", "ops", "cases"] {
            for part in text.split(&format!("{root}::{name}::")).skip(1) {
                let word = &part[..part.find(|c| !words::is_word(c)).unwrap_or(part.len())];
                if !word.is_empty() && !declared.contains(word) {
                    return Some(format!("{} names `{name}::{word}`, which is not there", path.display()));
                }
            }
        }
    }
    None
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

/// `    operation softmax "softmax along an axis";`: the name.
fn named(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("    operation ").or(line.strip_prefix("    program "))?;
    rest.trim_start().split_once(' ').map(|(name, _)| name)
}

/// `text` with one more line in the list of operations, in its place by the alphabet.
fn listed(text: &str, name: &str, like: &str) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_source = |line: &&str| named(line) == Some(like);
    let source = match lines.iter().position(is_source) {
        Some(at) if lines[at].starts_with("    operation ") => at,
        Some(_) => return Err(format!("`{like}` is a program, which has no file to copy; take {INSTEAD}")),
        None => return Err(format!("no line `operation {like}` in {OPS} to go by")),
    };
    let first = lines[..source].iter().rposition(|line| named(line).is_none()).map_or(0, |at| at + 1);
    let last = lines[source..].iter().position(|line| named(line).is_none()).map_or(lines.len(), |at| source + at);
    let before = lines[first..last].iter().position(|line| named(line).is_some_and(|found| found > name));
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
        assert!(listed(LIST, "sort", "arange").unwrap_err().contains("take `softmax`"));
    }

    #[test]
    fn types_are_named_after_files() {
        assert_eq!(type_name("scatter_add"), "ScatterAdd");
        assert_eq!(known_type("use x;\nimpl Operation for LogSumExp {\n"), Some("LogSumExp"));
        let moved = |path: &str| moved(Path::new(path), "sort", "softmax");
        assert_eq!(moved("core/src/ops/softmax/plan/tests.rs"), Path::new("core/src/ops/sort/plan/tests.rs"));
        assert_eq!(moved("core/src/ops/cases/softmax.rs"), Path::new("core/src/ops/cases/sort.rs"));
    }

    /// Operations that are refused, with a part of the reason.
    const TOLD: [(&str, &str); 9] = [
        ("argreduce", "`streamed::place` of core/src/ops/reduce/streamed.rs takes `ArgReduce`"),
        ("convolution", "`pixel_pitch` is exported by core/src/ops/convolution.rs too"),
        ("copy", "the trait `Copy`"),
        ("grouped_matmul", "takes `GroupedMatmul`"),
        ("matmul", "`Tuned` is implemented for `SparseMatmul` already"),
        ("random", "`philox4x32_10` is exported by core/src/ops/random.rs too"),
        ("reduce", "`ReduceFn`"),
        ("reduced_matmul", "takes `ReducedMatmul`"),
        ("sparse24", "`SparseMatmul`"),
    ];

    /// Every operation of the list: its copy has all that its texts name and nothing that there is already, or is refused with what to take
    /// instead. Those that are copied compile, all together: a change that adds to what is refused is told here.
    #[test]
    fn every_operation_is_copied_whole_or_refused_by_name() {
        std::env::set_current_dir(crate::root()).unwrap();
        let others = Others::read().unwrap();
        let list = read(Path::new(OPS)).unwrap();
        let operations = list.lines().filter(|line| line.starts_with("    operation ")).filter_map(named);
        let (mut copied, mut refused) = (Vec::new(), Vec::new());
        for like in operations {
            match copy("fold_over", like, &others) {
                Ok(made) => {
                    copied.push(like);
                    let declares = |text: &str| known_type(text).is_some_and(|of| of.contains("FoldOver"));
                    assert!(declares(&made[0].1), "{like}: {:?}", known_type(&made[0].1));
                    assert!(made[1].1.contains("\"fold_over\""), "the cases of {like} are of no family");
                }
                Err(why) => {
                    assert!(why.contains(like) && why.contains("take `softmax`"), "{why}");
                    refused.push((like, why));
                }
            }
        }
        let known: Vec<&str> = TOLD.iter().map(|(like, _)| *like).collect();
        assert_eq!(refused.iter().map(|(like, _)| *like).collect::<Vec<_>>(), known, "{copied:?} are copied");
        for ((_, why), (_, part)) in refused.iter().zip(TOLD) {
            assert!(why.contains(part), "{why}");
        }
        assert!(copied.len() > refused.len());
    }

    #[test]
    fn what_a_copy_cannot_compile_for_is_told() {
        std::env::set_current_dir(crate::root()).unwrap();
        let others = Others::read().unwrap();
        let told = |text: &str| {
            let path = PathBuf::from("core/src/ops/bend.rs");
            fault(&[(path, text.to_owned())], "bend", &others).unwrap_or_default()
        };
        assert_eq!(told("pub struct Bend {}\n"), "");
        assert!(told("pub enum SoftmaxFn {\n").contains("exported by core/src/ops/softmax.rs"));
        assert!(told("impl Tensor {\n    pub fn softmax(&self) {}\n}\n").contains("`Tensor` has a method `softmax`"));
        assert!(told("impl Default for Tensor {\n}\n").contains("`Default` is implemented for `Tensor`"));
        assert!(told("struct Bend;\nimpl Default for Bend {\n}\n").is_empty());
        assert!(told("mod plan;\n").contains("core/src/ops/bend/plan.rs"));
        assert!(told("const A: &str = include_str!(\"../wgsl/none.wgsl\");\n").contains("none.wgsl"));
        assert!(told("use super::bend::missing;\n").contains("`bend::missing`"));
        assert!(told("pub fn pixel_pitch() {}\n").contains("`pixel_pitch` is exported"));
        let made = |text: &str| [(PathBuf::from("core/src/ops/bend.rs"), text.to_owned())];
        let taking = |text: &str| others.taking("ArgReduce", &[], &made(text)).unwrap_or_default();
        assert!(taking("streamed::place(self)").contains("streamed.rs takes `ArgReduce`"));
        assert!(taking("use super::reduce::streamed::{reduced, place};").contains("takes `ArgReduce`"));
        assert!(taking("my_streamed::place(self); streamed::places(self)").is_empty());
    }

    #[test]
    fn what_is_no_name_or_there_already_is_refused() {
        std::env::set_current_dir(crate::root()).unwrap();
        assert!(new("Sort", "softmax").unwrap_err().contains("small letters"));
        assert!(new("softmax", "layer_norm").is_err());
    }
}
