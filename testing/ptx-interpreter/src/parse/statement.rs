//! A statement being decoded: the cursor over its opcode's parts, and its operands as registers.

use super::Result;
use super::scope::{Operand, Scope, operand_error};
use crate::error::{ParseError, ParseErrorKind};
use crate::inst::*;

/// A statement being decoded.
pub(super) struct Statement<'s, 'a> {
    pub(super) scope: &'s mut Scope<'a>,
    pub(super) line: u32,
    pub(super) opcode: &'a str,
    pub(super) parts: Vec<&'a str>,
    at: usize,
    pub(super) operands: Vec<Operand<'a>>,
}

impl<'s, 'a> Statement<'s, 'a> {
    /// At the first part behind the opcode's name.
    pub(super) fn new(scope: &'s mut Scope<'a>, line: u32, opcode: &'a str, operands: Vec<Operand<'a>>) -> Self {
        Statement { scope, line, opcode, parts: opcode.split('.').collect(), at: 1, operands }
    }
}

impl<'a> Statement<'_, 'a> {
    // ---- the opcode's parts ----

    /// Skips `word` if it comes next.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.parts.get(self.at).copied()
    }

    /// The first part.
    pub(super) fn name(&self) -> &'a str {
        self.parts.first().copied().unwrap_or_default()
    }

    pub(super) fn skip(&mut self, parts: usize) {
        self.at += parts;
    }

    /// The last part: most instructions end in their type.
    pub(super) fn last(&self) -> &'a str {
        self.parts.last().copied().unwrap_or_default()
    }

    pub(super) fn next(&mut self) -> Result<&'a str> {
        let part = self.peek().ok_or_else(|| self.bad_modifier("(nothing)"))?;
        self.at += 1;
        Ok(part)
    }

    pub(super) fn need(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.bad_modifier(self.peek().unwrap_or("(nothing)"))) }
    }

    pub(super) fn bad_modifier(&self, modifier: &str) -> ParseError {
        let kind = ParseErrorKind::Modifier { modifier: modifier.to_owned(), opcode: self.opcode.to_owned() };
        ParseError { line: self.line, kind }
    }

    pub(super) fn bad<T>(&self) -> Result<T> {
        Err(self.bad_modifier(self.parts.get(self.at.saturating_sub(1)).copied().unwrap_or("(nothing)")))
    }

    pub(super) fn ty(&mut self) -> Result<Ty> {
        let part = self.next()?;
        Ty::parse(part).ok_or_else(|| self.bad_modifier(part))
    }

    /// A type among `allowed`.
    pub(super) fn ty_of(&mut self, allowed: &[Ty]) -> Result<Ty> {
        let ty = self.ty()?;
        if allowed.contains(&ty) { Ok(ty) } else { self.bad() }
    }

    /// All parts of the opcode must have been understood.
    pub(super) fn done(&self) -> Result<()> {
        match self.peek() {
            Some(part) => Err(self.bad_modifier(part)),
            None => Ok(()),
        }
    }

    /// States what the instruction needs.
    pub(super) fn needs(&self, version: (u32, u32), sm: u32) -> Result<()> {
        let level = self.scope.level;
        if level.version >= version && level.sm >= sm {
            return Ok(());
        }
        let needs = format!("PTX ISA {}.{} and sm_{sm}", version.0, version.1);
        Err(ParseError { line: self.line, kind: ParseErrorKind::TooOld { opcode: self.opcode.to_owned(), needs } })
    }

    /// The same for what only `sm_90a` and its like have.
    pub(super) fn needs_specific(&self, version: (u32, u32), sm: u32) -> Result<()> {
        let level = self.scope.level;
        if level.specific && level.sm == sm && level.version >= version {
            return Ok(());
        }
        let needs = format!("PTX ISA {}.{} and sm_{sm}a", version.0, version.1);
        Err(ParseError { line: self.line, kind: ParseErrorKind::TooOld { opcode: self.opcode.to_owned(), needs } })
    }

    // ---- operands ----

    /// Exactly `N` operands.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[Operand<'a>; N]> {
        let found = self.operands.len();
        std::mem::take(&mut self.operands)
            .try_into()
            .map_err(|_| operand_error(self.line, format!("{N} operands are needed, {found} given")))
    }

    pub(super) fn dst(&mut self, class: Class, operand: &Operand<'a>) -> Result<Slot> {
        match operand {
            Operand::Name("_") => Ok(NONE),
            Operand::Name(name) => self.scope.register_of(class, name, self.line),
            other => Err(operand_error(self.line, format!("{other:?} is not a register"))),
        }
    }

    pub(super) fn src(&mut self, ty: Ty, operand: &Operand<'a>) -> Result<Slot> {
        self.scope.source(ty, operand, self.line)
    }

    /// A register as wide as the type or wider (as loads, stores and conversions take), or a constant.
    pub(super) fn relaxed_src(&mut self, ty: Ty, operand: &Operand<'a>) -> Result<(Class, Slot)> {
        if let Operand::Name(name) = operand
            && let (class, slot) = self.scope.register(name, self.line)?
            && class != Class::Pred
            && class >= ty.class()
        {
            return Ok((class, slot));
        }
        Ok((ty.class(), self.src(ty, operand)?))
    }

    /// The same for a destination.
    pub(super) fn relaxed_dst(&mut self, ty: Ty, operand: &Operand<'a>) -> Result<(Class, Slot)> {
        if let Operand::Name(name) = operand
            && *name != "_"
            && let (class, slot) = self.scope.register(name, self.line)?
            && class != Class::Pred
            && class >= ty.class()
        {
            return Ok((class, slot));
        }
        Ok((ty.class(), self.dst(ty.class(), operand)?))
    }

    /// A predicate, perhaps negated.
    pub(super) fn pred(&mut self, operand: &Operand<'a>) -> Result<(Slot, bool)> {
        match operand {
            Operand::Not(name) => Ok((self.scope.register_of(Class::Pred, name, self.line)?, true)),
            other => Ok((self.src(Ty::Pred, other)?, false)),
        }
    }

    /// `d` or `d|p`: `d` of `class`, `p` a predicate.
    pub(super) fn dst_pair(&mut self, class: Class, operand: &Operand<'a>) -> Result<(Slot, Slot)> {
        match operand {
            Operand::Pair(d, p) => {
                let d = self.dst(class, &Operand::Name(d))?;
                Ok((d, self.dst(Class::Pred, &Operand::Name(p))?))
            }
            other => Ok((self.dst(class, other)?, NONE)),
        }
    }
}
