//! A kernel: its parameters, its declarations, and its statements up to their operands.

use std::sync::Arc;

use super::lex::{Token, syntax};
use super::scope::{Operand, Scope, Symbol};
use super::{Parser, Result, decode};
use crate::error::{ParseError, ParseErrorKind};
use crate::inst::{Class, Op, Ty};
use crate::kernel::{Kernel, LOCAL_BASE, Param, SHARED_BASE};

impl<'a> Parser<'a> {
    pub(super) fn entry(&mut self) -> Result<Kernel> {
        let name = self.word()?.to_owned();
        let mut scope = Scope::new(self.level);
        let mut params: Vec<Param> = Vec::new();
        let mut param_bytes = 0_u32;
        if self.eat('(') && !self.eat(')') {
            loop {
                if self.word()? != ".param" {
                    return Err(syntax(self.line(), "expected .param"));
                }
                let variable = self.variable()?;
                let bytes = variable.bytes().ok_or_else(|| syntax(self.line(), "a parameter needs a size"))?;
                let offset = param_bytes.next_multiple_of(variable.align);
                param_bytes = self.limited(offset, bytes)?;
                scope.declare(variable.name, Symbol::Param(offset), self.line())?;
                params.push(Param { name: variable.name.to_owned(), offset, bytes, align: variable.align });
                if !self.eat(',') {
                    self.expect(')')?;
                    break;
                }
            }
        }
        let mut required = None;
        let mut at_most = None;
        let mut cluster = [1; 3];
        while let Some(&Token::Word(word)) = self.peek() {
            self.at += 1;
            if word == ".explicitcluster" {
                continue;
            }
            let mut values = [1; 3];
            values[0] = self.int()?;
            for value in &mut values[1..] {
                if self.eat(',') {
                    *value = self.int()?;
                }
            }
            match word {
                ".reqntid" => required = Some(values),
                ".maxntid" => at_most = Some(values),
                ".reqnctapercluster" => cluster = values,
                ".minnctapersm" | ".maxnreg" => {}
                other => return Err(self.error(ParseErrorKind::Directive(other.to_owned()))),
            }
        }
        for (&name, &symbol) in &self.globals {
            scope.declare(name, symbol, self.line())?;
        }
        let module_shared = self.shared;
        // The dynamic array lies behind all static ones, whose sizes are known only at the end of the body.
        if let Some((name, _)) = self.dynamic {
            scope.declare(name, Symbol::Dynamic, self.line())?;
        }
        self.expect('{')?;
        let mut local_bytes = 0_u32;
        loop {
            let line = self.line();
            match self.peek() {
                Some(Token::Punct('}')) => {
                    self.at += 1;
                    if !scope.close_braces() {
                        break;
                    }
                }
                Some(Token::Punct('{')) => {
                    self.at += 1;
                    scope.open_braces();
                }
                Some(&Token::Word(word)) if word.starts_with('.') => {
                    self.at += 1;
                    match word {
                        ".reg" => self.registers(&mut scope)?,
                        ".shared" => {
                            let variable = self.variable()?;
                            let address = self.place_shared(&variable)?;
                            scope.declare(variable.name, Symbol::Address(address), line)?;
                        }
                        ".local" => {
                            let variable = self.variable()?;
                            let bytes = variable.bytes().ok_or_else(|| syntax(line, "a variable needs a size"))?;
                            let at = local_bytes.next_multiple_of(variable.align);
                            local_bytes = self.limited(at, bytes)?;
                            scope.declare(variable.name, Symbol::Address(u64::from(LOCAL_BASE + at)), line)?;
                        }
                        ".pragma" => {
                            self.next()?;
                        }
                        other => return Err(ParseError { line, kind: ParseErrorKind::Directive(other.to_owned()) }),
                    }
                    self.expect(';')?;
                }
                Some(&Token::Word(word)) if self.tokens.get(self.at + 1).map(|t| &t.0) == Some(&Token::Punct(':')) => {
                    self.at += 2;
                    scope.label(word, line)?;
                }
                _ => self.statement(&mut scope)?,
            }
        }
        let shared = std::mem::replace(&mut self.shared, module_shared);
        let dynamic_base = shared.next_multiple_of(self.dynamic.map_or(1, |d| d.1.max(16)));
        let uses_dynamic = scope.uses_dynamic();
        let body = scope.finish(self.line())?;
        Ok(Kernel {
            name,
            params,
            param_bytes,
            required,
            at_most,
            cluster,
            rows: body.rows,
            immediates: body.immediates,
            specials: body.specials,
            static_shared_bytes: shared - SHARED_BASE,
            dynamic_base,
            uses_dynamic,
            local_bytes,
            uses_nc: body.uses_nc,
            uses_async: body.uses_async,
            waits_for_grid: body.code.iter().any(|inst| inst.op == Op::WaitForGrid),
            code: body.code,
            constants_bank: Arc::default(),
            lines: self.lines.clone(),
        })
    }

