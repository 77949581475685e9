//! WGSL's operators on scalars, and `all`, `any`, `isNan`, `isInf`.
//!
//! The decision to know: integer division never reaches PTX with a divisor of 0 or with MIN / -1, whose results PTX
//! leaves open; such a divisor becomes 1, which is WGSL's answer (x / 0 = x, x % 0 = 0). Constant divisors are products
//! (`divide.rs`).

use naga::{BinaryOperator, RelationalFunction, Scalar, UnaryOperator};

use super::common::abs;
use super::float::{Float, half2};
use super::scalar::{float, int, one, ty_of, width};
use super::{Arg, Env, divide};
use crate::error::{Error, Result};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty, UnaryOp};
use crate::options::Contraction;

/// `op x` on scalars.
pub(crate) fn unary(b: &mut Builder, _: Env, op: UnaryOperator, scalar: Scalar, x: Operand) -> Result<Operand> {
    let ty = ty_of(scalar)?;
    match (op, ty) {
        (UnaryOperator::Negate, _) if ty.is_float() || ty.is_signed() => Ok(b.unary(UnaryOp::Neg, ty, x)),
        (UnaryOperator::Negate, _) => Err(Error::invalid(format!("{ty:?} has no negative"))),
        (UnaryOperator::LogicalNot | UnaryOperator::BitwiseNot, _) => Ok(b.not(ty, x)),
    }
}

/// `l op r` on scalars of type `scalar` (the left one's; the amount of a shift is a u32). Comparisons give predicates.
pub(crate) fn binary(
    b: &mut Builder,
    env: Env,
    op: BinaryOperator,
    scalar: Scalar,
    l: Operand,
    r: Operand,
) -> Result<Operand> {
    let ty = ty_of(scalar)?;
    let may_contract = env.contraction == Contraction::Allowed || !ty.is_float();
    let value = match op {
        BinaryOperator::Add => b.binary(if may_contract { BinaryOp::Add } else { BinaryOp::AddRn }, ty, l, r),
        BinaryOperator::Subtract => b.binary(if may_contract { BinaryOp::Sub } else { BinaryOp::SubRn }, ty, l, r),
        BinaryOperator::Multiply => b.binary(if may_contract { BinaryOp::Mul } else { BinaryOp::MulRn }, ty, l, r),
        BinaryOperator::Divide if ty.is_float() => float_divide(b, ty, l, r),
        BinaryOperator::Divide => divide::quotient(b, ty, l, r),
        BinaryOperator::Modulo if ty.is_float() => float_remainder(b, ty, l, r),
        BinaryOperator::Modulo => divide::remainder(b, ty, l, r),
        BinaryOperator::Equal if ty == Ty::Pred => {
            let differ = b.xor(ty, l, r);
            b.not(ty, differ)
        }
        BinaryOperator::NotEqual if ty == Ty::Pred => b.xor(ty, l, r),
        BinaryOperator::Equal => b.setp(Compare::Eq, ty, l, r),
        BinaryOperator::NotEqual if ty.is_float() => b.setp(Compare::Neu, ty, l, r),
        BinaryOperator::NotEqual => b.setp(Compare::Ne, ty, l, r),
        BinaryOperator::Less => b.setp(Compare::Lt, ty, l, r),
        BinaryOperator::LessEqual => b.setp(Compare::Le, ty, l, r),
        BinaryOperator::Greater => b.setp(Compare::Gt, ty, l, r),
        BinaryOperator::GreaterEqual => b.setp(Compare::Ge, ty, l, r),
        BinaryOperator::And | BinaryOperator::LogicalAnd => b.and(ty, l, r),
        BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => b.or(ty, l, r),
        BinaryOperator::ExclusiveOr => b.xor(ty, l, r),
        BinaryOperator::ShiftLeft => shift(b, BinaryOp::Shl, ty.bits(), width(ty), l, r),
        BinaryOperator::ShiftRight => shift(b, BinaryOp::Shr, ty, width(ty), l, r),
    };
    Ok(value)
}

/// The 64-bit product of two 32-bit integers of type `ty`.
pub(crate) fn wide_product(b: &mut Builder, ty: Ty, l: Operand, r: Operand) -> Operand {
    // Not of two constants.
    let l = b.in_reg(ty, l);
    b.binary(BinaryOp::MulWide, ty, l.into(), r)
}

