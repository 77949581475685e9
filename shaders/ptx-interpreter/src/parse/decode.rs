//! One statement to one decoded instruction: the cursor over an opcode's parts, and the families that share no file.

use super::scope::{Operand, Scope, operand_error};
use super::{Result, decode_float, decode_int, decode_memory, decode_warp};
use crate::error::{ParseError, ParseErrorKind};
use crate::inst::*;

/// A statement being decoded.
pub(super) struct Statement<'s, 'a> {
    pub(super) scope: &'s mut Scope<'a>,
    pub(super) line: u32,
    pub(super) opcode: &'a str,
    parts: Vec<&'a str>,
    at: usize,
    pub(super) operands: Vec<Operand<'a>>,
}

/// Decodes one statement into `scope`.
pub(super) fn decode<'a>(
    scope: &mut Scope<'a>,
    line: u32,
    guard: Option<(&'a str, bool)>,
    opcode: &'a str,
    operands: Vec<Operand<'a>>,
) -> Result<()> {
    let guard = match guard {
        Some((name, negated)) => Some(Guard { p: scope.register_of(Class::Pred, name, line)?, negated }),
        None => None,
    };
    let mut statement = Statement { scope, line, opcode, parts: opcode.split('.').collect(), at: 1, operands };
    let op = statement.op()?;
    statement.done()?;
    if let Op::Bra { .. } = op {
        let Some(Operand::Name(label)) = statement.operands.first().cloned() else {
            return Err(operand_error(line, "a branch needs a label"));
        };
        scope.branch(label);
    }
    scope.push(guard, op, line);
    Ok(())
}

