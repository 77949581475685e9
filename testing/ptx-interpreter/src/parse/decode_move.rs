//! Moves, selections, comparisons and conversions (PTX ISA 9.7.6, 9.7.9), and logic on predicates.

use super::Result;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::inst::*;

impl<'a> Statement<'_, 'a> {
    pub(super) fn mov(&mut self) -> Result<Op> {
        let ty = self.ty()?;
        if ty.bytes() == 1 && ty != Ty::Pred || ty.is_packed_or_small_float() {
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
        if let Operand::Name(name) = a
            && class == Class::Word
            && let Some(a) = self.scope.special(name)
        {
            return Ok(Op::Mov { class, d, a });
        }
        let a = self.value_or_address(ty, &a)?;
        if class == Class::Pred {
            return Ok(Op::Logic { op: Logic::Mov, d, a, b: a });
        }
        Ok(Op::Mov { class, d, a })
    }

    /// A value, or the address of the variable of that name.
    pub(super) fn value_or_address(&mut self, ty: Ty, operand: &Operand<'a>) -> Result<Slot> {
        if let Operand::Name(name) = *operand
            && name != "WARP_SZ"
            && ty.class() >= Class::Word
            && let Some(address) = self.scope.variable_address(ty.class(), name, self.line)?
        {
            return Ok(address);
        }
        self.scope.source(ty, operand, self.line)
    }

    /// Global addresses and those of parameters are generic addresses here; no other space has any.
    pub(super) fn cvta(&mut self) -> Result<Op> {
        self.eat("to");
        if !self.eat("param") {
            self.need("global")?;
        }
        self.need("u64")?;
        let [d, a] = self.take()?;
        Ok(Op::Mov { class: Class::Double, d: self.dst(Class::Double, &d)?, a: self.value_or_address(Ty::U64, &a)? })
    }

    pub(super) fn selp(&mut self) -> Result<Op> {
        let ty = self.ty()?;
        if ty.bytes() == 1 || ty.is_packed_or_small_float() {
            return self.bad();
        }
        let [d, a, b, p] = self.take()?;
        let (p, negated) = self.pred(&p)?;
        let class = ty.class();
        Ok(Op::Selp { class, d: self.dst(class, &d)?, a: self.src(ty, &a)?, b: self.src(ty, &b)?, p, negated })
    }

    pub(super) fn logic(&mut self) -> Result<Op> {
        let op = match self.name() {
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

    pub(super) fn setp(&mut self) -> Result<Op> {
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

    pub(super) fn cvt(&mut self) -> Result<Op> {
        let round = match self.peek() {
            Some("rn") => Round::Rn,
            Some("rz") => Round::Rz,
            Some("rm") => Round::Rm,
            Some("rp") => Round::Rp,
            Some("rni") => Round::Rni,
            Some("rzi") => Round::Rzi,
            Some("rmi") => Round::Rmi,
            Some("rpi") => Round::Rpi,
            Some("rna") => Round::Rna,
            _ => Round::Exact,
        };
        self.skip(usize::from(round != Round::Exact));
        let ftz = self.eat("ftz");
        let relu = self.eat("relu");
        let sat = self.eat("sat") || self.eat("satfinite");
        let to = self.ty()?;
        if matches!(to, Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2) && self.peek() == Some("f32") {
            let byte_floats = to.bytes() == 2;
            let rounds = if byte_floats { round == Round::Rn && sat } else { matches!(round, Round::Rn | Round::Rz) };
            if !rounds || ftz || (to == Ty::Bf16x2 && sat) {
                return self.bad();
            }
            self.needs(if byte_floats { (8, 1) } else { (7, 0) }, if byte_floats { 89 } else { 80 })?;
            self.need("f32")?;
            let [d, a, b] = self.take()?;
            let (a, b) = (self.src(Ty::F32, &a)?, self.src(Ty::F32, &b)?);
            return Ok(Op::CvtPack { to, round, relu, sat, d: self.dst(to.class(), &d)?, a, b });
        }
        let from = self.ty()?;
        if let Some(op) = self.cvt_small(Convert { to, from, round, sat, ftz }, relu)? {
            return Ok(op);
        }
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
        if !valid(to) || !valid(from) || !rounding_fits || !ftz_fits || relu || round == Round::Rna {
            return self.bad();
        }
        let [d, a] = self.take()?;
        let (to_class, d) = self.relaxed_dst(to, &d)?;
        let (from_class, a) = self.relaxed_src(from, &a)?;
        Ok(Op::Cvt { convert: Convert { to, from, round, sat, ftz }, to: to_class, from: from_class, d, a })
    }

    /// Conversions of the floats that only tensor cores calculate with; `None` for all others.
    fn cvt_small(&mut self, convert: Convert, relu: bool) -> Result<Option<Op>> {
        let Convert { to, from, round, sat, ftz } = convert;
        let (needs, rounds) = match (to, from) {
            (Ty::Tf32, Ty::F32) => (((7, 0), 80), matches!(round, Round::Rna | Round::Rn)),
            (Ty::Bf16, Ty::F32) => (((7, 0), 80), matches!(round, Round::Rn | Round::Rz)),
            (Ty::F32, Ty::Bf16) => (((7, 1), 90), round == Round::Exact),
            (Ty::F16x2, Ty::E4m3x2 | Ty::E5m2x2) => (((8, 1), 89), round == Round::Rn),
            _ => return Ok(None),
        };
        if !rounds || sat || ftz || relu {
            return self.bad();
        }
        self.needs(needs.0, needs.1)?;
        let [d, a] = self.take()?;
        let (d, a) = (self.dst(to.class(), &d)?, self.src(from, &a)?);
        Ok(Some(Op::Cvt { convert, to: to.class(), from: from.class(), d, a }))
    }
}

/// The untyped bits of a class.
fn bits_of(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::Half => Ty::B16,
        Class::Word => Ty::B32,
        Class::Double => Ty::B64,
    }
}
