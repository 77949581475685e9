//! Whole numbers of a [`Generator`].
//!
//! Of n numbers the one drawn is floor(x n / 2^b), x being b random bits: b = 96 for up to 2^32 numbers, 128 for more. Each number is that of
//! floor(2^b / n) or one more of the x, so that probabilities differ by less than 2^-64 of themselves.
//!
//! The decision to know: programs have no loops, so that a draw could be refused (D. Lemire, "Fast random integer generation in an interval", ACM
//! TOMACS 29, 2019) a fixed number of times alone, and what is refused each time has a bias again. The same words as one longer number leave a smaller one
//! (S. Canon, "An optimal algorithm for bounded random integers", pull request 39143 of the Swift project, 2021). A power of two takes
//! the upper bits of x, which are as likely as each other exactly.

use super::{another_word, refuse, word};
use crate::{CompareFn, DType, Error, Expr, Generator, IntoShape, Result, Tensor};

/// A digit of a long number: the bits that one dtype holds.
#[derive(Clone, Copy, Debug)]
struct Digit {
    /// Half of its bits.
    half: u32,
}

/// u32.
const WORD: Digit = Digit { half: 16 };
/// u64.
const PAIR: Digit = Digit { half: 32 };

impl Digit {
    /// The upper digit of the product of two, from halves.
    fn upper(self, x: &Expr, n: u64) -> Expr {
        let (shift, mask) = (i64::from(self.half), (1i64 << self.half) - 1);
        let lower_half = |x: &Expr| x.clone() & mask;
        let upper_half = |x: &Expr| x.shr(shift);
        let [high, low] = [upper_half(x), lower_half(x)];
        let [n_high, n_low] = [(n >> self.half) as i64, n as i64 & mask];
        if n_high == 0 {
            return upper_half(&(high * n_low + upper_half(&(low * n_low))));
        }
        let [across, down] = [low.clone() * n_high, high.clone() * n_low];
        let middle = upper_half(&(low * n_low)) + lower_half(&across) + lower_half(&down);
        high * n_high + upper_half(&across) + upper_half(&down) + upper_half(&middle)
    }

    /// floor(x n / b^k): x has the digits `digits`, k of them and the most significant first, b is the number of digits, and n is one digit.
    fn share(self, digits: &[Expr], n: u64) -> Expr {
        let below = digits.iter().rev().fold(None::<Expr>, |below, digit| {
            let upper = self.upper(digit, n);
            Some(match below {
                None => upper,
                Some(below) => {
                    let sum = digit.clone() * Expr::constant(n) + &below;
                    upper + sum.compare(CompareFn::Lt, below).select(1, 0)
                }
            })
        });
        below.unwrap_or_else(|| Expr::constant(0))
    }
}

/// Two words as one number of 64 bits.
fn pair([high, low]: [Expr; 2]) -> Expr {
    high.cast(DType::U64).shl(32) | low.cast(DType::U64)
}

/// A number from 0 on and below `count`, of u32 words: three for up to 2^32 numbers, as u32, else four, as u64.
pub(crate) fn below(count: u128, word: impl Fn(u32) -> Expr) -> Expr {
    let bits = i64::from(count.trailing_zeros());
    let is_power = count.is_power_of_two();
    match (u32::try_from(count), u64::try_from(count)) {
        (Ok(count), _) if !is_power => WORD.share(&[0, 1, 2].map(word), count.into()),
        (_, Ok(count)) if !is_power => PAIR.share(&[[0, 1], [2, 3]].map(|words| pair(words.map(&word))), count),
        _ if bits <= 32 => word(0).shr(32 - bits),
        _ => pair([0, 1].map(word)).shr(64 - bits),
    }
}

impl Generator {
    /// Whole numbers from `low` on and below `high`, each as likely as any other to 2^-64 of its probability, and exactly where there are 2^k of them:
    /// floor(x n / 2^b) of the n numbers, x being 96 random bits, or 128 for more than 2^32 numbers. Bounds are of any integer type.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Generator};
    ///
    /// let dice = Generator::new(&Device::cpu(), 5)?.randint(DType::I32, [100], 1, 7)?.to_vec::<i32>()?;
    /// assert!((1..7).all(|face| dice.contains(&face)) && dice.iter().all(|face| (1..7).contains(face)));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for floats and bool; [`Error::InvalidArgument`] for no number and bounds that `dtype` does not hold;
    /// [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn randint(
        &self,
        dtype: DType,
        shape: impl IntoShape,
        low: impl Into<i128>,
        high: impl Into<i128>,
    ) -> Result<Tensor> {
        const OP: &str = "randint";
        let (least, most) = dtype.integer_range().ok_or(Error::UndefinedForDType { op: OP, dtype })?;
        let (low, high) = (low.into(), high.into());
        if low >= high || low < least || high - 1 > most {
            let reason = format!(
                "{OP} from {low} to below {high} of {dtype}; give at least one number, and those from {least} to {most}"
            );
            return refuse("range", reason);
        }
        let offset = below(high.abs_diff(low), |n| if n == 0 { word() } else { another_word(n - 1) });
        let number = if dtype.size_bytes() == 8 {
            // The dtype holds the first number; what is beyond i64 is of u64.
            let first = i64::try_from(low).map_or_else(|_| Expr::constant(low as u64), Expr::constant);
            offset.cast(dtype) + first
        } else {
            // Of 32 bits sums wrap.
            (offset + low.rem_euclid(1 << 32) as i64).cast(dtype)
        };
        self.draw(OP, shape, &number, &[])
    }
}

