//! Integer division: by constants as multiplications, by variables with WGSL's rules for 0 and for MIN / -1.
//!
//! The decision to know: a constant divisor d of w bits becomes a multiplication by ceil(2^(w+s) / d), s = ceil(log2 d)
//! (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994). Index arithmetic divides by
//! constants all the time, and the assembler's division is twenty instructions long.

use super::arith::safe_divisor;
use super::scalar::{int, unsigned, width};
use crate::ir::{BinaryOp, Builder, Operand, Ty};

/// `x / y`; x where y is 0.
pub(super) fn quotient(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    if let Some(known) = both(ty, x, y) {
        return int(ty, known.0);
    }
    match y.imm() {
        Some(bits) if ty.is_signed() => match signed_value(ty, bits) {
            0 | 1 => x,
            -1 => b.sub(ty, int(ty, 0), x),
            d if ty.bytes() >= 4 => signed_by(b, ty, x, d),
            _ => b.binary(BinaryOp::Div, ty, x, y),
        },
        Some(0 | 1) => x,
        Some(d) if d.is_power_of_two() => b.binary(BinaryOp::Shr, ty, x, Operand::u32(d.trailing_zeros())),
        Some(d) if ty.bytes() >= 4 => unsigned_by(b, ty, x, d),
        Some(_) => b.binary(BinaryOp::Div, ty, x, y),
        None => {
            let y = safe_divisor(b, ty, x, y);
            b.binary(BinaryOp::Div, ty, x, y)
        }
    }
}

/// `x % y`, with the sign of x; 0 where y is 0. PTX leaves the remainder of negative numbers to the machine, so it is
/// computed from the quotient.
pub(super) fn remainder(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    if let Some(known) = both(ty, x, y) {
        return int(ty, known.1);
    }
    match y.imm() {
        Some(0 | 1) => return int(ty, 0),
        Some(d) if !ty.is_signed() && d.is_power_of_two() => return b.and(ty, x, Operand::Imm(d - 1)),
        Some(bits) if ty.is_signed() && signed_value(ty, bits) == -1 => return int(ty, 0),
        Some(_) => {
            let q = quotient(b, ty, x, y);
            let product = b.mul(ty, q, y);
            return b.sub(ty, x, product);
        }
        None => {}
    }
    let y = safe_divisor(b, ty, x, y);
    if !ty.is_signed() {
        return b.binary(BinaryOp::Rem, ty, x, y);
    }
    let q = b.binary(BinaryOp::Div, ty, x, y);
    let product = b.mul(ty, q, y);
    b.sub(ty, x, product)
}

/// Quotient and remainder of constants.
fn both(ty: Ty, x: Operand, y: Operand) -> Option<(i64, i64)> {
    let (x, y) = (x.imm()?, y.imm()?);
    Some(if ty.is_signed() {
        match (signed_value(ty, x), signed_value(ty, y)) {
            (x, 0) => (x, 0),
            (x, y) => (x.wrapping_div(y), x.wrapping_rem(y)),
        }
    } else {
        match (x, y) {
            (x, 0) => (x as i64, 0),
            (x, y) => ((x / y) as i64, (x % y) as i64),
        }
    })
}

fn signed_value(ty: Ty, bits: u64) -> i64 {
    let unused = 64 - width(ty);
    ((bits << unused) as i64) >> unused
}

/// 3 <= d < 2^w, not a power of two.
fn unsigned_by(b: &mut Builder, ty: Ty, x: Operand, d: u64) -> Operand {
    let w = width(ty);
    let log2 = |d: u64| 64 - (d - 1).leading_zeros();
    let even = d.trailing_zeros();
    if even > 0 {
        // An even divisor is divided by in two steps: the dividend of the second has `even` bits less, its multiplier
        // fits.
        let half = b.binary(BinaryOp::Shr, ty, x, Operand::u32(even));
        let d = d >> even;
        let shift = (w - even + log2(d)).max(w);
        let m = ((1u128 << shift) / u128::from(d) + 1) as u64;
        let high = b.binary(BinaryOp::MulHi, ty, half, Operand::Imm(m));
        return b.binary(BinaryOp::Shr, ty, high, Operand::u32(shift - w));
    }
    // The multiplier has w + 1 bits, the topmost of which is added by hand.
    let s = log2(d);
    let low = multiplier(w, s, d);
    let high = b.binary(BinaryOp::MulHi, ty, x, Operand::Imm(low));
    let rest = b.sub(ty, x, high);
    let rest = b.binary(BinaryOp::Shr, ty, rest, Operand::u32(1));
    let sum = b.add(ty, rest, high);
    b.binary(BinaryOp::Shr, ty, sum, Operand::u32(s - 1))
}

/// `floor(2^(w + s) / d) + 1 - 2^w`.
fn multiplier(w: u32, s: u32, d: u64) -> u64 {
    // 2^(w + s) - 2^w d = 2^w (2^s - d) fits 128 bits where 2^(w + s) does not.
    let excess = (1u128 << s) - u128::from(d);
    ((excess << w) / u128::from(d) + 1) as u64
}

/// |d| >= 2.
fn signed_by(b: &mut Builder, ty: Ty, x: Operand, d: i64) -> Operand {
    let w = width(ty);
    let magnitude = d.unsigned_abs();
    let sign = b.binary(BinaryOp::Shr, ty, x, Operand::u32(w - 1));
    let q = if magnitude.is_power_of_two() {
        // Rounding towards zero: negative dividends get d - 1 first.
        let s = magnitude.trailing_zeros();
        let bias = b.binary(BinaryOp::Shr, unsigned(ty), sign, Operand::u32(w - s));
        let biased = b.add(ty, x, bias);
        b.binary(BinaryOp::Shr, ty, biased, Operand::u32(s))
    } else {
        // m = floor(2^(w - 1 + s) / d) + 1 lies in (2^(w-1), 2^w): as a signed factor it is m - 2^w, hence the sum.
        let s = 64 - (magnitude - 1).leading_zeros();
        let m = ((1u128 << (w - 1 + s)) / u128::from(magnitude) + 1) as u64;
        let high = b.binary(BinaryOp::MulHi, ty, x, int(ty, m as i64));
        let sum = b.add(ty, high, x);
        let floor = b.binary(BinaryOp::Shr, ty, sum, Operand::u32(s - 1));
        b.sub(ty, floor, sign)
    };
    if d < 0 { b.sub(ty, int(ty, 0), q) } else { q }
}
