//! Element types: what a tensor holds. Which Rust type each one is says [`crate::Element`].
//!
//! A dtype is storage *and* arithmetic. `F16` and `BF16` are stored in 16 bits, `F8E4M3` and `F8E5M2` in 8, and computed
//! in f32; integers of 8 and 16 bits are computed in 32-bit ones and wrapped to their width; `Bool` is stored as one byte, 0 or 1. Layout of
//! the whole tensor lives in [`crate::Layout`].

use std::fmt;

use half::bf16;
use serde::{Deserialize, Serialize};

/// The type of every element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DType {
    /// OFP8 E4M3, largest number 448, no infinity: [`F8E4M3`](crate::F8E4M3).
    F8E4M3,
    /// OFP8 E5M2, largest number 57344: [`F8E5M2`](crate::F8E5M2).
    F8E5M2,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of an IEEE 754 binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 8-bit two's-complement integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit two's-complement integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit two's-complement integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit two's-complement integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// Truth value, one byte holding 0 or 1.
    Bool,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [DType; 15] = [
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::Bool,
    ];

    /// The floating-point dtypes.
    pub const FLOATS: [DType; 6] = [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Bytes per element.
    pub const fn size_bytes(self) -> u64 {
        match self {
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// The lower-case name, as printed and parsed: `f8e4m3`, ... , `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::Bool => "bool",
        }
    }

    /// Whether this is one of [`DType::FLOATS`].
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64) || self.is_float8()
    }

    /// Whether this is one of the two 8-bit floats.
    pub const fn is_float8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// Whether this is a float that is computed in a wider type: of 8 or 16 bits.
    pub(crate) const fn is_narrow_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16) || self.is_float8()
    }

    /// Whether conversion to this float type turns what is beyond its largest number, infinity included, into that number:
    /// the 8-bit ones do ([`crate::F8E4M3`] says why), the others overflow to infinity.
    pub const fn saturates(self) -> bool {
        self.is_float8()
    }

    /// Whether this is an integer type (`bool` is not).
    pub const fn is_integer(self) -> bool {
        self.integer_range().is_some()
    }

    /// Whether negative values exist in this type.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The smallest and the largest integer of an integer type, bool not among them.
    pub(crate) const fn integer_range(self) -> Option<(i128, i128)> {
        match self {
            DType::I8 => Some((i8::MIN as i128, i8::MAX as i128)),
            DType::U8 => Some((0, u8::MAX as i128)),
            DType::I16 => Some((i16::MIN as i128, i16::MAX as i128)),
            DType::U16 => Some((0, u16::MAX as i128)),
            DType::I32 => Some((i32::MIN as i128, i32::MAX as i128)),
            DType::U32 => Some((0, u32::MAX as i128)),
            DType::I64 => Some((i64::MIN as i128, i64::MAX as i128)),
            DType::U64 => Some((0, u64::MAX as i128)),
            DType::Bool | DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
        }
    }

    /// The type arithmetic is done in: f32 for the smaller floats, 32-bit integers for those of 8 and 16 bits, else itself.
    pub const fn compute(self) -> DType {
        match self {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => DType::F32,
            DType::F64 => DType::F64,
            DType::I8 | DType::I16 | DType::I32 => DType::I32,
            DType::U8 | DType::U16 | DType::U32 => DType::U32,
            DType::I64 => DType::I64,
            DType::U64 => DType::U64,
            DType::Bool => DType::Bool,
        }
    }

    /// Unit roundoff u = 2^-p of a float type (p = significand bits); 0 for the exact types.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            DType::F8E4M3 => (-4f64).exp2(),
            DType::F8E5M2 => (-3f64).exp2(),
            DType::F16 => (-11f64).exp2(),
            DType::BF16 => (-8f64).exp2(),
            DType::F32 => (-24f64).exp2(),
            DType::F64 => (-53f64).exp2(),
            _ => 0.0,
        }
    }

    /// The smallest positive normal number of a float type; 0 for the exact types.
    pub fn min_normal(self) -> f64 {
        match self {
            DType::F8E4M3 => (-6f64).exp2(),
            DType::F8E5M2 | DType::F16 => (-14f64).exp2(),
            DType::BF16 | DType::F32 => (-126f64).exp2(),
            DType::F64 => f64::MIN_POSITIVE,
            _ => 0.0,
        }
    }

    /// Largest finite value, as f64.
    pub fn max_finite(self) -> f64 {
        match self {
            DType::F8E4M3 => 448.0,
            DType::F8E5M2 => 57344.0,
            DType::F16 => 65504.0,
            DType::BF16 => f64::from(bf16::MAX),
            DType::F32 => f64::from(f32::MAX),
            DType::F64 => f64::MAX,
            DType::Bool => 1.0,
            // The exact types: the integers have a range.
            _ => self.integer_range().map_or(0.0, |(_, most)| most as f64),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
