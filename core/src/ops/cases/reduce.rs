//! Cases of the reductions: every function and dtype, every subset of axes, exact integer sums, NaN at the edges of
//! tiles, empty axes, long rows and many rows.

use super::{add, axes_or_all, extents, is_brief, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Reduce, ReduceFn};
use crate::{DType, Error, KeepDims, Result};

const FAMILY: &str = "reduce";
const DENSE: LayoutKind = LayoutKind::Dense;

fn reduce(f: ReduceFn, dtype: DType, kind: LayoutKind, dims: &[u64], axes: &[usize]) -> Result<Reduce> {
    let input = kind.spec(dtype, dims)?;
    let axes = axes_or_all(axes, dims.len());
    let rest = input.layout.shape().without_axes(&axes, KeepDims::No);
    let to = f.output_dtype(dtype).ok_or(Error::UndefinedForDType { op: f.name(), dtype })?;
    Reduce::new(f, input, &axes, output(to, rest.dims())?)
}

/// With results of another dtype than the function gives by itself.
fn reduce_as(f: ReduceFn, input: DType, to: DType, dims: &[u64], axis: usize) -> Result<Reduce> {
    let input = DENSE.spec(input, dims)?;
    let rest = input.layout.shape().without_axes(&[axis], KeepDims::No);
    Reduce::new(f, input, &[axis], output(to, rest.dims())?)
}

fn values(f: ReduceFn, dtype: DType) -> Values {
    match f {
        ReduceFn::Prod => Values::NearOne,
        ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min => Values::Uniform(-100.0, 100.0),
        // Rarely zero everywhere, rarely without a zero.
        ReduceFn::Any | ReduceFn::All => Values::Integers(0, if dtype.is_float() { 20 } else { 60 }),
        ReduceFn::Sum | ReduceFn::Mean => Values::Normal,
    }
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for f in ReduceFn::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| f.output_dtype(dtype).is_some()) {
            let is_told = level == Level::Full || !is_brief(dtype);
            if is_told {
                add(&mut cases, FAMILY, reduce(f, dtype, DENSE, &[9, 259], &[1]), &[values(f, dtype)]);
            }
            if is_told || matches!(f, ReduceFn::Max | ReduceFn::Prod) {
                add(&mut cases, FAMILY, reduce(f, dtype, DENSE, &[259, 9], &[0]), &[values(f, dtype)]);
            }
            if !dtype.is_float() || level == Level::Full {
                add(&mut cases, FAMILY, reduce(f, dtype, DENSE, &[3, 131], &[1]), &[Values::Special]);
            }
        }
    }
    axes(level, &mut cases);
    lengths(level, &mut cases);
    exact(level, &mut cases);
    special(&mut cases);
    none(&mut cases);
    converted(level, &mut cases);
    unique(cases)
}

/// Over no axes each element is a result.
fn none(cases: &mut Vec<Case>) {
    for (f, dtype) in [
        (ReduceFn::Sum, DType::F16),
        (ReduceFn::Mean, DType::F32),
        (ReduceFn::Any, DType::F32),
        (ReduceFn::Max, DType::I32),
    ] {
        let op = DENSE.spec(dtype, &[5, 33]).and_then(|input| {
            let to = f.output_dtype(dtype).ok_or(Error::UndefinedForDType { op: f.name(), dtype })?;
            Reduce::new(f, input, &[], output(to, &[5, 33])?)
        });
        add(cases, FAMILY, op, &[values(f, dtype)]);
    }
}

/// Results of another dtype: rounded once, from what was accumulated.
fn converted(level: Level, cases: &mut Vec<Case>) {
    use DType::{BF16, F8E4M3, F16, F32};
    let all: Vec<(DType, DType)> = DType::FLOATS
        .into_iter()
        .flat_map(|from| DType::FLOATS.map(|to| (from, to)))
        .filter(|(from, to)| from != to && ReduceFn::Sum.gives(*from, *to))
        .collect();
    for (from, to) in level.list(&[(BF16, F32), (F32, F16), (F16, BF16), (F32, F8E4M3)], &all) {
        for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Prod] {
            for (dims, axis) in [([9, 259], 1), ([259, 12], 0)] {
                add(cases, FAMILY, reduce_as(f, from, to, &dims, axis), &[values(f, from)]);
            }
        }
        // Over no elements; long enough for two passes.
        add(cases, FAMILY, reduce_as(ReduceFn::Mean, from, to, &[0, 5], 0), &[Values::Normal]);
        add(cases, FAMILY, reduce_as(ReduceFn::Sum, from, to, &[4099, 65], 0), &[Values::Normal]);
    }
}

