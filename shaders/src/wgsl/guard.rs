//! Limits on shader text, and a place where parsing it cannot take the process down.
//!
//! naga recurses with the nesting of the text it reads, and a stack overflow cannot be caught. [`check_source`] bounds
//! what could recurse before naga sees it; [`guarded`] gives naga a stack that fits those bounds and turns a panic
//! inside it into an error. Neither judges whether the text is WGSL. Next: `mod.rs`.

use polywarp_core::{Error, Result};

/// Longest shader accepted, in bytes. Generated kernels of this library stay below a tenth of it.
pub const MAX_SOURCE_BYTES: usize = 4 << 20;

/// Deepest nesting of brackets and braces together; WGSL itself allows 127 levels of braces in a function.
pub const MAX_NESTING: usize = 127;

/// Most operators in one expression, counted along with those of the expressions round it: `a + a + ... + a` nests as
/// deeply as it is long once parsed. Also the longest chain of `else if`.
pub const MAX_CHAIN: usize = 4096;

/// Most names and numbers in one function: naga's frontend walks over all expressions so far for each new one, which takes
/// seconds from here on, and minutes for five times as many.
pub const MAX_WORDS: usize = 1 << 17;

/// Stack of the compiling thread. The deepest text accepted needs 2 to 8 MiB at opt-level 1; reserved, not used, until then.
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 64 << 20;

/// One open bracket, or the file itself.
#[derive(Default)]
struct Frame {
    /// Operators since the last `,` or `;`, or branches of the current `else if` chain.
    chain: usize,
    /// The previous token was the `}` of a block in this frame.
    after_block: bool,
}

/// Refuses text that is too long, or whose nesting could exhaust the stack.
///
/// # Errors
/// [`Error::ShaderTooComplex`].
pub fn check_source(source: &str) -> Result<()> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(too_complex("size in bytes", source.len(), MAX_SOURCE_BYTES));
    }
    let mut frames = vec![Frame::default()];
    let mut chain_below = 0; // operators in all frames but the last
    let (mut words, mut in_body) = (0, false);
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if c.is_whitespace() {
            rest = after;
            continue;
        }
        if c == '/' && after.starts_with('/') {
            rest = rest.find(is_line_end).map_or("", |end| &rest[end..]);
            continue;
        }
        if c == '/' && after.starts_with('*') {
            rest = skip_block_comment(rest);
            continue;
        }
        let word = word_length(rest);
        let top = frames.len() - 1;
        let follows_block = std::mem::take(&mut frames[top].after_block);
        if follows_block && &rest[..word] != "else" {
            frames[top].chain = 0;
        }
        match c {
            '(' | '[' | '{' => {
                frames[top].chain += usize::from(c == '['); // `a[0][0]...` nests like an operator
                chain_below += frames[top].chain;
                if frames.len() == 1 {
                    (words, in_body) = (0, c == '{');
                }
                frames.push(Frame::default());
                if frames.len() - 1 > MAX_NESTING {
                    return Err(too_complex("nesting of brackets", frames.len() - 1, MAX_NESTING));
                }
            }
            ')' | ']' | '}' if frames.len() > 1 => {
                frames.pop();
                let outer = frames.len() - 1;
                chain_below -= frames[outer].chain;
                frames[outer].after_block = c == '}';
            }
            ',' | ';' => frames[top].chain = 0,
            _ if word > 0 => frames[top].chain += usize::from(&rest[..word] == "else"),
            _ => frames[top].chain += 1,
        }
        words += usize::from(word > 0 && in_body);
        if words > MAX_WORDS {
            return Err(too_complex("names and numbers in one function, which can be split,", words, MAX_WORDS));
        }
        let chain = chain_below + frames.last().map_or(0, |frame| frame.chain);
        if chain > MAX_CHAIN {
            return Err(too_complex("operators in one expression", chain, MAX_CHAIN));
        }
        rest = &rest[word.max(c.len_utf8())..];
    }
    Ok(())
}

pub(super) fn too_complex(what: &'static str, found: usize, limit: usize) -> Error {
    Error::ShaderTooComplex { what, found: found as u64, limit: limit as u64 }
}