impl<'a> Statement<'_, 'a> {
    fn op(&mut self) -> Result<Op> {
        let name = self.parts[0];
        match name {
            "mov" => self.mov(),
            "selp" => self.selp(),
            "setp" => self.setp(),
            "cvt" => self.cvt(),
            "cvta" => {
                // Global addresses are generic addresses here.
                self.eat("to");
                self.need("global")?;
                self.need("u64")?;
                let [d, a] = self.take()?;
                Ok(Op::Mov { class: Class::Double, d: self.dst(Class::Double, &d)?, a: self.src(Ty::U64, &a)? })
            }
            "and" | "or" | "xor" | "not" if self.parts.get(1) == Some(&"pred") => self.logic(),
            "ld" | "ldu" | "st" | "atom" | "red" => decode_memory::decode(self, name),
            "bar" | "barrier" | "membar" | "fence" | "shfl" | "vote" | "redux" | "match" | "activemask" | "elect"
            | "wmma" => decode_warp::decode(self, name),
            "bra" => {
                self.eat("uni");
                if self.operands.len() != 1 {
                    return Err(operand_error(self.line, "a branch takes one label"));
                }
                Ok(Op::Bra { target: NONE, join: NONE })
            }
            "ret" | "exit" => {
                self.eat("uni");
                let [] = self.take()?;
                Ok(Op::Exit)
            }
            "trap" => {
                let [] = self.take()?;
                Ok(Op::Trap)
            }
            _ => {
                if let Some(op) = decode_float::decode(self, name)? {
                    return Ok(op);
                }
                if let Some(op) = decode_int::decode(self, name)? {
                    return Ok(op);
                }
                let kind = ParseErrorKind::Instruction(self.opcode.to_owned());
                Err(ParseError { line: self.line, kind })
            }
        }
    }

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
    fn done(&self) -> Result<()> {
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

    // ---- families ----

    fn mov(&mut self) -> Result<Op> {
        let ty = self.ty()?;
        if matches!(ty, Ty::B8 | Ty::U8 | Ty::S8 | Ty::F16 | Ty::F16x2 | Ty::Bf16) {
            return self.bad();
        }
        let class = ty.class();
        let [d, a] = self.take()?;
        let part_of = |count: usize| match (class, count) {
            (Class::Word, 2) => Some(Class::Half),
            (Class::Double, 2) => Some(Class::Word),
            (Class::Double, 4) => Some(Class::Half),
            _ => None,
        };
        let wrong = operand_error(self.line, "a vector of this length does not fit the type");
        if let Operand::List(items) = &a {
            let part = part_of(items.len()).ok_or(wrong)?;
            let mut parts = [NONE; 4];
            for (slot, item) in parts.iter_mut().zip(items) {
                *slot = self.src(bits_of(part), item)?;
            }
            return Ok(Op::Pack { part, d: self.dst(class, &d)?, parts });
        }
        if let Operand::List(items) = &d {
            let part = part_of(items.len()).ok_or(wrong)?;
            let mut parts = [NONE; 4];
            for (slot, item) in parts.iter_mut().zip(items) {
                *slot = self.dst(part, item)?;
            }
            return Ok(Op::Unpack { part, parts, a: self.src(ty, &a)? });
        }
        let d = self.dst(class, &d)?;
        if let Operand::Name(name) = a {
            if class == Class::Word
                && let Some(a) = self.scope.special(name)
            {
                return Ok(Op::Mov { class, d, a });
            }
            if name != "WARP_SZ"
                && class >= Class::Word
                && let Some(a) = self.scope.variable_address(class, name, self.line)?
            {
                return Ok(Op::Mov { class, d, a });
            }
        }
        let a = self.src(ty, &a)?;
        if class == Class::Pred {
            return Ok(Op::Logic { op: Logic::Mov, d, a, b: a });
        }
        Ok(Op::Mov { class, d, a })
    }

    fn selp(&mut self) -> Result<Op> {
        let ty = self.ty()?;
        if ty.bytes() == 1 || matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16) {
            return self.bad();
        }
        let [d, a, b, p] = self.take()?;
        let (p, negated) = self.pred(&p)?;
        let class = ty.class();
        Ok(Op::Selp { class, d: self.dst(class, &d)?, a: self.src(ty, &a)?, b: self.src(ty, &b)?, p, negated })
    }

    fn logic(&mut self) -> Result<Op> {
        let op = match self.parts[0] {
            "and" => Logic::And,
            "or" => Logic::Or,
            "xor" => Logic::Xor,
            _ => Logic::Not,
        };
        self.need("pred")?;
        if op == Logic::Not {
            let [d, a] = self.take()?;
            let a = self.src(Ty::Pred, &a)?;
            return Ok(Op::Logic { op, d: self.dst(Class::Pred, &d)?, a, b: a });
        }
        let [d, a, b] = self.take()?;
        Ok(Op::Logic { op, d: self.dst(Class::Pred, &d)?, a: self.src(Ty::Pred, &a)?, b: self.src(Ty::Pred, &b)? })
    }

    fn setp(&mut self) -> Result<Op> {
        let cmp = match self.next()? {
            "eq" => Cmp::Eq,
            "ne" => Cmp::Ne,
            "lt" | "lo" => Cmp::Lt,
            "le" | "ls" => Cmp::Le,
            "gt" | "hi" => Cmp::Gt,
            "ge" | "hs" => Cmp::Ge,
            "equ" => Cmp::Equ,
            "neu" => Cmp::Neu,
            "ltu" => Cmp::Ltu,
            "leu" => Cmp::Leu,
            "gtu" => Cmp::Gtu,
            "geu" => Cmp::Geu,
            "num" => Cmp::Num,
            "nan" => Cmp::Nan,
            _ => return self.bad(),
        };
        let combine = if self.eat("and") {
            Some(Logic::And)
        } else if self.eat("or") {
            Some(Logic::Or)
        } else if self.eat("xor") {
            Some(Logic::Xor)
        } else {
            None
        };
        let ftz = self.eat("ftz");
        let ty = self.ty()?;
        let ordered_only = matches!(cmp, Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
        let allowed = match ty {
            Ty::F16 | Ty::F32 | Ty::F64 => true,
            Ty::B16 | Ty::B32 | Ty::B64 => matches!(cmp, Cmp::Eq | Cmp::Ne),
            ty => ty.is_integer() && ty.bytes() > 1 && ordered_only,
        };
        if !allowed || (ftz && !matches!(ty, Ty::F16 | Ty::F32)) {
            return self.bad();
        }
        let (dst, a, b, with) = match combine {
            None => {
                let [d, a, b] = self.take()?;
                (d, a, b, None)
            }
            Some(logic) => {
                let [d, a, b, c] = self.take()?;
                let (c, negated) = self.pred(&c)?;
                (d, a, b, Some((logic, c, negated)))
            }
        };
        let (d, inverse) = self.dst_pair(Class::Pred, &dst)?;
        Ok(Op::Setp { cmp, ty, ftz, d, inverse, a: self.src(ty, &a)?, b: self.src(ty, &b)?, with })
    }

    fn cvt(&mut self) -> Result<Op> {
        let round = match self.peek() {
            Some("rn") => Round::Rn,
            Some("rz") => Round::Rz,
            Some("rm") => Round::Rm,
            Some("rp") => Round::Rp,
            Some("rni") => Round::Rni,
            Some("rzi") => Round::Rzi,
            Some("rmi") => Round::Rmi,
            Some("rpi") => Round::Rpi,
            _ => Round::Exact,
        };
        self.at += usize::from(round != Round::Exact);
        let ftz = self.eat("ftz");
        let relu = self.eat("relu");
        let sat = self.eat("sat");
        let to = self.ty()?;
        if to == Ty::F16x2 {
            if !matches!(round, Round::Rn | Round::Rz) || ftz {
                return self.bad();
            }
            self.needs((7, 0), 80)?;
            self.need("f32")?;
            let [d, a, b] = self.take()?;
            let (a, b) = (self.src(Ty::F32, &a)?, self.src(Ty::F32, &b)?);
            return Ok(Op::CvtPack { round, relu, sat, d: self.dst(Class::Word, &d)?, a, b });
        }
        let from = self.ty()?;
        let integer_round = matches!(round, Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi);
        let float_round = round != Round::Exact && !integer_round;
        let valid = |ty: Ty| ty.is_integer() || matches!(ty, Ty::F16 | Ty::F32 | Ty::F64);
        let rounding_fits = match (from.is_float(), to.is_float()) {
            (false, false) => round == Round::Exact,
            (true, false) => integer_round,
            (false, true) => float_round,
            (true, true) if to.bytes() < from.bytes() => float_round,
            (true, true) if to.bytes() > from.bytes() => round == Round::Exact,
            (true, true) => round == Round::Exact || integer_round,
        };
        let ftz_fits = !ftz || to == Ty::F32 || from == Ty::F32;
        if !valid(to) || !valid(from) || !rounding_fits || !ftz_fits || relu {
            return self.bad();
        }
        let [d, a] = self.take()?;
        let (to_class, d) = self.relaxed_dst(to, &d)?;
        let (from_class, a) = self.relaxed_src(from, &a)?;
        Ok(Op::Cvt { convert: Convert { to, from, round, sat, ftz }, to: to_class, from: from_class, d, a })
    }
}

/// The untyped bits of a class.
pub(super) fn bits_of(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::Half => Ty::B16,
        Class::Word => Ty::B32,
        Class::Double => Ty::B64,
    }
}
