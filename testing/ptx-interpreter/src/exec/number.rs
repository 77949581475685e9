//! Elements of matrices as numbers, and the conversions of the floats that only tensor cores calculate with.

use super::round::{E4M3, E5M2, TF32, encode, f16_to_f32, parts};
use crate::inst::{Element, Round};

/// An element's bits as a float: exact. Of f64 and of integers there is more to say, see `mma.rs`.
pub(super) fn to_f32(element: Element, bits: u32) -> f32 {
    match element {
        Element::F16 => f16_to_f32(bits as u16),
        Element::Bf16 => f32::from_bits(bits << 16),
        Element::Tf32 => f32::from_bits(bits & !0x1fff),
        Element::E4m3 => e4m3_to_f32(bits as u8),
        Element::E5m2 => f16_to_f32((bits as u16) << 8),
        Element::S8 => f32::from(bits as i8),
        Element::U8 => f32::from(bits as u8),
        Element::F64 => unreachable!("f64 is multiplied as itself"),
    }
}

/// No infinities; all ones is no number (OCP 8-bit floating point, E4M3).
pub(super) fn e4m3_to_f32(bits: u8) -> f32 {
    let (field, fraction) = (bits >> 3 & 15, bits & 7);
    let magnitude = match (field, fraction) {
        (15, 7) => f32::NAN,
        (0, fraction) => f32::from(fraction) * (1.0 / 512.0),
        (field, fraction) => f32::from(8 + fraction) * 2f32.powi(i32::from(field) - 10),
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// To nearest even, too large ones to the largest (`.satfinite`).
pub(super) fn f32_to_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_infinite() {
        return sign | 0x7e;
    }
    let (_, magnitude, exponent) = parts(f64::from(x));
    sign | encode(false, magnitude, exponent, E4M3, Round::Rn).min(0x7e) as u8
}

/// The same.
pub(super) fn f32_to_e5m2(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_infinite() {
        return sign | 0x7b;
    }
    let (_, magnitude, exponent) = parts(f64::from(x));
    sign | encode(false, magnitude, exponent, E5M2, Round::Rn).min(0x7b) as u8
}

/// To nearest, ties away from zero, in the place of an f32.
pub(super) fn round_tf32(bits: u32) -> u32 {
    to_tf32(bits, Round::Rna)
}

pub(super) fn to_tf32(bits: u32, round: Round) -> u32 {
    let x = f32::from_bits(bits);
    if x.is_nan() {
        return 0x7fff_ffff;
    }
    if x.is_infinite() {
        return bits;
    }
    let (negative, magnitude, exponent) = parts(f64::from(x));
    (encode(negative, magnitude, exponent, TF32, round) as u32) << 13
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float8_values_come_back() {
        for bits in 0..=u8::MAX {
            let x = e4m3_to_f32(bits);
            assert!(x.is_nan() || f32_to_e4m3(x) == bits, "{bits:#x}");
            let x = to_f32(Element::E5m2, bits.into());
            assert!(!x.is_finite() || f32_to_e5m2(x) == bits, "{bits:#x}");
        }
        assert_eq!([448.0, 464.0, 1e9, -1e9, 0.0009].map(f32_to_e4m3), [0x7e, 0x7e, 0x7e, 0xfe, 0]);
        assert_eq!((e4m3_to_f32(0x7e), e4m3_to_f32(1), to_f32(Element::E5m2, 0x7b)), (448.0, 1.0 / 512.0, 57344.0));
    }

    #[test]
    fn tf32_rounds_ties_away() {
        let tie = 1.0 + 2f32.powi(-11);
        assert_eq!(f32::from_bits(round_tf32(tie.to_bits())), 1.0 + 2f32.powi(-10));
        assert_eq!(f32::from_bits(to_tf32(tie.to_bits(), Round::Rn)), 1.0);
        assert_eq!(f32::from_bits(round_tf32((-3.0f32).to_bits())), -3.0);
    }
}