/// What [`below`] gives, by long division and by numbers of 128 bits.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::distributions::tests::{N, generator};
    use crate::harness::ReferenceBackend;
    use crate::{Device, Scalar};

    /// Numbers of a state, and the words that they are made of, on the CPU and on the reference device.
    #[test]
    fn whole_numbers_are_the_upper_part_of_the_product() {
        let wide = 3i128 << 62;
        for (dtype, low, high) in [
            (DType::I32, -3, 4),
            (DType::U8, 0, 256),
            (DType::I8, -128, 128),
            (DType::U16, 0, 60_000),
            (DType::U32, 7, 8),
            (DType::U32, 1, 1 << 32),
            (DType::U32, 0, 1 << 32),
            (DType::U32, 0, 3 << 30),
            (DType::I32, i128::from(i32::MIN), 1 << 31),
            (DType::I32, -2_000_000_000, 2_000_000_000),
            (DType::I64, -5_000_000_000, -4_999_999_990),
            (DType::I64, -1, 1 << 32),
            (DType::I64, -(1 << 33), 1 << 33),
            (DType::I64, i128::from(i64::MIN), i128::from(i64::MAX)),
            (DType::I64, i128::from(i64::MIN), 1 << 63),
            (DType::U64, 0, 1 << 64),
            (DType::U64, 5, wide),
            (DType::U64, 1 << 63, (1 << 64) - 1),
        ] {
            for device in [Device::cpu(), Device::new(ReferenceBackend::default())] {
                let generator = Generator::new(&device, 7).unwrap();
                let key = generator.copy().unwrap().key().unwrap().words().unwrap();
                let key = [0, 1, 2, 3].map(|n| key[n].broadcast_to([500]).unwrap());
                let words = [0, 1, 2, 3].map(|n| {
                    let bits = if n == 0 { word() } else { another_word(n - 1) };
                    Tensor::map(&bits, &[&key[0], &key[1], &key[2], &key[3]]).unwrap().to_vec::<u32>().unwrap()
                });
                let found = generator.randint(dtype, [500], low, high).unwrap();
                assert_eq!(found.dtype(), dtype);
                let bytes = found.to_bytes().unwrap();
                let found =
                    bytes.chunks(dtype.size_bytes() as usize).map(|bytes| match Scalar::from_le_bytes(bytes, dtype) {
                        Scalar::U(number) => i128::from(number),
                        number => i128::from(number.as_i64()),
                    });
                let count = high.abs_diff(low);
                for (i, found) in found.enumerate() {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|n| u128::from(words[n][i]));
                    // Digits of 64 bits, so that the product of each and the count has 128; what is below them carries at most once in 2^32.
                    let want = match count.is_power_of_two() {
                        true if count <= 1 << 32 => (a * count) >> 32,
                        true => ((a << 32 | b) * (count >> 1)) >> 63,
                        false if count <= 1 << 32 => ((a << 32 | b) * count + ((c * count) >> 32)) >> 64,
                        false => ((a << 32 | b) * count + (((c << 32 | d) * count) >> 64)) >> 64,
                    };
                    assert_eq!(found, low + want as i128, "{dtype} {low}..{high}, element {i} on {device:?}");
                }
            }
        }
    }

    /// Chi squared of 6 degrees of freedom, 99.999 % below 32; and the thirds of a range that 32 bits alone would divide into a half and two quarters.
    #[test]
    fn whole_numbers_are_each_as_likely() {
        let chi = |counts: &[f64]| {
            let expected = counts.iter().sum::<f64>() / counts.len() as f64;
            counts.iter().map(|count| (count - expected).powi(2) / expected).sum::<f64>()
        };
        let faces = generator(8).randint(DType::I32, [N], 0, 7).unwrap().to_vec::<i32>().unwrap();
        let counts: Vec<f64> = (0..7).map(|face| faces.iter().filter(|found| **found == face).count() as f64).collect();
        assert!(chi(&counts) < 32.0, "{counts:?}");
        let thirds = generator(8).randint(DType::U32, [N], 0, 3i64 << 30).unwrap().to_vec::<u32>().unwrap();
        let counts = [0, 1, 2].map(|third| thirds.iter().filter(|found| **found >> 30 == third).count() as f64);
        // 2 degrees of freedom, 99.999 % below 23.
        assert!(chi(&counts) < 23.0, "{counts:?}");
        let thirds = generator(9).randint(DType::U64, [N], 0u64, 3i128 << 62).unwrap().to_vec::<u64>().unwrap();
        let counts = [0, 1, 2].map(|third| thirds.iter().filter(|found| **found >> 62 == third).count() as f64);
        assert!(chi(&counts) < 23.0, "{counts:?}");
    }
}
