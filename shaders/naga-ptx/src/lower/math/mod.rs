//! WGSL's builtin functions, operators and conversions, value by value.
//!
//! What it is not: expressions, which `lower` takes apart into leaves and puts together again. Everything here takes
//! scalars, or the leaves of vectors and matrices, and returns the same. Start at [`math`]; one file per family.
//!
//! # Accuracy
//!
//! Largest errors in units of the last place, over 2^20 inputs each (half of them random bits, so all magnitudes),
//! against f64 on the host: first with correctly rounded approximations (`ex2`, `rcp`, `rsqrt`), then with
//! approximations off by all that NVIDIA documents (2, 1 and 2 ULP). `tests/accuracy.rs` measures and asserts them, also
//! where a device was found to be worst. Sequences without an approximation have one figure. An H200 stays within all of
//! them (`benches/results/h200-cuda-2026-11-21/accuracy.md`); what is measured there alone is marked by a star. All results
//! include subnormals; nothing is flushed. "Inherited" limits are those of the formula that WGSL defines a function by,
//! some of them very wide; pi/2 and its like are exact to the last place. "Of a term": in units of the largest of the
//! terms that are summed, which may cancel.
//!
//! | f32 builtin | PTX | measured | WGSL's limit |
//! | --- | --- | --- | --- |
//! | `+` `-` `*` | `add` `sub` `mul` (contracted unless forbidden), `fma` | 0.5 | correctly rounded |
//! | `-x` `abs` `min` `max` `clamp` `saturate` `sign` `step` `faceForward` | `neg` `abs` `min` `max`, selects | 0 | correctly rounded |
//! | `/` `sqrt` | `div.rn` `sqrt.rn` | 0.5 | 2.5; inherited from `1 / inverseSqrt(x)` |
//! | `%` | `div.rn`, truncated, `fma`, one correction | 0 to a quotient of 2^24, beyond it less than y | inherited from `x - y trunc(x / y)` |
//! | `fract` | `cvt.rmi`, `sub.rn` | 0.5 | inherited from `x - floor(x)` |
//! | `mix` | `sub.rn`, `mul.rn`, `fma` | 1.88* of a term | inherited from `x (1 - t) + y t` |
//! | `smoothstep` | `div.rn`, clamped, products | 4.72* | inherited from `t t (3 - 2 t)` |
//! | `inverseSqrt` | `rsqrt.approx` (`.ftz` of `max(x, c)` with a normal c) | 0.50, 2.00 | 2 |
//! | `exp` | n = round(x / ln 2), `ex2.approx` of the rest in two parts, times 2^n | 0.95, 2.52 | 3 + 2 \|x\| |
//! | `exp2` | `ex2.approx` | 0.50, 2.50 | 3 + 2 \|x\| |
//! | `log` | exponent, polynomial of 9 on [2/3, 4/3) | 0.88 | 3; absolute 2^-21 on [0.5, 2] |
//! | `log2` | the same, of 10 | 1.77 | 3; absolute 2^-21 on [0.5, 2] |
//! | `pow` | 2^(y log2 x), log2 in two floats, `rcp.approx`, `ex2.approx` | 5.81, 7.98 (x near sqrt 2 or its inverse, results near the ends; 4.81*) | inherited: 3 + 2 \|y log2 x\| and more |
//! | `sin` | x - k pi/2 in three steps (beyond 2^16 by 96 bits of 2/pi), polynomial | 1.51 | absolute 2^-11 on [-pi, pi] |
//! | `cos` | the same | 1.49 | absolute 2^-11 on [-pi, pi] |
//! | `tan` | the same, polynomial of 7, `rcp.rn` | 2.69 | inherited |
//! | `asin` | polynomial of 5, `sqrt.rn` | 1.87 | inherited, or absolute 6.8e-5 |
//! | `acos` | the same | 1.25 | inherited, or absolute 6.8e-5 |
//! | `atan` | `div.rn`, polynomial of 9 | 1.33 | 4096 |
//! | `atan2` | the same | 1.47 | 4096 |
//! | `sinh` | polynomial of 4 to 1, exponentials beyond | 1.58, 4.74 | inherited |
//! | `cosh` | exponentials | 1.22, 2.72 | inherited |
//! | `tanh` | polynomial of 5 to 0.6, 1 - 2 / (e^2x + 1) beyond | 1.60, 2.12 | inherited, or absolute 1e-5 |
//! | `asinh` `acosh` `atanh` | log(1 + v) | 1.86, 2.02, 2.06 | inherited |
//! | `radians` `degrees` | `mul.rn` | 0.63, 0.70 | inherited |
//! | `floor` `ceil` `round` `trunc` `ldexp` `frexp` `modf` `quantizeToF16` | `cvt`, integer operations | 0 | correctly rounded |
//! | `dot` of four | a product, then `fma` | 2.75* of a term | inherited, in any order |
//! | `cross`, matrix by vector | products, `fma` | 1.00* of a term | inherited |
//! | `length` `distance` of three | `dot`, `sqrt.rn` | 1.33*, 1.87* | inherited from `sqrt(dot(x, x))` |
//! | `normalize` of three | `dot`, `rsqrt.approx`, products | 2.82* | inherited from `x / length(x)` |
//! | `reflect` `refract` of three | their formulas | 34.8*, 11.8* of a term | inherited |
//! | `determinant` of 3x3, entries to 1 | cofactors | absolute 3e-7* | none |
//! | `i32(f32)` `u32(f32)` | `cvt.rzi`, clamped | 0 | truncated, clamped |
//! | `f32(i32)` `f32(u32)`, `f32(f16)` | `cvt.rn` | 0.5, 0 | correctly rounded |
//! | `pack*norm` | clamped, `fma`, `cvt.rmi` | 1* of the integer | the nearest, of a product rounded before |
//! | `pack2x16float`, `unpack2x16float` | `cvt.rn.f16`, `cvt` | 0.5, 0 | correctly rounded |
//! | `unpack*norm` | product and one correction | 0.5 | 3 |
//!
//! Functions of f16 are computed in f32 and rounded once: all 65,536 inputs within 0.501 ULP, except that `log` and
//! `log2` by `lg2.approx` may be off by 2^-22 at 1 itself. Sums, products and `fma` of halves are PTX's own.
//!
//! f64 is not WGSL's, and has no limits. `%` is exact to a quotient of 2^53. Largest errors against 160 bits (1300 bits for large angles), over 40,000 inputs
//! of all magnitudes: `exp` `exp2` `log` `log2` 0.95 ULP, `sin` `cos` 2.2 and `tan` 4 for every double, `pow` 4, `asin`
//! 1.9, `acos` 1.2, `atan` 1.4, `atan2` 2, `sinh` 1.6, `cosh` 1.2, `tanh` 1.3, `asinh` 1.8, `acosh` 1.7, `atanh` 1.6.

