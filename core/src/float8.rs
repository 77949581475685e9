//! The 8-bit floats of "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, 2023: [`F8E4M3`] and [`F8E5M2`].
//!
//! | | sign, exponent, significand | bias | largest | smallest normal, subnormal | infinity | NaN |
//! |---|---|---|---|---|---|---|
//! | e4m3 | 1, 4, 3 | 7 | 448 | 2^-6, 2^-9 | none | S.1111.111 |
//! | e5m2 | 1, 5, 2 | 15 | 57344 | 2^-14, 2^-16 | S.11111.00 | S.11111.{01, 10, 11} |
//!
//! The one decision to know: conversion to them rounds once, to nearest even, and **saturates**. What is beyond the
//! largest number, infinity included, becomes the largest number of its sign; NaN stays NaN. That is OFP8's saturation mode
//! and the only one that NVIDIA's conversions have (PTX ISA, `cvt.rn.satfinite.e4m3x2.f32`), so every backend can agree to
//! the bit; and where numbers are scaled to fit eight bits, one that is clipped does little harm, while a NaN (all that e4m3
//! could give instead) spoils a whole product. An e5m2 infinity that lies in memory is read as infinity, and stays one where it is only moved or chosen:
//! by copies, where, the larger and the smaller of two, clamps, magnitudes, changes of sign, largest and smallest elements.
//! Arithmetic and conversions never store one.
//!
//! Bit arithmetic without branches, so that loops over them vectorise. Next: [`crate::Scalar::cast`].

use std::cmp::Ordering;
use std::fmt;

use crate::rounding::round_to_odd;

/// `x` as a float of 8 bits with `M` bits of significand and an exponent of bias `BIAS`, the largest number's code being
/// `LARGEST`.
#[inline(always)]
fn encode<const M: u32, const BIAS: u32, const LARGEST: u32>(x: f32) -> u8 {
    let bits = x.to_bits();
    let sign = bits >> 24 & 0x80;
    let magnitude = bits & 0x7fff_ffff;
    // Normal: the exponent gets another bias, and the low bits are rounded to nearest even; a carry is right as it is.
    let odd = magnitude >> (23 - M) & 1;
    let half = (1 << (22 - M)) - 1;
    let normal = magnitude.wrapping_sub((127 - BIAS) << 23).wrapping_add(half + odd) >> (23 - M);
    // Subnormal: beside this number f32 is spaced as subnormals are here, so the hardware aligns and rounds.
    let spaced = f32::from_bits((127 + 24 - BIAS - M) << 23);
    let subnormal = (f32::from_bits(magnitude) + spaced).to_bits().wrapping_sub(spaced.to_bits());
    let finite = if magnitude < (128 - BIAS) << 23 { subnormal } else { normal.min(LARGEST) };
    (sign | if magnitude > 0x7f80_0000 { 0x7f } else { finite }) as u8
}

