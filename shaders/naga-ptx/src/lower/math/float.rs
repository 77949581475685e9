//! Float code in one type, every operation rounded by itself: what the approximations of this folder are written in.
//!
//! The decision to know: sums and products are `add.rn` and `mul.rn`, which the assembler never contracts; where one
//! rounding is wanted the code says `fma`. Error-free transformations depend on it.

use super::scalar;
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty, UnaryOp};

/// A builder and the float type it computes in.
pub(super) struct Float<'b> {
    pub(super) b: &'b mut Builder,
    pub(super) ty: Ty,
}

impl<'b> Float<'b> {
    pub(super) fn new(b: &'b mut Builder, ty: Ty) -> Float<'b> {
        Float { b, ty }
    }

    /// The constant nearest `value`.
    pub(super) fn c(&self, value: f64) -> Operand {
        scalar::float(self.ty, value)
    }

    pub(super) fn add(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::AddRn, self.ty, x, y)
    }

    pub(super) fn sub(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::SubRn, self.ty, x, y)
    }

    pub(super) fn mul(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::MulRn, self.ty, x, y)
    }

    pub(super) fn div(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::Div, self.ty, x, y)
    }

    pub(super) fn min(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::Min, self.ty, x, y)
    }

    pub(super) fn max(&mut self, x: Operand, y: Operand) -> Operand {
        self.b.binary(BinaryOp::Max, self.ty, x, y)
    }

    /// `x * y + z`, rounded once.
    pub(super) fn fma(&mut self, x: Operand, y: Operand, z: Operand) -> Operand {
        self.b.fma(self.ty, x, y, z)
    }

    /// `z - x * y`, rounded once.
    pub(super) fn nfma(&mut self, x: Operand, y: Operand, z: Operand) -> Operand {
        let x = self.neg(x);
        self.fma(x, y, z)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, x: Operand) -> Operand {
        self.b.unary(op, self.ty, x)
    }

    pub(super) fn neg(&mut self, x: Operand) -> Operand {
        self.unary(UnaryOp::Neg, x)
    }

    pub(super) fn abs(&mut self, x: Operand) -> Operand {
        self.unary(UnaryOp::Abs, x)
    }

    pub(super) fn sqrt(&mut self, x: Operand) -> Operand {
        self.unary(UnaryOp::Sqrt, x)
    }

    /// Rounded to an integer of the same float type.
    pub(super) fn integral(&mut self, round: Round, x: Operand) -> Operand {
        self.b.cvt(self.ty, self.ty, round, x)
    }

    /// The sign of `sign` on the magnitude of `x`.
    pub(super) fn with_sign(&mut self, sign: Operand, x: Operand) -> Operand {
        self.b.binary(BinaryOp::CopySign, self.ty, sign, x)
    }

    pub(super) fn cmp(&mut self, cmp: Compare, x: Operand, y: Operand) -> Operand {
        self.b.setp(cmp, self.ty, x, y)
    }

    pub(super) fn lt(&mut self, x: Operand, y: Operand) -> Operand {
        self.cmp(Compare::Lt, x, y)
    }

    /// `x` where `p`, else `y`.
    pub(super) fn select(&mut self, p: Operand, x: Operand, y: Operand) -> Operand {
        self.b.selp(self.ty, p, x, y)
    }

    /// The polynomial with these coefficients, lowest power first.
    pub(super) fn horner(&mut self, coefficients: &[f64], z: Operand) -> Operand {
        let Some((&last, rest)) = coefficients.split_last() else { return self.c(0.0) };
        rest.iter().rev().fold(self.c(last), |sum, &c| self.fma(sum, z, scalar::float(self.ty, c)))
    }

    /// `x + x z P(z)`, `z` being the square of `x`: an odd function that is `x` in first order.
    pub(super) fn odd(&mut self, coefficients: &[f64], x: Operand, z: Operand) -> Operand {
        let p = self.horner(coefficients, z);
        let xz = self.mul(x, z);
        self.fma(xz, p, x)
    }
}

/// An f16 function by way of f32: rounded once more at the end.
pub(super) fn half(b: &mut Builder, x: Operand, f: impl FnOnce(&mut Float, Operand) -> Operand) -> Operand {
    let wide = b.cvt(Ty::F32, Ty::F16, Round::None, x);
    let wide = f(&mut Float::new(b, Ty::F32), wide);
    b.cvt(Ty::F16, Ty::F32, Round::Rn, wide)
}

/// The same of two arguments.
pub(super) fn half2(
    b: &mut Builder,
    x: Operand,
    y: Operand,
    f: impl FnOnce(&mut Float, Operand, Operand) -> Operand,
) -> Operand {
    let x = b.cvt(Ty::F32, Ty::F16, Round::None, x);
    half(b, y, |b, y| f(b, x, y))
}
