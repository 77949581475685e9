//! Cases of random numbers: bits against Philox's definition, uniforms and normals of several parameters, counts that
//! are no multiple of a block of four, keys and streams beyond 32 bits.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, Level, Metric, Suite, output};
use crate::ops::{Distribution, Random};
use crate::{DType, Result};

const FAMILY: &str = "random";

fn random(distribution: Distribution, dtype: DType, seed: u64, stream: u64, dims: &[u64]) -> Result<Random> {
    Random::new(distribution, seed, stream, output(dtype, dims)?)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |distribution, dtype, seed, stream, count: u64| {
        add(&mut cases, FAMILY, random(distribution, dtype, seed, stream, &[count]), &[]);
    };
    for count in sizes(level) {
        push(Distribution::Bits, DType::U32, 42, 0, count);
        push(Distribution::Uniform { low: 0.0, high: 1.0 }, DType::F32, 42, 0, count);
        push(Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F16, 7, 1, count);
    }
    // The keys and counters of Random123's known-answer vectors, as far as a tensor can reach them.
    for (seed, stream) in [(0, 0), (u64::MAX, u64::MAX), (0x299f_31d0_a409_3822, 0x0370_7344_1319_8a2e)] {
        push(Distribution::Bits, DType::U32, seed, stream, 65);
        push(Distribution::Uniform { low: 0.0, high: 1.0 }, DType::F32, seed, stream, 65);
    }
    for dtype in [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::BF16, DType::F32] {
        push(Distribution::Uniform { low: 0.0, high: 1.0 }, dtype, 1, 2, 4099);
        push(Distribution::Uniform { low: -3.0, high: 5.0 }, dtype, 1, 2, 4099);
        push(Distribution::Uniform { low: 2.0, high: 2.0 }, dtype, 1, 2, 33);
        push(Distribution::Normal { mean: 0.0, std: 1.0 }, dtype, 3, 4, 4099);
        push(Distribution::Normal { mean: 100.0, std: 0.5 }, dtype, 3, 4, 1025);
        push(Distribution::Normal { mean: -1.0, std: 0.0 }, dtype, 3, 4, 33);
    }
    if level == Level::Full {
        push(Distribution::Bits, DType::U32, 9, 9, 4 * 1_048_583);
        push(Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F32, 9, 9, 1_048_583);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let wanted = [
        ("uniform", Distribution::Uniform { low: 0.0, high: 1.0 }),
        ("normal", Distribution::Normal { mean: 0.0, std: 1.0 }),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, distribution)| {
            Some(BenchCase::new(
                format!("{name} f32"),
                Suite::Random,
                random(distribution, DType::F32, 1, 0, &[size.elements()]).ok()?,
                Metric::Elements,
            ))
        })
        .collect()
}
