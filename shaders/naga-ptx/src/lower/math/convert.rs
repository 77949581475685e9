//! Value conversions and bit casts.
//!
//! | from | to | rule |
//! | --- | --- | --- |
//! | float | integer | towards zero; beyond the range, the nearest integer that the float type can represent; NaN gives 0 |
//! | integer, float | float | to nearest even |
//! | integer | integer | low bits; widened by the sign of the source type |
//! | bool | number | 0 or 1 |
//! | number | bool | differs from 0 (so NaN is true) |

use naga::Scalar;

use super::scalar::{float, int, one, ty_of, width};
use super::{Arg, Env};
use crate::error::{Error, Result};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty};

/// The value `x` of type `from` as a `to`, by WGSL's rules of value conversion.
pub(crate) fn convert(b: &mut Builder, _: Env, from: Scalar, to: Scalar, x: Operand) -> Result<Operand> {
    let (from, to) = (ty_of(from)?, ty_of(to)?);
    Ok(match (from, to) {
        _ if from == to => x,
        (Ty::Pred, _) => b.selp(to, x, one(to), int(to, 0)),
        (_, Ty::Pred) if from.is_float() => b.setp(Compare::Neu, from, x, float(from, 0.0)),
        (_, Ty::Pred) => b.setp(Compare::Ne, from, x, int(from, 0)),
        _ => match (from.is_float(), to.is_float()) {
            (true, true) if from.bytes() < to.bytes() => b.cvt(to, from, Round::None, x),
            (true, true) => b.cvt(to, from, Round::Rn, x),
            (true, false) => float_to_int(b, from, to, x),
            (false, true) => b.cvt(to, from, Round::Rn, x),
            (false, false) => int_to_int(b, from, to, x),
        },
    })
}

/// Integers of other widths; PTX extends by the type it converts from.
pub(super) fn int_to_int(b: &mut Builder, from: Ty, to: Ty, x: Operand) -> Operand {
    if from.bytes() == to.bytes() {
        return x;
    }
    if let Some(bits) = x.imm() {
        let unused = 64 - width(from);
        let value = if from.is_signed() { ((bits << unused) as i64) >> unused } else { bits as i64 };
        return int(to, value);
    }
    // Extension follows the sign of the source: said on both sides, so that no reading of `cvt` can saturate.
    let to = match (from.is_signed(), to.bytes()) {
        (true, 2) => Ty::S16,
        (true, 4) => Ty::S32,
        (true, _) => Ty::S64,
        (false, 2) => Ty::U16,
        (false, 4) => Ty::U32,
        (false, _) => Ty::U64,
    };
    b.cvt(to, from, Round::None, x)
}

/// `cvt` saturates to the integer's range; WGSL's bound is the last integer of it that the float can represent.
fn float_to_int(b: &mut Builder, from: Ty, to: Ty, x: Operand) -> Operand {
    let value = b.cvt(to, from, Round::Rzi, x);
    let (least, greatest) = range(to);
    let precision = if from == Ty::F16 {
        11
    } else if from == Ty::F32 {
        24
    } else {
        53
    };
    let largest_float = if from == Ty::F16 { 65504 } else { i128::MAX };
    let top = round_down(greatest, precision).min(largest_float);
    let value = if top < greatest { b.binary(BinaryOp::Min, to, value, int(to, top as i64)) } else { value };
    let bottom = least.max(-largest_float);
    let value = if bottom > least { b.binary(BinaryOp::Max, to, value, int(to, bottom as i64)) } else { value };
    // Sources and results of up to 32 bits: NaN converts to 0 (PTX ISA, 9.7.9 `cvt`). Others: to a power of two.
    if from == Ty::F64 || to.bytes() == 8 {
        let nan = b.setp(Compare::Nan, from, x, x);
        return b.selp(to, nan, int(to, 0), value);
    }
    value
}

fn range(ty: Ty) -> (i128, i128) {
    let w = width(ty);
    if ty.is_signed() { (-(1 << (w - 1)), (1 << (w - 1)) - 1) } else { (0, (1 << w) - 1) }
}

/// The largest number of `precision` significant bits up to `value`.
fn round_down(value: i128, precision: u32) -> i128 {
    let bits = 128 - value.leading_zeros();
    let drop = bits.saturating_sub(precision);
    (value >> drop) << drop
}

/// The bits of `from` as components of type `to`; wider or narrower components are split or joined, low half first.
pub(crate) fn bitcast(b: &mut Builder, from: Arg, to: Scalar) -> Result<Vec<Operand>> {
    let (mut ty, to) = (ty_of(from.scalar)?, ty_of(to)?);
    if ty == Ty::Pred || to == Ty::Pred {
        return if ty == to { Ok(from.leaves.to_vec()) } else { Err(Error::invalid("a bit cast of bools")) };
    }
    let mut leaves = from.leaves.to_vec();
    while ty.bytes() > to.bytes() {
        ty = bits(ty.bytes() / 2);
        leaves = leaves.into_iter().flat_map(|x| split(b, ty, x)).collect();
    }
    while ty.bytes() < to.bytes() {
        if !leaves.len().is_multiple_of(2) {
            return Err(Error::invalid("a bit cast between sizes that differ"));
        }
        leaves = leaves.chunks_exact(2).map(|pair| join(b, ty, pair[0], pair[1])).collect();
        ty = bits(ty.bytes() * 2);
    }
    Ok(leaves)
}

fn bits(bytes: u32) -> Ty {
    match bytes {
        2 => Ty::B16,
        4 => Ty::B32,
        _ => Ty::B64,
    }
}

/// The halves of `x`, of type `half`, low half first.
pub(super) fn split(b: &mut Builder, half: Ty, x: Operand) -> [Operand; 2] {
    match x.imm() {
        Some(bits) => [int(half, bits as i64), int(half, (bits >> width(half)) as i64)],
        None => b.unpack(half, x).into(),
    }
}

/// The reverse of [`split`].
pub(super) fn join(b: &mut Builder, half: Ty, low: Operand, high: Operand) -> Operand {
    match (low.imm(), high.imm()) {
        (Some(l), Some(h)) => Operand::Imm(l | h << width(half)),
        _ => b.pack(half, low, high),
    }
}
