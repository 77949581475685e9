//! The files of a backend lie on floors, and import downwards alone: who changes a file finds below it all that it can depend on.

use std::path::Path;

use super::Document;

/// The files of a backend, floor by floor from the lowest; a folder counts as the file of its name. Those of one floor do not import each
/// other.
struct Backend {
    folder: &'static str,
    floors: &'static [&'static [&'static str]],
}

const BACKENDS: [Backend; 2] = [
    Backend {
        folder: "backend-wgpu/src",
        floors: &[
            &["fault", "gl", "native", "shared_bool"],
            &["driver"],
            &["adapters", "pipelines", "wait"],
            &["info", "loops", "memory"],
            &["tape"],
            &["stream"],
            &["user"],
            &["state"],
            &["device", "interop", "patch", "recording", "run", "timing", "transfer", "tune"],
            &["open"],
        ],
    },
    Backend {
        folder: "backend-cuda/src",
        floors: &[
            &["options", "params", "slices", "status", "versions", "work"],
            &["cache", "composed", "driver"],
            &["fault"],
            &["native"],
            &["cards", "info", "staging"],
            &["prepared", "uploads", "waiter"],
            &["kernels"],
            &["machine", "tape", "user"],
            &["state"],
            &["candidates", "device", "launch", "recording", "run", "transfer", "vendor"],
            &["open"],
            &["interop"],
        ],
    },
];

/// A complaint for each file without a floor, and each arrow that does not lead downwards. Tests import what they like.
pub fn check(documents: &[Document]) -> Vec<String> {
    let of_backend = |backend| documents.iter().flat_map(move |document| complaints(backend, document));
    BACKENDS.iter().flat_map(of_backend).collect()
}

fn complaints(backend: &Backend, document: &Document) -> Vec<String> {
    let source = document.path.strip_prefix(backend.folder).ok();
    let Some(module) = source.and_then(module_of) else { return Vec::new() };
    let floor_of = |module: &str| backend.floors.iter().position(|floor| floor.contains(&module));
    let Some(floor) = floor_of(&module) else {
        return vec![format!("{}: name its floor in xtask/src/docs/floors.rs", document.path.display())];
    };
    let upwards = imports(&document.text)
        .filter(|&(_, imported)| imported != module && floor_of(imported).is_none_or(|below| below >= floor));
    let told = upwards.map(|(line, imported)| {
        let place = format!("{}:{line}", document.path.display());
        format!("{place}: `{module}` imports `{imported}`, which is not on a floor below")
    });
    told.collect()
}

/// The module that the source `path` is of; none for the root and for tests, whose files say so in their names.
fn module_of(path: &Path) -> Option<String> {
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let stem = path.file_stem()?.to_str()?;
    let is_test = stem == "tests" || stem.ends_with("_tests") || stem.ends_with("_fuzzing");
    let first = path.iter().next()?.to_str()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (is_source && !is_test && module != "lib").then(|| module.to_owned())
}

/// The modules that `text` names as `crate::NAME`, comments aside, with their lines; items of the root begin with a capital.
fn imports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let named = (1..).zip(text.lines()).flat_map(|(line, text)| {
        let code = text.split_once("//").map_or(text, |(code, _)| code);
        code.split("crate::").skip(1).map(move |rest| (line, first_word(rest)))
    });
    named.filter(|(_, name)| name.starts_with(|c: char| c.is_lowercase()))
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[Document { path: path.into(), text: text.to_owned() }])
    }

    #[test]
    fn arrows_upwards_and_files_without_a_floor_are_told() {
        assert!(
            complaints("backend-wgpu/src/run.rs", "use crate::state::WgpuBackend;\nuse crate::Options;").is_empty()
        );
        assert!(
            complaints("backend-wgpu/src/stream/submit.rs", "use crate::stream::Set;\nuse crate::wait::wait;")
                .is_empty()
        );
        assert!(complaints("backend-wgpu/src/driver/tests.rs", "use crate::open::Options;").is_empty());
        let inline = complaints("backend-cuda/src/driver.rs", "let x = crate::native::y(); // crate::open::z()");
        assert!(matches!(inline.as_slice(), [one] if one.contains("`native`")), "{inline:?}");
        assert!(complaints("backend-cuda/src/cache_tests.rs", "use crate::open::Options;").is_empty());
        assert!(complaints("backend-cuda/src/user/ptx.rs", "use crate::native::Card;").is_empty());
        assert_eq!(complaints("backend-cuda/src/user.rs", "use crate::state::CudaBackend;").len(), 1);
        let up = complaints("backend-wgpu/src/memory.rs", "//! Memory.\n    use crate::stream::{Stream};");
        assert!(matches!(up.as_slice(), [one] if one.contains("memory.rs:2") && one.contains("`stream`")), "{up:?}");
        assert_eq!(complaints("backend-wgpu/src/run.rs", "use crate::device::X;").len(), 1, "one floor");
        assert_eq!(complaints("backend-wgpu/src/news.rs", "").len(), 1);
    }
}
