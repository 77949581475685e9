//! Cases of positions of true elements: none, all, few and more than there are, blocks and what is left of them, several blocks.

use super::{add, unique};
use crate::harness::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Nonzero, Operation};
use crate::{DType, Op, Result};

const FAMILY: &str = "nonzero";

fn nonzero(kind: LayoutKind, dims: &[u64], count: u64) -> Result<Op> {
    let op = Nonzero::new(kind.spec(DType::Bool, dims)?, count)?;
    Ok(op.with_output(0, output(DType::U32, &[count])?).unwrap_or(op.into()))
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let some = [Values::RandomBits, Values::Constant(0.0), Values::Constant(1.0)];
    let counts = level.list(
        &[(1, 2), (5, 5), (17, 4), (255, 300), (4096, 9000), (4097, 2000), (12_289, 7000)],
        &[(1_048_583, 600_000)],
    );
    for (elements, count) in counts {
        for values in some {
            add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[elements], count), &[values]);
        }
    }
    add(&mut cases, FAMILY, nonzero(LayoutKind::Offset, &[70, 3, 5], 1050), &[Values::RandomBits]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[], 1), &[Values::Constant(1.0)]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[0, 3], 4), &[Values::RandomBits]);
    add(&mut cases, FAMILY, nonzero(LayoutKind::Dense, &[9], 0), &[Values::RandomBits]);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let elements = (size.elements() / 16).max(1);
    let op = nonzero(LayoutKind::Dense, &[elements], (elements / 2).max(1)).ok();
    op.map(|op| BenchCase::new("half of a mask", Suite::Elementwise, op, Metric::Elements)).into_iter().collect()
}
