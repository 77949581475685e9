//! The plain componentwise functions: comparison, interpolation, rounding to integers, roots.
//!
//! The decision to know: `min`, `max` and `clamp` of floats are PTX's, which return the number where one operand is
//! NaN.

use super::Env;
use super::arith::float_divide;
use super::float::{Float, half, half2};
use super::scalar::{float, int, one};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty, UnaryOp};

/// `min` or `max`; f16 has them from sm_80 on, before that by way of f32, which holds every half.
pub(super) fn min_max(b: &mut Builder, env: Env, op: BinaryOp, ty: Ty, x: Operand, y: Operand) -> Operand {
    if ty == Ty::F16 && env.target.sm() < 80 {
        return half2(b, x, y, |f, x, y| f.b.binary(op, Ty::F32, x, y));
    }
    if ty == Ty::F16 {
        b.require(7, 0);
    }
    b.binary(op, ty, x, y)
}

pub(super) fn clamp(b: &mut Builder, env: Env, ty: Ty, x: Operand, low: Operand, high: Operand) -> Operand {
    let x = min_max(b, env, BinaryOp::Max, ty, x, low);
    min_max(b, env, BinaryOp::Min, ty, x, high)
}

pub(super) fn abs(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    if ty == Ty::F16 {
        // `abs.f16` would ask for PTX ISA 6.5.
        return b.and(ty, x, Operand::Imm(0x7fff));
    }
    if ty.is_float() || ty.is_signed() { b.unary(UnaryOp::Abs, ty, x) } else { x }
}

/// -1, 0 or 1; a float's zeros and NaNs stay themselves.
pub(super) fn sign(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    if ty.is_float() {
        let positive = b.setp(Compare::Gt, ty, x, float(ty, 0.0));
        let negative = b.setp(Compare::Lt, ty, x, float(ty, 0.0));
        let rest = b.selp(ty, negative, float(ty, -1.0), x);
        return b.selp(ty, positive, float(ty, 1.0), rest);
    }
    let x = if ty.is_signed() { b.binary(BinaryOp::Max, ty, x, int(ty, -1)) } else { x };
    b.binary(BinaryOp::Min, ty, x, one(ty))
}

/// `ceil`, `floor`, `round`, `trunc`, by the rounding.
pub(super) fn integral(b: &mut Builder, ty: Ty, round: Round, x: Operand) -> Operand {
    Float::new(b, ty).integral(round, x)
}

pub(super) fn fract(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    let f = &mut Float::new(b, ty);
    let floor = f.integral(Round::Rmi, x);
    f.sub(x, floor)
}

/// `x * factor`; in f16 the factor keeps its bits.
pub(super) fn scaled(b: &mut Builder, ty: Ty, factor: f64, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| f.mul(x, f.c(factor))),
        _ => {
            let f = &mut Float::new(b, ty);
            f.mul(x, f.c(factor))
        }
    }
}

/// Correctly rounded.
pub(super) fn sqrt(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| f.sqrt(x)),
        _ => b.unary(UnaryOp::Sqrt, ty, x),
    }
}

pub(super) fn quantize_to_f16(b: &mut Builder, x: Operand) -> Operand {
    let short = b.cvt(Ty::F16, Ty::F32, Round::Rn, x);
    b.cvt(Ty::F32, Ty::F16, Round::None, short)
}

/// `rsqrt.approx` for f32: at most 2^-22.4 off, relatively. f64 has only an approximation without most of the bits, so
/// it divides by the root.
pub(super) fn inverse_sqrt(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| f.unary(UnaryOp::RsqrtApprox, x)),
        Ty::F64 => {
            let f = &mut Float::new(b, ty);
            let root = f.sqrt(x);
            f.unary(UnaryOp::Rcp, root)
        }
        _ => b.unary(UnaryOp::RsqrtApprox, ty, x),
    }
}

/// [`inverse_sqrt`] of an f32 that is not subnormal: an instruction where others take four, which scale.
pub(crate) fn inverse_sqrt_of_normal(b: &mut Builder, x: Operand) -> Operand {
    b.unary(UnaryOp::RsqrtApproxFtz, Ty::F32, x)
}

/// `x (1 - t) + y t`: exactly x at 0 and y at 1.
pub(super) fn mix(b: &mut Builder, ty: Ty, x: Operand, y: Operand, t: Operand) -> Operand {
    let f = &mut Float::new(b, ty);
    let rest = f.sub(f.c(1.0), t);
    let first = f.mul(x, rest);
    f.fma(y, t, first)
}

/// `select(0, 1, edge <= x)`
pub(super) fn step(b: &mut Builder, ty: Ty, edge: Operand, x: Operand) -> Operand {
    let reached = b.setp(Compare::Le, ty, edge, x);
    b.selp(ty, reached, float(ty, 1.0), float(ty, 0.0))
}

pub(super) fn smoothstep(b: &mut Builder, env: Env, ty: Ty, low: Operand, high: Operand, x: Operand) -> Operand {
    let f = &mut Float::new(b, ty);
    let (above, span) = (f.sub(x, low), f.sub(high, low));
    let t = float_divide(b, ty, above, span);
    let t = clamp(b, env, ty, t, float(ty, 0.0), float(ty, 1.0));
    let f = &mut Float::new(b, ty);
    let slope = f.fma(t, f.c(-2.0), f.c(3.0));
    let square = f.mul(t, t);
    f.mul(square, slope)
}
