//! Rounding a number once to a float of 16 or 8 bits: by way of the nearest f32 it would be rounded twice.
//!
//! Knows no dtype. [`crate::F8E4M3`] and [`crate::Scalar::cast`] round by it.

use half::{bf16, f16};

/// `x` rounded once, to nearest even. (`half`'s own conversion looks at 20 bits of the significand only, and so takes
/// some values for ties that are none.)
pub(crate) fn f16_from_f64(x: f64) -> f16 {
    f16::from_f32(round_to_odd(x))
}

/// As [`f16_from_f64`].
pub(crate) fn bf16_from_f64(x: f64) -> bf16 {
    bf16::from_f32(round_to_odd(x))
}

/// `x` rounded once: where f64 cannot hold it, what it cannot is kept as a sticky bit, as in [`round_to_odd`].
pub(crate) fn bf16_from_i64(x: i64) -> bf16 {
    let magnitude = bf16_from_u64(x.unsigned_abs());
    if x < 0 { -magnitude } else { magnitude }
}

/// As [`bf16_from_i64`].
pub(crate) fn bf16_from_u64(x: u64) -> bf16 {
    /// Bits that the largest number has beyond the 53 of an f64.
    const BEYOND: u64 = (1 << 11) - 1;
    let is_exact = x <= 1 << 53;
    let sticky = if x & BEYOND == 0 { 0 } else { BEYOND + 1 };
    bf16_from_f64(if is_exact { x } else { x & !BEYOND | sticky } as f64)
}

/// `x` as f32, rounded toward zero with the lowest bit set when anything was lost: rounding that again, to a type at
/// least two bits shorter, is the same as rounding `x` itself (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008).
pub(crate) fn round_to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let bits = near.to_bits();
    let toward_zero = if f64::from(near).abs() > x.abs() { bits - 1 } else { bits };
    f32::from_bits(toward_zero | 1)
}
