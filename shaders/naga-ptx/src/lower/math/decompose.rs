//! `modf`, `frexp`, `ldexp`: taking floats apart by their bits, exactly.
//!
//! The decision to know: halves go through f32, where none of them is subnormal.

use super::convert::int_to_int;
use super::float::Float;
use super::scalar::{int, unsigned};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty};

/// Fraction and whole part, both with the sign of x.
pub(super) fn modf(b: &mut Builder, ty: Ty, x: Operand) -> (Operand, Operand) {
    let f = &mut Float::new(b, ty);
    let whole = f.integral(Round::Rzi, x);
    (f.sub(x, whole), whole)
}

/// Fraction, of magnitude from 1/2 to 1 or 0, and exponent, a signed integer of the float's width. Infinities and NaNs
/// are their own fraction.
pub(super) fn frexp(b: &mut Builder, ty: Ty, x: Operand) -> (Operand, Operand) {
    if ty == Ty::F16 {
        let wide = b.cvt(Ty::F32, Ty::F16, Round::None, x);
        let (fraction, exponent) = frexp(b, Ty::F32, wide);
        return (b.cvt(Ty::F16, Ty::F32, Round::Rn, fraction), int_to_int(b, Ty::S32, Ty::S16, exponent));
    }
    let layout = Layout::of(ty);
    let (bits, signed) = (unsigned(ty), if ty == Ty::F64 { Ty::S64 } else { Ty::S32 });
    let f = &mut Float::new(b, ty);
    let magnitude = f.abs(x);
    let subnormal = f.lt(magnitude, f.c(layout.least_normal));
    let scaled = f.mul(x, f.c(layout.lift));
    let normal = f.select(subnormal, scaled, x);
    let positive = f.abs(normal);
    let field = f.b.binary(BinaryOp::Shr, bits, positive, Operand::u32(layout.mantissa));
    let bias = f.b.selp(bits, subnormal, int(bits, layout.bias - 1 + layout.lift_exponent), int(bits, layout.bias - 1));
    let exponent = f.b.sub(signed, field, bias);
    let rest = f.b.and(bits, normal, Operand::Imm(layout.sign_and_mantissa));
    let fraction = f.b.or(bits, rest, f.c(0.5));
    let zero = f.cmp(Compare::Eq, x, f.c(0.0));
    let finite = f.lt(magnitude, f.c(f64::INFINITY));
    let nonzero = f.b.not(Ty::Pred, zero);
    let ordinary = f.b.and(Ty::Pred, finite, nonzero);
    let fraction = f.select(ordinary, fraction, x);
    (fraction, f.b.selp(signed, ordinary, exponent, int(signed, 0)))
}

/// Where a float type keeps what.
struct Layout {
    mantissa: u32,
    bias: i64,
    least_normal: f64,
    /// Makes every subnormal normal, and its power of two.
    lift: f64,
    lift_exponent: i64,
    sign_and_mantissa: u64,
}

impl Layout {
    fn of(ty: Ty) -> Layout {
        if ty == Ty::F64 {
            Layout {
                mantissa: 52,
                bias: 1023,
                least_normal: f64::MIN_POSITIVE,
                lift: 18014398509481984.0, // 2^54
                lift_exponent: 54,
                sign_and_mantissa: 0x800f_ffff_ffff_ffff,
            }
        } else {
            Layout {
                mantissa: 23,
                bias: 127,
                least_normal: f64::from(f32::MIN_POSITIVE),
                lift: 16777216.0, // 2^24
                lift_exponent: 24,
                sign_and_mantissa: 0x807f_ffff,
            }
        }
    }
}

/// `x * 2^n` for every n, rounded once; n is an i32.
pub(super) fn ldexp(b: &mut Builder, ty: Ty, x: Operand, n: Operand) -> Operand {
    match ty {
        Ty::F16 => {
            // Every half times 2^-60..2^60 is an f32; what lies beyond is 0 or infinite in both.
            let wide = b.cvt(Ty::F32, Ty::F16, Round::None, x);
            let n = b.binary(BinaryOp::Max, Ty::S32, n, Operand::i32(-60));
            let n = b.binary(BinaryOp::Min, Ty::S32, n, Operand::i32(60));
            let power = power_of_two(b, Ty::F32, n);
            let product = b.binary(BinaryOp::MulRn, Ty::F32, wide, power);
            b.cvt(Ty::F16, Ty::F32, Round::Rn, product)
        }
        Ty::F64 => in_steps(b, ty, x, n, 1023, 53),
        _ => in_steps(b, ty, x, n, 127, 24),
    }
}

/// Two steps of nearly the whole range where n asks for them, then one that rounds. A step down leaves the precision's
/// worth of exponents to the last one: what is rounded by a step then vanishes in the last.
fn in_steps(b: &mut Builder, ty: Ty, x: Operand, n: Operand, bias: i32, precision: i32) -> Operand {
    let (mut x, mut n) = (x, n);
    let (least, greatest) = (1 - bias, bias);
    let down = least + precision;
    for _ in 0..2 {
        let small = b.setp(Compare::Lt, Ty::S32, n, Operand::i32(least));
        let large = b.setp(Compare::Gt, Ty::S32, n, Operand::i32(greatest));
        let (down_power, up_power) =
            (power_of_two(b, ty, Operand::i32(down)), power_of_two(b, ty, Operand::i32(greatest)));
        let one = super::scalar::float(ty, 1.0);
        let factor = b.selp(ty, large, up_power, one);
        let factor = b.selp(ty, small, down_power, factor);
        let step = b.selp(Ty::S32, large, Operand::i32(greatest), Operand::i32(0));
        let step = b.selp(Ty::S32, small, Operand::i32(down), step);
        // A constant n that needs no step.
        if factor != one {
            x = b.binary(BinaryOp::MulRn, ty, x, factor);
        }
        n = b.sub(Ty::S32, n, step);
    }
    let n = b.binary(BinaryOp::Max, Ty::S32, n, Operand::i32(least));
    let n = b.binary(BinaryOp::Min, Ty::S32, n, Operand::i32(greatest));
    let power = power_of_two(b, ty, n);
    b.binary(BinaryOp::MulRn, ty, x, power)
}

/// 2^n, n within the exponents of normal numbers.
fn power_of_two(b: &mut Builder, ty: Ty, n: Operand) -> Operand {
    if ty == Ty::F64 {
        let biased = b.add(Ty::S32, n, Operand::i32(1023));
        let high = b.binary(BinaryOp::Shl, Ty::B32, biased, Operand::u32(20));
        return super::convert::join(b, Ty::B32, Operand::u32(0), high);
    }
    let biased = b.add(Ty::S32, n, Operand::i32(127));
    b.binary(BinaryOp::Shl, Ty::B32, biased, Operand::u32(23))
}