mod arith;
mod bits;
mod common;
mod convert;
mod decompose;
mod divide;
mod double;
mod exp_log;
mod float;
mod geometry;
mod hyperbolic;
mod inverse_trig;
mod matrix;
mod pack;
mod scalar;
#[cfg(test)]
mod tests;
mod trig;

use naga::{MathFunction as Mf, Scalar, VectorSize};

use crate::error::{Error, Result};
use crate::ir::{BinaryOp, Builder, Operand, Round, Ty};
use crate::options::{Contraction, Target};

pub(crate) use arith::{binary, relational, unary, wide_product};
pub(crate) use common::inverse_sqrt_of_normal;
pub(crate) use convert::{bitcast, convert};
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

/// The leaves of `fun(args)`: vectors componentwise, matrices column by column, `modf` and `frexp` member by member
/// (fract, then whole or exponent; the exponent is a signed integer of the float's width, as in naga's result types).
pub(crate) fn math(b: &mut Builder, env: Env, fun: Mf, args: &[Arg]) -> Result<Vec<Operand>> {
    let Some(first) = args.first() else { return Err(Error::invalid(format!("{fun:?} of nothing"))) };
    let ty = ty_of(first.scalar)?;
    check(fun, ty, args)?;
    match fun {
        Mf::Abs => map(b, args, |b, [x]| common::abs(b, ty, x)),
        Mf::Min => map(b, args, |b, [x, y]| common::min_max(b, env, BinaryOp::Min, ty, x, y)),
        Mf::Max => map(b, args, |b, [x, y]| common::min_max(b, env, BinaryOp::Max, ty, x, y)),
        Mf::Clamp => map(b, args, |b, [x, low, high]| common::clamp(b, env, ty, x, low, high)),
        Mf::Saturate => {
            map(b, args, |b, [x]| common::clamp(b, env, ty, x, scalar::float(ty, 0.0), scalar::float(ty, 1.0)))
        }
        Mf::Sin if ty == Ty::F64 => map(b, args, |b, [x]| double::sin(b, x)),
        Mf::Cos if ty == Ty::F64 => map(b, args, |b, [x]| double::cos(b, x)),
        Mf::Tan if ty == Ty::F64 => map(b, args, |b, [x]| double::tan(b, x)),
        Mf::Sin => map(b, args, |b, [x]| trig::sin(b, ty, x)),
        Mf::Cos => map(b, args, |b, [x]| trig::cos(b, ty, x)),
        Mf::Tan => map(b, args, |b, [x]| trig::tan(b, ty, x)),
        Mf::Sinh => map(b, args, |b, [x]| hyperbolic::sinh(b, ty, x)),
        Mf::Cosh => map(b, args, |b, [x]| hyperbolic::cosh(b, ty, x)),
        Mf::Tanh => map(b, args, |b, [x]| hyperbolic::tanh(b, ty, x)),
        Mf::Asin => map(b, args, |b, [x]| inverse_trig::asin(b, ty, x)),
        Mf::Acos => map(b, args, |b, [x]| inverse_trig::acos(b, ty, x)),
        Mf::Atan => map(b, args, |b, [x]| inverse_trig::atan(b, ty, x)),
        Mf::Atan2 => map(b, args, |b, [y, x]| inverse_trig::atan2(b, ty, y, x)),
        Mf::Asinh => map(b, args, |b, [x]| hyperbolic::asinh(b, ty, x)),
        Mf::Acosh => map(b, args, |b, [x]| hyperbolic::acosh(b, ty, x)),
        Mf::Atanh => map(b, args, |b, [x]| hyperbolic::atanh(b, ty, x)),
        Mf::Radians => map(b, args, |b, [x]| common::scaled(b, ty, 1f64.to_radians(), x)),
        Mf::Degrees => map(b, args, |b, [x]| common::scaled(b, ty, 1f64.to_degrees(), x)),
        Mf::Ceil => map(b, args, |b, [x]| common::integral(b, ty, Round::Rpi, x)),
        Mf::Floor => map(b, args, |b, [x]| common::integral(b, ty, Round::Rmi, x)),
        Mf::Round => map(b, args, |b, [x]| common::integral(b, ty, Round::Rni, x)),
        Mf::Trunc => map(b, args, |b, [x]| common::integral(b, ty, Round::Rzi, x)),
        Mf::Fract => map(b, args, |b, [x]| common::fract(b, ty, x)),
        Mf::Modf => Ok(members(first.leaves, |x| decompose::modf(b, ty, x))),
        Mf::Frexp => Ok(members(first.leaves, |x| decompose::frexp(b, ty, x))),
        Mf::Ldexp => map(b, args, |b, [x, n]| decompose::ldexp(b, ty, x, n)),
        Mf::Exp if ty == Ty::F64 => map(b, args, |b, [x]| double::exp(b, x)),
        Mf::Exp2 if ty == Ty::F64 => map(b, args, |b, [x]| double::exp2(b, x)),
        Mf::Log if ty == Ty::F64 => map(b, args, |b, [x]| double::log(b, x)),
        Mf::Log2 if ty == Ty::F64 => map(b, args, |b, [x]| double::log2(b, x)),
        Mf::Pow if ty == Ty::F64 => map(b, args, |b, [x, y]| double::pow(b, x, y)),
        Mf::Exp => map(b, args, |b, [x]| exp_log::exp(b, ty, x)),
        Mf::Exp2 => map(b, args, |b, [x]| exp_log::exp2(b, ty, x)),
        Mf::Log => map(b, args, |b, [x]| exp_log::log(b, ty, x)),
        Mf::Log2 => map(b, args, |b, [x]| exp_log::log2(b, ty, x)),
        Mf::Pow => map(b, args, |b, [x, y]| exp_log::pow(b, ty, x, y)),
        Mf::Dot => {
            let [x, y] = leaves(args)?;
            Ok(vec![geometry::dot(b, env, ty, x, y)])
        }
        Mf::Dot4I8Packed => map(b, args, |b, [x, y]| pack::dot4(b, Ty::S32, x, y)),
        Mf::Dot4U8Packed => map(b, args, |b, [x, y]| pack::dot4(b, Ty::U32, x, y)),
        Mf::Outer => {
            let [x, y] = leaves(args)?;
            Ok(matrix::outer(b, ty, x, y))
        }
        Mf::Cross => {
            let [x, y] = leaves(args)?;
            let (Ok(x), Ok(y)) = (x.try_into(), y.try_into()) else {
                return Err(Error::invalid("a cross product of vectors that have not three components"));
            };
            Ok(geometry::cross(b, env, ty, x, y))
        }
        Mf::Distance => {
            let [x, y] = leaves(args)?;
            Ok(vec![geometry::distance(b, env, ty, x, y)])
        }
        Mf::Length => Ok(vec![geometry::length(b, env, ty, first.leaves)]),
        Mf::Normalize => Ok(geometry::normalize(b, env, ty, first.leaves)),
        Mf::FaceForward => {
            let [x, incident, reference] = leaves(args)?;
            Ok(geometry::face_forward(b, env, ty, x, incident, reference))
        }
        Mf::Reflect => {
            let [x, normal] = leaves(args)?;
            Ok(geometry::reflect(b, env, ty, x, normal))
        }
        Mf::Refract => match leaves(args)? {
            [x, normal, &[eta]] => Ok(geometry::refract(b, env, ty, x, normal, eta)),
            [_, _, eta] => Err(Error::invalid(format!("refract with {} ratios", eta.len()))),
        },
        Mf::Sign => map(b, args, |b, [x]| common::sign(b, ty, x)),
        Mf::Fma => map(b, args, |b, [x, y, z]| b.fma(ty, x, y, z)),
        Mf::Mix => map(b, args, |b, [x, y, t]| common::mix(b, ty, x, y, t)),
        Mf::Step => map(b, args, |b, [edge, x]| common::step(b, ty, edge, x)),
        Mf::SmoothStep => map(b, args, |b, [low, high, x]| common::smoothstep(b, env, ty, low, high, x)),
        Mf::Sqrt => map(b, args, |b, [x]| common::sqrt(b, ty, x)),
        Mf::InverseSqrt => map(b, args, |b, [x]| common::inverse_sqrt(b, ty, x)),
        Mf::Inverse => matrix::inverse(b, ty, first.leaves),
        Mf::Transpose => match first.shape {
            Shape::Matrix { columns, rows } => matrix::transpose(columns, rows, first.leaves),
            Shape::Scalar | Shape::Vector(_) => Err(Error::invalid("only matrices are transposed")),
        },
        Mf::Determinant => matrix::determinant(b, ty, first.leaves),
        Mf::QuantizeToF16 => map(b, args, |b, [x]| common::quantize_to_f16(b, x)),
        Mf::CountTrailingZeros => map(b, args, |b, [x]| bits::trailing_zeros(b, ty, x)),
        Mf::CountLeadingZeros => map(b, args, |b, [x]| bits::leading_zeros(b, ty, x)),
        Mf::CountOneBits => map(b, args, |b, [x]| bits::count_ones(b, ty, x)),
        Mf::ReverseBits => map(b, args, |b, [x]| bits::reverse(b, ty, x)),
        Mf::ExtractBits => map(b, args, |b, [x, offset, count]| bits::extract(b, ty, x, offset, count)),
        Mf::InsertBits => map(b, args, |b, [x, new, offset, count]| bits::insert(b, ty, x, new, offset, count)),
        Mf::FirstTrailingBit => map(b, args, |b, [x]| bits::first_trailing(b, ty, x)),
        Mf::FirstLeadingBit => map(b, args, |b, [x]| bits::first_leading(b, ty, x)),
        Mf::Pack4x8snorm => pack::norm(b, first.leaves, Ty::S32, -1.0, 127.0).map(single),
        Mf::Pack4x8unorm => pack::norm(b, first.leaves, Ty::U32, 0.0, 255.0).map(single),
        Mf::Pack2x16snorm => pack::norm(b, first.leaves, Ty::S32, -1.0, 32767.0).map(single),
        Mf::Pack2x16unorm => pack::norm(b, first.leaves, Ty::U32, 0.0, 65535.0).map(single),
        Mf::Pack2x16float => pack::halves(b, first.leaves).map(single),
        Mf::Pack4xI8 | Mf::Pack4xU8 => pack::bytes(b, first.leaves).map(single),
        Mf::Pack4xI8Clamp => pack::clamped_bytes(b, first.leaves, Ty::S32, -128, 127).map(single),
        Mf::Pack4xU8Clamp => pack::clamped_bytes(b, first.leaves, Ty::U32, 0, 255).map(single),
        Mf::Unpack4x8snorm => Ok(pack::from_norm(b, Ty::S32, 8, 127.0, scalar_of(first)?)),
        Mf::Unpack4x8unorm => Ok(pack::from_norm(b, Ty::U32, 8, 255.0, scalar_of(first)?)),
        Mf::Unpack2x16snorm => Ok(pack::from_norm(b, Ty::S32, 16, 32767.0, scalar_of(first)?)),
        Mf::Unpack2x16unorm => Ok(pack::from_norm(b, Ty::U32, 16, 65535.0, scalar_of(first)?)),
        Mf::Unpack2x16float => Ok(pack::from_halves(b, scalar_of(first)?)),
        Mf::Unpack4xI8 => Ok(pack::fields(b, Ty::S32, 8, scalar_of(first)?)),
        Mf::Unpack4xU8 => Ok(pack::fields(b, Ty::U32, 8, scalar_of(first)?)),
    }
}

