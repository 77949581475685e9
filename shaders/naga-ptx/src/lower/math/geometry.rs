//! Functions of vectors: `dot`, `cross`, `length`, `distance`, `normalize`, `faceForward`, `reflect`, `refract`.
//!
//! The decision to know: lengths of half vectors are computed in f32, so that their squares do not overflow; other f16
//! products stay f16.

use super::Env;
use super::common::{abs, inverse_sqrt};
use super::float::Float;
use super::scalar::{float, int};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, TernaryOp, Ty, UnaryOp};
use crate::options::Contraction;

/// `x * y + z` of the type: fused for floats unless that is forbidden; integers wrap.
pub(super) fn mul_add(b: &mut Builder, env: Env, ty: Ty, x: Operand, y: Operand, z: Operand) -> Operand {
    if !ty.is_float() {
        return b.ternary(TernaryOp::MadLo, ty, x, y, z);
    }
    if env.contraction == Contraction::Allowed {
        return b.fma(ty, x, y, z);
    }
    let f = &mut Float::new(b, ty);
    let product = f.mul(x, y);
    f.add(product, z)
}

pub(super) fn dot(b: &mut Builder, env: Env, ty: Ty, x: &[Operand], y: &[Operand]) -> Operand {
    let mut pairs = x.iter().zip(y);
    let Some((&x, &y)) = pairs.next() else { return int(ty, 0) };
    let first = b.binary(if ty.is_float() { BinaryOp::MulRn } else { BinaryOp::Mul }, ty, x, y);
    pairs.fold(first, |sum, (&x, &y)| mul_add(b, env, ty, x, y, sum))
}

pub(super) fn cross(b: &mut Builder, env: Env, ty: Ty, x: &[Operand; 3], y: &[Operand; 3]) -> Vec<Operand> {
    (0..3)
        .map(|i| {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            let product = b.binary(BinaryOp::MulRn, ty, x[k], y[j]);
            let minus = b.unary(UnaryOp::Neg, ty, product);
            mul_add(b, env, ty, x[j], y[k], minus)
        })
        .collect()
}

/// The root of the sum of squares of one or more components.
pub(super) fn length(b: &mut Builder, env: Env, ty: Ty, x: &[Operand]) -> Operand {
    if let [x] = x {
        return abs(b, ty, *x);
    }
    if ty == Ty::F16 {
        let wide = widened(b, x);
        let value = length(b, env, Ty::F32, &wide);
        return b.cvt(Ty::F16, Ty::F32, Round::Rn, value);
    }
    let square = dot(b, env, ty, x, x);
    b.unary(UnaryOp::Sqrt, ty, square)
}

pub(super) fn distance(b: &mut Builder, env: Env, ty: Ty, x: &[Operand], y: &[Operand]) -> Operand {
    if ty == Ty::F16 {
        let (x, y) = (widened(b, x), widened(b, y));
        let value = distance(b, env, Ty::F32, &x, &y);
        return b.cvt(Ty::F16, Ty::F32, Round::Rn, value);
    }
    let difference: Vec<Operand> = x.iter().zip(y).map(|(&x, &y)| b.binary(BinaryOp::SubRn, ty, x, y)).collect();
    length(b, env, ty, &difference)
}

/// `x / length(x)`, by the reciprocal root.
pub(super) fn normalize(b: &mut Builder, env: Env, ty: Ty, x: &[Operand]) -> Vec<Operand> {
    if ty == Ty::F16 {
        let wide = widened(b, x);
        let unit = normalize(b, env, Ty::F32, &wide);
        return unit.into_iter().map(|x| b.cvt(Ty::F16, Ty::F32, Round::Rn, x)).collect();
    }
    let square = dot(b, env, ty, x, x);
    let scale = inverse_sqrt(b, ty, square);
    x.iter().map(|&x| b.binary(BinaryOp::MulRn, ty, x, scale)).collect()
}

fn widened(b: &mut Builder, x: &[Operand]) -> Vec<Operand> {
    x.iter().map(|&x| b.cvt(Ty::F32, Ty::F16, Round::None, x)).collect()
}

/// `x` where `dot(reference, incident) < 0`, else `-x`.
pub(super) fn face_forward(
    b: &mut Builder,
    env: Env,
    ty: Ty,
    x: &[Operand],
    incident: &[Operand],
    reference: &[Operand],
) -> Vec<Operand> {
    let side = dot(b, env, ty, reference, incident);
    let facing = b.setp(Compare::Lt, ty, side, float(ty, 0.0));
    x.iter()
        .map(|&x| {
            let away = b.unary(UnaryOp::Neg, ty, x);
            b.selp(ty, facing, x, away)
        })
        .collect()
}

/// `x - 2 dot(normal, x) normal`
pub(super) fn reflect(b: &mut Builder, env: Env, ty: Ty, x: &[Operand], normal: &[Operand]) -> Vec<Operand> {
    let along = dot(b, env, ty, normal, x);
    let f = &mut Float::new(b, ty);
    let factor = f.mul(along, f.c(-2.0));
    x.iter().zip(normal).map(|(&x, &n)| mul_add(b, env, ty, factor, n, x)).collect()
}

/// `eta x - (eta d + sqrt(k)) normal`, d = dot(normal, x), k = 1 - eta^2 (1 - d^2); zeros where k is negative.
pub(super) fn refract(
    b: &mut Builder,
    env: Env,
    ty: Ty,
    x: &[Operand],
    normal: &[Operand],
    eta: Operand,
) -> Vec<Operand> {
    let d = dot(b, env, ty, normal, x);
    let f = &mut Float::new(b, ty);
    let sine = f.nfma(d, d, f.c(1.0));
    let eta_square = f.mul(eta, eta);
    let k = f.nfma(eta_square, sine, f.c(1.0));
    let total = f.lt(k, f.c(0.0));
    let root = super::common::sqrt(f.b, ty, k);
    let factor = f.fma(eta, d, root);
    let minus = f.neg(factor);
    let (f, zero) = (f, float(ty, 0.0));
    x.iter()
        .zip(normal)
        .map(|(&x, &n)| {
            let part = f.mul(eta, x);
            let value = f.fma(minus, n, part);
            f.select(total, zero, value)
        })
        .collect()
}
