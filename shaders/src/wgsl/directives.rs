//! The directives at the head of a shader, where naga does not take what WebGPU demands.
//!
//! WebGPU lets a shader use subgroups only behind `enable subgroups;`. naga has them without being told and refuses to
//! be told, so that no text would suit both. [`naga_text`] blanks the directive out for naga. Everything else stays as
//! it is, whatever it is: judging it is naga's business.

use std::borrow::Cow;
use std::ops::Range;

use super::guard::{is_line_end, skip_block_comment, word_length};

/// The extension that naga has and refuses to hear of.
const UNTOLD: &str = "subgroups";

/// `source` without `enable subgroups;`, for naga. Spaces stand there instead, so that all else keeps its place.
///
/// A browser wants the text as it was written.
pub fn naga_text(source: &str) -> Cow<'_, str> {
    let blanks = Head::of(source).blanks;
    if blanks.is_empty() {
        return Cow::Borrowed(source);
    }
    let mut text = String::with_capacity(source.len());
    let mut done = 0;
    for blank in blanks {
        text.push_str(&source[done..blank.start]);
        text.extend(std::iter::repeat_n(' ', blank.len()));
        done = blank.end;
    }
    text.push_str(&source[done..]);
    Cow::Owned(text)
}

/// The part of `source` that holds its directives, and no declaration.
pub(super) fn head(source: &str) -> &str {
    &source[..Head::of(source).end]
}

/// What lies before the first declaration.
struct Head {
    /// The tokens to leave out, in order.
    blanks: Vec<Range<usize>>,
    /// Where the last directive ends.
    end: usize,
}

impl Head {
    fn of(source: &str) -> Head {
        let mut tokens = Tokens { source, at: 0 };
        let mut head = Head { blanks: Vec::new(), end: 0 };
        while let Some(keyword) = tokens.next() {
            let kind = &source[keyword.clone()];
            if !matches!(kind, "enable" | "requires" | "diagnostic") {
                break;
            }
            let mut list: Vec<Range<usize>> = Vec::new();
            let end = loop {
                match tokens.next() {
                    Some(token) if &source[token.clone()] == ";" => break token,
                    Some(token) => list.push(token),
                    // Nothing ends the directive.
                    None => return head,
                }
            };
            head.end = end.end;
            if kind == "enable" {
                head.leave_out(source, keyword, &list, end);
            }
        }
        head
    }

    /// Leaves [`UNTOLD`] out of `list`, the names and commas of one directive, and with its last name the directive.
    fn leave_out(&mut self, source: &str, keyword: Range<usize>, list: &[Range<usize>], end: Range<usize>) {
        let is_comma = |token: &Range<usize>| &source[token.clone()] == ",";
        if list.iter().enumerate().any(|(nth, token)| is_comma(token) != (nth % 2 == 1)) {
            return; // no list of names
        }
        let is_untold = |token: &Range<usize>| &source[token.clone()] == UNTOLD;
        let names = || list.iter().step_by(2);
        if list.is_empty() || !names().any(is_untold) {
            return;
        }
        if names().all(is_untold) {
            self.blanks.push(keyword);
            self.blanks.extend_from_slice(list);
            self.blanks.push(end);
            return;
        }
        // Without a comma behind it, it was the last: the one before may stay, as a list may end in a comma.
        let left_out = list.chunks(2).filter(|name_and_comma| is_untold(&name_and_comma[0]));
        self.blanks.extend(left_out.flatten().cloned());
    }
}

/// Words and single characters, without white space and comments.
struct Tokens<'a> {
    source: &'a str,
    at: usize,
}

impl Iterator for Tokens<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let rest = &self.source[self.at..];
            let first = rest.chars().next()?;
            let after = if first.is_whitespace() || matches!(first, '\u{200e}' | '\u{200f}') {
                &rest[first.len_utf8()..]
            } else if rest.starts_with("//") {
                rest.find(is_line_end).map_or("", |end| &rest[end..])
            } else if rest.starts_with("/*") {
                skip_block_comment(rest)
            } else {
                let start = self.at;
                self.at += word_length(rest).max(first.len_utf8());
                return Some(start..self.at);
            };
            self.at = self.source.len() - after.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naga_text_leaves_out_subgroups_alone() {
        let cases = [
            ("enable subgroups;\nfn f() {}", "                 \nfn f() {}"),
            ("enable f16, subgroups;", "enable f16,          ;"),
            ("enable subgroups, f16;", "enable            f16;"),
            ("enable subgroups , subgroups,;", "                              "),
            (
                "enable/* \u{e9} ; */subgroups // of 32\n;fn f() {}",
                "      /* \u{e9} ; */          // of 32\n fn f() {}",
            ),
            ("requires x;\nenable f16;enable subgroups;", "requires x;\nenable f16;                 "),
            ("diagnostic(off, x.y); enable subgroups;", "diagnostic(off, x.y);                  "),
        ];
        for (source, wanted) in cases {
            let text = naga_text(source);
            assert_eq!(text, wanted);
            assert_eq!(text.len(), source.len());
        }
    }

    #[test]
    fn naga_text_without_the_directive_is_the_source() {
        for source in [
            "",
            "enable f16;",
            "// enable subgroups;\nfn f() {}",
            "/* /* */ enable subgroups; */ fn f() {}",
            "fn f() {} enable subgroups;",
            "enable subgroups_of_mine;",
            // Not directives: naga says why.
            "enable;",
            "enable subgroups",
            "enable f16 subgroups;",
            "enable f16,, subgroups;",
            "/* enable subgroups;",
        ] {
            assert!(matches!(naga_text(source), Cow::Borrowed(text) if text == source), "{source}");
        }
    }

    #[test]
    fn head_ends_behind_the_last_directive() {
        assert_eq!(head("// a\nenable f16; /* b */ requires x;\nfn f() { }"), "// a\nenable f16; /* b */ requires x;");
        assert_eq!(head("const a = 1;"), "");
    }
}
