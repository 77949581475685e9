//! Copies that do not wait and barriers in shared memory: `cp.async`, `cp.async.bulk` (PTX ISA 9.7.9.25), `mbarrier`
//! (9.7.13.15).

use super::Result;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::inst::*;

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    if name == "mbarrier" {
        s.needs((7, 0), 80)?;
        s.scope.uses_async = true;
        return mbarrier(s).map(Op::Mbarrier);
    }
    s.need("async")?;
    if s.eat("bulk") {
        s.needs((8, 0), 90)?;
        s.scope.uses_async = true;
        return bulk(s).map(|bulk| Op::Bulk(Box::new(bulk)));
    }
    s.needs((7, 0), 80)?;
    copy(s).map(Op::CopyAsync)
}

/// A constant operand.
pub(super) fn constant(s: &Statement<'_, '_>, operand: &Operand<'_>) -> Result<u32> {
    match operand {
        Operand::Int { bits, negative: false } if *bits <= u64::from(u32::MAX) => Ok(*bits as u32),
        other => Err(operand_error(s.line, format!("{other:?} is not a constant"))),
    }
}

fn copy(s: &mut Statement<'_, '_>) -> Result<CopyAsync> {
    match s.next()? {
        "commit_group" => {
            let [] = s.take()?;
            Ok(CopyAsync::Commit)
        }
        "wait_group" => {
            let [pending] = s.take()?;
            Ok(CopyAsync::Wait { pending: constant(s, &pending)? })
        }
        "wait_all" => {
            let [] = s.take()?;
            Ok(CopyAsync::WaitAll)
        }
        level @ ("ca" | "cg") => {
            if !s.eat("shared") {
                s.need("shared::cta")?;
            }
            s.need("global")?;
            for hint in ["L2::64B", "L2::128B", "L2::256B"] {
                s.eat(hint);
            }
            let mut operands = std::mem::take(&mut s.operands).into_iter();
            let (Some(to), Some(from), Some(bytes), there, None) =
                (operands.next(), operands.next(), operands.next(), operands.next(), operands.next())
            else {
                return Err(operand_error(s.line, "three or four operands are needed"));
            };
            let bytes = constant(s, &bytes)?;
            if !matches!((level, bytes), (_, 16) | ("ca", 4 | 8)) {
                return Err(operand_error(s.line, format!("{bytes} bytes cannot be copied by .{level}")));
            }
            let there = there.map_or(Ok(NONE), |there| s.src(Ty::U32, &there))?;
            let (to, from) = (s.scope.address(false, &to, s.line)?, s.scope.address(false, &from, s.line)?);
            Ok(CopyAsync::Copy { to, from, bytes: bytes as u8, there })
        }
        _ => s.bad(),
    }
}

/// `[map, {x, y}]` with as many coordinates as the instruction has dimensions.
fn tensor<'a>(s: &mut Statement<'_, 'a>, operand: &Operand<'a>, dims: usize) -> Result<(Slot, Vec<Slot>)> {
    let Operand::Tensor(map, at) = operand else {
        return Err(operand_error(s.line, "expected a tensor map with coordinates"));
    };
    if at.len() != dims {
        return Err(operand_error(s.line, format!("{dims} coordinates are needed, {} given", at.len())));
    }
    let at = at.iter().map(|x| s.src(Ty::S32, x)).collect::<Result<_>>()?;
    Ok((s.src(Ty::B64, map)?, at))
}

/// `{w, h}`, the offsets of pixels: two less than the instruction has dimensions.
fn offsets_of<'a>(s: &mut Statement<'_, 'a>, operand: &Operand<'a>, dims: usize) -> Result<Vec<Slot>> {
    let wanted = dims.saturating_sub(2);
    match operand {
        Operand::List(offsets) if offsets.len() == wanted => offsets.iter().map(|x| s.src(Ty::B16, x)).collect(),
        other => Err(operand_error(s.line, format!("{wanted} offsets are needed, not {other:?}"))),
    }
}

