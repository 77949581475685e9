//! Cases of layer normalisation: every float, layout and row length, rows without variance, NaN.

use super::{Backward, add, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::LayerNorm;
use crate::{DType, Result};

const FAMILY: &str = "layer_norm";

fn layer_norm(dtype: DType, kind: LayoutKind, dims: &[u64], epsilon: f64) -> Result<LayerNorm> {
    let (n, rows) = (&dims[dims.len() - 1..], &dims[..dims.len() - 1]);
    let row = |kind: LayoutKind| kind.spec(dtype, n);
    let op = LayerNorm::new(kind.spec(dtype, dims)?, row(LayoutKind::Offset)?, row(LayoutKind::Reversed)?, epsilon)?;
    let rows = output(dtype.compute(), rows)?;
    LayerNorm { output: output(dtype, dims)?, mean: rows, rstd: rows, ..op }.check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const NORMAL: [Values; 3] = [Values::Normal; 3];
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        add(&mut cases, FAMILY, layer_norm(dtype, LayoutKind::Dense, &[33, 257], 1e-5), &NORMAL);
    }
    for kind in LayoutKind::ALL {
        add(&mut cases, FAMILY, layer_norm(DType::F32, kind, &[5, 3, 65], 1e-5), &NORMAL);
        add(&mut cases, FAMILY, layer_norm(DType::F16, kind, &[9, 64], 1e-12), &NORMAL);
    }
    for extent in extents(level) {
        add(&mut cases, FAMILY, layer_norm(DType::F32, LayoutKind::Dense, &[3, extent], 1e-5), &NORMAL);
    }
    for dims in [&[0, 5][..], &[5, 0], &[7], &[2, 1, 3, 1, 2, 5]] {
        add(&mut cases, FAMILY, layer_norm(DType::F32, LayoutKind::Dense, dims, 1e-5), &NORMAL);
    }
    // Far from 0 beside their deviation, constant, large, and rows that are NaN.
    let rows = [
        Values::Uniform(1000.0, 1001.0),
        Values::Constant(3.0),
        Values::Constant(0.0),
        Values::Uniform(-1e9, 1e9),
        Values::Planted(Plant::Nan, Where::First),
        Values::Planted(Plant::Inf, Where::TileStart),
    ];
    for values in rows {
        let op = layer_norm(DType::F32, LayoutKind::Dense, &[3, 259], 1e-5);
        add(&mut cases, FAMILY, op, &[values, Values::Normal, Values::Normal]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let dims = [size.pick(1 << 10, 1 << 13, 1 << 15), size.pick(1 << 8, 1 << 10, 1 << 12)];
    let op = |dtype| {
        let spec = |dims: &[u64]| LayoutKind::Dense.spec(dtype, dims);
        LayerNorm::new(spec(&dims)?, spec(&dims[1..])?, spec(&dims[1..])?, 1e-5)
    };
    let case = |dtype: DType| {
        let (name, op) = (format!("layer norm {dtype}"), op(dtype).ok()?);
        let back = Backward::new(op.clone()).ok()?;
        let backward = BenchCase::new(format!("{name}, backward"), Suite::Reduce, back, Metric::Bytes);
        Some([BenchCase::new(name, Suite::Reduce, op, Metric::Bytes), backward])
    };
    [DType::F32, DType::F16].into_iter().filter_map(case).flatten().collect()
}