/// What a function computes in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Domain {
    Number,
    /// Any float.
    Float,
    /// One of 32 bits.
    Single,
    Integer,
    /// An integer of 32 bits.
    Word,
}

fn domain(fun: Mf) -> Domain {
    match fun {
        Mf::Abs | Mf::Min | Mf::Max | Mf::Clamp | Mf::Dot | Mf::Sign => Domain::Number,
        Mf::Sin | Mf::Cos | Mf::Exp | Mf::Exp2 | Mf::Log | Mf::Log2 | Mf::Pow => Domain::Float,
        Mf::Saturate | Mf::Radians | Mf::Degrees | Mf::Ceil | Mf::Floor | Mf::Round | Mf::Fract => Domain::Float,
        Mf::Trunc | Mf::Modf | Mf::Frexp | Mf::Ldexp | Mf::Outer | Mf::Cross | Mf::Distance => Domain::Float,
        Mf::Length | Mf::Normalize | Mf::FaceForward | Mf::Reflect | Mf::Refract | Mf::Fma => Domain::Float,
        Mf::Mix | Mf::Step | Mf::SmoothStep | Mf::Sqrt | Mf::InverseSqrt => Domain::Float,
        Mf::Inverse | Mf::Transpose | Mf::Determinant => Domain::Float,
        Mf::Tan | Mf::Sinh | Mf::Cosh | Mf::Tanh | Mf::Asin | Mf::Acos | Mf::Atan => Domain::Float,
        Mf::Atan2 | Mf::Asinh | Mf::Acosh | Mf::Atanh => Domain::Float,
        Mf::QuantizeToF16 | Mf::Pack4x8snorm | Mf::Pack4x8unorm => Domain::Single,
        Mf::Pack2x16snorm | Mf::Pack2x16unorm | Mf::Pack2x16float => Domain::Single,
        Mf::CountTrailingZeros | Mf::CountLeadingZeros | Mf::CountOneBits | Mf::ReverseBits => Domain::Integer,
        Mf::ExtractBits | Mf::InsertBits | Mf::FirstTrailingBit | Mf::FirstLeadingBit => Domain::Integer,
        Mf::Dot4I8Packed | Mf::Dot4U8Packed | Mf::Pack4xI8 | Mf::Pack4xU8 | Mf::Pack4xI8Clamp => Domain::Word,
        Mf::Pack4xU8Clamp | Mf::Unpack4x8snorm | Mf::Unpack4x8unorm | Mf::Unpack2x16snorm => Domain::Word,
        Mf::Unpack2x16unorm | Mf::Unpack2x16float | Mf::Unpack4xI8 | Mf::Unpack4xU8 => Domain::Word,
    }
}

