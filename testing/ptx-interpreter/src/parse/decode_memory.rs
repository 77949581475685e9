//! Loads, stores and atomics (PTX ISA 9.7.9, 9.7.13). Cache hints are read and have no effect.

use super::Result;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::inst::*;

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    match name {
        "ld" => access(s, true),
        "st" => access(s, false),
        "atom" => atom(s, true),
        "red" => atom(s, false),
        _ => s.bad(),
    }
}

/// `.relaxed.gpu` and its like.
fn semantics(s: &mut Statement<'_, '_>, words: &[&str]) -> Result<bool> {
    let Some(word) = s.peek().filter(|w| words.contains(w)) else {
        return Ok(false);
    };
    s.need(word)?;
    scope(s)?;
    Ok(true)
}

fn scope(s: &mut Statement<'_, '_>) -> Result<()> {
    match s.next()? {
        "cta" | "cluster" | "gpu" | "sys" => Ok(()),
        _ => s.bad(),
    }
}

fn space(s: &mut Statement<'_, '_>) -> Result<Space> {
    Ok(match s.next()? {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "shared::cluster" => Space::Cluster,
        "local" => Space::Local,
        "param" => Space::Param,
        "const" => Space::Const,
        _ => return s.bad(),
    })
}

fn cache_hints(s: &mut Statement<'_, '_>) {
    const HINTS: &[&str] = &[
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::64B",
        "L2::128B",
        "L2::256B",
    ];
    while s.peek().is_some_and(|word| HINTS.contains(&word)) {
        let _ = s.next();
    }
}

fn access(s: &mut Statement<'_, '_>, load: bool) -> Result<Op> {
    let mut strength = Strength::Weak;
    if s.eat("volatile") {
        strength = Strength::Strong;
    } else if semantics(s, if load { &["relaxed", "acquire"] } else { &["relaxed", "release"] })? {
        s.needs((6, 0), 70)?;
        strength = Strength::Strong;
    } else {
        s.eat("weak");
    }
    let mut space = space(s)?;
    cache_hints(s);
    if s.eat("nc") {
        if !load || space != Space::Global || strength == Strength::Strong {
            return s.bad();
        }
        space = Space::NonCoherent;
        s.scope.uses_nc = true;
        cache_hints(s);
    }
    let count = match s.peek() {
        Some("v2") => 2,
        Some("v4") => 4,
        _ => 1,
    };
    if count > 1 {
        s.next()?;
    }
    let ty = s.ty()?;
    let too_wide = count * ty.bytes() > 16;
    let no_store = !load && matches!(space, Space::Param | Space::Const);
    if too_wide || no_store || ty == Ty::Pred || ty.is_packed_or_small_float() {
        return s.bad();
    }
    let [first, second] = s.take()?;
    let (address, values) = if load { (second, first) } else { (first, second) };
    let address = s.scope.address(space == Space::Param, &address, s.line)?;
    let values = match values {
        Operand::List(items) => items,
        single => vec![single],
    };
    if values.len() != count as usize {
        return Err(operand_error(s.line, format!("{count} registers are needed, {} given", values.len())));
    }
    let mut slots = [NONE; 4];
    let mut class = None;
    for (slot, value) in slots.iter_mut().zip(&values) {
        let found = if load { s.relaxed_dst(ty, value)? } else { s.relaxed_src(ty, value)? };
        *slot = found.1;
        if found.1 != NONE && class.is_some_and(|c| c != found.0) {
            return Err(operand_error(s.line, "the registers of a vector have one width"));
        }
        if found.1 != NONE {
            class = Some(found.0);
        }
    }
    let class = class.unwrap_or(ty.class());
    let count = count as u8;
    Ok(if load {
        Op::Ld { space, ty, class, count, dst: slots, address, strength }
    } else {
        Op::St { space, ty, class, count, src: slots, address, strength }
    })
}

fn atom(s: &mut Statement<'_, '_>, returns: bool) -> Result<Op> {
    let words: &[&str] = if returns { &["relaxed", "acquire", "release", "acq_rel"] } else { &["relaxed", "release"] };
    if semantics(s, words)? {
        s.needs((6, 0), 70)?;
    } else if matches!(s.peek(), Some("cta" | "cluster" | "gpu" | "sys")) {
        scope(s)?;
    }
    let space = space(s)?;
    if !matches!(space, Space::Global | Space::Shared) {
        return s.bad();
    }
    let op = match s.next()? {
        "add" => AtomOp::Add,
        "and" => AtomOp::And,
        "or" => AtomOp::Or,
        "xor" => AtomOp::Xor,
        "min" => AtomOp::Min,
        "max" => AtomOp::Max,
        "inc" => AtomOp::Inc,
        "dec" => AtomOp::Dec,
        "exch" if returns => AtomOp::Exch,
        "cas" if returns => AtomOp::Cas,
        _ => return s.bad(),
    };
    let noftz = s.eat("noftz");
    let ty = s.ty()?;
    use AtomOp::*;
    let fits = match op {
        And | Or | Xor | Exch => matches!(ty, Ty::B32 | Ty::B64),
        Cas => matches!(ty, Ty::B16 | Ty::B32 | Ty::B64),
        Inc | Dec => ty == Ty::U32,
        Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F16 | Ty::F16x2 | Ty::F32 | Ty::F64),
        Min | Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
    };
    // Halves must be added without flushing; nothing else may say so.
    if !fits || noftz != matches!(ty, Ty::F16 | Ty::F16x2) {
        return s.bad();
    }
    match ty {
        Ty::F16 => s.needs((6, 3), 70)?,
        Ty::F16x2 => s.needs((6, 2), 60)?,
        Ty::F64 => s.needs((5, 0), 60)?,
        Ty::B16 => s.needs((6, 3), 70)?,
        _ => {}
    }
    let mut operands = std::mem::take(&mut s.operands);
    if !returns {
        operands.insert(0, Operand::Name("_"));
    }
    s.operands = operands;
    let (d, address, a, b) = if op == Cas {
        let [d, address, a, b] = s.take()?;
        (d, address, a, s.src(ty, &b)?)
    } else {
        let [d, address, a] = s.take()?;
        (d, address, a, NONE)
    };
    let d = s.dst(ty.class(), &d)?;
    let address = s.scope.address(false, &address, s.line)?;
    let a = s.src(ty, &a)?;
    Ok(Op::Atom { space, op, ty, d, address, a, b })
}
