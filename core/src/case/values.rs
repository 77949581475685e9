//! What the inputs of a case hold: recipes that turn (dtype, element count, seed) into bytes.
//!
//! A recipe is data and prints as a short word in the case's name. Numbers come from a counter-based generator
//! (SplitMix64, Steele, Lea and Flood, OOPSLA'14), so element i does not depend on the others. It does not know layouts:
//! `harness::run` scatters the row-major elements into storage.

use crate::rounding::{bf16_from_f64, f16_from_f64, round_to_odd};
use crate::{DType, F8E4M3, F8E5M2, Scalar};

/// How the elements of one input are made.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Uniform in low..high; rounded for integers; zero or one for bool.
    Uniform(f64, f64),
    /// Integers in low..=high: products and sums of them are exact.
    Integers(i32, i32),
    /// Special values first ([`special`]), then random ones over the dtype's whole range, log-uniform for floats.
    Special,
    /// Special values in all pairs: element i takes number i / count.
    PairsLeft,
    /// Special values in all pairs: element i takes number i mod count.
    PairsRight,
    /// Element i has the bits of i (mod 65,536): everything a dtype of 8 or 16 bits can hold.
    AllBits,
    /// Random bits, NaN payloads included (bool: 0 or 1).
    RandomBits,
    /// Mean 0, deviation 1 (sum of twelve uniforms); scaled by 16 for integers.
    Normal,
    /// From 0 to this, never falling, in steps of random length; the last element is this.
    Rising(u32),
    /// 0, 1, 2, ... up to 120, again and again.
    Ramp,
    /// Uniform in -1..1 with this value at one position.
    Planted(Plant, Where),
    /// Of either sign and at most 1, down to 2 to the power of minus this, logarithms uniform.
    Spread(u32),
    /// The same value everywhere.
    Constant(f64),
    /// Words of 2:4 metadata that name two places of each group in ascending order, all six pairs alike; for u32.
    Places24,
    /// Near 1, so that long products neither overflow nor vanish; -1 and 1 for integers (1 for unsigned ones).
    NearOne,
}

/// What is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// NaN.
    Nan,
    /// Infinity.
    Inf,
    /// The largest value of all: 2.
    Top,
}

/// Where it is planted among n row-major elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Element 0.
    First,
    /// Element n - 1.
    Last,
    /// Element 255, the last one of a 256-wide tile.
    TileEnd,
    /// Element 256, the first one of the second tile.
    TileStart,
    /// Element n / 2.
    Middle,
    /// Elements n / 3 and n / 2: the first must win a tie.
    Twice,
}

impl Values {
    /// The word for it in a case's name.
    pub fn name(&self) -> String {
        match self {
            Values::Uniform(low, high) => format!("uniform({low},{high})"),
            Values::Integers(low, high) => format!("int({low},{high})"),
            Values::Special => "special".into(),
            Values::PairsLeft | Values::PairsRight => "pairs".into(),
            Values::AllBits => "allbits".into(),
            Values::RandomBits => "bits".into(),
            Values::Normal => "normal".into(),
            Values::Rising(last) => format!("rising({last})"),
            Values::Ramp => "ramp".into(),
            Values::Planted(what, at) => format!("{what:?}@{at:?}").to_lowercase(),
            Values::Spread(binades) => format!("spread({binades})"),
            Values::Constant(value) => format!("const({value})"),
            Values::NearOne => "nearone".into(),
            Values::Places24 => "places".into(),
        }
    }

    /// The little-endian bytes of `count` elements.
    pub fn bytes(&self, dtype: DType, count: u64, seed: u64) -> Vec<u8> {
        let size = dtype.size_bytes() as usize;
        let mut out = vec![0; count as usize * size];
        let specials = special(dtype);
        for (i, bytes) in out.chunks_exact_mut(size).enumerate() {
            let i = i as u64;
            match self {
                Values::AllBits => write_bits(bytes, i & 0xffff),
                Values::RandomBits if dtype == DType::Bool => write_bits(bytes, mix(seed, i) & 1),
                Values::RandomBits => write_bits(bytes, mix(seed, i)),
                _ => encode(self.element(dtype, i, count, seed, &specials), dtype, bytes),
            }
        }
        out
    }