/// Where a `//` comment ends, as the WGSL specification lists line breaks.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\u{a}'..='\u{d}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What follows the (nesting) block comment that `text` starts with.
pub(super) fn skip_block_comment(text: &str) -> &str {
    let (bytes, mut depth, mut i) = (text.as_bytes(), 0_usize, 0);
    while i < bytes.len() {
        match &bytes[i..] {
            [b'/', b'*', ..] => (depth, i) = (depth + 1, i + 2),
            [b'*', b'/', ..] => (depth, i) = (depth.saturating_sub(1), i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return &text[i..];
        }
    }
    ""
}

/// Bytes of the identifier or number at the start of `text`.
pub(super) fn word_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// Runs `work` with a stack that fits every shader [`check_source`] accepts; a panic in it becomes an error.
///
/// For calls into naga, and into wgpu with a user's shader. In a browser there is one thread, so `work` runs there.
///
/// # Errors
/// What `work` returns; [`Error::Shader`] without a place when it panics or when no thread can be had.
#[cfg(not(target_arch = "wasm32"))]
pub fn guarded<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let internal = |message: String| Error::Shader { line: 0, column: 0, message };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|e| internal(format!("no thread to compile in: {e}; check the limits on threads and memory")))?;
        thread.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(internal(format!("the shader compiler failed on this shader: {}", super::one_line(text))))
        })
    })
}

/// Runs `work`: in a browser there is one thread, and a panic ends the program.
///
/// # Errors
/// What `work` returns.
#[cfg(target_arch = "wasm32")]
pub fn guarded<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    work()
}

/// The name of the thread [`guarded`] runs on: a program's panic hook may stay silent for it.
pub const THREAD_NAME: &str = "polywarp-shader";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str) -> Option<&'static str> {
        match check_source(source) {
            Ok(()) => None,
            Err(Error::ShaderTooComplex { what, found, limit }) => {
                assert!(found > limit);
                Some(what)
            }
            Err(other) => panic!("unexpected {other}"),
        }
    }

    #[test]
    fn source_within_limits_is_accepted() {
        let many_statements = "x = x + 1; ".repeat(MAX_CHAIN);
        assert_eq!(refused(&format!("fn f() {{ var x = 0; {many_statements} }}")), None);
        let many_elements = vec!["1.0 + 2.0"; 2 * MAX_CHAIN].join(", ");
        assert_eq!(refused(&format!("const a = array({many_elements});")), None);
        let many_blocks = "if x { y = 1; } ".repeat(2 * MAX_CHAIN);
        assert_eq!(refused(&format!("fn f() {{ {many_blocks} }}")), None);
        assert_eq!(refused(&format!("// {}\n/* {{ /* {} */ */", "(".repeat(500), "{".repeat(500))), None);
    }

    #[test]
    fn source_that_could_exhaust_the_stack_is_refused() {
        assert_eq!(refused(&" ".repeat(MAX_SOURCE_BYTES + 1)), Some("size in bytes"));
        assert_eq!(refused(&"(".repeat(MAX_NESTING + 1)), Some("nesting of brackets"));
        assert_eq!(refused(&format!("//\u{2028}{}", "{".repeat(100_000))), Some("nesting of brackets"));
        let operators = Some("operators in one expression");
        assert_eq!(refused(&"a + ".repeat(MAX_CHAIN + 1)), operators);
        assert_eq!(refused(&"-".repeat(100_000)), operators);
        assert_eq!(refused(&format!("a{}", "[0]".repeat(MAX_CHAIN + 1))), operators);
        assert_eq!(refused(&format!("a{}", ".b".repeat(MAX_CHAIN + 1))), operators);
        assert_eq!(refused(&format!("if a {{}} {}", "else if a {} ".repeat(MAX_CHAIN + 1))), operators);
        let spread = format!("{}1{}", "a + a + (".repeat(100), ")".repeat(100)).replace("a + ", &"a + ".repeat(24));
        assert_eq!(refused(&spread), operators);
    }

    #[test]
    fn functions_may_not_grow_without_limit_and_the_text_may() {
        let function = |statements: usize| format!("fn f() {{ {} }}\n", "a[1] = 2;".repeat(statements));
        let most = (MAX_WORDS) / 3;
        check_source(&function(most)).unwrap();
        check_source(&function(most).repeat(2)).unwrap();
        check_source(&format!("const c = array({});", "1,".repeat(MAX_WORDS + 1))).unwrap();
        let refused = check_source(&function(most + 1)).unwrap_err();
        assert!(matches!(refused, Error::ShaderTooComplex { limit, .. } if limit == MAX_WORDS as u64), "{refused}");
    }

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn guarded_panic_becomes_an_error() {
        let result: Result<()> = guarded(|| panic!("two\nlines"));
        let Err(Error::Shader { line: 0, message, .. }) = result else { panic!("{result:?}") };
        assert!(message.ends_with("two lines"), "{message}");
    }
}
