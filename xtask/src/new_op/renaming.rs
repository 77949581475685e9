//! The names of one operation in place of another's: those that it brings to others, and no more.
//!
//! Renamed are the types that `ops!` exports and variants called after the operation, methods on types of others (`Tensor`), paths of its
//! modules, and names in quotes (its family, its kernels). What is private to its files keeps its name, and so does what other files call
//! theirs, such as `scan.wgsl`, `Values::RandomBits`, `.take(3)` of an iterator.

use std::collections::{HashMap, HashSet};

use super::sources;
use super::words::{Kind, is_word, pieces};

/// Methods of the standard library that operations are called after: only on `self` they are sure to be ours.
const OF_STD: [&str; 12] =
    ["all", "any", "copy", "max", "min", "pad", "reduce", "resize", "scan", "sort", "sum", "take"];

/// What stands for what. See the [module](self).
pub struct Renaming<'a> {
    like: &'a str,
    name: &'a str,
    types: HashMap<&'a str, String>,
    /// Types that the copied files declare.
    own: HashSet<&'a str>,
    /// Modules that they are, and those that know them.
    modules: HashSet<&'a str>,
    methods: HashMap<&'a str, String>,
    /// The types of others that get methods.
    others: HashSet<&'a str>,
}

impl<'a> Renaming<'a> {
    /// Of the operation `like` whose files hold `texts`, the one that `ops!` exports first; `known` is its type, `of` that of `name`.
    pub fn new([like, name]: [&'a str; 2], [known, of]: [&'a str; 2], texts: &[&'a str]) -> Renaming<'a> {
        let own: HashSet<&str> = texts.iter().flat_map(|text| sources::types(text)).collect();
        let capital = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
        let exported = sources::exported(texts[0]).into_iter().filter(capital);
        let mut types: HashMap<&str, String> = exported
            .map(|exported| {
                let is_constant = exported.chars().all(|c| !c.is_ascii_lowercase());
                let renamed = match exported.contains(known) {
                    true => exported.replacen(known, of, 1),
                    false if is_constant => format!("{}_{exported}", name.to_ascii_uppercase()),
                    false => format!("{of}{exported}"),
                };
                (exported, renamed)
            })
            .collect();
        for variant in texts.iter().flat_map(|text| sources::variants(text, known)) {
            types.entry(variant).or_insert_with(|| variant.replacen(known, of, 1));
        }
        let foreign: Vec<sources::Method<'_>> =
            texts.iter().flat_map(|text| sources::methods(text)).filter(|method| !own.contains(method.of)).collect();
        let others = foreign.iter().map(|method| method.of).collect();
        let methods = foreign.iter().map(|method| {
            let renamed = replaced(method.name, like, name).unwrap_or_else(|| format!("{name}_{}", method.name));
            (method.name, renamed)
        });
        let mut modules: HashSet<&str> =
            texts.iter().flat_map(|text| sources::modules(text)).map(|(_, module)| module).collect();
        modules.extend([like, "ops", "super", "self", "cases", "crate", "polywarp_core", ""]);
        Renaming { like, name, types, own, modules, methods: methods.collect(), others }
    }

    /// The types that get other names, in order.
    pub fn types(&self) -> Vec<&str> {
        let mut types: Vec<&str> = self.types.keys().copied().collect();
        types.sort_unstable();
        types
    }

    /// `text` with the new names.
    pub fn of(&self, text: &str) -> String {
        let imported = self.imported(text);
        let blocks: Vec<[usize; 2]> = sources::blocks(text)
            .into_iter()
            .filter(|(of, _)| self.others.contains(of))
            .map(|(_, block)| block)
            .collect();
        let (mut renamed, mut at) = (String::with_capacity(text.len()), 0);
        let mut behind = Behind::default();
        let all = pieces(text);
        for (number, &(kind, piece)) in all.iter().enumerate() {
            let is_method = blocks.iter().any(|&[start, end]| (start..end).contains(&at));
            let next = all[number + 1..].iter().find(|(kind, _)| *kind != Kind::Space).map_or("", |&(_, next)| next);
            match kind {
                Kind::Word if imported.contains(piece) => renamed += piece,
                Kind::Word => renamed += &self.word(piece, &behind, next, Place { is_method, is_comment: false }),
                Kind::Literal => renamed += &self.literal(piece),
                Kind::Comment => renamed += &self.comment(piece),
                Kind::Space | Kind::Sign => renamed += piece,
            }
            if kind == Kind::Word || kind == Kind::Sign {
                behind.push(piece);
            }
            at += piece.len();
        }
        renamed
    }

    /// Names of renamed types that `text` has from modules that are none of the operation's: others' types of the same name.
    fn imported<'t>(&self, text: &'t str) -> HashSet<&'t str> {
        let mut behind = Behind::default();
        let mut found = HashSet::new();
        for (kind, piece) in pieces(text) {
            if kind == Kind::Word && self.types.contains_key(piece) && !self.modules.contains(behind.module()) {
                let is_module = behind.module().starts_with(|c: char| c.is_ascii_lowercase());
                found.extend(is_module.then_some(piece));
            }
            if kind == Kind::Word || kind == Kind::Sign {
                behind.push(piece);
            }
        }
        found
    }

