//! One number outside a tensor: a constant of an expression, a fill value, an oracle's result.
//!
//! Wide enough for every dtype: f64 for the floats, i64 for the integers and bool, u64 for what of u64 an i64 does not hold. [`Scalar::cast`] is the one
//! definition of conversion between dtypes; backends must agree with it.

use std::fmt;

use half::{bf16, f16};

use crate::rounding::{bf16_from_f64, bf16_from_i64, bf16_from_u64, f16_from_f64, round_to_odd};
use crate::{DType, F8E4M3, F8E5M2};

/// A number of any dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float of any width.
    F(f64),
    /// An integer of any width, or a truth value (0 or 1).
    I(i64),
    /// An integer above [`i64::MAX`]. What an i64 holds is [`Scalar::I`], so that equal numbers are equal: `Scalar::from(x)` of a u64 is
    /// the one that fits.
    U(u64),
}

impl Scalar {
    /// The value as f64 (integers beyond 2^53 round).
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::F(x) => x,
            Scalar::I(x) => x as f64,
            Scalar::U(x) => x as f64,
        }
    }

    /// The value as i64: floats truncate toward zero and saturate, NaN gives 0; of integers beyond i64 the low bits.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::F(x) => x as i64,
            Scalar::I(x) => x,
            Scalar::U(x) => x as i64,
        }
    }

    /// The value as u64: floats truncate toward zero and saturate, NaN gives 0; of negative integers the low bits.
    pub fn as_u64(self) -> u64 {
        match self {
            Scalar::F(x) => x as u64,
            Scalar::I(x) => x as u64,
            Scalar::U(x) => x,
        }
    }

    /// The number, if it is an integer.
    pub(crate) fn integer(self) -> Option<i128> {
        match self {
            Scalar::F(_) => None,
            Scalar::I(x) => Some(x.into()),
            Scalar::U(x) => Some(x.into()),
        }
    }

    /// Of an integer that some dtype holds.
    pub(crate) fn from_integer(x: i128) -> Scalar {
        i64::try_from(x).map_or(Scalar::U(x as u64), Scalar::I)
    }

    /// Which variant it is, and its bits: what tells 0 from -0 and one NaN from another.
    pub(crate) fn bits(self) -> (u8, u64) {
        match self {
            Scalar::F(x) => (1, x.to_bits()),
            Scalar::I(x) => (0, x as u64),
            Scalar::U(x) => (2, x),
        }
    }

    /// Whether the value is a NaN.
    pub fn is_nan(self) -> bool {
        matches!(self, Scalar::F(x) if x.is_nan())
    }

    /// Converts to `dtype`: floats round to nearest even and overflow to infinity, or for 8-bit ones, infinity included, to
    /// the largest number; float to integer truncates toward zero, saturates, and takes NaN to 0; integer to integer keeps
    /// the low bits; anything non-zero (NaN too) is true.
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype {
            // One rounding each: f64 to f16/bf16 directly, not by way of f32.
            DType::F8E4M3 => Scalar::F(F8E4M3::from_f64(self.as_f64()).to_f64()),
            DType::F8E5M2 => Scalar::F(F8E5M2::from_f64(self.as_f64()).to_f64()),
            DType::F16 => Scalar::F(f64::from(self.round_f16())),
            DType::BF16 => Scalar::F(f64::from(self.round_bf16())),
            DType::F32 => Scalar::F(match self {
                Scalar::F(x) => f64::from(x as f32),
                Scalar::I(x) => f64::from(x as f32),
                Scalar::U(x) => f64::from(x as f32),
            }),
            DType::F64 => Scalar::F(self.as_f64()),
            DType::Bool => Scalar::I(i64::from(match self {
                Scalar::F(x) => x != 0.0,
                Scalar::I(x) => x != 0,
                Scalar::U(_) => true,
            })),
            DType::I8 => self.to_int(|x| x as i8 as i64, |x| i64::from(x as i8)),
            DType::U8 => self.to_int(|x| x as u8 as i64, |x| i64::from(x as u8)),
            DType::I16 => self.to_int(|x| x as i16 as i64, |x| i64::from(x as i16)),
            DType::U16 => self.to_int(|x| x as u16 as i64, |x| i64::from(x as u16)),
            DType::I32 => self.to_int(|x| x as i32 as i64, |x| i64::from(x as i32)),
            DType::U32 => self.to_int(|x| x as u32 as i64, |x| i64::from(x as u32)),
            DType::I64 => self.to_int(|x| x as i64, |x| x),
            DType::U64 => Scalar::from(self.as_u64()),
        }
    }

    /// As [`Scalar::cast`], but an infinity stays one in f8e5m2, which has it: a number of the dtype, not what arithmetic
    /// rounds to it.
    pub fn kept_in(self, dtype: DType) -> Scalar {
        match self {
            Scalar::F(x) if dtype == DType::F8E5M2 && x.is_infinite() => self,
            _ => self.cast(dtype),
        }
    }

    fn round_f16(self) -> f16 {
        f16_from_f64(self.as_f64())
    }

    fn round_bf16(self) -> bf16 {
        match self {
            Scalar::F(x) => bf16_from_f64(x),
            Scalar::I(x) => bf16_from_i64(x),
            Scalar::U(x) => bf16_from_u64(x),
        }
    }

    fn to_int(self, from_float: fn(f64) -> i64, from_int: fn(i64) -> i64) -> Scalar {
        Scalar::I(match self {
            Scalar::F(x) => from_float(x),
            Scalar::I(_) | Scalar::U(_) => from_int(self.as_i64()),
        })
    }

    /// Little-endian bytes of the value converted to `dtype` as [`Scalar::kept_in`] does; [`DType::size_bytes`] of them.
    pub fn to_le_bytes(self, dtype: DType) -> Vec<u8> {
        match dtype {
            DType::F8E4M3 => vec![F8E4M3::from_f64(self.as_f64()).to_bits()],
            DType::F8E5M2 => vec![F8E5M2::kept_from_f32(round_to_odd(self.as_f64())).to_bits()],
            DType::F16 => self.round_f16().to_le_bytes().to_vec(),
            DType::BF16 => self.round_bf16().to_le_bytes().to_vec(),
            DType::F32 => (self.cast(dtype).as_f64() as f32).to_le_bytes().to_vec(),
            DType::F64 => self.as_f64().to_le_bytes().to_vec(),
            DType::I8 | DType::U8 | DType::Bool => vec![self.cast(dtype).as_i64() as u8],
            DType::I16 | DType::U16 => (self.cast(dtype).as_i64() as u16).to_le_bytes().to_vec(),
            DType::I32 | DType::U32 => (self.cast(dtype).as_i64() as u32).to_le_bytes().to_vec(),
            DType::I64 | DType::U64 => self.cast(dtype).as_u64().to_le_bytes().to_vec(),
        }
    }

    /// The value whose little-endian bytes start `bytes`; zero where `bytes` is too short.
    pub fn from_le_bytes(bytes: &[u8], dtype: DType) -> Scalar {
        let mut word = [0u8; 8];
        let size = dtype.size_bytes() as usize;
        if bytes.len() >= size {
            word[..size].copy_from_slice(&bytes[..size]);
        }
        let bits = u64::from_le_bytes(word);
        match dtype {
            DType::F8E4M3 => Scalar::F(F8E4M3::from_bits(bits as u8).to_f64()),
            DType::F8E5M2 => Scalar::F(F8E5M2::from_bits(bits as u8).to_f64()),
            DType::F16 => Scalar::F(f64::from(f16::from_bits(bits as u16))),
            DType::BF16 => Scalar::F(f64::from(bf16::from_bits(bits as u16))),
            DType::F32 => Scalar::F(f64::from(f32::from_bits(bits as u32))),
            DType::F64 => Scalar::F(f64::from_bits(bits)),
            DType::I8 => Scalar::I(i64::from(bits as u8 as i8)),
            DType::U8 => Scalar::I(i64::from(bits as u8)),
            DType::Bool => Scalar::I(i64::from(bits as u8 != 0)),
            DType::I16 => Scalar::I(i64::from(bits as u16 as i16)),
            DType::U16 => Scalar::I(i64::from(bits as u16)),
            DType::I32 => Scalar::I(i64::from(bits as u32 as i32)),
            DType::U32 => Scalar::I(i64::from(bits as u32)),
            DType::I64 => Scalar::I(bits as i64),
            DType::U64 => Scalar::from(bits),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::F(x) if *x != 0.0 && !(1e-4..1e16).contains(&x.abs()) => write!(f, "{x:e}"),
            Scalar::F(x) => fmt::Display::fmt(x, f),
            Scalar::I(x) => fmt::Display::fmt(x, f),
            Scalar::U(x) => fmt::Display::fmt(x, f),
        }
    }
}

