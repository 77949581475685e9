//! Text to [`Module`]: directives (PTX ISA 4 and 11), declarations, and the bodies of kernels.

mod body;
mod decode;
mod decode_async;
mod decode_cluster;
mod decode_float;
mod decode_int;
mod decode_matrix;
mod decode_memory;
mod decode_move;
mod decode_warp;
mod lex;
mod scope;
mod statement;

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{ParseError, ParseErrorKind};
use crate::inst::Ty;
use crate::kernel::{CONST_BASE, Kernel, Module, SHARED_BASE};
use lex::{Token, lex, syntax};
use scope::Symbol;

/// Most bytes of variables of one kind in a kernel: more than any architecture has.
const MOST_BYTES: u32 = 1 << 20;

type Result<T> = std::result::Result<T, ParseError>;

/// `.version` and `.target`.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    version: (u32, u32),
    sm: u32,
    /// The `a` of `sm_90a`.
    specific: bool,
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
    lines: Arc<Vec<String>>,
    level: Level,
    /// Variables of the module: name, and where they are.
    globals: HashMap<&'a str, Symbol>,
    constants: Vec<u8>,
    shared: u32,
    dynamic: Option<(&'a str, u32)>,
}

/// Parses a module.
pub(crate) fn module(text: &str) -> Result<Module> {
    let lexed = lex(text)?;
    let mut parser = Parser {
        tokens: lexed.tokens,
        at: 0,
        lines: Arc::new(text.lines().map(|l| l.trim().to_owned()).collect()),
        level: Level::default(),
        globals: HashMap::new(),
        constants: Vec::new(),
        shared: SHARED_BASE,
        dynamic: None,
    };
    parser.module()
}

/// A variable's declaration: `.align 16 .b8 name[n]`.
struct Variable<'a> {
    name: &'a str,
    ty: Ty,
    align: u32,
    /// Elements; `None` for `[]`.
    count: Option<u32>,
}

impl Variable<'_> {
    fn bytes(&self) -> Option<u32> {
        self.count.and_then(|count| count.checked_mul(self.ty.bytes()))
    }
}

impl<'a> Parser<'a> {
    fn line(&self) -> u32 {
        self.tokens.get(self.at.min(self.tokens.len().saturating_sub(1))).map_or(1, |t| t.1)
    }

    fn error(&self, kind: ParseErrorKind) -> ParseError {
        ParseError { line: self.line(), kind }
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn next(&mut self) -> Result<Token<'a>> {
        let token = self.tokens.get(self.at).map(|t| t.0.clone());
        let token = token.ok_or_else(|| syntax(self.line(), "the text ends too early"))?;
        self.at += 1;
        Ok(token)
    }

