//! What an operation takes that is a graph of others: the file to copy from, with its cases, stays small. Where it grows, what operations
//! repeat wants a home (`core/src/ops/prelude.rs` names those that there are).

use std::path::Path;

use super::Document;

/// The operation that `cargo xtask new-op` copies.
const FILES: [&str; 2] = ["core/src/ops/logsumexp.rs", "core/src/ops/cases/logsumexp.rs"];

/// Lines of both together.
const MOST_LINES: usize = 150;

/// A complaint where the files have more lines, or one of them is not there.
pub fn check(documents: &[Document]) -> Vec<String> {
    let mut lines = 0;
    for file in FILES {
        let Some(document) = documents.iter().find(|document| document.path == Path::new(file)) else {
            return vec![format!("{file} is not there")];
        };
        lines += document.text.lines().count();
    }
    if lines <= MOST_LINES {
        return Vec::new();
    }
    vec![format!("{} have {lines} lines together, more than {MOST_LINES}", FILES.join(" and "))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_too_many_lines_together_are_told() {
        let of = |lines: [usize; 2]| {
            let document = |at: usize| Document { path: FILES[at].into(), text: "x\n".repeat(lines[at]) };
            check(&[document(0), document(1)])
        };
        assert!(of([120, 30]).is_empty());
        assert!(of([120, 31])[0].contains("151 lines"));
        assert_eq!(check(&[]).len(), 1);
    }
}
