//! The header of a .npy file: a dictionary of three entries in Python's notation, and no more of that than NumPy writes.

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The type of elements, such as `<f4`.
    pub descr: String,
    /// Whether the first axis is the fastest.
    pub fortran_order: bool,
    /// The extents.
    pub shape: Vec<u64>,
}

/// The text behind magic, version and length.
pub(super) fn parse(text: &[u8]) -> Result<Header, String> {
    let mut rest = Rest(text);
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    rest.expect(b'{')?;
    while !rest.take(b'}') {
        let key = rest.string()?;
        rest.expect(b':')?;
        let is_new = match key.as_str() {
            "descr" => descr.replace(rest.descr()?).is_none(),
            "fortran_order" => fortran_order.replace(rest.truth()?).is_none(),
            "shape" => shape.replace(rest.extents()?).is_none(),
            _ => return Err("an entry that no array has".to_owned()),
        };
        if !is_new {
            return Err(format!("`{key}` twice"));
        }
        if !rest.take(b',') {
            rest.expect(b'}')?;
            break;
        }
    }
    if rest.peek().is_some() {
        return Err("something behind its end".to_owned());
    }
    match (descr, fortran_order, shape) {
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header { descr, fortran_order, shape }),
        _ => Err("`descr`, `fortran_order` or `shape` is missing".to_owned()),
    }
}

/// What is left of the text.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(format!("no `{}` where one belongs", char::from(byte))) }
    }

    /// Letters between quotes.
    fn string(&mut self) -> Result<String, String> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"')).ok_or("no text where one belongs")?;
        let length = self.0[1..].iter().position(|&byte| byte == quote).ok_or("a text without an end")?;
        let text = &self.0[1..=length];
        self.0 = &self.0[length + 2..];
        if text.iter().any(|&byte| !byte.is_ascii_graphic() || byte == b'\\') {
            return Err("a text with letters that none of NumPy's has".to_owned());
        }
        Ok(text.iter().copied().map(char::from).collect())
    }

    fn descr(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Some(b'[' | b'(')) {
            return Err("elements of several fields (a record); plain numbers are expected".to_owned());
        }
        self.string()
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.peek();
        for (word, is) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(is);
            }
        }
        Err("neither True nor False where one belongs".to_owned())
    }

    /// Whole numbers in brackets; Python 2 wrote an L behind them.
    fn extents(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'(')?;
        let mut extents = Vec::new();
        while !self.take(b')') {
            self.peek();
            let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&self.0[..digits]).ok().and_then(|digits| digits.parse().ok());
            extents.push(number.ok_or("an extent that is no number of 64 bits")?);
            self.0 = &self.0[digits..];
            self.take(b'L');
            if !self.take(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(extents)
    }
}
