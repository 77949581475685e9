//! Rust's text in words, literals, comments and what stands between, so that a name is not mistaken for a part of another.

/// What a piece of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, a keyword or a number.
    Word,
    /// A string with its quotes.
    Literal,
    /// From `//` to the end of the line.
    Comment,
    /// White space.
    Space,
    /// `::`, or one character.
    Sign,
}

/// The pieces of `source`, which together are all of it.
pub fn pieces(source: &str) -> Vec<(Kind, &str)> {
    let (mut pieces, mut rest) = (Vec::new(), source);
    while let Some(first) = rest.chars().next() {
        let (kind, len) = piece(rest, first);
        let (piece, behind) = rest.split_at(len);
        pieces.push((kind, piece));
        rest = behind;
    }
    pieces
}

pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn piece(rest: &str, first: char) -> (Kind, usize) {
    let until = |end: fn(char) -> bool| rest.find(end).unwrap_or(rest.len());
    if rest.starts_with("//") {
        (Kind::Comment, until(|c| c == '\n'))
    } else if first.is_whitespace() {
        (Kind::Space, until(|c| !c.is_whitespace()))
    } else if let Some(end) = raw_end(rest) {
        (Kind::Literal, end)
    } else if is_word(first) {
        (Kind::Word, until(|c| !is_word(c)))
    } else if first == '"' {
        (Kind::Literal, quoted_end(rest))
    } else if rest.starts_with("::") {
        (Kind::Sign, 2)
    } else if first == '\'' {
        (Kind::Sign, character_end(rest))
    } else {
        (Kind::Sign, first.len_utf8())
    }
}

/// Where the raw string at the start ends, if there is one.
fn raw_end(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix('r')?;
    let opened = behind.find(|c| c != '#')?;
    let text = behind[opened..].strip_prefix('"')?;
    let closing = "\"".to_owned() + &behind[..opened];
    Some(text.find(&closing).map_or(rest.len(), |at| rest.len() - text.len() + at + closing.len()))
}

/// Where the string that starts here ends.
fn quoted_end(rest: &str) -> usize {
    let mut is_escaped = false;
    let closing = rest.char_indices().skip(1).find(|&(_, c)| {
        let closes = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        closes
    });
    closing.map_or(rest.len(), |(at, _)| at + 1)
}

/// The bytes of a character in its quotes, or of the quote of a lifetime.
fn character_end(rest: &str) -> usize {
    let mut inside = rest.char_indices().skip(1);
    let (_, first) = inside.next().unwrap_or((0, ' '));
    if first == '\\' {
        return rest[2..].char_indices().skip(1).find(|&(_, c)| c == '\'').map_or(1, |(at, _)| at + 3);
    }
    inside.next().filter(|&(_, c)| c == '\'').map_or(1, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_the_text_and_names_in_quotes_and_comments_are_none() {
        let text = "fn f<'a>(x: &'a str) { g('\"', '\\'', \"a \\\" b\", r#\"c \" d\"#, é) } // a::b\nx::y";
        let found = pieces(text);
        assert_eq!(found.iter().map(|&(_, piece)| piece).collect::<String>(), text);
        let of = |kind| found.iter().filter(|piece| piece.0 == kind).map(|piece| piece.1).collect::<Vec<_>>();
        assert_eq!(of(Kind::Literal), ["\"a \\\" b\"", "r#\"c \" d\"#"]);
        assert_eq!(of(Kind::Comment), ["// a::b"]);
        assert_eq!(of(Kind::Word), ["fn", "f", "a", "x", "a", "str", "g", "x", "y"]);
        assert!(found.contains(&(Kind::Sign, "'\"'")) && found.contains(&(Kind::Sign, "'\\''")));
    }
}
