//! What PTX text says of its kernels, without an assembler: names, arguments, demands on the block.
//!
//! Only the heads of `.entry` are read ("Kernel Function Parameters", "Performance-Tuning Directives" of the PTX ISA
//! manual); whether the text is PTX is for the driver to judge. Plain text in, plain data out.

use std::str::FromStr;

/// A kernel of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    /// `.reqntid`: the only block it can be launched with.
    pub(crate) required_block: Option<[u32; 3]>,
    /// `.maxntid`: most threads of a block.
    pub(crate) most_threads: Option<u32>,
}

/// One parameter, as it lies in the block of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// Empty where it is not known.
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The kernels of `text`, in their order, each once.
pub(crate) fn heads(text: &str) -> Result<Vec<Head>, String> {
    let mut tokens = Tokens { rest: text };
    let mut found: Vec<Head> = Vec::new();
    while let Some(token) = tokens.next() {
        if token == ".entry" {
            let head = head(&mut tokens)?;
            // A kernel may be declared before it is defined.
            found.retain(|other| other.name != head.name);
            found.push(head);
        }
    }
    Ok(found)
}

/// `7.8` of `.version 7.8`.
pub(crate) fn version(text: &str) -> Option<&str> {
    let mut tokens = Tokens { rest: text };
    tokens.find(|&token| token == ".version")?;
    tokens.next()
}

fn head(tokens: &mut Tokens<'_>) -> Result<Head, String> {
    let name = tokens.next().unwrap_or_default();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%')) {
        return Err(format!("`{name}` stands where the name of an .entry is expected"));
    }
    let mut head = Head { name: name.to_owned(), params: Vec::new(), required_block: None, most_threads: None };
    let mut token = tokens.next();
    if token == Some("(") {
        let (mut param, mut end) = (Vec::new(), 0u64);
        loop {
            match tokens.next() {
                Some(token @ ("," | ")")) => {
                    if token == "," || !param.is_empty() {
                        let (name, bytes, align) = declared(&param).ok_or_else(|| {
                            format!(
                                "argument {} of `{}`, `{}`, is of no type that can be passed",
                                head.params.len(),
                                head.name,
                                param.join(" ")
                            )
                        })?;
                        let offset = end.next_multiple_of(align);
                        end = offset.saturating_add(bytes);
                        head.params.push(Param { name, offset, bytes });
                        param.clear();
                    }
                    if token == ")" {
                        break;
                    }
                }
                Some(token) => param.push(token),
                None => return Err(format!("the list of arguments of `{}` does not end", head.name)),
            }
        }
        token = tokens.next();
    }
    while let Some(found) = token.filter(|found| !matches!(*found, "{" | ";")) {
        token = match found {
            ".reqntid" => {
                let (block, next) = extents(tokens);
                head.required_block = Some(block);
                next
            }
            ".maxntid" => {
                let (block, next) = extents(tokens);
                head.most_threads = Some(block.iter().fold(1, |product, &n| product.saturating_mul(n)));
                next
            }
            _ => tokens.next(),
        };
    }
    Ok(head)
}

/// `nx, ny, nz` (the last may be missing), and the token behind them.
fn extents<'a>(tokens: &mut Tokens<'a>) -> ([u32; 3], Option<&'a str>) {
    let mut block = [1; 3];
    for extent in &mut block {
        match tokens.next().and_then(number) {
            Some(found) => *extent = found,
            None => return (block, None),
        }
        let next = tokens.next();
        if next != Some(",") {
            return (block, next);
        }
    }
    (block, tokens.next())
}

