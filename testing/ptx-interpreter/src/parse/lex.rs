//! Text to tokens. Words keep their dots (`ld.global.f32`, `%tid.x`, `.reg`), so that an opcode is one token.

use crate::error::{ParseError, ParseErrorKind};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    /// Bits of an integer; whether it was written with a minus is seen by the parser.
    Int(u64),
    /// Bits of an `f32` (`0f`).
    F32(u32),
    /// Bits of an `f64` (`0d` or decimal).
    F64(u64),
    Text(&'a str),
    Punct(char),
}

pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<(Token<'a>, u32)>,
}

pub(crate) fn lex(text: &str) -> Result<Lexed<'_>, ParseError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let start = at;
        match byte {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = text[at..].find("*/").ok_or_else(|| syntax(line, "a comment without end"))?;
                line += text[at..at + end].matches('\n').count() as u32;
                at += end + 2;
            }
            b'"' => {
                let end = text[at + 1..].find('"').ok_or_else(|| syntax(line, "a string without end"))?;
                tokens.push((Token::Text(&text[at + 1..at + 1 + end]), line));
                at += end + 2;
            }
            b'0'..=b'9' => {
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'.') {
                    at += 1;
                    // An exponent's sign.
                    if matches!(bytes.get(at), Some(b'+' | b'-'))
                        && matches!(bytes[at - 1], b'e' | b'E')
                        && text[start..at].contains('.')
                    {
                        at += 1;
                    }
                }
                tokens.push((number(&text[start..at], line)?, line));
            }
            b'.' | b'%' | b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                at += 1;
                while let Some(&next) = bytes.get(at) {
                    let double_colon = next == b':' && bytes.get(at + 1) == Some(&b':');
                    if double_colon {
                        at += 2;
                    } else if next.is_ascii_alphanumeric() || matches!(next, b'.' | b'_' | b'$') {
                        at += 1;
                    } else {
                        break;
                    }
                }
                tokens.push((Token::Word(&text[start..at]), line));
            }
            b',' | b';' | b'[' | b']' | b'{' | b'}' | b'(' | b')' | b'+' | b'-' | b'@' | b'!' | b':' | b'|' | b'<'
            | b'>' | b'=' => {
                tokens.push((Token::Punct(byte as char), line));
                at += 1;
            }
            _ => {
                let shown = text[at..].chars().next().unwrap_or('?');
                return Err(syntax(line, &format!("unexpected character {shown:?}")));
            }
        }
    }
    Ok(Lexed { tokens })
}

fn number(text: &str, line: u32) -> Result<Token<'static>, ParseError> {
    let bad = || syntax(line, &format!("`{text}` is not a number"));
    let hex = |digits: &str, count: usize| {
        if digits.len() == count { u64::from_str_radix(digits, 16).map_err(|_| bad()) } else { Err(bad()) }
    };
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return Ok(Token::F32(hex(digits, 8)? as u32));
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return Ok(Token::F64(hex(digits, 16)?));
    }
    if text.contains('.') {
        return Ok(Token::F64(text.parse::<f64>().map_err(|_| bad())?.to_bits()));
    }
    let text = text.strip_suffix('U').unwrap_or(text);
    let value = if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        u64::from_str_radix(digits, 16)
    } else if let Some(digits) = text.strip_prefix("0b").or_else(|| text.strip_prefix("0B")) {
        u64::from_str_radix(digits, 2)
    } else if text.len() > 1 && text.starts_with('0') {
        u64::from_str_radix(&text[1..], 8)
    } else {
        text.parse()
    };
    value.map(Token::Int).map_err(|_| bad())
}

pub(crate) fn syntax(line: u32, message: &str) -> ParseError {
    ParseError { line, kind: ParseErrorKind::Syntax(message.to_owned()) }
}
