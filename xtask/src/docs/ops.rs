//! `docs/ops.md`: the table of operations, made from the registry that the harness and the benchmarks run by.
//!
//! Functions and dtypes are those of the conformance cases, so the table claims nothing that is not tested.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use polywarp_core::DType;
use polywarp_core::harness::{Case, Level};
use polywarp_core::ops::REGISTRY;

use super::Document;
use crate::Result;

/// Where the table is.
pub const PATH: &str = "docs/ops.md";

const HEAD: &str = "\
# Operations

Made from the registry by `cargo xtask docs --write`; do not edit. Each row is one family, as `polywarp check --op FAMILY` takes
it. Functions and dtypes are those that the conformance harness holds to the float64 oracle on every device; where a
device lacks a dtype, the operation returns `Error::UnsupportedDType` there. What each promises, and how large its error
may be, is said with it: `polywarp_core::ops`.

| family | computes | functions | dtypes of operands |
|---|---|---|---|
";

/// A complaint when the file is not what the registry gives.
pub fn check(documents: &[Document]) -> Vec<String> {
    let written = documents.iter().find(|document| document.path == Path::new(PATH));
    match written {
        Some(document) if document.text == table() => Vec::new(),
        _ => vec![format!("{PATH} is not what the registry gives: run cargo xtask docs --write")],
    }
}

/// Writes the file anew.
pub fn write() -> Result {
    fs::write(PATH, table()).map_err(|e| format!("{PATH}: {e}"))
}

fn table() -> String {
    let mut text = HEAD.to_owned();
    for family in REGISTRY {
        let cases = (family.cases)(Level::Quick);
        let functions: BTreeSet<&str> = cases.iter().map(|case| case.op.name()).collect();
        let functions = Vec::from_iter(functions).join(", ");
        let dtypes = DType::ALL.iter().filter(|&&dtype| cases.iter().any(|case| uses(case, dtype)));
        let dtypes: Vec<String> = dtypes.map(DType::to_string).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {functions} | {} |", family.name, family.summary, dtypes.join(", "));
    }
    text
}

fn uses(case: &Case, dtype: DType) -> bool {
    let mut operands = case.op.inputs();
    operands.push(case.op.output());
    operands.iter().any(|operand| operand.dtype == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_per_family_with_functions_and_dtypes() {
        let table = table();
        for family in REGISTRY {
            let row = table.lines().find(|line| line.starts_with(&format!("| {} |", family.name)));
            let cells: Vec<&str> = row.unwrap_or_default().split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 6, "{}", family.name);
            assert!(cells.iter().skip(1).take(4).all(|cell| !cell.is_empty()), "{cells:?}");
        }
    }

    #[test]
    fn table_changed_by_hand_is_a_complaint() {
        let document = |text: String| [Document { path: PATH.into(), text }];
        assert!(check(&document(table())).is_empty());
        assert_eq!(check(&document(table().replace("softmax", "hardmax"))).len(), 1);
        assert_eq!(check(&[]).len(), 1);
    }
}
