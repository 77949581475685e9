//! Cases of counts: few bins and many, numbers that are no bin, sizes at the edges of workgroups, nothing to count.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::Bincount;
use crate::{DType, Result};

const FAMILY: &str = "bincount";

fn bincount(dtype: DType, dims: &[u64], bins: u64) -> Result<Bincount> {
    let indices = LayoutKind::Offset.spec(dtype, dims)?;
    Ok(Bincount { output: output(DType::U32, &[bins])?, ..Bincount::new(indices, bins)? })
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for size in sizes(level) {
        add(&mut cases, FAMILY, bincount(DType::I32, &[size], 7), &[Values::Integers(-2, 9)]);
    }
    for bins in [0, 1, 2, 255, 1024, 1025, 4096, 4097, 5000, 12_289] {
        add(&mut cases, FAMILY, bincount(DType::U32, &[3, 1001], bins), &[Values::Integers(0, 3000)]);
        add(&mut cases, FAMILY, bincount(DType::I32, &[2003], bins), &[Values::Integers(-3, 2000)]);
    }
    add(&mut cases, FAMILY, bincount(DType::U32, &[999], 64), &[Values::RandomBits]);
    add(&mut cases, FAMILY, bincount(DType::I32, &[70_000], 3), &[Values::Constant(1.0)]);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    [("bincount 256", 256), ("bincount 65536", 65_536)]
        .into_iter()
        .filter_map(|(name, bins)| {
            let op = bincount(DType::U32, &[size.elements()], bins).ok()?;
            Some(BenchCase::new(name, Suite::Reduce, op, Metric::Bytes))
        })
        .collect()
}
