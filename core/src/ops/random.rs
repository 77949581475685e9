//! Random numbers from a counter: Philox4x32-10, the same on every backend.
//!
//! Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. Element i takes word i mod 4 of the
//! block whose 128-bit counter is (i div 4 in its low 64 bits, `stream` in its high 64) under the 64-bit key `seed`, so
//! a result depends on nothing but seed, stream and position. Bits and uniforms are bit-equal everywhere; normals agree
//! to the error of the logarithm, square root and cosine they are made from.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

use super::prelude::*;

/// What the random bits become.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All 32 bits, as u32.
    Bits,
    /// Uniform in [low, high): low + (high - low) (bits >> 8) 2^-24, computed in f32 as one multiply and one add, fused or not: the same bits on every
    /// device from 0 to 1, elsewhere to a rounding.
    Uniform {
        /// Smallest value.
        low: f32,
        /// Upper end, not reached unless rounding takes it there.
        high: f32,
    },
    /// Normal, by Box and Muller (1958): words 2j and 2j+1 of a block give u = ((w >> 8) + 1) 2^-24 in (0, 1] and
    /// v = (w' >> 8) 2^-24, and elements mean + std sqrt(-2 ln u) cos(2 pi v), mean + std sqrt(-2 ln u) sin(2 pi v).
    Normal {
        /// Mean.
        mean: f32,
        /// Standard deviation.
        std: f32,
    },
}

impl Distribution {
    /// What calls that draw from it are named.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Distribution::Bits => "random_bits",
            Distribution::Uniform { .. } => "uniform",
            Distribution::Normal { .. } => "normal",
        }
    }

    /// Refuses bounds that are not finite or in order, and a negative deviation.
    pub(crate) fn check(self) -> Result<()> {
        let bad = match self {
            Distribution::Uniform { low, high } if !(low <= high && (high - low).is_finite()) => {
                Some(format!("{low}..{high} is not an interval of finite width"))
            }
            Distribution::Normal { mean, std } if !(mean.is_finite() && std.is_finite() && std >= 0.0) => {
                Some(format!("mean {mean} and deviation {std} must be finite, the deviation not negative"))
            }
            _ => None,
        };
        bad.map_or(Ok(()), |reason| Err(Error::InvalidArgument { what: "distribution", reason }))
    }

    /// Its kind and parameters, by their bits.
    fn bits(self) -> (u8, [u32; 2]) {
        match self {
            Distribution::Bits => (0, [0; 2]),
            Distribution::Uniform { low, high } => (1, [low, high].map(f32::to_bits)),
            Distribution::Normal { mean, std } => (2, [mean, std].map(f32::to_bits)),
        }
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Distribution) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Distribution {}

impl Hash for Distribution {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

/// A dense tensor of random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    /// What the bits become.
    pub distribution: Distribution,
    /// The key.
    pub seed: u64,
    /// The high 64 bits of the counter: independent sequences under one seed.
    pub stream: u64,
    /// Dense output: u32 for bits, a float of up to 32 bits for the others (computed in f32, then rounded). Not f64, whose
    /// numbers need two words each and more: [`Tensor::random`] makes them by a program.
    pub output: TensorSpec,
}

impl Random {
    /// A checked random fill.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for a dtype the distribution has not; [`Error::InvalidArgument`] for bounds that
    /// are not finite or in order, or a negative deviation.
    pub fn new(distribution: Distribution, seed: u64, stream: u64, output: TensorSpec) -> Result<Random> {
        let op = Random { distribution, seed, stream, output };
        let fits = match distribution {
            Distribution::Bits => output.dtype == DType::U32,
            Distribution::Uniform { .. } | Distribution::Normal { .. } => {
                output.dtype.is_float() && output.dtype != DType::F64
            }
        };
        if !fits {
            return Err(Error::UndefinedForDType { op: op.name(), dtype: output.dtype });
        }
        distribution.check()?;
        check_dense_output(op.name(), &output)?;
        Ok(op)
    }

