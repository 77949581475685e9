//! Every source file opens by saying what it is.

use super::{Document, with_extension};

/// One complaint per Rust, WGSL or CUDA C++ file without a comment on its first line.
pub fn check(documents: &[Document]) -> Vec<String> {
    let rust = with_extension(documents, "rs").filter(|document| !document.text.starts_with("//! "));
    let gpu = ["wgsl", "cu", "cuh"].into_iter().flat_map(|extension| with_extension(documents, extension));
    let gpu = gpu.filter(|document| !document.text.starts_with("// "));
    rust.chain(gpu).map(|document| format!("{}: no comment on the first line", document.path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_without_head_is_a_complaint() {
        let document = |path: &str, text: &str| Document { path: path.into(), text: text.to_owned() };
        let documents = [
            document("a.rs", "//! Says.\n"),
            document("b.rs", "fn main() {}\n"),
            document("c.wgsl", "// Computes.\n"),
            document("d.wgsl", "const N = 1;\n"),
            document("e.md", "text\n"),
        ];
        assert_eq!(check(&documents), ["b.rs: no comment on the first line", "d.wgsl: no comment on the first line"]);
    }
}
