//! The rooms of `polywarp-core`: modules stand on floors, and import from their own floor and those below alone.
//!
//! [`super::imports`] says what is seen of imports. Tests may look anywhere.

use super::Document;
use super::imports::{Crate, Import};

const SOURCES: &str = "core/src";

/// From the ground up.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "words: dtypes, shapes, expressions, what an oracle says, plans as data, errors",
        &[
            "axis",
            "dtype",
            "element",
            "erfinv",
            "error",
            "expr",
            "float8",
            "kernel",
            "largest",
            "layout",
            "oracle",
            "plan",
            "precision",
            "replace_file",
            "rounding",
            "scalar",
            "shape",
            "spec",
            "user_dir",
        ],
    ),
    (
        "what an operation is, and WGSL that planners share",
        &["case", "gradient", "graph", "operation", "tuned", "wgsl"],
    ),
    (
        "what backends handle: memory, what a device says of itself, recordings and requests",
        &["buffer", "info", "ledger", "pool", "recorders", "requests"],
    ),
    ("backends: the trait, choosing between candidates", &["backend", "tuner"]),
    ("devices: the handle, and what is asked of it", &["device", "faults", "fit", "live", "profile", "recording"]),
    ("the CPU: threads, vectors, products, and the device over them", &["cpu"]),
    ("operations and tensors, one file each", &["batches", "generator", "ops", "retry", "tape", "tensor"]),
    ("the proof", &["harness"]),
];

pub fn check(documents: &[Document]) -> Vec<String> {
    let core = Crate::of(SOURCES, documents);
    if !core.modules().any(|(module, _)| module.is_empty()) {
        return vec![format!("{SOURCES}/lib.rs is not there")];
    }
    let floor = |module: &str| FLOORS.iter().position(|(_, modules)| modules.contains(&module));
    let mut complaints = Vec::new();
    for (module, path) in core.modules() {
        let Some(name) = module.first() else { continue };
        let Some(own) = floor(name) else {
            complaints
                .push(format!("{SOURCES}/{path}: `{name}` stands on no floor; xtask/src/docs/rooms.rs has the list"));
            continue;
        };
        for Import { line, module } in core.imports(module) {
            let above = module.first().and_then(|name| floor(name)).filter(|&other| other > own);
            if let Some(other) = above {
                let (name, own, other) = (module.join("::"), FLOORS[own].0, FLOORS[other].0);
                complaints.push(format!("{SOURCES}/{path}:{line} ({own}) imports `{name}` from above ({other})"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> Document {
        Document { path: format!("{SOURCES}/{path}").into(), text: text.to_owned() }
    }

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let root = "mod ops;\npub use ops::{Matmul,\n    Sort};\npub use dtype::DType;\n";
        check(&[document("lib.rs", root), document(path, text)])
    }

    #[test]
    fn imports_from_above_are_told_and_others_are_not() {
        assert!(
            complaints("ops/sort.rs", "use crate::{DType, cpu::{parallel, simd}};\nuse crate::tensor::Tensor;")
                .is_empty()
        );
        let found = complaints("cpu/mod.rs", "use crate::DType;\nfn f() { crate::ops::sort() }");
        assert!(found.len() == 1 && found[0].contains("cpu/mod.rs") && found[0].contains("`ops`"), "{found:?}");
        assert_eq!(complaints("plan.rs", "use crate::{DType,\n    Sort};").len(), 1, "through the root");
        assert!(complaints("plan.rs", "// crate::ops\n#[cfg(test)]\nmod tests { use crate::ops::Sort; }").is_empty());
        assert_eq!(complaints("plan/keys.rs", "use super::super::ops::Sort;").len(), 1, "by super");
        assert_eq!(complaints("plan.rs", "#[cfg(test)]\nmod pins;\nuse crate::ops::Sort;").len(), 1);
        assert!(complaints("new_room.rs", "")[0].contains("stands on no floor"));
    }
}
