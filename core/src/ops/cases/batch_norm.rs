//! Cases of batch normalisation: every float, layout, number of channels and of values, channels without variance, NaN.

use super::{add, extents, unique};
use crate::harness::values::{Plant, Where};
use crate::harness::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::BatchNorm;
use crate::{DType, Result};

const FAMILY: &str = "batch_norm";

fn batch_norm(dtype: DType, kind: LayoutKind, dims: &[u64], epsilon: f64) -> Result<BatchNorm> {
    let channels = &dims[dims.len() - 1..];
    let row = |kind: LayoutKind| kind.spec(dtype, channels);
    let op = BatchNorm::new(kind.spec(dtype, dims)?, row(LayoutKind::Offset)?, row(LayoutKind::Reversed)?, epsilon)?;
    let of_channel = output(dtype.compute(), channels)?;
    BatchNorm { output: output(dtype, dims)?, mean: of_channel, variance: of_channel, ..op }.check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const NORMAL: [Values; 3] = [Values::Normal; 3];
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        add(&mut cases, FAMILY, batch_norm(dtype, LayoutKind::Dense, &[2, 9, 7, 33], 1e-5), &NORMAL);
    }
    for kind in LayoutKind::ALL {
        add(&mut cases, FAMILY, batch_norm(DType::F32, kind, &[5, 3, 65], 1e-5), &NORMAL);
        add(&mut cases, FAMILY, batch_norm(DType::F16, kind, &[9, 64], 1e-3), &NORMAL);
    }
    for extent in extents(level) {
        add(&mut cases, FAMILY, batch_norm(DType::F32, LayoutKind::Dense, &[5, extent], 1e-5), &NORMAL);
        if extent > 1 {
            add(&mut cases, FAMILY, batch_norm(DType::F32, LayoutKind::Dense, &[extent, 3], 1e-5), &NORMAL);
        }
    }
    for dims in [&[2, 0][..], &[2, 1], &[2, 1, 3, 1, 2, 5], &[3, 17, 19, 7]] {
        add(&mut cases, FAMILY, batch_norm(DType::F32, LayoutKind::Dense, dims, 1e-5), &NORMAL);
    }
    // Far from 0 beside their deviation, constant, large, below epsilon, and channels that are NaN.
    let channels = [
        Values::Uniform(1000.0, 1001.0),
        Values::Constant(3.0),
        Values::Constant(0.0),
        Values::Uniform(-1e9, 1e9),
        Values::Uniform(-1e-4, 1e-4),
        Values::Planted(Plant::Nan, Where::First),
        Values::Planted(Plant::Inf, Where::TileStart),
    ];
    for values in channels {
        let op = batch_norm(DType::F32, LayoutKind::Dense, &[259, 3], 1e-5);
        add(&mut cases, FAMILY, op, &[values, Values::Normal, Values::Normal]);
    }
    unique(cases)
}

/// That of a ResNet's first stage.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let dims = [size.pick(2, 8, 64), 56, 56, size.pick(32, 64, 256)];
    let op = |dtype| {
        let spec = |dims: &[u64]| LayoutKind::Dense.spec(dtype, dims);
        BatchNorm::new(spec(&dims)?, spec(&dims[3..])?, spec(&dims[3..])?, 1e-5)
    };
    let wanted = [DType::F32, DType::F16].into_iter();
    wanted
        .filter_map(|dtype| {
            Some(BenchCase::new(format!("batch norm {dtype}"), Suite::Reduce, op(dtype).ok()?, Metric::Bytes))
        })
        .collect()
}
