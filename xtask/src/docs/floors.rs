//! The files of a backend lie on floors, and import downwards alone: who changes a file finds below it all that it can depend on.

use std::path::Path;

use super::Document;

/// The files of `backend-wgpu/src`, floor by floor from the lowest; a folder counts as the file of its name. Those of one floor do not
/// import each other.
const WGPU: &[&[&str]] = &[
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
];

/// A complaint for each file without a floor, and each arrow that does not lead downwards. Tests import what they like.
pub fn check(documents: &[Document]) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in documents {
        let Ok(path) = document.path.strip_prefix("backend-wgpu/src") else { continue };
        let Some(module) = module_of(path) else { continue };
        let Some(floor) = floor_of(&module) else {
            complaints.push(format!("{}: name its floor in xtask/src/docs/floors.rs", document.path.display()));
            continue;
        };
        for (line, imported) in imports(&document.text) {
            if imported != module && floor_of(imported).is_none_or(|below| below >= floor) {
                let place = format!("{}:{line}", document.path.display());
                complaints.push(format!("{place}: `{module}` imports `{imported}`, which is not on a floor below"));
            }
        }
    }
    complaints
}

/// The module that the source `path` is of; none for the root and for tests.
fn module_of(path: &Path) -> Option<String> {
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
    let first = path.iter().next()?.to_str()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (is_source && !is_test && module != "lib").then(|| module.to_owned())
}

fn floor_of(module: &str) -> Option<usize> {
    WGPU.iter().position(|floor| floor.contains(&module))
}

/// The modules that `text` imports by `use crate::NAME`, with their lines; items of the root begin with a capital.
fn imports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let uses = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let rest = text.trim_start().trim_start_matches("pub(crate) ").strip_prefix("use crate::")?;
        Some((line, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?))
    });
    uses.filter(|(_, name)| name.starts_with(|c: char| c.is_lowercase()))
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
        let up = complaints("backend-wgpu/src/memory.rs", "//! Memory.\n    use crate::stream::{Stream};");
        assert!(matches!(up.as_slice(), [one] if one.contains("memory.rs:2") && one.contains("`stream`")), "{up:?}");
        assert_eq!(complaints("backend-wgpu/src/run.rs", "use crate::device::X;").len(), 1, "one floor");
        assert_eq!(complaints("backend-wgpu/src/news.rs", "").len(), 1);
    }
}
