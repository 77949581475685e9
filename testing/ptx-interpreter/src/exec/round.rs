//! Numbers between formats, each rounded once.

use crate::inst::Round;

/// A binary format: bits of precision with the hidden one, exponent of the last place of subnormals, exponent field of
/// infinity.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    precision: u32,
    least: i32,
    infinity: u64,
    width: u32,
}

pub(crate) const F16: Format = Format { precision: 11, least: -24, infinity: 0x1f, width: 16 };
pub(crate) const F32: Format = Format { precision: 24, least: -149, infinity: 0xff, width: 32 };
pub(crate) const F64: Format = Format { precision: 53, least: -1074, infinity: 0x7ff, width: 64 };

pub(crate) const BF16: Format = Format { precision: 8, least: -133, infinity: 0xff, width: 16 };
/// The upper 19 bits of an f32.
pub(crate) const TF32: Format = Format { precision: 11, least: -136, infinity: 0xff, width: 19 };
/// Without infinities: what lies beyond its largest number is the caller's to say.
pub(crate) const E4M3: Format = Format { precision: 4, least: -9, infinity: 0x10, width: 8 };
pub(crate) const E5M2: Format = Format { precision: 3, least: -16, infinity: 0x1f, width: 8 };

/// What the GPU returns for an invalid operation.
pub(crate) const NAN16: u16 = 0x7fff;
pub(crate) const NAN32: u32 = 0x7fff_ffff;

/// `magnitude * 2^exponent` in `format`, rounded once.
pub(crate) fn encode(negative: bool, magnitude: u64, exponent: i32, format: Format, round: Round) -> u64 {
    let Format { precision, least, infinity, width } = format;
    let sign = u64::from(negative) << (width - 1);
    if magnitude == 0 {
        return sign;
    }
    let bits = 64 - magnitude.leading_zeros() as i32;
    let mut last = (exponent + bits - precision as i32).max(least);
    let shift = last - exponent;
    let mut kept = if shift <= 0 {
        magnitude << -shift
    } else {
        let (kept, rest, half) = match shift {
            1..=63 => (magnitude >> shift, magnitude & ((1 << shift) - 1), 1_u64 << (shift - 1)),
            // Far below the last place: less than half of it.
            _ => (0, 1, 2),
        };
        let up = match round {
            Round::Rz => false,
            Round::Rm => negative && rest != 0,
            Round::Rp => !negative && rest != 0,
            Round::Rna => rest >= half,
            _ => rest > half || (rest == half && kept & 1 == 1),
        };
        kept + u64::from(up)
    };
    if kept == 1 << precision {
        kept >>= 1;
        last += 1;
    }
    let hidden = 1_u64 << (precision - 1);
    if kept < hidden {
        return sign | kept;
    }
    let field = (last - least + 1) as u64;
    if field >= infinity {
        let to_infinity = match round {
            Round::Rz => false,
            Round::Rm => negative,
            Round::Rp => !negative,
            _ => true,
        };
        let infinite = infinity << (precision - 1);
        return sign | if to_infinity { infinite } else { infinite - 1 };
    }
    sign | field << (precision - 1) | (kept - hidden)
}

/// A finite `f64` as sign, magnitude and exponent.
pub(crate) fn parts(x: f64) -> (bool, u64, i32) {
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let negative = bits >> 63 != 0;
    if field == 0 { (negative, fraction, -1074) } else { (negative, fraction | 1 << 52, field - 1075) }
}

pub(crate) fn f64_to_f16(x: f64, round: Round) -> u16 {
    if x.is_nan() {
        return NAN16;
    }
    if x.is_infinite() {
        return if x > 0.0 { 0x7c00 } else { 0xfc00 };
    }
    let (negative, magnitude, exponent) = parts(x);
    encode(negative, magnitude, exponent, F16, round) as u16
}

pub(crate) fn f64_to_f32(x: f64, round: Round) -> u32 {
    if x.is_nan() {
        return NAN32;
    }
    if x.is_infinite() || matches!(round, Round::Rn | Round::Exact) {
        return (x as f32).to_bits();
    }
    let (negative, magnitude, exponent) = parts(x);
    encode(negative, magnitude, exponent, F32, round) as u32
}

pub(crate) fn f32_to_bf16(x: f32, round: Round) -> u16 {
    if x.is_nan() {
        return NAN16;
    }
    if x.is_infinite() {
        return (x.to_bits() >> 16) as u16;
    }
    let (negative, magnitude, exponent) = parts(f64::from(x));
    encode(negative, magnitude, exponent, BF16, round) as u16
}

/// To nearest even.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        return NAN16;
    } else if magnitude >= 0x4780_0000 {
        // 2^16 and beyond.
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal: exponent from bias 127 to 15, and half of the last place less a bit added.
        (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13
    } else {
        // Subnormal: the sum with 1/2 has its last place where the result has.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5_f32.to_bits()
    };
    sign | half as u16
}

/// Exact.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff) << 13;
    let bits = if magnitude >= 0x7c00 << 13 {
        magnitude + (224 << 23)
    } else if magnitude >= 1 << 23 {
        magnitude + (112 << 23)
    } else {
        // Subnormal: a multiple of 2^-24.
        ((magnitude >> 13) as f32 * (1.0 / 16_777_216.0)).to_bits()
    };
    f32::from_bits(sign | bits)
}

/// `a + b` in `f64`, rounded to odd: rounding that again to a narrower format is rounding once (Boldo and Melquiond).
#[inline(always)]
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    // Where the sum is infinite or no number, the error is no number.
    let inexact = error != 0.0 && !error.is_nan();
    let outwards = (error > 0.0) == (sum > 0.0);
    let odd = if outwards { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits })
}

/// `a * b + c`, rounded once: the product is exact in `f64`.
#[inline(always)]
pub(crate) fn fma32(a: f32, b: f32, c: f32) -> f32 {
    sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)) as f32
}

/// The same, rounded otherwise than to nearest.
pub(crate) fn fma32_to(a: f32, b: f32, c: f32, round: Round) -> u32 {
    f64_to_f32(sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)), round)
}

/// The same for halves.
pub(crate) fn fma16(a: f32, b: f32, c: f32) -> u16 {
    f64_to_f16(sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)), Round::Rn)
}
