//! Pieces: WGSL that lies in files, with named holes for what a planner decides.
//!
//! A file of `core/wgsl/pieces` has a head for its readers, then pieces. A line `//# name` begins a piece, and a remark for readers may follow
//! behind a colon; the empty line before the next such line belongs to neither. A hole is `$name`, or `${name}` where a letter, a digit
//! or `_` follows: WGSL has no such sign. It takes a name, a number or an expression. Alone on its line it takes whole lines, with the spaces
//! that they begin with, or none. Whole files of `core/wgsl` may have holes too ([`fill`]).
//!
//! There is no language in it, and shall be none: what is to be chosen is chosen in Rust, between two pieces or two values, and what is
//! unrolled is unrolled there.
//!
//! A hole without a value and a value without a hole are faults of a planner. Where assertions are on they panic; elsewhere the hole
//! stays, and no shader compiler takes it.

use std::fmt::{Display, Write};

/// A file of pieces, as [`pieces!`] includes it.
#[derive(Clone, Copy)]
pub(crate) struct Pieces(pub &'static str);

/// What holes take, by their names: see [`holes!`].
pub(crate) type Holes<'a> = &'a [(&'a str, &'a dyn Display)];

/// The file of `core/wgsl/pieces` with this name.
macro_rules! pieces {
    ($file:literal) => {
        $crate::wgsl::pieces::Pieces(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/wgsl/pieces/", $file)))
    };
}
pub(crate) use pieces;

/// `holes!(name, other = expression)`: [`Holes`]. A variable fills the hole that has its name.
macro_rules! holes {
    (@ $name:ident) => { &$name };
    (@ $name:ident $value:expr) => { &$value };
    ($($name:ident $(= $value:expr)?),* $(,)?) => {
        &[$((stringify!($name), $crate::wgsl::pieces::holes!(@ $name $($value)?) as &dyn std::fmt::Display)),*]
    };
}
pub(crate) use holes;

impl Pieces {
    /// The piece called `name`, which has no holes.
    pub(crate) fn get(self, name: &str) -> &'static str {
        let text = self.piece(name);
        debug_assert!(!text.contains('$'), "holes of the piece {name} are not filled");
        text
    }

    /// The piece called `name`, its holes filled.
    pub(crate) fn fill(self, name: &str, holes: Holes<'_>) -> String {
        fill(self.piece(name), holes)
    }

    fn piece(self, name: &str) -> &'static str {
        let found = self.all().find(|(own, _)| *own == name);
        debug_assert!(found.is_some(), "there is no piece {name}");
        found.map_or("", |(_, text)| text)
    }

    /// The pieces with their names.
    fn all(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.split("\n//# ").skip(1).map(|part| {
            let (line, text) = part.split_once('\n').unwrap_or((part, ""));
            (line.split(':').next().unwrap_or(line), text)
        })
    }
}

/// `text` with its holes filled.
pub(crate) fn fill(text: &str, holes: Holes<'_>) -> String {
    let mut out = String::with_capacity(2 * text.len());
    let mut filled = 0u64;
    let mut rest = text;
    while let Some((before, hole)) = rest.split_once('$') {
        let (name, behind) = split_name(hole);
        out += before;
        let Some(number) = holes.iter().position(|(own, _)| *own == name) else {
            debug_assert!(false, "the hole ${name} has no value in\n{text}");
            out.push('$');
            rest = hole;
            continue;
        };
        filled |= 1 << number;
        let line = text[..text.len() - hole.len() - 1].rsplit('\n').next().unwrap_or_default();
        let begins = out.len();
        // Writing into a String cannot fail.
        let _ = write!(out, "{}", holes[number].1);
        rest = behind;
        if let (true, Some(next)) = (line.trim_start().is_empty(), behind.strip_prefix('\n')) {
            let value = &out[begins..];
            debug_assert!(value.is_empty() || value.ends_with('\n'), "${name} takes whole lines, not {value}");
            out.replace_range(begins - line.len()..begins, "");
            rest = next;
        }
    }
    debug_assert!(
        filled.count_ones() as usize == holes.len(),
        "no hole takes some of {:?} in\n{text}",
        holes.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    out + rest
}

/// The lines that `write` writes, for a hole.
pub(crate) fn lines(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write(&mut out);
    out
}

/// The name that a hole begins with, and what stands behind it.
fn split_name(hole: &str) -> (&str, &str) {
    if let Some((name, behind)) = hole.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return (name, behind);
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    hole.split_at(hole.find(|c| !is_part(c)).unwrap_or(hole.len()))
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