    fn comment(&self, text: &str) -> String {
        let mut behind = Behind::default();
        let mut rest = text;
        let mut renamed = String::with_capacity(text.len());
        while let Some(first) = rest.chars().next() {
            let end = match is_word(first) {
                true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                false if rest.starts_with("::") => 2,
                false => first.len_utf8(),
            };
            let (piece, left) = rest.split_at(end);
            let next = left.get(..2).filter(|next| *next == "::").or(left.get(..1)).unwrap_or_default();
            match is_word(first) {
                true => renamed += &self.word(piece, &behind, next, Place { is_method: true, is_comment: true }),
                false => renamed += piece,
            }
            behind.push(piece);
            rest = left;
        }
        renamed
    }

    fn word(&self, word: &str, behind: &Behind<'_>, next: &str, place: Place) -> String {
        let kept = || word.to_owned();
        let [qualifier, sign] = [behind.qualifier, behind.sign];
        let module = behind.module();
        if let Some(renamed) = self.types.get(word) {
            // `Step::Random` is another's; a trait of the standard library may be called like an operation.
            let of_other = sign == "::" && qualifier.starts_with(|c: char| c.is_ascii_uppercase());
            let of_other = of_other && qualifier != "Self" && !self.own.contains(qualifier);
            let of_std = word == "Copy" && (behind.is_derived || qualifier == "marker" || sign == "+" || sign == ":");
            return match module {
                _ if of_other || of_std => kept(),
                // The root hands on what it knows alone.
                "crate" | "polywarp_core" => format!("ops::{renamed}"),
                _ => renamed.clone(),
            };
        }
        if let Some(renamed) = self.methods.get(word) {
            let is_ours = match sign {
                "fn" => place.is_method && !place.is_comment,
                "." if next == "(" => {
                    let on_self = qualifier == "self" && place.is_method;
                    on_self || place.is_comment || (self.is_called_after(word) && !OF_STD.contains(&word))
                }
                "::" => self.others.contains(qualifier),
                _ => false,
            };
            if is_ours {
                return renamed.clone();
            }
        }
        let is_module =
            word == self.like && ["ops", "super", "cases"].contains(&module) && (sign == "::" || next == "::");
        if is_module { self.name.to_owned() } else { kept() }
    }

    fn is_called_after(&self, word: &str) -> bool {
        replaced(word, self.like, self.name).is_some()
    }

    /// A name in quotes, and one before what a format string fills in.
    fn literal(&self, literal: &str) -> String {
        let Some(text) = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
            return literal.to_owned();
        };
        if text.chars().all(is_word) {
            return replaced(text, self.like, self.name).map_or(literal.to_owned(), |text| format!("\"{text}\""));
        }
        match text.strip_prefix(self.like) {
            Some(rest) if rest.starts_with(" {") => format!("\"{}{rest}\"", self.name),
            _ => literal.to_owned(),
        }
    }
}

/// Where a word stands.
#[derive(Clone, Copy)]
struct Place {
    /// In the methods of a type of others, or in words about them.
    is_method: bool,
    is_comment: bool,
}

/// What stands before a piece.
#[derive(Default)]
struct Behind<'a> {
    /// The word before the sign.
    qualifier: &'a str,
    /// The sign or keyword directly before.
    sign: &'a str,
    /// In `derive(...)`.
    is_derived: bool,
    /// Of each open brace the word before its `::`, if it has one.
    groups: Vec<&'a str>,
}

impl<'a> Behind<'a> {
    /// The module, or type, whose item the next word is: before its `::`, or before the braces that it stands in.
    fn module(&self) -> &'a str {
        match self.sign {
            "::" => self.qualifier,
            "{" | "," => self.groups.last().copied().unwrap_or_default(),
            _ => "",
        }
    }

    fn push(&mut self, piece: &'a str) {
        if piece == "derive" {
            self.is_derived = true;
        } else if piece == "]" {
            self.is_derived = false;
        }
        match piece {
            "{" => self.groups.push(if self.sign == "::" { self.qualifier } else { "" }),
            "}" => drop(self.groups.pop()),
            _ => {}
        }
        if !["::", "."].contains(&piece) {
            self.qualifier = piece;
        }
        self.sign = piece;
    }
}

