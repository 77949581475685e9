//! Keys that order as elements do, for what chooses or sorts by comparing integers; and the way back.
//!
//! Nothing depends on what a shader compiler assumes of NaN and of the signs of zeros: NaN has the highest key, whichever way numbers are
//! ordered, and zeros of both signs have one.

use crate::DType;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("keys.wgsl");

/// The smallest i64, and the bit in which keys of u64 differ from it.
pub(crate) const I64_MIN: &str = "(-9223372036854775807li - 1li)";

/// The type of keys of `dtype`, and the smallest.
pub(crate) fn key_type(dtype: DType) -> (&'static str, &'static str) {
    if dtype.size_bytes() == 8 { ("i64", I64_MIN) } else { ("u32", "0u") }
}

/// What elements of `dtype` are read as where their bits count: floats of a word or two as integers.
pub(crate) fn read_as(dtype: DType) -> DType {
    match dtype {
        DType::F32 => DType::U32,
        DType::F64 => DType::I64,
        other => other,
    }
}

/// `key_of`, from an element of `dtype` as it is read (`ty`, floats of a word or two as their bits) to alias `Keys`: u32, i64 for the
/// 64-bit types. `turned` orders the numbers the other way round.
pub(crate) fn key_of(dtype: DType, ty: &str, turned: bool) -> String {
    let bits = match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => {
            let bits = if dtype == DType::F32 { "x" } else { "bitcast<Keys>(x)" };
            let (plus, minus) = if turned { ("-", "+") } else { ("+", "-") };
            return TEXT.fill("key of float", holes!(ty, bits, plus, minus));
        }
        DType::F64 => {
            let order = if turned { "-magnitude, magnitude" } else { "magnitude, -magnitude" };
            return TEXT.fill("key of f64", holes!(ty, order));
        }
        DType::U64 => format!("bitcast<Keys>(x) ^ Keys({I64_MIN})"),
        DType::I8 | DType::I16 | DType::I32 => "bitcast<Keys>(x) ^ Keys(0x80000000u)".to_owned(),
        // Unsigned, and i64, whose keys are themselves.
        _ => return TEXT.fill("key of integer", holes!(ty, key = if turned { "~x" } else { "x" })),
    };
    TEXT.fill("key of integer", holes!(ty, key = if turned { format!("~({bits})") } else { bits }))
}

/// The way back from a key: `element_of`, to an element of `dtype` as it is stored (`ty`), and `is_one_of_several`, whether elements of
/// several bits have that key: NaN, and zeros of both signs.
pub(crate) fn element_of(dtype: DType, ty: &str, turned: bool) -> String {
    let is_negative = if turned { ">" } else { "<" };
    let key = if turned { "~key" } else { "key" };
    let element = match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => {
            let element = if dtype == DType::F32 { "bits" } else { "bitcast<f32>(bits)" };
            return TEXT.fill("element of float", holes!(ty, is_negative, element));
        }
        DType::F64 => return TEXT.fill("element of f64", holes!(ty, is_negative)),
        DType::U64 => format!("bitcast<{ty}>(({key}) ^ Keys({I64_MIN}))"),
        DType::I8 | DType::I16 | DType::I32 => format!("bitcast<{ty}>(({key}) ^ Keys(0x80000000u))"),
        DType::Bool => format!("key {} Keys(0u)", if turned { "==" } else { "!=" }),
        _ => key.to_owned(),
    };
    TEXT.fill("element of integer", holes!(ty, element))
}
