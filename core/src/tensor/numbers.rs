//! Numbers of f64 from random words, and what both ways of drawing them need: [`Tensor::random`](crate::Tensor::random), whose key the host
//! gives, and [`Generator`](crate::Generator), whose key lies on the device.

use crate::ops::Distribution;
use crate::{BinaryFn, CompareFn, DType, Expr, Scalar};

/// 2^-32.
pub(crate) const UNIT: f64 = 1.0 / 4_294_967_296.0;

/// The bits of the stream's upper word in which that of word number `n` after the first differs.
pub(crate) fn stream_of(n: u32) -> u32 {
    1 << 31 | (n % 32) << 26 | (n / 32) << 25
}

/// 2^32 - 1 - w.
pub(crate) fn mirrored(word: Expr) -> Expr {
    word ^ i64::from(u32::MAX)
}

/// (w + 1/2) 2^-64 in f64, of two u32. It may be rounded to 1.
pub(crate) fn unit_of_64([high, low]: [Expr; 2]) -> Expr {
    const WORDS: f64 = 4_294_967_296.0; // 2^32
    (high.cast(DType::F64) * WORDS + low.cast(DType::F64) + 0.5) * (UNIT * UNIT)
}

/// The same of 64 bits, in f64: from 2^-65 to 45.05.
pub(crate) fn exponential_of_64([high, low]: [Expr; 2]) -> Expr {
    let is_low = high.compare(CompareFn::Lt, 1i64 << 31);
    let small = unit_of_64([high, low].map(|word| is_low.select(word.clone(), mirrored(word))));
    -is_low.select(small.log(), (-small).log1p())
}

/// Uniform in [0, 1) in steps of 2^-53, in f64, of two words. Every step is exact.
pub(crate) fn uniform_of_64([high, low]: [Expr; 2]) -> Expr {
    const LOW: f64 = 67_108_864.0; // 2^26
    const STEP: f64 = 1.0 / (134_217_728.0 * LOW); // 2^-53
    let [high, low] = [high / 32, low / 64].map(|bits| bits.cast(DType::F64));
    (high * LOW + low) * STEP
}

/// The largest number of `dtype`, a float, that is less than `x`.
pub(crate) fn last_below(dtype: DType, x: f64) -> f64 {
    let mut bits = [0; 8];
    let bytes = Scalar::F(x).to_le_bytes(dtype);
    bits[..bytes.len()].copy_from_slice(&bytes);
    let of = |bits: u64| Scalar::from_le_bytes(&bits.to_le_bytes()[..bytes.len()], dtype).as_f64();
    let (bits, sign) = (u64::from_le_bytes(bits), 1u64 << (8 * dtype.size_bytes() - 1));
    match of(bits) {
        nearest if nearest < x => nearest,
        // Bits order as magnitudes do.
        nearest if nearest > 0.0 => of(bits - 1),
        // Shaders may take subnormal numbers for 0, those that they compute with.
        0.0 if dtype.compute() == dtype => -dtype.min_normal(),
        0.0 => of(sign | 1),
        _ => of(bits + 1),
    }
}

/// `unit`, which is uniform in [0, 1), moved to [low, high); what would be rounded to `high` becomes the number below it.
pub(crate) fn uniform_between(dtype: DType, unit: Expr, low: f64, high: f64) -> Expr {
    (unit * (high - low) + low).binary(BinaryFn::Min, last_below(dtype, high).max(low)).cast(dtype)
}

/// Box and Muller's cosine of an exponential number and a uniform one.
pub(crate) fn normal_of(exponential: Expr, unit: Expr) -> Expr {
    (exponential * 2.0).sqrt() * (unit * std::f64::consts::TAU).cos()
}

/// The f64 of a seed and a stream that [`Generator::uniform`](crate::Generator::uniform) and [`Generator::normal`](crate::Generator::normal) give for that key; none of [`Distribution::Bits`].
pub(crate) fn numbers_of_64(distribution: Distribution, seed: u64, stream: u64) -> Option<Expr> {
    let (dtype, [low, high]) = (DType::F64, [stream as u32, (stream >> 32) as u32]);
    let word = |n: u32| {
        let high = if n == 0 { high } else { high ^ stream_of(n - 1) };
        Expr::random([seed as u32, (seed >> 32) as u32, low, high].map(Expr::constant))
    };
    match distribution {
        Distribution::Bits => None,
        Distribution::Uniform { low, high } => {
            Some(uniform_between(dtype, uniform_of_64([0, 1].map(word)), low.into(), high.into()))
        }
        Distribution::Normal { mean, std } => {
            let z = normal_of(exponential_of_64([0, 1].map(word)), unit_of_64([2, 3].map(word)));
            Some(z * f64::from(std) + f64::from(mean))
        }
    }
}
