//! Packing into and unpacking from a u32, and the dot products of packed bytes.
//!
//! The decision to know: normalised integers are rounded as WGSL writes it, `floor(0.5 + scale * x)`, with one rounding
//! of the sum; unpacked ones are correctly rounded quotients, a multiplication and a correction instead of a division.

use super::convert::{join, split};
use super::float::Float;
use crate::error::{Error, Result};
use crate::ir::{BinaryOp, Builder, Operand, Round, TernaryOp, Ty};

/// Two or four floats as normalised integers: from `least` to 1, times `scale`.
pub(super) fn norm(b: &mut Builder, x: &[Operand], to: Ty, least: f32, scale: f32) -> Result<Operand> {
    let parts: Vec<Operand> = x.iter().map(|&x| to_norm(b, x, to, least, scale)).collect();
    low_parts(b, &parts)
}

/// Two floats as halves.
pub(super) fn halves(b: &mut Builder, x: &[Operand]) -> Result<Operand> {
    let &[x, y] = x else { return Err(miscounted(x.len())) };
    let (x, y) = (b.cvt(Ty::F16, Ty::F32, Round::Rn, x), b.cvt(Ty::F16, Ty::F32, Round::Rn, y));
    Ok(join(b, Ty::B16, x, y))
}

/// The low bytes of four integers.
pub(super) fn bytes(b: &mut Builder, x: &[Operand]) -> Result<Operand> {
    low_parts(b, x)
}

/// Four integers, each first brought into `least..=greatest`.
pub(super) fn clamped_bytes(b: &mut Builder, x: &[Operand], ty: Ty, least: i32, greatest: i32) -> Result<Operand> {
    let clamped: Vec<Operand> = x
        .iter()
        .map(|&x| {
            let x = b.binary(BinaryOp::Max, ty, x, Operand::i32(least));
            b.binary(BinaryOp::Min, ty, x, Operand::i32(greatest))
        })
        .collect();
    low_parts(b, &clamped)
}

/// The low halves of two, or the low bytes of four registers as one.
fn low_parts(b: &mut Builder, parts: &[Operand]) -> Result<Operand> {
    let mut prmt = |x, y, picks| b.ternary(TernaryOp::Prmt, Ty::B32, x, y, Operand::u32(picks));
    match *parts {
        [x, y] => Ok(prmt(x, y, 0x5410)),
        [x, y, z, w] => {
            let (low, high) = (prmt(x, y, 0x0040), prmt(z, w, 0x0040));
            Ok(prmt(low, high, 0x5410))
        }
        _ => Err(miscounted(parts.len())),
    }
}

fn miscounted(count: usize) -> Error {
    Error::invalid(format!("{count} components are packed"))
}

fn to_norm(b: &mut Builder, x: Operand, to: Ty, least: f32, scale: f32) -> Operand {
    let f = &mut Float::new(b, Ty::F32);
    let x = f.max(x, Operand::f32(least));
    let x = f.min(x, Operand::f32(1.0));
    let scaled = f.fma(x, Operand::f32(scale), Operand::f32(0.5));
    b.cvt(to, Ty::F32, Round::Rmi, scaled)
}

/// The fields of `bits` bits of a u32, lowest first, extended by the sign of `ty`.
pub(super) fn fields(b: &mut Builder, ty: Ty, bits: u32, x: Operand) -> Vec<Operand> {
    let field = |i| b.ternary(TernaryOp::Bfe, ty, x, Operand::u32(i * bits), Operand::u32(bits));
    (0..32 / bits).map(field).collect()
}

pub(super) fn from_halves(b: &mut Builder, x: Operand) -> Vec<Operand> {
    split(b, Ty::F16, x).into_iter().map(|x| b.cvt(Ty::F32, Ty::F16, Round::None, x)).collect()
}

/// `max(n / scale, -1)`, correctly rounded: one step of correction makes it so for all integers concerned.
pub(super) fn from_norm(b: &mut Builder, ty: Ty, bits: u32, scale: f32, x: Operand) -> Vec<Operand> {
    let fields = fields(b, ty, bits, x);
    let (scale, rcp) = (Operand::f32(scale), Operand::f32(1.0 / scale));
    fields
        .into_iter()
        .map(|n| {
            let n = b.cvt(Ty::F32, ty, Round::Rn, n);
            let f = &mut Float::new(b, Ty::F32);
            let q = f.mul(n, rcp);
            let rest = f.nfma(q, scale, n);
            let q = f.fma(rest, rcp, q);
            if ty.is_signed() { f.max(q, Operand::f32(-1.0)) } else { q }
        })
        .collect()
}

/// `dot4I8Packed`, `dot4U8Packed`.
pub(super) fn dot4(b: &mut Builder, ty: Ty, x: Operand, y: Operand) -> Operand {
    b.ternary(TernaryOp::Dp4a, ty, x, y, Operand::u32(0))
}
