//! Counting, finding, reversing, extracting and inserting bits.
//!
//! The decision to know: PTX has these for 32 and 64 bits; integers of 16 bits are widened by their sign, which leaves
//! every answer derivable. `bfe` and `bfi` take positions beyond the width in their own way, so both are clamped first
//! as WGSL says: the offset to the width, the count to what is left.

use super::convert::int_to_int;
use super::scalar::{int, unsigned, width};
use crate::ir::{BinaryOp, Builder, Inst, Operand, TernaryOp, Ty, UnaryOp};

/// Bits that are one.
pub(super) fn count_ones(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = zero_extended(b, ty, x);
    let n = b.unary(UnaryOp::Popc, wide.bits(), x);
    int_to_int(b, Ty::U32, ty, n)
}

/// Zeros above the highest one; the width when there is none.
pub(super) fn leading_zeros(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = zero_extended(b, ty, x);
    let n = b.unary(UnaryOp::Clz, wide.bits(), x);
    let n = b.sub(Ty::U32, n, Operand::u32(width(wide) - width(ty)));
    int_to_int(b, Ty::U32, ty, n)
}

/// Zeros below the lowest one; the width when there is none.
pub(super) fn trailing_zeros(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = zero_extended(b, ty, x);
    // A one beyond the width stops the count.
    let x = if wide.bytes() == ty.bytes() { x } else { b.or(wide, x, Operand::Imm(1 << width(ty))) };
    let reversed = b.unary(UnaryOp::Brev, wide.bits(), x);
    let n = b.unary(UnaryOp::Clz, wide.bits(), reversed);
    int_to_int(b, Ty::U32, ty, n)
}

pub(super) fn reverse(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = zero_extended(b, ty, x);
    let reversed = b.unary(UnaryOp::Brev, wide.bits(), x);
    let reversed = b.binary(BinaryOp::Shr, wide, reversed, Operand::u32(width(wide) - width(ty)));
    int_to_int(b, wide, ty, reversed)
}

/// Index of the highest one; of signed numbers, of the highest bit that differs from the sign; -1 when there is none.
pub(super) fn first_leading(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = extended(b, ty, x);
    let index = b.unary(UnaryOp::Bfind, wide, x);
    int_to_int(b, Ty::S32, ty, index)
}

/// Index of the lowest one; -1 when there is none.
pub(super) fn first_trailing(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let (wide, x) = zero_extended(b, ty, x);
    let negative = b.sub(wide, int(wide, 0), x);
    let lowest = b.and(wide, x, negative);
    let index = b.unary(UnaryOp::Bfind, wide, lowest);
    int_to_int(b, Ty::S32, ty, index)
}

/// A value of 16 bits in 32, else itself; with the unsigned type it is in.
fn zero_extended(b: &mut Builder, ty: Ty, x: Operand) -> (Ty, Operand) {
    extended(b, unsigned(ty), x)
}

/// The same by the sign of its type.
fn extended(b: &mut Builder, ty: Ty, x: Operand) -> (Ty, Operand) {
    let wide = match ty.bytes() {
        2 if ty.is_signed() => Ty::S32,
        2 => Ty::U32,
        _ => ty,
    };
    (wide, int_to_int(b, ty, wide, x))
}

/// The offset and the count, clamped to a width of `w` bits.
fn clamp_field(b: &mut Builder, w: u32, offset: Operand, count: Operand) -> (Operand, Operand) {
    let offset = b.binary(BinaryOp::Min, Ty::U32, offset, Operand::u32(w));
    let left = b.sub(Ty::U32, Operand::u32(w), offset);
    (offset, b.binary(BinaryOp::Min, Ty::U32, count, left))
}

/// `extractBits`: signed types extend the field's sign.
pub(super) fn extract(b: &mut Builder, ty: Ty, x: Operand, offset: Operand, count: Operand) -> Operand {
    let (offset, count) = clamp_field(b, width(ty), offset, count);
    let (wide, x) = extended(b, ty, x);
    let field = b.ternary(TernaryOp::Bfe, wide, x, offset, count);
    int_to_int(b, wide, ty, field)
}

/// `insertBits`: the low bits of `new` into `x`.
pub(super) fn insert(b: &mut Builder, ty: Ty, x: Operand, new: Operand, offset: Operand, count: Operand) -> Operand {
    let (offset, count) = clamp_field(b, width(ty), offset, count);
    let ((wide, x), (_, new)) = (zero_extended(b, ty, x), zero_extended(b, ty, new));
    let dst = b.reg(wide);
    b.push(Inst::Bfi { ty: wide.bits(), dst, a: new, b: x, c: offset, d: count });
    int_to_int(b, wide, ty, dst.into())
}