    fn element(&self, i: u64) -> Expected {
        const UNIT: f64 = 1.0 / 16_777_216.0; // 2^-24: 24 bits fill an f32 significand exactly
        let words = philox4x32_10(self.counter(i / 4), self.key());
        let lane = (i % 4) as usize;
        let unit = |w: u32| f64::from(w >> 8) * UNIT;
        match self.distribution {
            Distribution::Bits => Expected::exact(Scalar::I(words[lane].into())),
            Distribution::Uniform { low, high } => {
                // In f32 as every backend computes it; a fused multiply-add may skip the first rounding.
                let (width, x) = (f64::from(high - low), unit(words[lane]));
                let value = f64::from(low) + width * x;
                let u = DType::F32.unit_roundoff();
                let exact = low == 0.0 && high == 1.0;
                let error = if exact { 0.0 } else { u * ((width * x).abs() + value.abs()) };
                Expected::within(Scalar::F(value), error).round_to(self.output.dtype)
            }
            Distribution::Normal { mean, std } => {
                let (radius_word, angle_word) = (words[lane & !1], words[lane | 1]);
                let radius = (-2.0 * (unit(radius_word) + UNIT).ln()).sqrt();
                let angle = std::f64::consts::TAU * unit(angle_word);
                let z = radius * if lane & 1 == 0 { angle.cos() } else { angle.sin() };
                let (mean, std) = (f64::from(mean), f64::from(std));
                let value = mean + std * z;
                // Radius and trigonometry: 8 ulp of the radius covers both, the angle's rounding included.
                let ulp = 2.0 * DType::F32.unit_roundoff();
                let error = ulp * (16.0 * std * radius + value.abs());
                Expected::within(Scalar::F(value), error).round_to(self.output.dtype)
            }
        }
    }

    /// The counter of block `block`, low word first.
    pub fn counter(&self, block: u64) -> [u32; 4] {
        [block as u32, (block >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32]
    }

    /// The key, low word first.
    pub fn key(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }
}

impl Operation for Random {
    fn name(&self) -> &'static str {
        self.distribution.name()
    }

    operands! { write output }

    fn validate(&self) -> Result<()> {
        Random::new(self.distribution, self.seed, self.stream, self.output).map(drop)
    }

    /// Ten rounds of two multiplications and four exclusive ors make four words: 15 per element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.output.layout.elements().saturating_mul(15))
    }

    /// The definitions above in float64; bits and uniforms exactly.
    fn oracle(&self, _inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![(0..self.output.layout.elements()).map(|i| self.element(i)).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("it reads nothing: random numbers depend on no tensor"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        let _ = inputs;
        host::execute(self, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        let Random { distribution, seed, stream, .. } = self;
        name.push_str(&format!(" {distribution:?} key{seed:#x} stream{stream:#x}"));
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let positions = sample::first_elements(&self.output)?;
        let output = sample::dense(self.output.dtype, &positions);
        Ok(Some(Sample { op: Random { output, ..self.clone() }.into(), positions: vec![positions] }))
    }
}

/// The random bits of the element at `position` under a key: seed low, seed high, stream low, stream high.
pub(super) fn random_word([seed_low, seed_high, stream_low, stream_high]: [u32; 4], position: u64) -> u32 {
    let block = position / 4;
    let counter = [block as u32, (block >> 32) as u32, stream_low, stream_high];
    philox4x32_10(counter, [seed_low, seed_high])[(position % 4) as usize]
}

/// One block of Philox4x32 with ten rounds (Salmon et al., SC'11, section 3.3).
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let p0 = MULTIPLIERS[0] * u64::from(c0);
        let p1 = MULTIPLIERS[1] * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        (k0, k1) = (k0.wrapping_add(WEYL[0]), k1.wrapping_add(WEYL[1]));
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random123's published known-answer vectors for philox4x32 with 10 rounds (kat_vectors).
    #[test]
    fn philox_matches_the_known_answers() {
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32_10([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32_10([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
