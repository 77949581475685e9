//! Cases of histograms: every dtype, few parts, those that workgroup memory holds with and without copies, and more; elements at limits and
//! edges, NaN, infinities and bits of any kind; all elements in one part; sizes at the edges of quads and workgroups, and where a quad starts.
//!
//! Limits are small multiples of powers of two, and so are most distances for a part: differences and products of what lies near an edge are
//! exact then, whatever a device rounds. Those that are not ask for roundings to nearest, as every device rounds.

use super::{add, sizes, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, Level, Metric, Suite, Values, output};
use crate::ops::Histogram;
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "histogram";

fn at(offset: u64, dtype: DType, dims: &[u64], (bins, low, high): (u64, f64, f64)) -> Result<Histogram> {
    let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?).with_offset(offset));
    Ok(Histogram { output: output(DType::U32, &[bins])?, ..Histogram::new(input, bins, low, high)? })
}

fn histogram(dtype: DType, dims: &[u64], parts: (u64, f64, f64)) -> Result<Histogram> {
    at(3, dtype, dims, parts)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        add(&mut cases, FAMILY, histogram(dtype, &[3, 1001], (7, 2.0, 16.0)), &[Values::Integers(0, 20)]);
        add(&mut cases, FAMILY, histogram(dtype, &[97], (64, -8.0, 8.0)), &[Values::Special]);
        if dtype.size_bytes() < 4 {
            add(&mut cases, FAMILY, histogram(dtype, &[65_536], (100, -12.5, 12.5)), &[Values::AllBits]);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        add(&mut cases, FAMILY, histogram(dtype, &[2001], (9, 0.1, 0.7)), &[Values::Uniform(-0.1, 0.9)]);
    }
    for size in sizes(level) {
        add(&mut cases, FAMILY, histogram(DType::F32, &[size], (7, -1.0, 6.0)), &[Values::Integers(-2, 7)]);
    }
    // Where a quad starts, and whether there is one.
    for offset in 0..4 {
        for size in [1, 2, 3, 4, 5, 1022] {
            for dtype in [DType::F32, DType::I8] {
                add(&mut cases, FAMILY, at(offset, dtype, &[size], (3, 0.0, 6.0)), &[Values::Integers(0, 6)]);
            }
        }
    }
    for bins in [1, 2, 128, 129, 256, 2049, 4096, 4097, 12_288, 12_289, 70_000] {
        let op = histogram(DType::F32, &[3, 10_007], (bins, -1.0, 1.0));
        add(&mut cases, FAMILY, op, &[Values::Uniform(-1.25, 1.25)]);
    }
    // One part has all of them: the first, a middle one, the last by its upper edge, none.
    for value in [0.0, 0.75, 1.0, 1.5, f64::NAN, f64::NEG_INFINITY] {
        for bins in [4, 256, 5000] {
            add(&mut cases, FAMILY, histogram(DType::F32, &[70_000], (bins, 0.0, 1.0)), &[Values::Constant(value)]);
        }
    }
    for place in [Where::First, Where::TileEnd, Where::TileStart, Where::Last] {
        for what in [Plant::Nan, Plant::Inf, Plant::Top] {
            let op = histogram(DType::F32, &[1000], (16, -1.0, 2.0));
            add(&mut cases, FAMILY, op, &[Values::Planted(what, place)]);
        }
    }
    for dtype in [DType::F32, DType::I32] {
        add(&mut cases, FAMILY, histogram(dtype, &[2999], (64, -1024.0, 1024.0)), &[Values::RandomBits]);
        add(&mut cases, FAMILY, histogram(dtype, &[2999], (3, -1e9, 2e9)), &[Values::RandomBits]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let parts = |bins: u64| (bins, -1.0, 1.0);
    [
        ("histogram f32 256", DType::F32, 256),
        ("histogram f32 4096", DType::F32, 4096),
        ("histogram f16 256", DType::F16, 256),
    ]
    .into_iter()
    .filter_map(|(name, dtype, bins)| {
        let op = at(0, dtype, &[size.elements()], parts(bins)).ok()?;
        Some(BenchCase::new(name, Suite::Reduce, op, Metric::Bytes))
    })
    .collect()
}