/// Every subset of three axes and some of eight, in every layout.
fn axes(level: Level, cases: &mut Vec<Case>) {
    for axes in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[]] {
        for kind in level.list(&[DENSE, LayoutKind::Transposed], &LayoutKind::ALL) {
            add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, kind, &[5, 33, 7], axes), &[Values::Normal]);
            add(cases, FAMILY, reduce(ReduceFn::Max, DType::F16, kind, &[5, 33, 7], axes), &[Values::Normal]);
        }
        for dims in [[0, 3, 2], [3, 0, 2], [3, 2, 0]] {
            add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, DENSE, &dims, axes), &[Values::Normal]);
        }
    }
    for kind in LayoutKind::ALL {
        for axis in 0..2 {
            add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, kind, &[65, 129], &[axis]), &[Values::Normal]);
        }
    }
    for axes in [&[0, 2, 4, 6][..], &[1, 3, 5, 7], &[3, 4], &[]] {
        add(
            cases,
            FAMILY,
            reduce(ReduceFn::Sum, DType::F32, DENSE, &[2, 3, 1, 5, 2, 3, 2, 4], axes),
            &[Values::Normal],
        );
    }
    // Rank 0, and extents of 1.
    add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, DENSE, &[], &[]), &[Values::Normal]);
    add(cases, FAMILY, reduce(ReduceFn::Mean, DType::F32, DENSE, &[1, 1], &[0]), &[Values::Normal]);
}

fn lengths(level: Level, cases: &mut Vec<Case>) {
    for extent in extents(level) {
        for (dims, axis) in [([3, extent], 1), ([extent, 3], 0)] {
            add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, DENSE, &dims, &[axis]), &[Values::Normal]);
            add(cases, FAMILY, reduce(ReduceFn::Min, DType::I8, DENSE, &dims, &[axis]), &[Values::Special]);
        }
    }
    for dims in level.list(&[[65_537, 2], [2, 65_537], [4099, 65]], &[[1_048_583, 1], [3, 1_048_583], [300_007, 3]]) {
        for axis in 0..2 {
            add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F32, DENSE, &dims, &[axis]), &[Values::Normal]);
        }
        add(cases, FAMILY, reduce(ReduceFn::Mean, DType::BF16, DENSE, &dims, &[]), &[Values::Normal]);
    }
    if level == Level::Full {
        let dims = [super::BEYOND_ONE_GRID_ROW];
        add(cases, FAMILY, reduce(ReduceFn::Sum, DType::U8, DENSE, &dims, &[]), &[Values::RandomBits]);
    }
}

/// Sums of integers small enough that every partial sum is exact in f32: one lost or doubled element shows.
fn exact(level: Level, cases: &mut Vec<Case>) {
    for dtype in DType::FLOATS {
        for dims in level.list(&[[3, 1025], [1025, 3], [1, 65_537]], &[[7, 4097], [31, 33], [2, 1_048_583]]) {
            for axis in 0..2 {
                let op = reduce(ReduceFn::Sum, dtype, DENSE, &dims, &[axis]);
                let mut made = Vec::new();
                add(&mut made, FAMILY, op, &[Values::Integers(-4, 4)]);
                cases.extend(made.into_iter().map(Case::exact));
            }
        }
    }
}