    /// `.b32 %r<10>`, `.pred p, q`.
    fn registers(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        let line = self.line();
        let word = self.word()?;
        let ty = word.strip_prefix('.').and_then(Ty::parse);
        let ty = ty.ok_or_else(|| syntax(line, &format!("`{word}` is not a type")))?;
        if ty.bytes() == 1 && ty != Ty::Pred {
            return Err(syntax(line, "registers of 8 bits do not exist"));
        }
        let class: Class = ty.class();
        loop {
            let name = self.word()?;
            if self.eat('<') {
                let count = self.int()?;
                self.expect('>')?;
                scope.declare_range(name, class, count, line)?;
            } else {
                scope.declare_register(name, class, line)?;
            }
            if !self.eat(',') {
                return Ok(());
            }
        }
    }

    /// An instruction, up to its semicolon.
    fn statement(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        let line = self.line();
        let mut guard = None;
        if self.eat('@') {
            let negated = self.eat('!');
            guard = Some((self.word()?, negated));
        }
        let opcode = self.word()?;
        let mut operands = Vec::new();
        if !self.eat(';') {
            loop {
                operands.push(self.operand()?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        decode::decode(scope, line, guard, opcode, operands)
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        if self.eat('{') {
            let mut items = Vec::new();
            loop {
                items.push(self.simple_operand()?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect('}')?;
            return Ok(Operand::List(items));
        }
        if self.eat('[') {
            let base = Operand::Name(self.word()?);
            if self.eat(',') {
                // A tensor map and where its box starts.
                let Operand::List(coordinates) = self.operand()? else {
                    return Err(syntax(self.line(), "expected coordinates in braces"));
                };
                self.expect(']')?;
                return Ok(Operand::Tensor(Box::new(base), coordinates));
            }
            let mut offset = 0_i64;
            if self.eat('+') {
                let negative = self.eat('-');
                let Token::Int(value) = self.next()? else {
                    return Err(syntax(self.line(), "expected an offset"));
                };
                offset = if negative { (value as i64).wrapping_neg() } else { value as i64 };
            }
            self.expect(']')?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        self.simple_operand()
    }

    /// An operand without parts.
    fn simple_operand(&mut self) -> Result<Operand<'a>> {
        if self.eat('!') {
            return Ok(Operand::Not(self.word()?));
        }
        let negative = self.eat('-');
        let operand = match self.next()? {
            Token::Word(name) if !negative => {
                if self.eat('|') {
                    return Ok(Operand::Pair(name, self.word()?));
                }
                Operand::Name(name)
            }
            Token::Int(value) => Operand::Int { bits: if negative { value.wrapping_neg() } else { value }, negative },
            Token::F32(bits) if !negative => Operand::F32(bits),
            Token::F64(bits) => Operand::F64(bits ^ (u64::from(negative) << 63)),
            other => return Err(syntax(self.line(), &format!("expected an operand, found {other:?}"))),
        };
        Ok(operand)
    }
}
