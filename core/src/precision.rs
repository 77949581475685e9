//! Numeric contracts a caller chooses: how exact a product must be, and whether bits must repeat.

use serde::{Deserialize, Serialize};

/// How exact a matrix product of f32 operands must be. Chosen by the caller, never by a tuner.
///
/// A device may always do better than asked. f16, bf16 and i8 operands are exact in every mode and accumulate in f32
/// (i8: i32), as do 8-bit floats, with the bound that [`crate::ops::Matmul::product_roundoff`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Operands may be rounded to f16 or bf16 (unit roundoff 2^-11 or 2^-8).
    Low,
    /// Operands may be rounded to tf32 (unit roundoff 2^-11, f32's range).
    Medium,
    /// f32 operands may be split over lower-precision tensor cores; near-f32 error, stated by the op's bound: a product a b is off by
    /// at most 2^-20 (|a| + 2^-29 max|A|)(|b| + 2^-29 max|B|), of the largest finite elements of its two matrices. An infinity has
    /// no lower part: what it is multiplied into is infinite or NaN.
    High,
    /// As exact as a chain of f32 fused multiply-adds. The default.
    #[default]
    Highest,
}