fn special(cases: &mut Vec<Case>) {
    let places = [Where::First, Where::Last, Where::TileEnd, Where::TileStart, Where::Middle];
    for f in [ReduceFn::Sum, ReduceFn::AbsMax, ReduceFn::Max, ReduceFn::Min, ReduceFn::Mean, ReduceFn::Any] {
        for at in places {
            let values = [Values::Planted(Plant::Nan, at)];
            add(cases, FAMILY, reduce(f, DType::F32, DENSE, &[70_001], &[]), &values);
            add(cases, FAMILY, reduce(f, DType::F32, DENSE, &[1, 1025], &[1]), &values);
            add(cases, FAMILY, reduce(f, DType::F16, DENSE, &[1025, 1], &[0]), &values);
        }
        let values = [Values::Planted(Plant::Inf, Where::Middle)];
        add(cases, FAMILY, reduce(f, DType::F32, DENSE, &[5, 515], &[1]), &values);
    }
    for f in [ReduceFn::AbsMax, ReduceFn::Max, ReduceFn::Min] {
        for value in [f64::NEG_INFINITY, f64::INFINITY, -5.0, -0.0, f64::NAN] {
            add(cases, FAMILY, reduce(f, DType::F32, DENSE, &[3, 259], &[1]), &[Values::Constant(value)]);
        }
    }
    for f in [ReduceFn::Sum, ReduceFn::Prod, ReduceFn::Mean, ReduceFn::Any, ReduceFn::All] {
        for dtype in [DType::F32, DType::I32] {
            add(cases, FAMILY, reduce(f, dtype, DENSE, &[3, 0], &[1]), &[Values::Normal]);
            add(cases, FAMILY, reduce(f, dtype, DENSE, &[0], &[]), &[Values::Normal]);
        }
    }
    for f in [ReduceFn::All, ReduceFn::Any] {
        for dtype in DType::FLOATS {
            add(cases, FAMILY, reduce(f, dtype, DENSE, &[3, 259], &[1]), &[Values::Constant(f64::NAN)]);
            add(cases, FAMILY, reduce(f, dtype, DENSE, &[260, 8], &[0]), &[Values::Constant(f64::NAN)]);
        }
    }
    for f in [ReduceFn::AbsMax, ReduceFn::Max, ReduceFn::Min] {
        for value in [f64::NEG_INFINITY, f64::INFINITY] {
            add(cases, FAMILY, reduce(f, DType::F8E5M2, DENSE, &[259, 3], &[0]), &[Values::Constant(value)]);
        }
        add(cases, FAMILY, reduce(f, DType::F8E5M2, DENSE, &[515, 3], &[1]), &[Values::RandomBits]);
    }
    for axis in 0..2 {
        add(cases, FAMILY, reduce(ReduceFn::AbsMax, DType::F16, DENSE, &[259, 131], &[axis]), &[Values::Special]);
        add(
            cases,
            FAMILY,
            reduce(ReduceFn::AbsMax, DType::F32, DENSE, &[[3, 0], [0, 3]][axis], &[axis ^ 1]),
            &[Values::Normal],
        );
    }
    for value in [0.0, 1.0] {
        for f in [ReduceFn::Any, ReduceFn::All] {
            add(cases, FAMILY, reduce(f, DType::Bool, DENSE, &[3, 259], &[1]), &[Values::Constant(value)]);
        }
    }
    // Larger than f16 holds on the way and at the end.
    add(cases, FAMILY, reduce(ReduceFn::Sum, DType::F16, DENSE, &[2, 1025], &[1]), &[Values::Constant(1000.0)]);
    add(cases, FAMILY, reduce(ReduceFn::Mean, DType::F16, DENSE, &[2, 1025], &[1]), &[Values::Constant(1000.0)]);
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let all = [size.elements()];
    let wanted = [
        ("sum all f32", reduce(ReduceFn::Sum, DType::F32, DENSE, &all, &[])),
        ("sum all f16", reduce(ReduceFn::Sum, DType::F16, DENSE, &all, &[])),
        ("sum rows f32", reduce(ReduceFn::Sum, DType::F32, DENSE, &[side, side], &[1])),
        ("sum columns f32", reduce(ReduceFn::Sum, DType::F32, DENSE, &[side, side], &[0])),
        ("max all f32", reduce(ReduceFn::Max, DType::F32, DENSE, &all, &[])),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, op)| Some(BenchCase::new(name, Suite::Reduce, op.ok()?, Metric::Bytes)))
        .collect()
}
