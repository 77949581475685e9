//! WGSL's builtin functions.

mod scalar;

use naga::{BinaryOperator, MathFunction, RelationalFunction, Scalar, UnaryOperator, VectorSize};

use crate::error::{Error, Result};
use crate::ir::{Builder, Operand};
use crate::options::{Contraction, Target};

pub(crate) use scalar::ty_of;

/// What lowering of one value needs to know besides the builder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    pub(crate) target: Target,
    pub(crate) contraction: Contraction,
}

/// An argument: the scalars of a scalar, vector or (column by column) matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg<'a> {
    pub(crate) scalar: Scalar,
    pub(crate) shape: Shape,
    pub(crate) leaves: &'a [Operand],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar,
    Vector(VectorSize),
    Matrix { columns: VectorSize, rows: VectorSize },
}

fn unwritten<T>(what: impl std::fmt::Debug) -> Result<T> {
    Err(Error::unsupported(format!("{what:?}"), "not written yet"))
}

/// The leaves of `fun(args)`: vectors componentwise, matrices column by column, `modf` and `frexp` member by member
/// (fract, then whole or exponent; the exponent is a signed integer of the float's width, as in naga's result types).
pub(crate) fn math(b: &mut Builder, env: Env, fun: MathFunction, args: &[Arg]) -> Result<Vec<Operand>> {
    let _ = (b, env, args);
    unwritten(fun)
}

/// The value `x` of type `from` as a `to`, by WGSL's rules of value conversion.
pub(crate) fn convert(b: &mut Builder, env: Env, from: Scalar, to: Scalar, x: Operand) -> Result<Operand> {
    let _ = (b, env, from, x);
    unwritten(to)
}

/// The bits of `from` as components of type `to`; wider or narrower components are split or joined, low half first.
pub(crate) fn bitcast(b: &mut Builder, from: Arg, to: Scalar) -> Result<Vec<Operand>> {
    let _ = (b, from);
    unwritten(to)
}

/// `op x` on scalars.
pub(crate) fn unary(b: &mut Builder, env: Env, op: UnaryOperator, scalar: Scalar, x: Operand) -> Result<Operand> {
    let _ = (b, env, scalar, x);
    unwritten(op)
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
    let _ = (b, env, scalar, l, r);
    unwritten(op)
}

/// `all` and `any` give one predicate, `isNan` and `isInf` one per component.
pub(crate) fn relational(b: &mut Builder, fun: RelationalFunction, arg: Arg) -> Result<Vec<Operand>> {
    let _ = (b, arg);
    unwritten(fun)
}