#[inline(always)]
fn decode<const M: u32, const BIAS: u32, const LARGEST: u32>(code: u8) -> f32 {
    let code = u32::from(code);
    let magnitude = (code & 0x7f) << (23 - M);
    // The exponent gets another bias by a product, which is exact and right for subnormal numbers, too.
    let finite = f32::from_bits(magnitude) * f32::from_bits((254 - BIAS) << 23);
    let special = f32::from_bits(magnitude | 0x7f80_0000);
    let value = if code & 0x7f > LARGEST { special } else { finite };
    f32::from_bits(value.to_bits() | (code & 0x80) << 24)
}

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $bits:expr, $bias:expr, $largest:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The largest number.
            pub const MAX: $name = $name($largest);
            /// The largest negative number: -[`Self::MAX`].
            pub const MIN: $name = $name($largest | 0x80);
            /// The smallest positive normal number.
            pub const MIN_POSITIVE: $name = $name(1 << $bits);
            /// Not a number.
            pub const NAN: $name = $name(0x7f);

            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> $name {
                $name(bits)
            }

            /// The bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// `x` rounded to nearest even; beyond the largest number, infinity included, saturated; NaN is NaN.
            #[inline(always)]
            pub fn from_f32(x: f32) -> $name {
                $name(encode::<$bits, $bias, $largest>(x))
            }

            /// As [`Self::from_f32`], with one rounding from f64.
            #[inline(always)]
            pub fn from_f64(x: f64) -> $name {
                $name::from_f32(round_to_odd(x))
            }

            /// The same number.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                decode::<$bits, $bias, $largest>(self.0)
            }

            /// The same number.
            #[inline(always)]
            pub fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }

            /// Whether this is a NaN.
            pub fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        impl From<$name> for f32 {
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }

        impl From<$name> for f64 {
            fn from(x: $name) -> f64 {
                x.to_f64()
            }
        }

        /// As numbers: NaN equals nothing, both zeros are equal.
        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8!(
    /// OFP8 E4M3: four bits of exponent, three of significand, largest number 448, no infinity. For weights and activations.
    F8E4M3, 3, 7, 0x7e
);
float8!(
    /// OFP8 E5M2: five bits of exponent, two of significand, largest number 57344. For gradients, which need the range.
    F8E5M2, 2, 15, 0x7b
);

impl F8E5M2 {
    /// Infinity. Conversions saturate and never give it.
    pub const INFINITY: F8E5M2 = F8E5M2(0x7c);

