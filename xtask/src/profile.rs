//! Checks the profiles: no crate of the workspace that tests optimise depends on one that they do not, and what computes arrays is not
//! compiled for size.
//!
//! At `opt-level` 0 and 1 crates share what they make of generic functions, and the first in the order of dependencies makes it. A single
//! crate of numbers that nobody used, compiled at `opt-level` 0, once gave `polywarp-core` ranges and iterators that were not inlined: its
//! tests took a quarter longer, and its compilation a fifth. Compiled for size, loops are not vectorised; what is linked last, the package
//! `polywarp`, says so for all crates of the program, whose loops then take two to nine times as long.

use std::collections::{HashMap, HashSet};
use std::fs;

use serde_json::Value;

use crate::Result;
use crate::command::Cmd;

/// Checks `Cargo.toml` against cargo's graph of packages.
pub fn check() -> Result {
    let manifest = fs::read_to_string("Cargo.toml").map_err(|e| format!("Cargo.toml: {e}"))?;
    let said = Cmd::new("cargo metadata --locked --format-version 1").output()?;
    let metadata = serde_json::from_str(&said).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut wrong = wrong(&unoptimised(&manifest), &metadata);
    wrong.extend(small_loops(&manifest));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The packages with `opt-level = 0` in the profile of tests.
fn unoptimised(manifest: &str) -> HashSet<&str> {
    packages(manifest, "dev", &["opt-level = 0"]).collect()
}

/// The packages that have one of `lines` in a profile.
fn packages<'a>(manifest: &'a str, profile: &str, lines: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let tables: Vec<&str> = manifest.split(&format!("\n[profile.{profile}.package.")).skip(1).collect();
    let has = |table: &&str| table.lines().take_while(|line| !line.is_empty()).any(|line| lines.contains(&line));
    tables.into_iter().filter(has).filter_map(|table| table.split(']').next())
}

/// What computes arrays on the CPU, or says how that is optimised; of `gemm` all parts, and packages that no other table names.
const LOOPS: [&str; 7] = ["polywarp", "polywarp-core", "pulp", "half", "libm", "gemm", "\"*\""];

/// A line for each of those that the program to hand out compiles for size, and for the whole profile where it does.
fn small_loops(manifest: &str) -> Vec<String> {
    const FOR_SIZE: [&str; 2] = ["opt-level = \"s\"", "opt-level = \"z\""];
    let is_loop = |name: &&str| LOOPS.iter().any(|of| name == of) || name.starts_with("gemm-");
    let whole = manifest.split("\n[profile.dist]\n").nth(1).unwrap_or_default();
    let is_small = whole.lines().take_while(|line| !line.starts_with('[')).any(|line| FOR_SIZE.contains(&line));
    let found = packages(manifest, "dist", &FOR_SIZE).filter(is_loop).chain(is_small.then_some("everything"));
    let say = |name: &str| {
        format!("{name} computes arrays and is compiled for size: take its opt-level out of Cargo.toml's profile dist")
    };
    found.map(say).collect()
}

/// A line for each optimised member of the workspace that depends on one of `slow`, its tests included.
fn wrong(slow: &HashSet<&str>, metadata: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: HashMap<String, String> =
        list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let nodes: HashMap<String, Vec<Value>> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), list(&node["deps"]))).collect();
    // What builds a crate is not linked into it; of others' tests nothing is built.
    let dependencies = |id: &str, kinds: &[Option<&str>]| {
        let is_linked =
            |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kinds.contains(&kind["kind"].as_str()));
        let deps = nodes.get(id).map_or(&[][..], Vec::as_slice);
        deps.iter().filter(is_linked).map(|dep| text(&dep["pkg"])).collect::<Vec<String>>()
    };
    let mut wrong = Vec::new();
    for member in list(&metadata["workspace_members"]).iter().map(text) {
        let Some(name) = names.get(&member).filter(|name| !slow.contains(name.as_str())) else { continue };
        let (mut open, mut seen) = (dependencies(&member, &[None, Some("dev")]), HashSet::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            match names.get(&id) {
                Some(other) if slow.contains(other.as_str()) => wrong.push(format!(
                    "{name} is optimised and depends on {other}, which is not: take {other} out of the packages with \
                     opt-level = 0 in Cargo.toml"
                )),
                _ => open.extend(dependencies(&id, &[None])),
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packages_without_optimisation_are_read() {
        let manifest = "[profile.dev]\nopt-level = 0\n\n# why\n[profile.dev.package.a]\nopt-level = 0\n[profile.dev.package.b]\n\
            opt-level = 3\n\n[profile.dev.package.c]\ncodegen-units = 1\nopt-level = 0\n";
        assert_eq!(unoptimised(manifest), HashSet::from(["a", "c"]));
    }

    #[test]
    fn loops_over_arrays_are_not_compiled_for_size() {
        let manifest = "[profile.dist]\nlto = \"fat\"\n\n[profile.dist.package.naga]\nopt-level = \"s\"\n[profile.dist.package.gemm-f32]\n\
            opt-level = \"z\"\n[profile.dist.package.pulp]\nopt-level = 2\n[profile.dist.package.polywarp]\nstrip = \"symbols\"\nopt-level = \"s\"\n";
        let found = small_loops(manifest);
        let named: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(named, ["gemm-f32", "polywarp"]);
        let whole = "[a]\n\n[profile.dist]\nlto = \"fat\"\nopt-level = \"s\"\n\n[profile.dist.package.\"*\"]\nopt-level = \"z\"\n";
        assert_eq!(small_loops(whole).len(), 2);
    }

    #[test]
    fn optimised_members_are_held_to_what_they_are_linked_with() {
        let dep = |to: &str, kind: Option<&str>| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let node = |id: &str, deps: Vec<Value>| json!({"id": id, "deps": deps});
        let package = |name: &str| json!({"id": name, "name": name});
        let metadata = json!({
            "packages": [package("core"), package("tests"), package("between"), package("slow"), package("tools")],
            "workspace_members": ["core", "tests"],
            "resolve": {"nodes": [
                node("core", vec![dep("between", Some("dev")), dep("tools", Some("build"))]),
                node("tests", vec![dep("slow", None)]),
                node("between", vec![dep("slow", None), dep("core", None)]),
                node("tools", vec![dep("slow", None)]),
                node("slow", vec![]),
            ]},
        });
        let found = |slow: &[&str]| wrong(&slow.iter().copied().collect(), &metadata);
        let [one] = &found(&["slow", "tests"])[..] else { panic!("{:?}", found(&["slow", "tests"])) };
        assert!(one.starts_with("core is optimised and depends on slow"), "{one}");
        assert_eq!(found(&["slow"]).len(), 2);
        // What only builds it, and what nobody uses.
        assert_eq!(found(&["tools", "other"]), Vec::<String>::new());
    }
}
