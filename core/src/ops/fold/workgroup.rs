//! Folds of what the threads of a workgroup hold, as WGSL: pieces of `wgsl/pieces/workgroup_fold.wgsl`.

use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("workgroup_fold.wgsl");

/// The function that folds the values of a row's threads, `fold_NAME(value, thread)`.
#[derive(Clone, Copy)]
pub(crate) struct RowFold<'a> {
    pub name: &'a str,
    /// The type of values.
    pub value: &'a str,
    /// A function of two of them.
    pub combine: &'a str,
    /// Whether the workgroup has folded in the same memory before.
    pub again: bool,
}

/// How the threads of a workgroup are shared out among rows: ROWS, HEADS, SPAN.
pub(crate) fn rows() -> &'static str {
    TEXT.get("rows")
}

impl RowFold<'_> {
    /// The function, and memory of its own.
    pub fn text(self) -> String {
        memory(self.name, self.value) + &self.within(self.name, ["", ""])
    }

    /// The function in the memory called `memory`, which keeps values `as_kept` and gives them back `as_value`: each a type of the same size.
    pub fn within(self, memory: &str, [as_kept, as_value]: [&str; 2]) -> String {
        let RowFold { name, value, combine, again } = self;
        let cast = |to: &str| if to.is_empty() { String::new() } else { format!("bitcast<{to}>(") };
        let (keep, take) = (cast(as_kept), cast(as_value));
        let end = if as_kept.is_empty() { "" } else { ")" };
        let again = if again { TEXT.get("again") } else { "" };
        TEXT.fill("row", holes!(name, value, memory, combine, again, keep, take, end))
    }
}

/// Memory of folds along rows, of values that are kept as `kept`.
pub(crate) fn memory(memory: &str, kept: &str) -> String {
    TEXT.fill("memory", holes!(memory, kept))
}

/// The function that folds the values of a column's threads, `fold_down(value: Wide, thread)`.
pub(crate) fn column() -> &'static str {
    TEXT.get("column")
}
