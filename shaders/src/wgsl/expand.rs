//! What the constants of a shader expand to, counted in its text before naga reads it.
//!
//! `const b = array(a, a);` is short, and two elements of two are four: naga copies a constant into each function that
//! names it, and writers write it out, so a kilobyte of such lines asks for gigabytes. [`check_expansion`] adds up the
//! scalars of every constant and `let` that is composed of others, and of every use. It reads expressions as far as that
//! takes: constructors, names, and what indices and members take away again. Operators and functions give one vector or
//! matrix at most, whatever they are given. It does not judge whether the text is WGSL: unbalanced text ends somewhere.
//! What types ask for without a constant is bounded in `sizes.rs`, where naga has worked out the types.

use std::collections::{HashMap, HashSet};

use polywarp_core::{Error, Result};

use super::guard::{is_line_end, skip_block_comment, word_length};
use super::shader_error;

/// Most scalars that constants, and every use of them, may expand to, and most scalars that variables and zero values may
/// have, together.
///
/// A table of 1024 numbers can be named 1024 times; as a `var<private>` or in a buffer it is there once.
pub const MAX_EXPANDED: u64 = 1 << 20;

/// What an expression expands to.
#[derive(Clone, Copy)]
struct Value {
    scalars: u64,
    /// How many indices or members lead from it to a scalar, at most.
    depth: u32,
}

/// A scalar, a vector, or what a function gives.
const FLAT: Value = Value { scalars: 1, depth: 0 };

/// A word or a single character, without white space and comments.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    start: usize,
}

/// Refuses `source` where what its constants expand to is beyond [`MAX_EXPANDED`]. For text nested within the limits of `guard.rs`.
///
/// # Errors
/// [`Error::Shader`] with the place of the constant or use that goes beyond it.
pub(super) fn check_expansion(source: &str) -> Result<()> {
    let tokens = tokens(source);
    let mut reader = Reader {
        source,
        tokens: &tokens,
        types: composite_types(&tokens),
        globals: HashMap::new(),
        scopes: Vec::new(),
        total: 0,
    };
    reader.globals = reader.module_constants()?;
    reader.statements()
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token<'a>],
    /// Structs, and aliases of types that hold one or an array.
    types: HashSet<&'a str>,
    globals: HashMap<&'a str, Value>,
    /// What `let` and `const` name in each open block.
    scopes: Vec<HashMap<&'a str, Value>>,
    total: u64,
}