    fn element(&self, dtype: DType, i: u64, count: u64, seed: u64, specials: &[Scalar]) -> Scalar {
        let unit = unit(mix(seed, i));
        let of = |x: f64| if dtype.is_float() { Scalar::F(x) } else { Scalar::I(x.round() as i64) };
        let pair = specials.len() as u64;
        match *self {
            Values::PairsLeft => specials[(i / pair % pair) as usize],
            Values::PairsRight => specials[(i % pair) as usize],
            _ if dtype == DType::Bool && !matches!(self, Values::Constant(_)) => Scalar::I(i64::from(unit < 0.5)),
            Values::Uniform(low, high) => of(low + (high - low) * unit),
            Values::Integers(low, high) => {
                let span = (i64::from(high) - i64::from(low) + 1) as u64;
                of((i64::from(low) + (mix(seed, i) % span) as i64) as f64)
            }
            Values::Special if i < pair => specials[i as usize],
            Values::Special => wide(dtype, mix(seed, i)),
            Values::Normal => {
                let sum: f64 = (0..12).map(|lane| self::unit(mix(seed ^ (lane + 1) << 40, i))).sum();
                of((sum - 6.0) * if dtype.is_float() { 1.0 } else { 16.0 })
            }
            Values::Rising(last) if i + 1 == count => of(last.into()),
            Values::Rising(last) => of((f64::from(last) * (i as f64 + unit) / count as f64).floor()),
            Values::Ramp => of((i % 121) as f64),
            Values::Planted(what, at) => {
                let (third, middle) = (count / 3, count / 2);
                let here = match at {
                    Where::First => i == 0,
                    Where::Last => i + 1 == count,
                    Where::TileEnd => i == 255,
                    Where::TileStart => i == 256,
                    Where::Middle => i == middle,
                    Where::Twice => i == third || i == middle,
                };
                match what {
                    _ if !here => of(2.0 * unit - 1.0),
                    Plant::Nan => of(f64::NAN),
                    Plant::Inf => of(f64::INFINITY),
                    Plant::Top => of(2.0),
                }
            }
            Values::Spread(binades) => {
                let magnitude = (-f64::from(binades) * unit).exp2();
                of(if mix(seed, i) & 1 == 0 { magnitude } else { -magnitude })
            }
            Values::Constant(value) => of(value),
            Values::NearOne if !dtype.is_float() => {
                Scalar::I(if dtype.is_signed() && mix(seed, i).is_multiple_of(7) { -1 } else { 1 })
            }
            Values::Places24 => {
                // 01, 02, 03, 12, 13, 23: the second place in the upper two bits.
                const PAIRS: [u64; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
                let bits = mix(seed, i);
                Scalar::I(
                    (0..8).fold(0, |word, group| word << 4 | PAIRS[(bits >> (8 * group) & 0xff) as usize % 6]) as i64
                )
            }
            Values::NearOne => of(1.0 + (unit - 0.5) / 16.0),
            Values::AllBits | Values::RandomBits => Scalar::I(0), // written as bits above
        }
    }
}

/// The values a dtype is most likely to be wrong at: about 40 for floats, 20 for integers.
pub fn special(dtype: DType) -> Vec<Scalar> {
    if dtype == DType::Bool {
        return vec![Scalar::I(0), Scalar::I(1)];
    }
    if !dtype.is_float() {
        let (low, high) = dtype.integer_range().unwrap_or((0, 1));
        let mut all = vec![0, 1, 2, 3, 5, 7, 10, 16, 31, 64, 100, low, low + 1, high, high - 1, high / 2, high / 2 + 1];
        if dtype.is_signed() {
            all.extend([-1, -2, -3, -7, -10, -64, low / 2]);
        }
        return all.into_iter().map(Scalar::from_integer).collect();
    }
    let (max, normal, u) = (dtype.max_finite(), dtype.min_normal(), dtype.unit_roundoff());
    let positive = [
        0.0,
        normal * 2.0 * u, // the smallest subnormal
        normal * 0.5,
        normal * (1.0 - 2.0 * u), // the largest subnormal
        normal,
        normal * 1.5,
        1e-3,
        0.25,
        0.5,
        1.0 - u,
        1.0,
        1.0 + 2.0 * u,
        1.5,
        2.0,
        2.5,
        std::f64::consts::PI,
        10.0,
        20.5,
        88.0,
        100.0,
        max * 0.5,
        max,
        f64::INFINITY,
    ];
    let both = positive.into_iter().flat_map(|x| [x, -x]).chain([f64::NAN]);
    both.map(|x| Scalar::F(x).kept_in(dtype)).collect()
}

/// Any value of the dtype: integers uniform over their range, floats of any exponent and sign (no NaN or infinity).
fn wide(dtype: DType, bits: u64) -> Scalar {
    if !dtype.is_float() {
        return Scalar::I(bits as i64).cast(dtype);
    }
    let span = dtype.max_finite().log2() - dtype.min_normal().log2();
    // Half of all values within 2^-8..2^8, where functions do their work.
    let exponent = if bits & 2 == 0 { 16.0 * unit(bits) - 8.0 } else { dtype.min_normal().log2() + span * unit(bits) };
    let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
    Scalar::F(sign * exponent.exp2()).cast(dtype)
}

/// SplitMix64 at position `i` of the sequence `seed`.
pub fn mix(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The upper 53 bits as a number in [0, 1).
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (-53f64).exp2()
}

fn write_bits(bytes: &mut [u8], bits: u64) {
    let size = bytes.len();
    bytes.copy_from_slice(&bits.to_le_bytes()[..size]);
}

/// `value`, converted to `dtype`, into its bytes; [`Scalar::to_le_bytes`] without the allocation.
pub(crate) fn encode(value: Scalar, dtype: DType, bytes: &mut [u8]) {
    match dtype {
        DType::F8E4M3 => bytes[0] = F8E4M3::from_f64(value.as_f64()).to_bits(),
        DType::F8E5M2 => bytes[0] = F8E5M2::kept_from_f32(round_to_odd(value.as_f64())).to_bits(),
        DType::F16 => bytes.copy_from_slice(&f16_from_f64(value.as_f64()).to_le_bytes()),
        DType::BF16 => bytes.copy_from_slice(&bf16_from_f64(value.as_f64()).to_le_bytes()),
        DType::F32 => {
            let Scalar::F(x) = value.cast(dtype) else { return };
            bytes.copy_from_slice(&(x as f32).to_le_bytes());
        }
        DType::F64 => bytes.copy_from_slice(&value.as_f64().to_le_bytes()),
        _ => write_bits(bytes, value.cast(dtype).as_u64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_agrees_with_scalar_bytes() {
        for dtype in DType::ALL {
            for value in special(dtype) {
                let mut bytes = vec![0; dtype.size_bytes() as usize];
                encode(value, dtype, &mut bytes);
                assert_eq!(bytes, value.to_le_bytes(dtype), "{dtype} {value:?}");
            }
        }
    }

    #[test]
    fn special_floats_hold_every_class() {
        for dtype in DType::FLOATS {
            let all: Vec<f64> = special(dtype).iter().map(|x| x.as_f64()).collect();
            assert!(all.iter().any(|x| x.is_nan()));
            let infinities = all.iter().filter(|x| x.is_infinite()).count();
            assert_eq!(infinities, if dtype == DType::F8E4M3 { 0 } else { 2 }, "{dtype}");
            assert!(all.iter().any(|x| *x == 0.0 && x.is_sign_negative()));
            assert!(all.iter().any(|x| *x > 0.0 && *x < dtype.min_normal()), "{dtype} has no subnormal");
            assert!(all.contains(&dtype.max_finite()) && all.contains(&dtype.min_normal()));
        }
    }

    #[test]
    fn seeds_change_the_values_and_nothing_else_does() {
        let of = |seed| Values::Uniform(-1.0, 1.0).bytes(DType::F32, 64, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn planted_values_lie_where_they_should() {
        let bytes = Values::Planted(Plant::Nan, Where::TileEnd).bytes(DType::F32, 300, 7);
        let nans: Vec<usize> =
            (0..300).filter(|i| Scalar::from_le_bytes(&bytes[i * 4..], DType::F32).is_nan()).collect();
        assert_eq!(nans, [255]);
    }
}