/// Name, bytes and alignment of a parameter, such as `.param .align 8 .b8 name[16]` or `.param .u64 .ptr .global name`.
fn declared(tokens: &[&str]) -> Option<(String, u64, u64)> {
    let (".param", mut rest) = (*tokens.first()?, &tokens[1..]) else { return None };
    let mut align = None;
    if let [".align", bytes, after @ ..] = rest {
        (align, rest) = (Some(number::<u64>(bytes).filter(|n| n.is_power_of_two() && *n <= 1 << 20)?), after);
    }
    let (&ty, mut rest) = rest.split_first()?;
    let element: u64 = match ty {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    };
    if let [".ptr", after @ ..] = rest {
        // What follows is about what it points to.
        let name = after.iter().rposition(|token| !token.starts_with('.') && number::<u64>(token).is_none())?;
        rest = &after[name..];
    }
    let (name, bytes) = match rest {
        [name] => (name, element),
        [name, "[", count, "]"] => (name, element.checked_mul(number(count)?)?),
        _ => return None,
    };
    Some(((*name).to_owned(), bytes, align.unwrap_or(element)))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The text in words, brackets and separators; comments and strings are left out.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start();
            let skipped = match self.rest.get(..2) {
                Some("//") => self.rest.find('\n'),
                Some("/*") => self.rest[2..].find("*/").map(|at| at + 4),
                _ if self.rest.starts_with('"') => self.rest[1..].find('"').map(|at| at + 2),
                _ => break,
            };
            self.rest = skipped.map_or("", |end| &self.rest[end..]);
        }
        let is_single = |c: char| matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | '"');
        let first = self.rest.chars().next()?;
        let end = if is_single(first) {
            1
        } else {
            let stops = |(at, c): (usize, char)| {
                c.is_whitespace() || is_single(c) || (c == '/' && self.rest[at + 1..].starts_with(['/', '*']))
            };
            self.rest.char_indices().find(|&found| stops(found)).map_or(self.rest.len(), |(at, _)| at)
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(head: &Head) -> Vec<(&str, u64, u64)> {
        head.params.iter().map(|param| (param.name.as_str(), param.offset, param.bytes)).collect()
    }

    #[test]
    fn heads_have_names_offsets_and_sizes() {
        let text = "
            .version 8.0 // not .entry
            .target sm_70
            /* .entry no() */
            .visible .entry _Z4axpyPfff(
                .param .u64 .ptr .global .align 4 y,
                .param .f32 a /* by value */,
                .param .align 8 .b8 s[12],
                .param .b16 h, .param .u64 n
            )
            .maxntid 16, 8
            .minnctapersm 2
            { ret; }
            .entry bare { ret; }
            .entry none() .reqntid 32, 2, 1 { .pragma \"nounroll .entry x\"; ret; }";
        let heads = heads(text).unwrap();
        let names: Vec<_> = heads.iter().map(|head| head.name.as_str()).collect();
        assert_eq!(names, ["_Z4axpyPfff", "bare", "none"]);
        assert_eq!(sizes(&heads[0]), [("y", 0, 8), ("a", 8, 4), ("s", 16, 12), ("h", 28, 2), ("n", 32, 8)]);
        assert_eq!((heads[0].most_threads, heads[0].required_block), (Some(128), None));
        assert_eq!((heads[2].most_threads, heads[2].required_block), (None, Some([32, 2, 1])));
        assert!(heads[1].params.is_empty() && heads[2].params.is_empty());
        assert_eq!(version(text), Some("8.0"));
    }

    #[test]
    fn kernel_that_is_declared_first_is_found_once() {
        let found = heads(".entry f(.param .u32 a); .entry f(.param .u32 b) { ret; }").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(sizes(&found[0]), [("b", 0, 4)]);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (text, word) in [
            (".entry (", "name"),
            (".entry f(.param .u32 a", "does not end"),
            (".entry f(.param .texref a) {}", "argument 0"),
            (".entry f(.param .u32 a, .param .u32 b[) {}", "argument 1"),
            (".entry f(.param .b8 b[99999999999999999999]) {}", "argument 0"),
            (".entry f(.param .align 3 .b8 b[4]) {}", "argument 0"),
            (".entry f(,) {}", "argument 0"),
            (".entry", "name"),
        ] {
            let why = heads(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
        assert_eq!((heads("no PTX at all \" é /").unwrap(), version("")), (Vec::new(), None));
    }
}