/// `word` with the parts `like`, between underscores, as `name`; `None` where it has none.
fn replaced(word: &str, like: &str, name: &str) -> Option<String> {
    let found = word.match_indices(like).map(|(at, _)| at).find(|&at| {
        let (before, behind) = (&word[..at], &word[at + like.len()..]);
        (before.is_empty() || before.ends_with('_')) && (behind.is_empty() || behind.starts_with('_'))
    });
    found.map(|at| format!("{}{name}{}", &word[..at], &word[at + like.len()..]))
}

/// A file of cases whose benchmarks have names of their own: all of them are listed together.
pub fn with_own_benches(text: &str, name: &str) -> String {
    const NEW: &str = "BenchCase::new(";
    let mut parts = text.split(NEW);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        renamed += NEW;
        let quoted = ["format!(\"", "\""].iter().find_map(|quote| Some((*quote, part.strip_prefix(*quote)?)));
        let word = &part[..part.find(|c| !is_word(c)).unwrap_or(part.len())];
        match quoted {
            Some((_, rest)) if rest.starts_with(&format!("{name} ")) => renamed += part,
            Some((quote, rest)) => renamed += &format!("{quote}{name} {rest}"),
            // The argument is a word, as in `BenchCase::new(name, ...)`.
            None if part[word.len()..].starts_with(',') => {
                renamed += &format!("format!(\"{name} {{{word}}}\"){}", &part[word.len()..]);
            }
            None => renamed += part,
        }
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(source: &str, text: &str) -> String {
        Renaming::new(["sort", "fold"], ["Sort", "Fold"], &[source]).of(text)
    }

    const SORT: &str = "\
pub struct Sort {
}
pub enum SortFn {
    LogSort,
}
pub struct Pairs;
pub const MOST: u64 = 1;

impl Tensor {
    pub fn sort(&self) {
        self.sort();
    }

    pub fn order(&self) {}
}
";

    #[test]
    fn what_an_operation_brings_is_renamed_and_what_is_private_or_of_others_stays() {
        for (text, want) in [
            ("use crate::ops::{Sort, SortFn, Pairs};", "use crate::ops::{Fold, FoldFn, FoldPairs};"),
            (
                "SortFn::LogSort, Self::LogSort, Step::Sort, Sorted",
                "FoldFn::LogFold, Self::LogFold, Step::Sort, Sorted",
            ),
            ("super::sort::plan(crate::sort::x, sort::y)", "super::fold::plan(crate::sort::x, sort::y)"),
            ("use crate::{SortFn, sort::X}; crate::Sort", "use crate::{ops::FoldFn, sort::X}; crate::ops::Fold"),
            ("use crate::ops::{sort::plan, sort};", "use crate::ops::{fold::plan, sort};"),
            (
                "x.sort(); self.sort(); Tensor::sort(x); x.order();",
                "x.sort(); self.sort(); Tensor::fold(x); x.order();",
            ),
            (
                "/// `x.sort(0)`, [`Tensor::order`], sorted [`SortFn`].",
                "/// `x.fold(0)`, [`Tensor::fold_order`], sorted [`FoldFn`].",
            ),
            (
                "(\"sort\", \"log_sort\", \"sort.wgsl\", \"sort {n}\", \"a sort\")",
                "(\"fold\", \"log_fold\", \"sort.wgsl\", \"fold {n}\", \"a sort\")",
            ),
            (
                "use crate::plan::stats::{Pairs, X}; f(Pairs, Sort)",
                "use crate::plan::stats::{Pairs, X}; f(Pairs, Fold)",
            ),
            ("fn sort() { MOST; let sort = 1; }", "fn sort() { FOLD_MOST; let sort = 1; }"),
        ] {
            assert_eq!(renamed(SORT, text), want);
        }
        let whole = renamed(SORT, SORT);
        assert!(whole.contains("pub fn fold(&self) {\n        self.fold();") && whole.contains("pub fn fold_order("));
    }

    #[test]
    fn trait_copy_is_no_operation() {
        let source = "#[derive(Clone, Copy)]\npub struct Copy {\n}\n";
        let renaming = Renaming::new(["copy", "lay"], ["Copy", "Lay"], &[source]);
        assert_eq!(renaming.of(source), "#[derive(Clone, Copy)]\npub struct Lay {\n}\n");
        assert_eq!(renaming.of("fn f<T: Copy + Pod>(op: &Copy)"), "fn f<T: Copy + Pod>(op: &Lay)");
    }

    #[test]
    fn benchmarks_get_names_of_their_own() {
        let text = "BenchCase::new(format!(\"rows {n}\"), a); BenchCase::new(\"fold x\", b); BenchCase::new(name, c);";
        let want = "BenchCase::new(format!(\"fold rows {n}\"), a); BenchCase::new(\"fold x\", b); \
                    BenchCase::new(format!(\"fold {name}\"), c);";
        assert_eq!(with_own_benches(text, "fold"), want);
    }
}
