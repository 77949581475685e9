//! Cases of means and variances: every float, subset of axes and layout, lengths at the edges, means far from 0, NaN and infinities.

use super::{add, axes_or_all, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::Moments;
use crate::{DType, Result};

const FAMILY: &str = "moments";

fn moments(dtype: DType, kind: LayoutKind, dims: &[u64], axes: &[usize]) -> Result<Moments> {
    let op = Moments::new(kind.spec(dtype, dims)?, &axes_or_all(axes, dims.len()))?;
    let result = output(op.mean.dtype, op.mean.layout.dims())?;
    Ok(Moments { mean: result, variance: result, ..op })
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: LayoutKind = LayoutKind::Dense;
    let mut cases = Vec::new();
    let mut push = |op: Result<Moments>, values| add(&mut cases, FAMILY, op, &[values]);
    for dtype in DType::FLOATS {
        push(moments(dtype, DENSE, &[7, 259], &[1]), Values::Normal);
        push(moments(dtype, DENSE, &[259, 12], &[0]), Values::Normal);
    }
    for axes in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[]] {
        for kind in level.list(&[DENSE, LayoutKind::Transposed], &LayoutKind::ALL) {
            push(moments(DType::F32, kind, &[5, 33, 8], axes), Values::Normal);
        }
    }
    for extent in extents(level) {
        push(moments(DType::F32, DENSE, &[extent, 3], &[0]), Values::Normal);
        push(moments(DType::F32, DENSE, &[3, extent], &[1]), Values::Normal);
    }
    // Over no axes.
    push(DENSE.spec(DType::F16, &[5, 33]).and_then(|input| Moments::new(input, &[])), Values::Normal);
    // Several passes over sets; results without elements.
    push(moments(DType::F16, DENSE, &[70_001], &[]), Values::Normal);
    push(moments(DType::F32, DENSE, &[70_001, 4], &[0]), Values::Normal);
    push(moments(DType::F32, DENSE, &[3, 0], &[0]), Values::Normal);
    // Far from 0 beside their deviation, equal, large, and what is no number.
    let sets = [
        Values::Uniform(1000.0, 1001.0),
        Values::Constant(3.0),
        Values::Uniform(-1e15, 1e15),
        Values::Uniform(1e20, 1.0001e20),
        Values::Planted(Plant::Nan, Where::First),
        Values::Planted(Plant::Inf, Where::Last),
        Values::Planted(Plant::Inf, Where::TileStart),
    ];
    for values in sets {
        push(moments(DType::F32, DENSE, &[1025, 4], &[0]), values);
        push(moments(DType::F32, DENSE, &[4, 1025], &[1]), values);
    }
    unique(cases)
}

/// Channels of a ResNet's first stage, and rows.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let pixels = [size.pick(2, 8, 64), 56, 56, size.pick(32, 64, 256)];
    let wanted = [
        ("moments of channels f16", moments(DType::F16, LayoutKind::Dense, &pixels, &[0, 1, 2])),
        ("moments of rows f32", moments(DType::F32, LayoutKind::Dense, &[size.elements() / 1024, 1024], &[1])),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, op)| Some(BenchCase::new(name, Suite::Reduce, op.ok()?, Metric::Bytes)))
        .collect()
}