    /// As [`F8E5M2::from_f32`], but an infinity stays one: for numbers of this type that were widened and only moved since.
    #[inline(always)]
    pub(crate) fn kept_from_f32(x: f32) -> F8E5M2 {
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let infinity = (x.to_bits() >> 24) as u8 & 0x80 | 0x7c;
        if magnitude == 0x7f80_0000 { F8E5M2(infinity) } else { F8E5M2::from_f32(x) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A format by its definition in section 5 of the specification: fields, not shifts.
    struct Definition {
        exponent_bits: u32,
        significand_bits: u32,
        bias: i32,
        has_infinity: bool,
        from_f32: fn(f32) -> u8,
        from_f64: fn(f64) -> u8,
        to_f32: fn(u8) -> f32,
    }

    fn formats() -> [Definition; 2] {
        [
            Definition {
                exponent_bits: 4,
                significand_bits: 3,
                bias: 7,
                has_infinity: false,
                from_f32: |x| F8E4M3::from_f32(x).to_bits(),
                from_f64: |x| F8E4M3::from_f64(x).to_bits(),
                to_f32: |bits| F8E4M3::from_bits(bits).to_f32(),
            },
            Definition {
                exponent_bits: 5,
                significand_bits: 2,
                bias: 15,
                has_infinity: true,
                from_f32: |x| F8E5M2::from_f32(x).to_bits(),
                from_f64: |x| F8E5M2::from_f64(x).to_bits(),
                to_f32: |bits| F8E5M2::from_bits(bits).to_f32(),
            },
        ]
    }

    impl Definition {
        fn value(&self, code: u8) -> f64 {
            let sign = if code >= 128 { -1.0 } else { 1.0 };
            let steps = 1u32 << self.significand_bits;
            let (exponent, fraction) = (u32::from(code) % 128 / steps, u32::from(code) % steps);
            let all_ones = exponent == (1 << self.exponent_bits) - 1;
            if all_ones && self.has_infinity {
                return if fraction == 0 { sign * f64::INFINITY } else { f64::NAN };
            }
            if all_ones && fraction == steps - 1 {
                return f64::NAN;
            }
            let share = f64::from(fraction) / f64::from(steps);
            let (significand, power) = if exponent == 0 { (share, 1) } else { (1.0 + share, exponent as i32) };
            sign * significand * 2f64.powi(power - self.bias)
        }

        /// The codes of all numbers of positive sign, ascending.
        fn numbers(&self) -> Vec<u8> {
            (0..128).filter(|&code| self.value(code).is_finite()).collect()
        }
    }

    #[test]
    fn every_code_has_the_value_of_its_definition() {
        for format in formats() {
            for code in 0..=255 {
                let (got, want) = ((format.to_f32)(code), format.value(code));
                assert!(f64::from(got).to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{code:#x}");
            }
        }
        assert_eq!((F8E4M3::MAX.to_f32(), F8E5M2::MAX.to_f32()), (448.0, 57344.0));
        assert_eq!((F8E4M3::MIN_POSITIVE.to_f64(), F8E5M2::MIN_POSITIVE.to_f64()), (0.015625, 2f64.powi(-14)));
        assert_eq!((F8E4M3::from_bits(1).to_f64(), F8E5M2::from_bits(1).to_f64()), (2f64.powi(-9), 2f64.powi(-16)));
        assert_eq!((F8E4M3::MIN.to_f32(), F8E5M2::INFINITY.to_f32()), (-448.0, f32::INFINITY));
        assert!(F8E4M3::NAN.is_nan() && F8E5M2::NAN.is_nan() && F8E4M3::NAN != F8E4M3::NAN);
    }

    #[test]
    fn every_number_and_every_midpoint_rounds_to_nearest_even() {
        for format in formats() {
            let both = |x: f64, want: u8| {
                assert_eq!((format.from_f64)(x), want, "{x:e}");
                assert_eq!((format.from_f64)(-x), want | 0x80, "{:e}", -x);
                if f64::from(x as f32) == x {
                    assert_eq!((format.from_f32)(x as f32), want, "{x:e} as f32");
                    assert_eq!((format.from_f32)(-x as f32), want | 0x80, "{:e} as f32", -x);
                }
            };
            let numbers = format.numbers();
            for pair in numbers.windows(2) {
                let (low, high) = (format.value(pair[0]), format.value(pair[1]));
                let middle = (low + high) / 2.0;
                both(low, pair[0]);
                both(middle, if pair[0] % 2 == 0 { pair[0] } else { pair[1] });
                // The neighbours of the midpoint in f64, and those in f32.
                both(f64::from_bits(middle.to_bits() - 1), pair[0]);
                both(f64::from_bits(middle.to_bits() + 1), pair[1]);
                both(f64::from(f32::from_bits((middle as f32).to_bits() - 1)), pair[0]);
                both(f64::from(f32::from_bits((middle as f32).to_bits() + 1)), pair[1]);
            }
            let largest = numbers[numbers.len() - 1];
            for x in [format.value(largest), format.value(largest) * 1.01, 1e6, 1e38, 1e300, f64::MAX, f64::INFINITY] {
                both(x, largest);
            }
            for x in [f64::MIN_POSITIVE, f64::from_bits(1), f64::from(f32::from_bits(1)), 1e-20] {
                both(x, 0);
            }
            for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
                assert!((format.to_f32)((format.from_f32)(nan)).is_nan());
                assert!((format.to_f32)((format.from_f64)(f64::from(nan))).is_nan());
            }
        }
    }

    /// Against a search for the nearest number, over f32's whole range.
    #[test]
    fn a_sweep_of_f32_finds_the_nearest_number() {
        for format in formats() {
            let numbers: Vec<(u8, f64)> = format.numbers().iter().map(|&code| (code, format.value(code))).collect();
            for bits in (0..0x7f80_0000u32).step_by(60_013) {
                let x = f32::from_bits(bits);
                let got = (format.from_f32)(x);
                let distance = |value: f64| (value - f64::from(x)).abs();
                let nearest = numbers.iter().map(|&(_, value)| distance(value)).fold(f64::INFINITY, f64::min);
                assert_eq!(distance(format.value(got)), nearest, "{x:e} -> {got:#x}");
            }
        }
    }
}
