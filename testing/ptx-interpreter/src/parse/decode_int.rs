//! Integer arithmetic (PTX ISA 9.7.1), logic and shift (9.7.8).

use super::Result;
use super::statement::Statement;
use crate::inst::*;

const ALL: &[Ty] = &[Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];
const WIDE: &[Ty] = &[Ty::U32, Ty::S32, Ty::U64, Ty::S64];
const HALF_AND_WORD: &[Ty] = &[Ty::U16, Ty::S16, Ty::U32, Ty::S32];
const SIGNED: &[Ty] = &[Ty::S16, Ty::S32, Ty::S64];
const BITS: &[Ty] = &[Ty::B16, Ty::B32, Ty::B64];
const WIDE_BITS: &[Ty] = &[Ty::B32, Ty::B64];
const SHIFTED: &[Ty] = &[Ty::B16, Ty::B32, Ty::B64, Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Option<Op>> {
    use IntOp::*;
    Ok(Some(match name {
        "neg" => unary(s, Neg, SIGNED)?,
        "abs" => unary(s, Abs, SIGNED)?,
        "not" => unary(s, Not, BITS)?,
        "popc" => unary(s, Popc, WIDE_BITS)?,
        "clz" => unary(s, Clz, WIDE_BITS)?,
        "brev" => unary(s, Brev, WIDE_BITS)?,
        "bfind" => {
            let op = if s.eat("shiftamt") { BfindShift } else { Bfind };
            unary(s, op, WIDE)?
        }
        "add" | "sub" => {
            let sat = s.eat("sat");
            let op = match (name, sat) {
                ("add", false) => Add,
                ("add", true) => AddSat,
                (_, false) => Sub,
                (_, true) => SubSat,
            };
            binary(s, op, if sat { &[Ty::S32] } else { ALL })?
        }
        "mul" | "mad" => {
            let op = match (name, s.next()?) {
                ("mul", "lo") => Mul,
                ("mul", "hi") => MulHi,
                ("mul", "wide") => MulWide,
                ("mad", "lo") => Mad,
                ("mad", "hi") => MadHi,
                ("mad", "wide") => MadWide,
                _ => return s.bad(),
            };
            match op {
                Mul | MulHi => binary(s, op, ALL)?,
                MulWide => binary(s, op, HALF_AND_WORD)?,
                Mad | MadHi => ternary(s, op, ALL)?,
                _ => ternary(s, op, HALF_AND_WORD)?,
            }
        }
        "sad" => ternary(s, Sad, ALL)?,
        "div" => binary(s, Div, ALL)?,
        "rem" => binary(s, Rem, ALL)?,
        "min" => binary(s, Min, ALL)?,
        "max" => binary(s, Max, ALL)?,
        "and" => binary(s, And, BITS)?,
        "or" => binary(s, Or, BITS)?,
        "xor" => binary(s, Xor, BITS)?,
        "shl" => binary(s, Shl, BITS)?,
        "shr" => binary(s, Shr, SHIFTED)?,
        "bfe" => ternary(s, Bfe, WIDE)?,
        "bfi" => {
            let ty = s.ty_of(WIDE_BITS)?;
            let [d, a, b, c, e] = s.take()?;
            let (c, e) = (s.src(Ty::U32, &c)?, s.src(Ty::U32, &e)?);
            let wide = ty == Ty::B64;
            Op::Bfi { wide, d: s.dst(ty.class(), &d)?, a: s.src(ty, &a)?, b: s.src(ty, &b)?, c, e }
        }
        "prmt" => {
            s.need("b32")?;
            word(s, WordOp::Prmt)?
        }
        "shf" => {
            let left = match s.next()? {
                "l" => true,
                "r" => false,
                _ => return s.bad(),
            };
            let clamp = match s.next()? {
                "clamp" => true,
                "wrap" => false,
                _ => return s.bad(),
            };
            s.need("b32")?;
            word(s, if left { WordOp::ShfL { clamp } } else { WordOp::ShfR { clamp } })?
        }
        "lop3" => {
            s.need("b32")?;
            let [d, a, b, c, table] = s.take()?;
            let super::scope::Operand::Int { bits: table @ 0..=255, .. } = table else {
                return Err(super::scope::operand_error(s.line, "lop3 needs a table of 8 bits"));
            };
            s.operands = vec![d, a, b, c];
            word(s, WordOp::Lop3(table as u8))?
        }
        "dp4a" => {
            let mut signed = [false; 2];
            for part in &mut signed {
                *part = s.ty_of(&[Ty::U32, Ty::S32])?.is_signed();
            }
            word(s, WordOp::Dp4a { signed })?
        }
        _ => return Ok(None),
    }))
}

fn unary(s: &mut Statement<'_, '_>, op: IntOp, allowed: &[Ty]) -> Result<Op> {
    let ty = s.ty_of(allowed)?;
    let class = ty.class();
    let to = match op {
        IntOp::Popc | IntOp::Clz | IntOp::Bfind | IntOp::BfindShift => Class::Word,
        _ => class,
    };
    let [d, a] = s.take()?;
    let a = s.src(ty, &a)?;
    Ok(Op::Int { op, class, signed: ty.is_signed(), d: s.dst(to, &d)?, a, b: NONE, c: NONE })
}

fn binary(s: &mut Statement<'_, '_>, op: IntOp, allowed: &[Ty]) -> Result<Op> {
    let ty = s.ty_of(allowed)?;
    let class = ty.class();
    let [d, a, b] = s.take()?;
    let b_ty = if matches!(op, IntOp::Shl | IntOp::Shr) { Ty::U32 } else { ty };
    let to = if op == IntOp::MulWide { twice(ty).class() } else { class };
    let (a, b) = (s.src(ty, &a)?, s.src(b_ty, &b)?);
    Ok(Op::Int { op, class, signed: ty.is_signed(), d: s.dst(to, &d)?, a, b, c: NONE })
}

fn ternary(s: &mut Statement<'_, '_>, op: IntOp, allowed: &[Ty]) -> Result<Op> {
    let ty = s.ty_of(allowed)?;
    let class = ty.class();
    let [d, a, b, c] = s.take()?;
    let (b_ty, c_ty) = match op {
        IntOp::Bfe => (Ty::U32, Ty::U32),
        IntOp::MadWide => (ty, twice(ty)),
        IntOp::Sad if ty.is_signed() => (ty, unsigned(ty)),
        _ => (ty, ty),
    };
    let to = if op == IntOp::MadWide { c_ty.class() } else { class };
    let (a, b, c) = (s.src(ty, &a)?, s.src(b_ty, &b)?, s.src(c_ty, &c)?);
    Ok(Op::Int { op, class, signed: ty.is_signed(), d: s.dst(to, &d)?, a, b, c })
}

fn word(s: &mut Statement<'_, '_>, op: WordOp) -> Result<Op> {
    let [d, a, b, c] = s.take()?;
    let (a, b, c) = (s.src(Ty::B32, &a)?, s.src(Ty::B32, &b)?, s.src(Ty::B32, &c)?);
    Ok(Op::Word { op, d: s.dst(Class::Word, &d)?, a, b, c })
}

fn twice(ty: Ty) -> Ty {
    match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        _ => Ty::S64,
    }
}

fn unsigned(ty: Ty) -> Ty {
    match ty {
        Ty::S16 => Ty::U16,
        Ty::S32 => Ty::U32,
        _ => Ty::U64,
    }
}