impl<'a> Reader<'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The constants of the module, which may be named before they are declared.
    fn module_constants(&mut self) -> Result<HashMap<&'a str, Value>> {
        let mut declared: HashMap<&'a str, usize> = HashMap::new();
        let (mut depth, mut at) = (0_usize, 0);
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "const" if depth == 0 => {
                    if let Some(init) = self.initialiser(at) {
                        declared.insert(self.text(at + 1), init);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        // Each after those that it names. A name met again on the way to itself is a cycle, which naga refuses.
        let mut on_the_way: HashSet<&'a str> = HashSet::new();
        let mut names: Vec<&'a str> = declared.keys().copied().collect();
        names.sort_by_key(|name| std::cmp::Reverse(declared[name]));
        let mut open: Vec<&'a str> = names;
        while let Some(&name) = open.last() {
            let init = declared[name];
            if self.globals.contains_key(name) {
                open.pop();
            } else if on_the_way.insert(name) {
                let named = self.tokens[init..].iter().map(|token| token.text).take_while(|&text| text != ";");
                let wanted = named.filter(|text| declared.contains_key(text) && !on_the_way.contains(text));
                open.extend(wanted);
            } else {
                open.pop();
                let (value, _) = self.expression(init)?;
                self.globals.insert(name, value);
            }
        }
        self.total = 0; // counted as the text is read
        Ok(std::mem::take(&mut self.globals))
    }

    /// Where the value starts that the `const` or `let` at `at` gives a name to.
    fn initialiser(&self, at: usize) -> Option<usize> {
        let rest = self.tokens.get(at + 2..)?;
        let equals = rest.iter().position(|token| matches!(token.text, "=" | ";" | "{" | "}"))?;
        (rest[equals].text == "=").then_some(at + 2 + equals + 1)
    }

    /// Reads all of the text, in order.
    fn statements(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => self.scopes.push(HashMap::new()),
                "}" => drop(self.scopes.pop()),
                "const" | "let" => {
                    if let Some(init) = self.initialiser(at) {
                        let name = self.text(at + 1);
                        let (value, end) = self.expression(init)?;
                        if let Some(scope) = self.scopes.last_mut() {
                            scope.insert(name, value);
                        }
                        at = end;
                        continue;
                    }
                }
                // A declaration of a struct names no value.
                "struct" => {
                    while at < self.tokens.len() && self.text(at) != "}" {
                        at += 1;
                    }
                }
                _ => {
                    let (_, end) = self.primary(at)?;
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// The value of the expression at `at`, and where it ends: before a `,`, a `;`, or a bracket that it did not open.
    fn expression(&mut self, mut at: usize) -> Result<(Value, usize)> {
        let (start, mut only, mut parts) = (at, FLAT, 0_usize);
        while at < self.tokens.len() && !matches!(self.text(at), "," | ";" | ")" | "]" | "}" | "{") {
            let (value, end) = self.primary(at)?;
            (only, parts, at) = (value, parts + 1, end);
        }
        let value = if parts == 1 { only } else { FLAT };
        self.bounded(value.scalars, start)?;
        Ok((value, at))
    }

    /// The value of a name, number, call or expression in brackets with its indices and members, or an operator.
    fn primary(&mut self, at: usize) -> Result<(Value, usize)> {
        let word = self.text(at);
        let mut end = at + 1;
        if word == "array" || is_template(word) {
            end = self.behind_template(end);
        }
        let mut value = match self.text(end) {
            "(" if word_length(word) > 0 => {
                let (arguments, behind) = self.list(end + 1)?;
                end = behind;
                let composite = word == "array" || self.types.contains(word);
                if composite { Value { depth: arguments.depth + 1, ..arguments } } else { FLAT }
            }
            _ if word == "(" => {
                let (inside, behind) = self.expression(end)?;
                end = behind + usize::from(self.text(behind) == ")");
                inside
            }
            _ => {
                let inner = self.scopes.iter().rev().find_map(|scope| scope.get(word));
                let named = inner.or_else(|| self.globals.get(word)).copied().unwrap_or(FLAT);
                if named.depth > 0 {
                    self.total = self.total.saturating_add(named.scalars);
                    self.bounded(self.total, at)?;
                }
                named
            }
        };
        loop {
            match self.text(end) {
                "[" => {
                    let (_, behind) = self.expression(end + 1)?;
                    end = behind + usize::from(self.text(behind) == "]");
                }
                "." => end += 2,
                _ => break,
            }
            value = if value.depth > 1 { Value { depth: value.depth - 1, ..value } } else { FLAT };
        }
        Ok((value, end))
    }

    /// The arguments from `at` on, together, and where the list ends, its bracket included.
    fn list(&mut self, mut at: usize) -> Result<(Value, usize)> {
        let mut all = Value { scalars: 0, depth: 0 };
        while at < self.tokens.len() && !matches!(self.text(at), ")" | ";" | "{" | "}") {
            let (value, end) = self.expression(at)?;
            all.scalars = all.scalars.saturating_add(value.scalars);
            all.depth = all.depth.max(value.depth);
            at = end + usize::from(matches!(self.text(end), "," | "]"));
        }
        all.scalars = all.scalars.max(1);
        Ok((all, at + usize::from(self.text(at) == ")")))
    }

    /// What follows the `<...>` at `at`, if one is there.
    fn behind_template(&self, at: usize) -> usize {
        if self.text(at) != "<" {
            return at;
        }
        let mut open = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(at) {
            match token.text {
                "<" => open += 1,
                ">" if open == 1 => return index + 1,
                ">" => open -= 1,
                ";" | "{" | "}" => return index,
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn bounded(&self, scalars: u64, at: usize) -> Result<()> {
        if scalars <= MAX_EXPANDED {
            return Ok(());
        }
        let start = self.tokens.get(at).map_or(self.source.len(), |token| token.start);
        Err(too_much(self.source, start, scalars))
    }
}

/// The error for what goes beyond [`MAX_EXPANDED`] at byte `start`.
pub(super) fn too_much(source: &str, start: usize, scalars: u64) -> Error {
    let message = format!(
        "constants, their uses, variables and zero values expand to {scalars} scalars or more here, the limit is \
         {MAX_EXPANDED}; keep a large table in a buffer"
    );
    shader_error(source, Some(start), &message)
}

/// Types of WGSL that are written with `<...>` and are no arrays.
fn is_template(word: &str) -> bool {
    matches!(word, "vec2" | "vec3" | "vec4" | "bitcast" | "ptr" | "atomic" | "var") || word.starts_with("mat")
}

/// Structs, and aliases of types that hold one or an array, however they are ordered.
fn composite_types<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    let mut found: HashSet<&'a str> = HashSet::from(["array"]);
    // Which aliases name a type: an alias is composite where a type that it names is.
    let (mut users, mut open): (HashMap<&'a str, Vec<&'a str>>, Vec<&'a str>) = (HashMap::new(), vec!["array"]);
    for (at, token) in tokens.iter().enumerate() {
        let Some(name) = tokens.get(at + 1) else { break };
        match token.text {
            "struct" => open.push(name.text),
            "alias" => {
                let named = tokens[at + 2..].iter().map(|token| token.text).take_while(|&text| text != ";");
                for used in named.filter(|text| word_length(text) > 0) {
                    users.entry(used).or_default().push(name.text);
                }
            }
            _ => {}
        }
    }
    while let Some(name) = open.pop() {
        found.insert(name);
        open.extend(users.remove(name).unwrap_or_default());
    }
    found
}

/// The tokens of `source`, as far as anybody here tells them apart.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() || matches!(first, '\u{200e}' | '\u{200f}') {
            at += first.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find(is_line_end).unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at = source.len() - skip_block_comment(rest).len();
        } else {
            let length = word_length(rest).max(first.len_utf8());
            tokens.push(Token { text: &rest[..length], start: at });
            at += length;
        }
    }
    tokens
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