macro_rules! scalar_from {
    ($($ty:ty => $variant:ident($wide:ty)),*) => {$(
        impl From<$ty> for Scalar {
            fn from(x: $ty) -> Scalar {
                Scalar::$variant(<$wide>::from(x))
            }
        }
    )*};
}
scalar_from!(F8E4M3 => F(f64), F8E5M2 => F(f64), f16 => F(f64), bf16 => F(f64), f32 => F(f64), f64 => F(f64),
             i8 => I(i64), u8 => I(i64), i16 => I(i64), u16 => I(i64), i32 => I(i64), u32 => I(i64), i64 => I(i64), bool => I(i64));

impl From<u64> for Scalar {
    fn from(x: u64) -> Scalar {
        i64::try_from(x).map_or(Scalar::U(x), Scalar::I)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cast_float_to_int_saturates_and_nan_is_zero() {
        assert_eq!(Scalar::F(300.7).cast(DType::U8), Scalar::I(255));
        assert_eq!(Scalar::F(-300.7).cast(DType::I8), Scalar::I(-128));
        assert_eq!(Scalar::F(f64::NAN).cast(DType::I32), Scalar::I(0));
        assert_eq!(Scalar::F(f64::INFINITY).cast(DType::I64), Scalar::I(i64::MAX));
    }

    #[test]
    fn cast_to_sixteen_bits_rounds_once() {
        let tie = 21.5625; // midway between bf16's 21.5 (even) and 21.625
        let cast = |x: f64| Scalar::F(x).cast(DType::BF16);
        assert_eq!(cast(tie), Scalar::F(21.5));
        assert_eq!(cast(tie * (1.0 + (-22f64).exp2())), Scalar::F(21.625));
        assert_eq!(cast(tie * (1.0 + (-50f64).exp2())), Scalar::F(21.625));
        let half = |x: f64| Scalar::F(x).cast(DType::F16);
        let tie = 1.0 + (-11f64).exp2();
        assert_eq!(half(tie), Scalar::F(1.0));
        assert_eq!(half(-tie - (-45f64).exp2()), Scalar::F(-1.0 - (-10f64).exp2()));
        assert_eq!((half(65519.99), half(65520.0)), (Scalar::F(65504.0), Scalar::F(f64::INFINITY)));
        assert_eq!((half(1e-300), cast(1e300)), (Scalar::F(0.0), Scalar::F(f64::INFINITY)));
    }

    /// Against the two neighbours in 128 bits: no f64 tells a tie from what lies beside it.
    #[test]
    fn cast_of_long_integers_to_bf16_rounds_once() {
        let cast = |x: i64| match Scalar::I(x).cast(DType::BF16) {
            Scalar::F(y) => y as i128,
            Scalar::I(_) | Scalar::U(_) => panic!("bf16 is a float"),
        };
        let near_ties = (129..256).flat_map(|lead| (45..55).map(move |shift| ((2 * lead + 1_i64) << shift) >> 1));
        for tie in near_ties.chain([i64::MAX, i64::MIN + 1, (1 << 53) + 1, 1 << 62]) {
            for x in (-2..=2).flat_map(|by| [tie.saturating_add(by), tie.saturating_add(by).wrapping_neg()]) {
                let (x, y) = (i128::from(x), cast(x));
                let unit = 1_i128 << (120 - (x.unsigned_abs().leading_zeros()));
                let off = (x - y).abs() * 2;
                assert!(off < unit || (off == unit && (y / unit) % 2 == 0), "{x} became {y}, units of {unit}");
            }
        }
        assert_eq!(cast((257 << 54) + 1), 258 << 54);
    }

    #[test]
    fn cast_to_eight_bit_floats_saturates() {
        let cast = |x: Scalar| (x.cast(DType::F8E4M3), x.cast(DType::F8E5M2));
        assert_eq!(cast(Scalar::F(f64::INFINITY)), (Scalar::F(448.0), Scalar::F(57344.0)));
        assert_eq!(cast(Scalar::I(-1_000_000)), (Scalar::F(-448.0), Scalar::F(-57344.0)));
        assert_eq!(cast(Scalar::I(17)), (Scalar::F(16.0), Scalar::F(16.0)));
        assert!(cast(Scalar::F(f64::NAN)).0.is_nan() && cast(Scalar::F(f64::NAN)).1.is_nan());
        // One rounding: by way of f32 this would become the tie 1.0625, and 1.
        assert_eq!(cast(Scalar::F(1.0625 + (-40f64).exp2())).0, Scalar::F(1.125));
        assert_eq!(Scalar::from_le_bytes(&[0x7c], DType::F8E5M2), Scalar::F(f64::INFINITY));
        let infinity = Scalar::F(f64::NEG_INFINITY);
        assert_eq!((infinity.kept_in(DType::F8E5M2), infinity.to_le_bytes(DType::F8E5M2)), (infinity, vec![0xfc]));
        assert_eq!(infinity.kept_in(DType::F8E4M3), Scalar::F(-448.0));
        assert_eq!(Scalar::F(1e9).to_le_bytes(DType::F8E5M2), [0x7b]);
    }

    #[test]
    fn cast_int_to_int_wraps() {
        assert_eq!(Scalar::I(300).cast(DType::U8), Scalar::I(44));
        assert_eq!(Scalar::I(-1).cast(DType::U32), Scalar::I(u32::MAX.into()));
        assert_eq!(Scalar::I(200).cast(DType::I8), Scalar::I(-56));
    }

    #[test]
    fn numbers_beyond_i64_are_themselves() {
        let (half, most) = (Scalar::from(1u64 << 63), Scalar::from(u64::MAX));
        assert_eq!((half, Scalar::from(5u64)), (Scalar::U(1 << 63), Scalar::I(5)));
        assert_eq!((most.as_f64(), most.as_i64(), most.as_u64()), (2f64.powi(64), -1, u64::MAX));
        assert_eq!(Scalar::F(1e30).cast(DType::U64), most);
        assert_eq!(Scalar::F(-1.0).cast(DType::U64), Scalar::I(0));
        assert_eq!(Scalar::I(-1).cast(DType::U64), most);
        assert_eq!(most.cast(DType::I16), Scalar::I(-1));
        // Between two numbers of bf16, 2^56 apart; just above a tie.
        let tie = 0x8080_0000_0000_0000u64;
        assert_eq!(Scalar::from(tie).cast(DType::BF16), Scalar::F(2f64.powi(63)));
        assert_eq!(Scalar::from(tie + 1).cast(DType::BF16), Scalar::F(2f64.powi(63) + 2f64.powi(56)));
    }

    #[test]
    fn bytes_round_trip_every_dtype() {
        for dtype in DType::ALL {
            let ones = vec![0xff; dtype.size_bytes() as usize];
            if dtype.is_integer() {
                assert_eq!(Scalar::from_le_bytes(&ones, dtype).to_le_bytes(dtype), ones, "{dtype}");
            }
            let one = Scalar::I(1).cast(dtype);
            assert_eq!(Scalar::from_le_bytes(&one.to_le_bytes(dtype), dtype), one, "{dtype}");
        }
    }
}
