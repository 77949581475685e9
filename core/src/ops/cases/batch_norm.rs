//! Cases of batch normalisation: every float, layout, number of channels and of values, channels without variance, NaN.

use super::{Backward, add, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::BatchNorm;
use crate::{DType, Result, UnaryFn};

const FAMILY: &str = "batch_norm";

fn batch_norm(dtype: DType, kind: LayoutKind, dims: &[u64], epsilon: f64) -> Result<BatchNorm> {
    let channels = &dims[dims.len() - 1..];
    let row = |kind: LayoutKind| kind.spec(dtype, channels);
    let op = BatchNorm::new(kind.spec(dtype, dims)?, row(LayoutKind::Offset)?, row(LayoutKind::Reversed)?, epsilon)?;
    let of_channel = output(dtype.compute(), channels)?;
    BatchNorm { output: output(dtype, dims)?, mean: of_channel, variance: of_channel, ..op }.check()
}

/// With a residual of this kind of layout, and relu.
fn ended(op: Result<BatchNorm>, kind: LayoutKind) -> Result<BatchNorm> {
    let op = op?;
    let residual = Some(kind.spec(op.input.dtype, op.input.layout.dims())?);
    BatchNorm { residual, activation: Some(UnaryFn::Relu), ..op }.check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const NORMAL: [Values; 3] = [Values::Normal; 3];
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        add(&mut cases, FAMILY, batch_norm(dtype, LayoutKind::Dense, &[2, 9, 7, 33], 1e-5), &NORMAL);
    }
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let op = || batch_norm(dtype, LayoutKind::Dense, &[3, 5, 66], 1e-5);
        add(&mut cases, FAMILY, ended(op(), LayoutKind::Dense), &[Values::Normal; 4]);
        let relu = op().and_then(|op| BatchNorm { activation: Some(UnaryFn::Relu), ..op }.check());
        add(&mut cases, FAMILY, relu, &NORMAL);
    }
    for kind in [LayoutKind::Transposed, LayoutKind::BroadcastOuter, LayoutKind::Step] {
        let op = batch_norm(DType::F32, LayoutKind::Padded, &[4, 6, 9], 1e-5);
        add(&mut cases, FAMILY, ended(op, kind), &[Values::Normal; 4]);
    }
    let planted = Values::Planted(Plant::Nan, Where::TileStart);
    let op = batch_norm(DType::F32, LayoutKind::Dense, &[7, 3], 1e-5);
    add(&mut cases, FAMILY, ended(op, LayoutKind::Dense), &[Values::Normal, Values::Normal, Values::Normal, planted]);
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
    let relu = |op: BatchNorm| BatchNorm { activation: Some(UnaryFn::Relu), ..op };
    let wanted = [
        ("batch norm f32", op(DType::F32)),
        ("batch norm f16", op(DType::F16)),
        ("batch norm relu f16", op(DType::F16).map(relu)),
    ];
    let case = |(name, op): (&str, Result<BatchNorm>)| {
        let op = op.ok()?;
        let back = Backward::new(op.clone()).ok()?;
        let backward = BenchCase::new(format!("{name}, backward"), Suite::Reduce, back, Metric::Bytes).beside();
        Some([BenchCase::new(name, Suite::Reduce, op, Metric::Bytes), backward])
    };
    wanted.into_iter().filter_map(case).flatten().collect()
}
