//! Barriers, fences, warp-wide operations (PTX ISA 9.7.9.6, 9.7.13) and `wmma` (9.7.14).

use super::Result;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::error::{ParseError, ParseErrorKind};
use crate::inst::*;

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    match name {
        "bar" | "barrier" => barrier(s, name),
        "membar" => match s.next()? {
            "cta" | "gl" | "sys" => {
                let [] = s.take()?;
                Ok(Op::Fence)
            }
            _ => s.bad(),
        },
        "fence" if s.eat("proxy") => {
            s.needs((8, 0), 90)?;
            s.need("async")?;
            for space in ["global", "shared::cta", "shared::cluster"] {
                s.eat(space);
            }
            let [] = s.take()?;
            Ok(Op::FenceAsync)
        }
        "fence" if s.eat("mbarrier_init") => {
            s.needs((8, 0), 90)?;
            s.need("release")?;
            s.need("cluster")?;
            let [] = s.take()?;
            Ok(Op::Fence)
        }
        "fence" => {
            s.needs((6, 0), 70)?;
            if !s.eat("sc") {
                s.need("acq_rel")?;
            }
            match s.next()? {
                "cta" | "cluster" | "gpu" | "sys" => {
                    let [] = s.take()?;
                    Ok(Op::Fence)
                }
                _ => s.bad(),
            }
        }
        "activemask" => {
            s.needs((6, 2), 30)?;
            s.need("b32")?;
            let [d] = s.take()?;
            Ok(Op::ActiveMask { d: s.dst(Class::Word, &d)? })
        }
        "wmma" => wmma(s),
        _ => collective(s, name),
    }
}

fn barrier(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    if name == "bar" && s.eat("warp") {
        s.needs((6, 0), 30)?;
        s.need("sync")?;
        let [mask] = s.take()?;
        return Ok(Op::Collective { op: Collective::Barrier, mask: s.src(Ty::B32, &mask)? });
    }
    s.eat("cta");
    let arrive = s.eat("arrive");
    if !arrive {
        s.need("sync")?;
    }
    if name == "barrier" {
        s.eat("aligned");
    }
    let mut operands = std::mem::take(&mut s.operands).into_iter();
    let (Some(id), count, None) = (operands.next(), operands.next(), operands.next()) else {
        return Err(operand_error(s.line, "one or two operands are needed"));
    };
    let id = s.src(Ty::U32, &id)?;
    let count = count.map_or(Ok(NONE), |count| s.src(Ty::U32, &count))?;
    if arrive && count == NONE {
        return Err(operand_error(s.line, "an arrival needs a count"));
    }
    Ok(Op::Barrier { id, count, arrive })
}

fn collective(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    let (op, mask) = match name {
        "shfl" => {
            s.needs((6, 0), 30)?;
            s.need("sync")?;
            let mode = match s.next()? {
                "up" => ShflMode::Up,
                "down" => ShflMode::Down,
                "bfly" => ShflMode::Bfly,
                "idx" => ShflMode::Idx,
                _ => return s.bad(),
            };
            s.need("b32")?;
            let [d, a, b, c, mask] = s.take()?;
            let (d, p) = s.dst_pair(Class::Word, &d)?;
            let (a, b, c) = (s.src(Ty::B32, &a)?, s.src(Ty::B32, &b)?, s.src(Ty::B32, &c)?);
            (Collective::Shfl { mode, d, p, a, b, c }, mask)
        }
        "vote" => {
            s.needs((6, 0), 30)?;
            s.need("sync")?;
            let mode = match s.next()? {
                "all" => Some(VoteMode::All),
                "any" => Some(VoteMode::Any),
                "uni" => Some(VoteMode::Uni),
                "ballot" => None,
                _ => return s.bad(),
            };
            s.need(if mode.is_some() { "pred" } else { "b32" })?;
            let [d, p, mask] = s.take()?;
            let (p, negated) = s.pred(&p)?;
            match mode {
                Some(mode) => (Collective::Vote { mode, d: s.dst(Class::Pred, &d)?, p, negated }, mask),
                None => (Collective::Ballot { d: s.dst(Class::Word, &d)?, p, negated }, mask),
            }
        }
        "redux" => {
            s.needs((7, 0), 80)?;
            s.need("sync")?;
            let op = match s.next()? {
                "add" => ReduxOp::Add,
                "min" => ReduxOp::Min,
                "max" => ReduxOp::Max,
                "and" => ReduxOp::And,
                "or" => ReduxOp::Or,
                "xor" => ReduxOp::Xor,
                _ => return s.bad(),
            };
            let logic = matches!(op, ReduxOp::And | ReduxOp::Or | ReduxOp::Xor);
            let ty = s.ty_of(if logic { &[Ty::B32] } else { &[Ty::U32, Ty::S32] })?;
            let [d, a, mask] = s.take()?;
            let a = s.src(ty, &a)?;
            (Collective::Redux { op, signed: ty.is_signed(), d: s.dst(Class::Word, &d)?, a }, mask)
        }
        "match" => {
            s.needs((6, 0), 70)?;
            let all = match s.next()? {
                "any" => false,
                "all" => true,
                _ => return s.bad(),
            };
            s.need("sync")?;
            let ty = s.ty_of(&[Ty::B32, Ty::B64])?;
            let wide = ty == Ty::B64;
            let [d, a, mask] = s.take()?;
            let (d, p) = s.dst_pair(Class::Word, &d)?;
            let a = s.src(ty, &a)?;
            match all {
                false if p != NONE => return Err(operand_error(s.line, "match.any has no predicate")),
                false => (Collective::MatchAny { wide, d, a }, mask),
                true => (Collective::MatchAll { wide, d, p, a }, mask),
            }
        }
        "elect" => {
            s.needs((8, 0), 90)?;
            s.need("sync")?;
            let [d, mask] = s.take()?;
            let (d, p) = s.dst_pair(Class::Word, &d)?;
            (Collective::Elect { d, p }, mask)
        }
        _ => return Err(ParseError { line: s.line, kind: ParseErrorKind::Instruction(s.opcode.to_owned()) }),
    };
    Ok(Op::Collective { op, mask: s.src(Ty::B32, &mask)? })
}

