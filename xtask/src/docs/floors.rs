//! The files of a backend lie on floors, and import downwards alone: who changes a file finds below it all that it can depend on.

use super::Document;
use super::imports::{Crate, Import};

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
    BACKENDS.iter().flat_map(|backend| complaints(backend, documents)).collect()
}

fn complaints(Backend { folder, floors }: &Backend, documents: &[Document]) -> Vec<String> {
    let sources = Crate::of(folder, documents);
    let floor_of = |module: &str| floors.iter().position(|floor| floor.contains(&module));
    let mut complaints = Vec::new();
    for (module, path) in sources.modules() {
        let Some(own) = module.first() else { continue };
        let Some(floor) = floor_of(own) else {
            complaints.push(format!("{folder}/{path}: name its floor in xtask/src/docs/floors.rs"));
            continue;
        };
        for Import { line, module } in sources.imports(module) {
            // Items of the root itself begin with a capital.
            let Some(name) = module.first().filter(|name| name.starts_with(char::is_lowercase)) else { continue };
            if name != own && floor_of(name).is_none_or(|below| below >= floor) {
                complaints
                    .push(format!("{folder}/{path}:{line}: `{own}` imports `{name}`, which is not on a floor below"));
            }
        }
    }
    complaints
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
        let braces = complaints("backend-wgpu/src/memory.rs", "use crate::{wait::wait, state::WgpuBackend};");
        assert!(matches!(braces.as_slice(), [one] if one.contains("`state`")), "{braces:?}");
        assert_eq!(complaints("backend-wgpu/src/stream/submit.rs", "use super::super::state::X;").len(), 1, "by super");
        let root = Document { path: "backend-wgpu/src/lib.rs".into(), text: "pub use state::WgpuBackend;".to_owned() };
        let through = Document { path: "backend-wgpu/src/wait.rs".into(), text: "use crate::WgpuBackend;".to_owned() };
        assert_eq!(check(&[root, through]).len(), 1, "through the root");
    }
}
