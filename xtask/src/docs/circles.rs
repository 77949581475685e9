//! Circles among modules: who changes one module of a circle must know all of it, so a circle has three at most.
//!
//! At the root of a crate, and in each folder, a module is a file, or a folder with all that is in it. [`super::imports`] says what is seen of
//! imports.

use std::collections::{BTreeMap, BTreeSet};

use super::Document;
use super::imports::{Crate, Module};

/// Modules of a circle.
const MOST: usize = 3;

/// Folders whose modules are peers, in circles of any size, and why.
const PEERS: &[(&str, &str)] = &[(
    "core/src/ops",
    "the gradient of an operation stands in its file and is written with a builder of graphs, whose steps are operations",
)];

/// A complaint for each circle that is too large, and for each folder of peers that has none.
pub fn check(documents: &[Document]) -> Vec<String> {
    let roots = documents.iter().filter(|document| document.path.ends_with("src/lib.rs"));
    let folders = roots.filter_map(|root| root.path.parent()?.to_str()).map(|folder| folder.replace('\\', "/"));
    let found: Vec<(String, Vec<String>)> = folders.flat_map(|folder| too_large(&folder, documents)).collect();
    let told = found.iter().filter(|(folder, _)| !PEERS.iter().any(|(peers, _)| peers == folder));
    let told = told.map(|(folder, circle)| {
        let circle = circle.join(", ");
        format!("{folder}: {circle} import each other; move what they share to a module below them, or leave circles of {MOST}")
    });
    let idle = PEERS.iter().filter(|(peers, _)| !found.iter().any(|(folder, _)| peers == folder));
    let idle =
        idle.map(|(peers, _)| format!("{peers} has no circle of more than {MOST}; take it from PEERS in circles.rs"));
    told.chain(idle).collect()
}

/// The circles of the crate below `folder` that are too large, each with the folder that it is in.
fn too_large(folder: &str, documents: &[Document]) -> Vec<(String, Vec<String>)> {
    let of = Crate::of(folder, documents);
    let imports: BTreeMap<&Module, Vec<Module>> = of
        .modules()
        .map(|(module, _)| (module, of.imports(module).into_iter().map(|import| import.module).collect()))
        .collect();
    let parents: BTreeSet<&[String]> = imports.keys().filter_map(|module| Some(module.split_last()?.1)).collect();
    let within = |parent: &[String]| {
        let circles = circles(&arrows(parent, &imports)).into_iter().filter(|circle| circle.len() > MOST);
        let place = [&[folder.to_owned()], parent].concat().join("/");
        circles.map(move |circle| (place.clone(), circle)).collect::<Vec<_>>()
    };
    parents.into_iter().flat_map(within).collect()
}

type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Which modules of `parent` each one imports.
fn arrows<'a>(parent: &[String], imports: &'a BTreeMap<&'a Module, Vec<Module>>) -> Arrows<'a> {
    let below = |module: &'a Module| Some(module.strip_prefix(parent)?.first()?.as_str());
    let mut arrows = Arrows::new();
    for (module, named) in imports {
        if let Some(module) = below(module) {
            arrows.entry(module).or_default().extend(named.iter().filter_map(below).filter(|&name| name != module));
        }
    }
    arrows
}

/// The largest sets of modules each of which leads to all others.
fn circles(arrows: &Arrows<'_>) -> BTreeSet<Vec<String>> {
    let reached = |from: &str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(next) = open.pop() {
            for &name in arrows.get(next.as_str()).into_iter().flatten() {
                if reached.insert(name) {
                    open.push(name.to_owned());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|&module| (module, reached(module))).collect();
    let circle = |module: &str| {
        let leads_back = |other: &&str| reached.get(other).is_some_and(|reached| reached.contains(module));
        let both = reached[module].iter().copied().filter(leads_back);
        both.map(str::to_owned).collect::<Vec<String>>()
    };
    arrows.keys().map(|module| circle(module)).filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(sources: &[(&str, &str)]) -> Vec<String> {
        let document = |&(path, text): &(&str, &str)| Document { path: path.into(), text: text.to_owned() };
        let found = check(&sources.iter().map(document).collect::<Vec<_>>());
        found.into_iter().filter(|complaint| !complaint.contains("has no circle")).collect()
    }

    #[test]
    fn circles_of_more_than_three_are_told_whatever_way_they_go() {
        let three = [
            ("any/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use d::Deep;"),
            ("any/src/a.rs", "use crate::b::B;"),
            ("any/src/b.rs", "use crate::{c::C};"),
            ("any/src/c/mod.rs", "use super::a::A;"),
            ("any/src/d.rs", "use crate::a::A;"),
        ];
        assert!(complaints(&three).is_empty(), "{:?}", complaints(&three));
        // Through the root, from a file within a folder.
        let four = [&three[..], &[("any/src/c/in.rs", "use super::super::Deep;")]].concat();
        let found = complaints(&four);
        assert!(matches!(found.as_slice(), [one] if one.starts_with("any/src: a, b, c, d import")), "{found:?}");
    }

    #[test]
    fn circles_within_a_folder_are_told() {
        let four = [
            ("any/src/lib.rs", "mod f;"),
            ("any/src/f/mod.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use d::Deep;"),
            ("any/src/f/a.rs", "use super::b::B;"),
            ("any/src/f/b.rs", "use crate::f::c::C;"),
            ("any/src/f/c.rs", "use super::Deep;"),
            ("any/src/f/d.rs", "use super::a::A;"),
        ];
        let found = complaints(&four);
        assert!(matches!(found.as_slice(), [one] if one.starts_with("any/src/f: a, b, c, d import")), "{found:?}");
        assert!(complaints(&four[..5]).is_empty());
    }

    #[test]
    fn peers_have_a_circle_and_others_do_not_count_for_it() {
        assert_eq!(check(&[]).len(), PEERS.len());
    }
}