/// That the arguments are such as the function takes.
fn check(fun: Mf, ty: Ty, args: &[Arg]) -> Result<()> {
    if args.len() != fun.argument_count() {
        return Err(Error::invalid(format!("{fun:?} of {} arguments", args.len())));
    }
    let domain = domain(fun);
    let fits = match domain {
        Domain::Number => ty != Ty::Pred,
        Domain::Float => ty.is_float(),
        Domain::Single => ty == Ty::F32,
        Domain::Integer => !ty.is_float() && ty != Ty::Pred,
        Domain::Word => matches!(ty, Ty::S32 | Ty::U32),
    };
    if !fits {
        return Err(Error::invalid(format!("{fun:?} of {ty:?}")));
    }
    Ok(())
}

fn single(x: Operand) -> Vec<Operand> {
    vec![x]
}

fn scalar_of(arg: &Arg) -> Result<Operand> {
    match arg.leaves {
        &[x] => Ok(x),
        other => Err(Error::invalid(format!("{} components where one is unpacked", other.len()))),
    }
}

/// The leaves of each of N arguments.
fn leaves<'a, const N: usize>(args: &[Arg<'a>]) -> Result<[&'a [Operand]; N]> {
    match <&[Arg; N]>::try_from(args) {
        Ok(args) => Ok(args.map(|arg| arg.leaves)),
        Err(_) => Err(Error::invalid(format!("{} arguments where {N} are taken", args.len()))),
    }
}

/// `f` component by component; scalars among the arguments go with every component.
fn map<const N: usize>(
    b: &mut Builder,
    args: &[Arg],
    mut f: impl FnMut(&mut Builder, [Operand; N]) -> Operand,
) -> Result<Vec<Operand>> {
    let args: [&[Operand]; N] = leaves(args)?;
    let count = args.first().map_or(0, |leaves| leaves.len());
    if args.iter().any(|leaves| leaves.len() != 1 && leaves.len() != count) {
        return Err(Error::invalid("vectors of different sizes in one function"));
    }
    Ok((0..count).map(|i| f(b, args.map(|leaves| if leaves.len() == 1 { leaves[0] } else { leaves[i] }))).collect())
}

/// The members of a result of two: all of the first, then all of the second.
fn members(x: &[Operand], f: impl FnMut(Operand) -> (Operand, Operand)) -> Vec<Operand> {
    let (mut first, second): (Vec<Operand>, Vec<Operand>) = x.iter().copied().map(f).unzip();
    first.extend(second);
    first
}
