//! Floats of 16, 32 and 64 bits as f64 values: their bits, their spacing, rounding to them.
//!
//! Arithmetic is not here but in `interval.rs`. The decision to know: every value of f16 and f32 is an f64, so formats
//! are described by three numbers and one code serves all.

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F16,
    F32,
    F64,
    I32,
    U32,
    /// A half in the low bits of a `u32`.
    HalfInU32,
}

impl Type {
    pub fn bytes(self) -> usize {
        match self {
            Type::F16 => 2,
            Type::F32 | Type::I32 | Type::U32 | Type::HalfInU32 => 4,
            Type::F64 => 8,
        }
    }

    /// Its name in WGSL.
    pub fn wgsl(self) -> &'static str {
        match self {
            Type::F16 => "f16",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::I32 => "i32",
            Type::U32 | Type::HalfInU32 => "u32",
        }
    }

    /// The spacing of its values; integers are counted in ones, whatever says f64 here.
    pub fn format(self) -> Format {
        match self {
            Type::F16 | Type::HalfInU32 => Format::F16,
            Type::F32 => Format::F32,
            Type::F64 | Type::I32 | Type::U32 => Format::F64,
        }
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Type::I32 | Type::U32)
    }

    pub fn decode(self, bits: u64) -> f64 {
        match self {
            Type::F16 | Type::HalfInU32 => half(bits as u16),
            Type::F32 => f64::from(f32::from_bits(bits as u32)),
            Type::F64 => f64::from_bits(bits),
            Type::I32 => f64::from(bits as u32 as i32),
            Type::U32 => f64::from(bits as u32),
        }
    }

    /// The nearest value's bits.
    pub fn encode(self, value: f64) -> u64 {
        match self {
            Type::F16 | Type::HalfInU32 => u64::from(to_half(value)),
            Type::F32 => u64::from((value as f32).to_bits()),
            Type::F64 => value.to_bits(),
            Type::I32 => u64::from(value as i32 as u32),
            Type::U32 => u64::from(value as u32),
        }
    }

    pub fn read(self, bytes: &[u8], index: usize) -> f64 {
        let size = self.bytes();
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[index * size..][..size]);
        self.decode(u64::from_le_bytes(word))
    }
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the significand.
    pub precision: i32,
    /// Exponents of the least and of the greatest normal numbers.
    pub least: i32,
    pub greatest: i32,
}

impl Format {
    pub const F16: Format = Format { precision: 11, least: -14, greatest: 15 };
    pub const F32: Format = Format { precision: 24, least: -126, greatest: 127 };
    pub const F64: Format = Format { precision: 53, least: -1022, greatest: 1023 };

    pub fn max(self) -> f64 {
        (2.0 - power(1 - self.precision)) * power(self.greatest)
    }

    pub fn is_subnormal(self, x: f64) -> bool {
        x != 0.0 && x.abs() < power(self.least)
    }

    /// The distance of neighbours from |x| upwards.
    fn spacing(self, x: f64) -> f64 {
        let exponent = exponent(x).clamp(self.least, self.greatest);
        power((exponent - self.precision + 1).max(-1074))
    }

    /// ULP(x) as WGSL defines it: at a power of two the spacing below it.
    pub fn ulp(self, x: f64) -> f64 {
        let spacing = self.spacing(x);
        let is_power = x.to_bits() << 12 == 0 && x.abs() > power(self.least) && x.abs() < self.max();
        if is_power { spacing / 2.0 } else { spacing }
    }

    /// The greatest value of the format that is at most x, which is in its range.
    pub fn down(self, x: f64) -> f64 {
        let spacing = self.spacing(x);
        (x / spacing).floor() * spacing
    }

    /// The least value of the format that is at least x, which is in its range.
    pub fn up(self, x: f64) -> f64 {
        -self.down(-x)
    }
}

/// 2^exponent, from -1074 to 1023.
pub fn power(exponent: i32) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1 << (exponent + 1074))
    }
}

fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * power(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * power(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn to_half(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return 0x7e00;
    }
    let spacing = Format::F16.spacing(value);
    let steps = (value.abs() / spacing).round_ties_even(); // below 2^12, a carry included, unless it overflows
    if steps * spacing > Format::F16.max() {
        return sign | 0x7c00;
    }
    // One exponent more than the steps' own leading bit stands for; a carry moves into the next one by itself.
    let binade = exponent(value).max(-14) + 14;
    sign | (((binade as u16) << 10) + steps as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_itself() {
        for bits in (0..=u16::MAX).filter(|&bits| !half(bits).is_nan()) {
            assert_eq!(to_half(half(bits)), bits, "{bits:#06x}");
        }
        assert_eq!(to_half(65519.0), 0x7bff);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert_eq!(to_half(power(-25)), 0);
        assert_eq!(to_half(1.5 * power(-25)), 1);
        assert_eq!(to_half(2048.0 * 0.99999), 0x6800);
    }

    #[test]
    fn spacing_is_that_of_the_format() {
        assert_eq!(Format::F32.ulp(1.5), power(-23));
        assert_eq!(Format::F32.ulp(1.0), power(-24));
        assert_eq!(Format::F32.ulp(0.0), power(-149));
        assert_eq!(Format::F32.ulp(power(-126)), power(-149));
        assert_eq!(Format::F32.ulp(1e300), power(104));
        assert_eq!(Format::F32.max(), f64::from(f32::MAX));
        assert_eq!(Format::F32.down(-0.1), f64::from(-0.1_f32));
        assert_eq!(Format::F32.up(0.1), f64::from(0.1_f32));
        assert_eq!(Format::F16.up(1.0001), 1.0 + power(-10));
    }
}
