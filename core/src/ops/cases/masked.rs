//! Cases of elements and positions by a mask: every dtype, none, all, more and fewer than there is room for, several blocks.

use super::{add, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{MaskedScatter, MaskedSelect, Missing, Nonzero};
use crate::{DType, Op, Result};

const FAMILY: &str = "masked";

#[inline(never)]
fn placed(op: Op) -> Result<Op> {
    let spec = op.output();
    let moved = op.with_output(0, output(spec.dtype, spec.layout.dims())?);
    Ok(moved.unwrap_or(op))
}

#[inline(never)]
fn select(dtype: DType, kind: LayoutKind, dims: &[u64], count: u64, missing: Missing) -> Result<Op> {
    placed(MaskedSelect::new(kind.spec(dtype, dims)?, kind.spec(DType::Bool, dims)?, missing, count)?.into())
}

#[inline(never)]
fn scatter(dtype: DType, kind: LayoutKind, dims: &[u64], count: u64) -> Result<Op> {
    let source = kind.spec(dtype, &[count])?;
    placed(MaskedScatter::new(kind.spec(dtype, dims)?, kind.spec(DType::Bool, dims)?, source)?.into())
}

#[inline(never)]
fn nonzero(kind: LayoutKind, dims: &[u64], count: u64) -> Result<Op> {
    placed(Nonzero::new(kind.spec(DType::Bool, dims)?, count)?.into())
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let bits = Values::RandomBits;
    for dtype in DType::ALL {
        add(&mut cases, FAMILY, select(dtype, LayoutKind::Offset, &[9, 15], 90, Missing::Nan), &[bits; 2]);
        add(&mut cases, FAMILY, scatter(dtype, LayoutKind::Offset, &[9, 15], 50), &[bits; 3]);
    }
    for (count, missing) in [(25, Missing::Nan), (90, Missing::Zero)] {
        add(&mut cases, FAMILY, select(DType::F32, LayoutKind::Dense, &[9, 15], count, missing), &[bits; 2]);
        add(&mut cases, FAMILY, scatter(DType::F32, LayoutKind::Dense, &[9, 15], count), &[bits; 3]);
    }
    let counts = level.list(&[(1, 1), (4096, 9), (4097, 2048), (12_289, 7000)], &[(1_048_583, 600_000)]);
    for (elements, count) in counts {
        for mask in [bits, Values::Constant(0.0), Values::Constant(1.0)] {
            let op = select(DType::F32, LayoutKind::Dense, &[elements], count, Missing::Nan);
            add(&mut cases, FAMILY, op, &[bits, mask]);
            add(&mut cases, FAMILY, scatter(DType::F32, LayoutKind::Dense, &[elements], count), &[bits, mask, bits]);
        }
    }
    add(&mut cases, FAMILY, select(DType::F32, LayoutKind::Dense, &[0, 3], 4, Missing::Nan), &[bits; 2]);
    add(&mut cases, FAMILY, select(DType::F64, LayoutKind::Dense, &[3, 0], 3, Missing::Nan), &[bits; 2]);
    add(&mut cases, FAMILY, select(DType::F32, LayoutKind::Dense, &[9], 0, Missing::Nan), &[bits; 2]);
    add(&mut cases, FAMILY, scatter(DType::F32, LayoutKind::Dense, &[], 0), &[bits, Values::Constant(1.0), bits]);
    let counts = level.list(&[(17, 4), (255, 300), (4096, 9000), (12_289, 7000)], &[(1_048_583, 600_000)]);
    for (elements, count) in counts {
        for mask in [bits, Values::Constant(0.0), Values::Constant(1.0)] {
            add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[elements], count), &[mask]);
        }
    }
    add(&mut cases, FAMILY, nonzero(LayoutKind::Offset, &[70, 3, 5], 1050), &[bits]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[], 1), &[Values::Constant(1.0)]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[0, 3], 4), &[bits]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[9], 0), &[bits]);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let elements = (size.elements() / 16).max(1);
    let count = (elements / 2).max(1);
    let ops = [
        ("half chosen f32", select(DType::F32, LayoutKind::Dense, &[elements], count, Missing::Nan)),
        ("half found", nonzero(LayoutKind::Dense, &[elements], count)),
        ("half put f32", scatter(DType::F32, LayoutKind::Dense, &[elements], count)),
    ];
    let case = |(name, op): (&str, Result<Op>)| Some(BenchCase::new(name, Suite::Elementwise, op.ok()?, Metric::Bytes));
    ops.into_iter().filter_map(case).collect()
}
