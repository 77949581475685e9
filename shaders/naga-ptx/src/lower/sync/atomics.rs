//! Atomic operations (9.7.13.5 `atom`, 9.7.13.6 `red`), relaxed, of the scope that the state space calls for.
//!
//! An operation PTX has no instruction for (smallest and largest of floats) is a loop that tries to replace what it
//! read until nobody came between. Float sums in global memory flush subnormal numbers to zero, which WGSL allows;
//! those in shared memory do not.

use naga::{Scalar, ScalarKind};

use super::super::math::ty_of;
use crate::error::{Error, Result};
use crate::ir::*;

/// `naga::AtomicFunction` with its operand in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Subtract,
    And,
    ExclusiveOr,
    InclusiveOr,
    Min,
    Max,
    Exchange,
    CompareExchange { compare: Operand },
}

/// One atomic statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicCall {
    pub(crate) op: AtomicOp,
    pub(crate) scalar: Scalar,
    /// `Global` or `Shared`.
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) value: Operand,
    pub(crate) result: Use,
}

/// Whether anybody reads what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Ignored,
}

/// What was in memory before, and for compare-exchange whether it was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicResult {
    /// The immediate 0 when the call's result is ignored.
    pub(crate) old: Operand,
    /// A predicate; only compare-exchange has it.
    pub(crate) exchanged: Option<Operand>,
}

/// Performs `call`.
pub(crate) fn atomic(b: &mut Builder, call: AtomicCall) -> Result<AtomicResult> {
    let AtomicCall { op, scalar, space, address, value, result } = call;
    let ty = checked(scalar, space)?;
    let simple = match op {
        AtomicOp::Add => Simple::Native(AtomOp::Add, value),
        // Both integers and floats: adding the negation is exactly subtracting.
        AtomicOp::Subtract => Simple::Native(AtomOp::Add, b.unary(UnaryOp::Neg, negated(ty), value)),
        AtomicOp::And => Simple::Native(AtomOp::And, value),
        AtomicOp::ExclusiveOr => Simple::Native(AtomOp::Xor, value),
        AtomicOp::InclusiveOr => Simple::Native(AtomOp::Or, value),
        AtomicOp::Min if ty.is_float() => Simple::Loop(BinaryOp::Min),
        AtomicOp::Max if ty.is_float() => Simple::Loop(BinaryOp::Max),
        AtomicOp::Min => Simple::Native(AtomOp::Min, value),
        AtomicOp::Max => Simple::Native(AtomOp::Max, value),
        AtomicOp::Exchange => Simple::Native(AtomOp::Exch, value),
        AtomicOp::CompareExchange { compare } => {
            let old = b.reg(ty);
            b.push(Inst::Atom { space, op: AtomOp::Cas, ty, dst: old, address, a: compare, b: Some(value) });
            let exchanged = b.setp(Compare::Eq, bits_compared(ty), old.into(), compare);
            return Ok(AtomicResult { old: old.into(), exchanged: Some(exchanged) });
        }
    };
    if ty.is_float() && matches!(op, AtomicOp::And | AtomicOp::ExclusiveOr | AtomicOp::InclusiveOr) {
        return Err(Error::invalid("a bitwise atomic operation on a float"));
    }
    let old = match (simple, result) {
        (Simple::Native(AtomOp::Exch, value), Use::Ignored) => {
            b.push(Inst::AtomicStore { space, ty, src: value, address });
            Operand::Imm(0)
        }
        (Simple::Native(op, a), Use::Ignored) => {
            b.push(Inst::Red { space, op, ty: summed(op, ty), address, a });
            Operand::Imm(0)
        }
        (Simple::Native(op, a), Use::Read) => {
            let dst = b.reg(ty);
            b.push(Inst::Atom { space, op, ty: summed(op, ty), dst, address, a, b: None });
            dst.into()
        }
        (Simple::Loop(op), _) => replace_in_loop(b, op, ty, space, address, value),
    };
    Ok(AtomicResult { old, exchanged: None })
}

enum Simple {
    Native(AtomOp, Operand),
    Loop(BinaryOp),
}

/// `atomicLoad`.
pub(crate) fn atomic_load(b: &mut Builder, scalar: Scalar, space: Space, address: Address) -> Result<Operand> {
    let ty = checked(scalar, space)?;
    let dst = b.reg(ty);
    b.push(Inst::AtomicLoad { space, ty, dst, address });
    Ok(dst.into())
}

/// `atomicStore`.
pub(crate) fn atomic_store(
    b: &mut Builder,
    scalar: Scalar,
    space: Space,
    address: Address,
    value: Operand,
) -> Result<()> {
    let ty = checked(scalar, space)?;
    b.push(Inst::AtomicStore { space, ty, src: value, address });
    Ok(())
}

/// The type of an atomic, if there are such atomics there.
fn checked(scalar: Scalar, space: Space) -> Result<Ty> {
    match space {
        Space::Global | Space::Shared => {}
        Space::Constant | Space::Local | Space::Param => {
            return Err(Error::invalid("an atomic operation outside read-write storage and workgroup memory"));
        }
    }
    match (scalar.kind, scalar.width) {
        (ScalarKind::Sint | ScalarKind::Uint | ScalarKind::Float, 4 | 8) => ty_of(scalar),
        (ScalarKind::Float, 2) => Err(Error::unsupported("an atomic f16", "no target has all its operations; use f32")),
        (ScalarKind::Sint | ScalarKind::Uint | ScalarKind::Float | ScalarKind::Bool, _)
        | (ScalarKind::AbstractInt | ScalarKind::AbstractFloat, _) => {
            Err(Error::invalid("an atomic of a type that is neither a 32-bit nor a 64-bit number"))
        }
    }
}

/// There is no `atom.add.s64`; sums do not depend on the sign.
fn summed(op: AtomOp, ty: Ty) -> Ty {
    match (op, ty) {
        (AtomOp::Add, Ty::S64) => Ty::U64,
        (AtomOp::Add, Ty::S32) => Ty::U32,
        _ => ty,
    }
}

/// `neg` knows signed integers only.
fn negated(ty: Ty) -> Ty {
    match ty {
        Ty::U32 => Ty::S32,
        Ty::U64 => Ty::S64,
        ty => ty,
    }
}

/// The integers of the width of `ty`: compare-exchange compares bits.
fn bits_compared(ty: Ty) -> Ty {
    if ty.bytes() == 8 { Ty::U64 } else { Ty::U32 }
}

/// `old = *p; while !cas(p, old, op(old, value)) { old = *p }`, with the read of the failed attempt as the next `old`.
fn replace_in_loop(b: &mut Builder, op: BinaryOp, ty: Ty, space: Space, address: Address, value: Operand) -> Operand {
    let old = b.reg(ty);
    b.push(Inst::AtomicLoad { space, ty, dst: old, address });
    let (attempt, done) = (b.block(), b.block());
    b.end(Terminator::Jump(attempt), attempt);
    let new = b.binary(op, ty, old.into(), value);
    let found = b.reg(ty);
    b.push(Inst::Atom { space, op: AtomOp::Cas, ty, dst: found, address, a: old.into(), b: Some(new) });
    let failed = b.setp(Compare::Ne, bits_compared(ty), found.into(), old.into());
    b.mov_to(ty, old, found);
    b.branch(failed, attempt, done, done);
    old.into()
}