fn row(s: &mut Statement<'_, '_>) -> Result<bool> {
    match s.next()? {
        "row" => Ok(true),
        "col" => Ok(false),
        _ => s.bad(),
    }
}

fn is_half(s: &mut Statement<'_, '_>) -> Result<bool> {
    Ok(s.ty_of(&[Ty::F16, Ty::F32])? == Ty::F16)
}

/// `count` registers of 32 bits in braces.
fn fragment<'a>(s: &mut Statement<'_, 'a>, operand: &Operand<'a>, count: usize, dst: bool) -> Result<Vec<Slot>> {
    let Operand::List(items) = operand else {
        return Err(operand_error(s.line, "a fragment is a list of registers"));
    };
    if items.len() != count {
        return Err(operand_error(s.line, format!("the fragment has {count} registers, {} given", items.len())));
    }
    items.iter().map(|item| if dst { s.dst(Class::Word, item) } else { s.src(Ty::B32, item) }).collect()
}

fn accumulator(half: bool) -> usize {
    if half { 4 } else { 8 }
}

fn wmma(s: &mut Statement<'_, '_>) -> Result<Op> {
    s.needs((6, 0), 70)?;
    let action = s.next()?;
    if action == "mma" {
        s.need("sync")?;
        s.need("aligned")?;
        let rows = [row(s)?, row(s)?];
        s.need("m16n16k16")?;
        let (d_half, c_half) = (is_half(s)?, is_half(s)?);
        let [d, a, b, c] = s.take()?;
        let d = fragment(s, &d, accumulator(d_half), true)?;
        let (a, b) = (fragment(s, &a, 8, false)?, fragment(s, &b, 8, false)?);
        let c = fragment(s, &c, accumulator(c_half), false)?;
        return Ok(Op::Wmma(Box::new(Wmma::Mma { rows, d_half, c_half, d, a, b, c })));
    }
    let which = match (action, s.next()?) {
        ("load", "a") => Fragment::A,
        ("load", "b") => Fragment::B,
        ("load", "c") | ("store", "d") => Fragment::C,
        _ => return s.bad(),
    };
    s.need("sync")?;
    s.need("aligned")?;
    let row = row(s)?;
    s.need("m16n16k16")?;
    let space = match s.next()? {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        _ => return s.bad(),
    };
    let half = is_half(s)?;
    if which != Fragment::C && !half {
        return s.bad();
    }
    let count = if which == Fragment::C { accumulator(half) } else { 8 };
    let mut operands = std::mem::take(&mut s.operands).into_iter();
    let (Some(first), Some(second), stride, None) =
        (operands.next(), operands.next(), operands.next(), operands.next())
    else {
        return Err(operand_error(s.line, "two or three operands are needed"));
    };
    let stride = match stride {
        Some(stride) => s.src(Ty::U32, &stride)?,
        None => s.scope.immediate(Class::Word, 16),
    };
    let (regs, address) = if action == "load" { (first, second) } else { (second, first) };
    let regs = fragment(s, &regs, count, action == "load")?;
    let address = s.scope.address(false, &address, s.line)?;
    Ok(Op::Wmma(Box::new(if action == "load" {
        Wmma::Load { fragment: which, row, space, half, regs, address, stride }
    } else {
        Wmma::Store { row, space, half, regs, address, stride }
    })))
}