    fn eat(&mut self, punct: char) -> bool {
        let found = self.peek() == Some(&Token::Punct(punct));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, punct: char) -> Result<()> {
        if self.eat(punct) {
            return Ok(());
        }
        Err(syntax(self.line(), &format!("expected `{punct}`, found {:?}", self.peek())))
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(syntax(self.line(), &format!("expected a name, found {other:?}"))),
        }
    }

    fn int(&mut self) -> Result<u32> {
        match self.next()? {
            Token::Int(value) if value <= u64::from(u32::MAX) => Ok(value as u32),
            other => Err(syntax(self.line(), &format!("expected an integer, found {other:?}"))),
        }
    }

    fn module(&mut self) -> Result<Module> {
        let mut kernels: Vec<Kernel> = Vec::new();
        while self.peek().is_some() {
            let line = self.line();
            match self.word()? {
                ".version" => match self.next()? {
                    Token::F64(bits) => {
                        let text = f64::from_bits(bits);
                        self.level.version = (text as u32, ((text * 10.0).round() as u32) % 10);
                    }
                    other => return Err(syntax(line, &format!("expected a version, found {other:?}"))),
                },
                ".target" => {
                    let word = self.word()?;
                    let digits = word.strip_prefix("sm_").map(|w| w.trim_end_matches(['a', 'f']));
                    let sm = digits.and_then(|d| d.parse().ok());
                    self.level.specific = word.ends_with('a');
                    self.level.sm = sm.ok_or_else(|| syntax(line, &format!("`{word}` is not a target")))?;
                }
                ".address_size" => {
                    if self.int()? != 64 {
                        return Err(syntax(line, "only 64-bit addresses are supported"));
                    }
                }
                ".visible" | ".weak" => {}
                ".extern" => {
                    if self.word()? != ".shared" {
                        return Err(syntax(line, "only shared memory can be external"));
                    }
                    let variable = self.variable()?;
                    if self.dynamic.is_some() || variable.count.is_some() {
                        return Err(syntax(line, "one unsized array of shared memory is supported"));
                    }
                    self.dynamic = Some((variable.name, variable.align));
                    self.expect(';')?;
                }
                ".const" => self.constant()?,
                ".shared" => {
                    let variable = self.variable()?;
                    self.expect(';')?;
                    let address = self.place_shared(&variable)?;
                    self.declare_global(variable.name, Symbol::Address(address))?;
                }
                ".entry" => {
                    let kernel = self.entry()?;
                    if kernels.iter().any(|k| k.name == kernel.name) {
                        return Err(ParseError { line, kind: ParseErrorKind::Name(kernel.name) });
                    }
                    kernels.push(kernel);
                }
                other => return Err(ParseError { line, kind: ParseErrorKind::Directive(other.to_owned()) }),
            }
        }
        if self.level.sm == 0 || self.level.version == (0, 0) {
            return Err(syntax(1, "a module needs .version and .target"));
        }
        let constants = Arc::new(std::mem::take(&mut self.constants));
        for kernel in &mut kernels {
            kernel.constants_bank = constants.clone();
        }
        Ok(Module { kernels })
    }

    fn declare_global(&mut self, name: &'a str, symbol: Symbol) -> Result<()> {
        match self.globals.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(self.error(ParseErrorKind::Name(name.to_owned()))),
        }
    }

    /// `.align 16 .b8 name[n]` or `.u64 name`, without what follows.
    fn variable(&mut self) -> Result<Variable<'a>> {
        let mut word = self.word()?;
        let mut align = None;
        if word == ".align" {
            let value = self.int()?;
            if !value.is_power_of_two() || value > 4096 {
                return Err(syntax(self.line(), "an alignment is a power of two, up to 4096"));
            }
            align = Some(value);
            word = self.word()?;
        }
        let ty = word.strip_prefix('.').and_then(Ty::parse);
        let ty = ty.ok_or_else(|| syntax(self.line(), &format!("`{word}` is not a type")))?;
        let mut name = self.word()?;
        if name == ".ptr" {
            // What a parameter points to, which assemblers may rely on.
            name = self.word()?;
            if matches!(name, ".global" | ".shared" | ".const" | ".local") {
                name = self.word()?;
            }
            if name == ".align" {
                self.int()?;
                name = self.word()?;
            }
        }
        let mut count = Some(1);
        if self.eat('[') {
            count = if self.peek() == Some(&Token::Punct(']')) { None } else { Some(self.int()?) };
            self.expect(']')?;
        }
        Ok(Variable { name, ty, align: align.unwrap_or(ty.bytes()).max(1), count })
    }

    /// The end of a variable, which must lie within reason.
    fn limited(&self, at: u32, bytes: u32) -> Result<u32> {
        let end = at.checked_add(bytes).filter(|&end| end <= MOST_BYTES);
        end.ok_or_else(|| syntax(self.line(), "the variables take too much memory"))
    }

    fn place_shared(&mut self, variable: &Variable<'a>) -> Result<u64> {
        let bytes = variable.bytes().ok_or_else(|| syntax(self.line(), "a variable needs a size"))?;
        let address = self.shared.next_multiple_of(variable.align);
        self.shared = self.limited(address, bytes)?;
        Ok(u64::from(address))
    }

    /// `.const` with its values.
    fn constant(&mut self) -> Result<()> {
        let variable = self.variable()?;
        let at = self.constants.len().next_multiple_of(variable.align as usize);
        self.constants.resize(at, 0);
        if self.eat('=') {
            let list = self.eat('{');
            loop {
                let negative = self.eat('-');
                let bits = match (self.next()?, variable.ty) {
                    (Token::Int(v), ty) if !ty.is_float() => {
                        if negative {
                            v.wrapping_neg()
                        } else {
                            v
                        }
                    }
                    (Token::F32(v), Ty::F32) if !negative => u64::from(v),
                    (Token::F64(v), Ty::F64) => v ^ (u64::from(negative) << 63),
                    (other, _) => return Err(syntax(self.line(), &format!("{other:?} is not a value of the type"))),
                };
                let bytes = variable.ty.bytes() as usize;
                self.constants.extend_from_slice(&bits.to_le_bytes()[..bytes]);
                if !(list && self.eat(',')) {
                    break;
                }
            }
            if list {
                self.expect('}')?;
            }
        }
        let given = self.constants.len() - at;
        let bytes = variable.bytes().map_or(given, |b| b as usize);
        if bytes > MOST_BYTES as usize {
            return Err(syntax(self.line(), "the variables take too much memory"));
        }
        if given > bytes {
            return Err(syntax(self.line(), "more values than elements"));
        }
        self.constants.resize(at + bytes, 0);
        self.expect(';')?;
        self.declare_global(variable.name, Symbol::Address(u64::from(CONST_BASE) + at as u64))
    }
}
