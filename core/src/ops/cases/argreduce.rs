//! Cases of argmax and argmin: every subset of axes, ties, the first of several NaN, extrema at the edges of tiles.

use super::{add, axes_or_all, extents, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, KeepDims, Result};

const FAMILY: &str = "argreduce";

fn reduce(f: ArgReduceFn, dtype: DType, kind: LayoutKind, dims: &[u64], axes: &[usize]) -> Result<ArgReduce> {
    let input = kind.spec(dtype, dims)?;
    let axes = axes_or_all(axes, dims.len());
    let rest = input.layout.shape().without_axes(&axes, KeepDims::No);
    ArgReduce::new(f, input, &axes, output(DType::U32, rest.dims())?)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const DENSE: LayoutKind = LayoutKind::Dense;
    // Few distinct values: ties everywhere.
    const TIES: &[Values] = &[Values::Integers(-3, 3)];
    let mut cases = Vec::new();
    for f in ArgReduceFn::ALL {
        // Over no axes.
        let none = DENSE
            .spec(DType::F16, &[5, 33])
            .and_then(|input| ArgReduce::new(f, input, &[], output(DType::U32, &[5, 33])?));
        add(&mut cases, FAMILY, none, &[Values::Special]);
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
            add(&mut cases, FAMILY, reduce(f, dtype, DENSE, &[7, 259], &[1]), &[Values::Special]);
        }
    }
    let max = ArgReduceFn::ArgMax;
    for axes in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[]] {
        for kind in level.list(&[DENSE, LayoutKind::Transposed], &LayoutKind::ALL) {
            add(&mut cases, FAMILY, reduce(max, DType::F32, kind, &[5, 33, 7], axes), TIES);
            add(&mut cases, FAMILY, reduce(ArgReduceFn::ArgMin, DType::I32, kind, &[5, 33, 7], axes), TIES);
        }
    }
    for extent in extents(level) {
        add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[extent, 3], &[0]), &[Values::Normal]);
        add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[3, extent], &[1]), &[Values::Normal]);
    }
    let places = [Where::First, Where::Last, Where::TileEnd, Where::TileStart, Where::Middle, Where::Twice];
    for at in places {
        for plant in [Plant::Nan, Plant::Top] {
            let values = Values::Planted(plant, at);
            for dims in [&[70_001][..], &[1, 1025], &[1025, 1]] {
                add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, dims, &[]), &[values]);
            }
        }
        add(
            &mut cases,
            FAMILY,
            reduce(ArgReduceFn::ArgMin, DType::F16, DENSE, &[4097], &[]),
            &[Values::Planted(Plant::Nan, at)],
        );
    }
    add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[1000], &[]), &[Values::Constant(f64::NEG_INFINITY)]);
    add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[1000], &[]), &[Values::Constant(f64::NAN)]);
    add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[0, 3], &[1]), TIES);
    if level == Level::Full {
        add(
            &mut cases,
            FAMILY,
            reduce(max, DType::U8, DENSE, &[super::BEYOND_ONE_GRID_ROW], &[]),
            &[Values::RandomBits],
        );
        add(&mut cases, FAMILY, reduce(max, DType::F32, DENSE, &[300_007, 3], &[1]), &[Values::Normal]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let wanted = [
        ("argmax all f32", reduce(ArgReduceFn::ArgMax, DType::F32, LayoutKind::Dense, &[size.elements()], &[])),
        ("argmax rows f32", reduce(ArgReduceFn::ArgMax, DType::F32, LayoutKind::Dense, &[side, side], &[1])),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, op)| Some(BenchCase::new(name, Suite::Reduce, op.ok()?, Metric::Bytes)))
        .collect()
}