/// The amount counts modulo the width.
fn shift(b: &mut Builder, op: BinaryOp, ty: Ty, width: u32, x: Operand, amount: Operand) -> Operand {
    let amount = b.and(Ty::U32, amount, Operand::u32(width - 1));
    b.binary(op, ty, x, amount)
}

/// Correctly rounded. The f32 quotient of two halves rounds to the same half as the exact one: 24 >= 2 * 11 + 2 bits.
pub(super) fn float_divide(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    match ty {
        Ty::F16 => half2(b, x, y, |f, x, y| f.div(x, y)),
        _ => b.binary(BinaryOp::Div, ty, x, y),
    }
}

/// `x - y * trunc(x / y)`, exact while the quotient is below 2^24 (f16: always; f64: 2^53): a quotient rounded up to
/// the next integer shows in a remainder of the wrong sign, and is taken back. Beyond, where a unit in the last place
/// of `x` is more than `y`, it still has the sign of `x` and is less than `y`; also where the quotient overflows.
fn float_remainder(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    if ty == Ty::F16 {
        return half2(b, x, y, |f, x, y| float_remainder(f.b, Ty::F32, x, y));
    }
    let f = &mut Float::new(b, ty);
    let quotient = f.div(x, y);
    let whole = f.integral(Round::Rzi, quotient);
    let rest = f.nfma(whole, y, x);
    let (magnitude, zero) = (f.abs(y), f.c(0.0));
    let step = f.with_sign(x, magnitude);
    let back = f.add(rest, step);
    // Of opposite signs: their product is negative, or underflows to a zero that is none of our business.
    let sign = f.with_sign(x, float(ty, 1.0));
    let along = f.mul(rest, sign);
    let over = f.lt(along, zero);
    let rest = f.select(over, back, rest);
    let along = f.mul(rest, sign);
    let (over, under) = (f.cmp(Compare::Ge, along, magnitude), f.lt(along, zero));
    let outside = f.b.or(Ty::Pred, over, under);
    let nothing = f.with_sign(x, zero);
    let rest = f.select(outside, nothing, rest);
    // A dividend below the divisor is the remainder; so it is for an infinite divisor, whose product would be NaN.
    let x_magnitude = f.abs(x);
    let below = f.lt(x_magnitude, magnitude);
    f.select(below, x, rest)
}

/// `all` and `any` give one predicate, `isNan` and `isInf` one per component.
pub(crate) fn relational(b: &mut Builder, fun: RelationalFunction, arg: Arg) -> Result<Vec<Operand>> {
    let ty = ty_of(arg.scalar)?;
    let fold = |b: &mut Builder, op, start| {
        arg.leaves.iter().fold(Operand::bool(start), |all, &leaf| b.binary(op, Ty::Pred, all, leaf))
    };
    match (fun, ty.is_float()) {
        (RelationalFunction::All, false) => Ok(vec![fold(b, BinaryOp::And, true)]),
        (RelationalFunction::Any, false) => Ok(vec![fold(b, BinaryOp::Or, false)]),
        (RelationalFunction::IsNan, true) => Ok(arg.leaves.iter().map(|&x| b.setp(Compare::Nan, ty, x, x)).collect()),
        (RelationalFunction::IsInf, true) => Ok(arg
            .leaves
            .iter()
            .map(|&x| {
                let magnitude = abs(b, ty, x);
                b.setp(Compare::Eq, ty, magnitude, float(ty, f64::INFINITY))
            })
            .collect()),
        (RelationalFunction::All | RelationalFunction::Any, true)
        | (RelationalFunction::IsNan | RelationalFunction::IsInf, false) => {
            Err(Error::invalid(format!("{fun:?} of {:?}", arg.scalar)))
        }
    }
}

/// A divisor for which PTX's division is defined and gives what WGSL asks for.
pub(super) fn safe_divisor(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    let mut bad = b.setp(Compare::Eq, ty, y, int(ty, 0));
    if ty.is_signed() {
        let least = b.setp(Compare::Eq, ty, x, int(ty, i64::MIN >> (64 - width(ty))));
        let minus_one = b.setp(Compare::Eq, ty, y, int(ty, -1));
        let overflow = b.and(Ty::Pred, least, minus_one);
        bad = b.or(Ty::Pred, bad, overflow);
    }
    b.selp(ty, bad, one(ty), y)
}