fn bulk(s: &mut Statement<'_, '_>) -> Result<Bulk> {
    if s.eat("commit_group") {
        let [] = s.take()?;
        return Ok(Bulk::Commit);
    }
    if s.eat("wait_group") {
        let read = s.eat("read");
        let [pending] = s.take()?;
        return Ok(Bulk::Wait { pending: constant(s, &pending)?, read });
    }
    let dims = if s.eat("tensor") {
        let dims = match s.next()? {
            "1d" => 1,
            "2d" => 2,
            "3d" => 3,
            "4d" => 4,
            "5d" => 5,
            _ => return s.bad(),
        };
        Some(dims)
    } else {
        None
    };
    if s.eat("global") {
        // The only store in use is that of a tensor's box.
        let Some(dims) = dims else { return s.bad() };
        s.need("shared::cta")?;
        s.eat("tile");
        s.need("bulk_group")?;
        let [map, from] = s.take()?;
        let (map, at) = tensor(s, &map, dims)?;
        return Ok(Bulk::StoreTensor { map, at, from: s.scope.address(false, &from, s.line)? });
    }
    if !s.eat("shared::cta") {
        s.need("shared::cluster")?;
    }
    s.need("global")?;
    s.eat("tile");
    let pixels = s.eat("im2col");
    s.need("mbarrier::complete_tx::bytes")?;
    let multicast = s.eat("multicast::cluster");
    let hinted = s.eat("L2::cache_hint");
    let mut operands = std::mem::take(&mut s.operands);
    let wanted =
        if dims.is_some() { 3 } else { 4 } + usize::from(multicast) + usize::from(hinted) + usize::from(pixels);
    if operands.len() != wanted {
        return Err(operand_error(s.line, format!("{wanted} operands are needed, {} given", operands.len())));
    }
    if hinted && let Some(hint) = operands.pop() {
        s.src(Ty::B64, &hint)?;
    }
    let blocks = match operands.pop_if(|_| multicast) {
        Some(blocks) => s.src(Ty::B16, &blocks)?,
        None => NONE,
    };
    let offsets = operands.pop_if(|_| pixels);
    s.operands = operands;
    match dims {
        Some(dims) => {
            let offsets = match offsets {
                Some(offsets) => offsets_of(s, &offsets, dims)?,
                None => Vec::new(),
            };
            let [to, from, barrier] = s.take()?;
            let (map, at) = tensor(s, &from, dims)?;
            let (to, barrier) = (s.scope.address(false, &to, s.line)?, s.scope.address(false, &barrier, s.line)?);
            Ok(Bulk::LoadTensor { to, map, at, offsets, barrier, blocks })
        }
        None => {
            let [to, from, bytes, barrier] = s.take()?;
            let bytes = s.src(Ty::U32, &bytes)?;
            let [to, from, barrier] = [to, from, barrier].map(|operand| s.scope.address(false, &operand, s.line));
            Ok(Bulk::Load { to: to?, from: from?, bytes, barrier: barrier?, blocks })
        }
    }
}

/// Whether the barrier is named by an address of the cluster.
fn remote(s: &mut Statement<'_, '_>) -> Result<bool> {
    match s.next()? {
        "shared" | "shared::cta" => Ok(false),
        "shared::cluster" => Ok(true),
        _ => s.bad(),
    }
}

fn mbarrier(s: &mut Statement<'_, '_>) -> Result<Mbarrier> {
    let action = s.next()?;
    if action == "expect_tx" {
        s.eat("relaxed");
        s.eat("cta");
        s.eat("cluster");
        let remote = remote(s)?;
        s.need("b64")?;
        let [at, bytes] = s.take()?;
        let bytes = s.src(Ty::U32, &bytes)?;
        return Ok(Mbarrier::ExpectBytes { at: s.scope.address(false, &at, s.line)?, remote, bytes });
    }
    let expects = action == "arrive" && s.eat("expect_tx");
    let parity = matches!(action, "test_wait" | "try_wait") && s.eat("parity");
    for semantics in ["release", "acquire", "relaxed"] {
        s.eat(semantics);
    }
    if matches!(s.peek(), Some("cta" | "cluster")) {
        s.skip(1);
    }
    let remote = remote(s)?;
    s.need("b64")?;
    if remote && action != "arrive" {
        return s.bad();
    }
    match action {
        "init" => {
            let [at, count] = s.take()?;
            let count = s.src(Ty::U32, &count)?;
            Ok(Mbarrier::Init { at: s.scope.address(false, &at, s.line)?, count })
        }
        "inval" => {
            let [at] = s.take()?;
            Ok(Mbarrier::Invalidate { at: s.scope.address(false, &at, s.line)? })
        }
        "arrive" => {
            let mut operands = std::mem::take(&mut s.operands).into_iter();
            let (Some(d), Some(at), last, None) = (operands.next(), operands.next(), operands.next(), operands.next())
            else {
                return Err(operand_error(s.line, "a state, a barrier and at most a count are needed"));
            };
            let d = s.dst(Class::Double, &d)?;
            if remote && d != NONE {
                return Err(operand_error(s.line, "a barrier elsewhere in the cluster gives no state"));
            }
            let last = last.map_or(Ok(NONE), |last| s.src(Ty::U32, &last))?;
            if expects && last == NONE {
                return Err(operand_error(s.line, "a count of bytes is needed"));
            }
            let (count, bytes) = if expects { (NONE, last) } else { (last, NONE) };
            Ok(Mbarrier::Arrive { at: s.scope.address(false, &at, s.line)?, remote, count, bytes, d })
        }
        // Waiting by state instead of parity is not in use.
        "test_wait" | "try_wait" if parity => {
            let mut operands = std::mem::take(&mut s.operands);
            // How long to try.
            if action == "try_wait" && operands.len() == 4 {
                operands.pop();
            }
            s.operands = operands;
            let [d, at, parity] = s.take()?;
            let (d, parity) = (s.dst(Class::Pred, &d)?, s.src(Ty::U32, &parity)?);
            Ok(Mbarrier::Test { d, at: s.scope.address(false, &at, s.line)?, parity })
        }
        _ => s.bad(),
    }
}
