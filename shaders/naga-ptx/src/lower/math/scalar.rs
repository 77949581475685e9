//! naga's scalars as the types PTX works in, and the constants of each.
//!
//! The decision to know: a bool is a predicate register here; only memory knows it as a number, which is the business
//! of loads and stores, not of this folder.

use half::f16;
use naga::{Scalar, ScalarKind};

use crate::error::{Error, Result};
use crate::ir::{Operand, Ty};

/// The type that an instruction on values of `scalar` works in.
pub(crate) fn ty_of(scalar: Scalar) -> Result<Ty> {
    let ty = match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => Some(Ty::Pred),
        (ScalarKind::Sint, 2) => Some(Ty::S16),
        (ScalarKind::Sint, 4) => Some(Ty::S32),
        (ScalarKind::Sint, 8) => Some(Ty::S64),
        (ScalarKind::Uint, 2) => Some(Ty::U16),
        (ScalarKind::Uint, 4) => Some(Ty::U32),
        (ScalarKind::Uint, 8) => Some(Ty::U64),
        (ScalarKind::Float, 2) => Some(Ty::F16),
        (ScalarKind::Float, 4) => Some(Ty::F32),
        (ScalarKind::Float, 8) => Some(Ty::F64),
        (ScalarKind::Sint | ScalarKind::Uint | ScalarKind::Float, _) => None,
        (ScalarKind::AbstractInt | ScalarKind::AbstractFloat, _) => {
            return Err(Error::invalid("an abstract number reached code generation"));
        }
    };
    ty.ok_or_else(|| {
        let kind = match scalar.kind {
            ScalarKind::Sint => "signed integers",
            ScalarKind::Uint => "unsigned integers",
            ScalarKind::Float | ScalarKind::Bool | ScalarKind::AbstractInt | ScalarKind::AbstractFloat => "floats",
        };
        Error::unsupported(format!("{kind} of {} bytes", scalar.width), "there are those of 2, 4 and 8 bytes")
    })
}

/// `value` as an immediate of the float type `ty`, rounded to nearest.
pub(super) fn float(ty: Ty, value: f64) -> Operand {
    match ty.bytes() {
        2 => Operand::Imm(u64::from(f16::from_f64(value).to_bits())),
        4 => Operand::f32(value as f32),
        _ => Operand::f64(value),
    }
}

/// `value` as an immediate of the integer type `ty`, its low bits.
pub(super) fn int(ty: Ty, value: i64) -> Operand {
    let bits = value as u64;
    Operand::Imm(match ty.bytes() {
        1 => bits & 0xff,
        2 => bits & 0xffff,
        4 => bits & 0xffff_ffff,
        _ => bits,
    })
}

/// The one of value 1.
pub(super) fn one(ty: Ty) -> Operand {
    if ty == Ty::Pred {
        Operand::bool(true)
    } else if ty.is_float() {
        float(ty, 1.0)
    } else {
        Operand::Imm(1)
    }
}

/// The unsigned integers of the width of `ty`.
pub(super) fn unsigned(ty: Ty) -> Ty {
    match ty.bytes() {
        2 => Ty::U16,
        4 => Ty::U32,
        _ => Ty::U64,
    }
}

/// Bits of a value.
pub(super) fn width(ty: Ty) -> u32 {
    8 * ty.bytes()
}
