//! Cases of padding: every mode before and behind, more than a period of it, cropping, rolling and tiling, runs and single elements.

use super::{add, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Operation, Pad, PadMode};
use crate::{DType, Op, Result};

const FAMILY: &str = "pad";

fn pad(dtype: DType, kind: LayoutKind, dims: &[u64], mode: PadMode, before: &[i64], to: &[u64]) -> Result<Op> {
    let fill = if dtype == DType::Bool { 1 } else { 7 };
    let op = Pad::new(kind.spec(dtype, dims)?, mode, before.to_vec(), to, fill)?;
    Ok(op.with_output(0, output(dtype, to)?).unwrap_or(op.into()))
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |op: Result<Op>| add(&mut cases, FAMILY, op, &[Values::RandomBits]);
    for mode in PadMode::ALL {
        // Odd extents, within one period and beyond it; what is left out at either end.
        for (before, to) in
            [([1, 2, 3], [4, 9, 12]), ([0, -1, 17], [2, 3, 40]), ([0, 0, -2], [2, 4, 3]), ([0, 3, 0], [2, 8, 7])]
        {
            push(pad(DType::F32, LayoutKind::Dense, &[2, 4, 7], mode, &before, &to));
        }
        for kind in [LayoutKind::Transposed, LayoutKind::Reversed, LayoutKind::BroadcastOuter, LayoutKind::Step] {
            push(pad(DType::F32, kind, &[3, 5], mode, &[2, 1], &[6, 9]));
        }
        for extent in [1, 2] {
            push(pad(DType::F32, LayoutKind::Dense, &[extent], mode, &[3], &[9]));
        }
        // As far away as 32 bits count, on either side.
        let far = i64::from(u32::MAX);
        for (before, extent) in
            [(far, 9), (far - 3, 4), (-far, 9), (-far + 3, 4), (7, 3), (1 << 31, 5), (-(1 << 31), 5)]
        {
            push(pad(DType::U8, LayoutKind::Dense, &[5], mode, &[before], &[extent]));
        }
        // A number has a dtype; what moves has a size alone.
        let has_number = mode == PadMode::Constant;
        let others =
            DType::ALL.into_iter().filter(|&dtype| has_number || matches!(dtype, DType::U8 | DType::BF16 | DType::F64));
        for dtype in others.filter(|&dtype| dtype != DType::F32) {
            push(pad(dtype, LayoutKind::Offset, &[3, 5], mode, &[1, 2], &[6, 11]));
        }
    }
    for count in sizes(level).into_iter().filter(|&count| count > 0) {
        push(pad(DType::F32, LayoutKind::Dense, &[count], PadMode::Constant, &[1], &[count + 3]));
    }
    // A roll, tiles, an axis that becomes longer around runs, a scalar, nothing, something of nothing.
    for (dims, mode, before, to) in [
        (&[5, 6][..], PadMode::Wrap, &[3, 4][..], &[5, 6][..]),
        (&[1, 3], PadMode::Wrap, &[0, 0], &[4, 9]),
        (&[2, 3, 2, 2, 1, 2, 2, 3], PadMode::Reflect, &[0, 2, 1, 0, 1, 0, 0, 0], &[2, 5, 3, 2, 3, 2, 2, 3]),
        (&[], PadMode::Edge, &[], &[]),
        (&[4, 3], PadMode::Constant, &[0, 1], &[4, 0]),
        (&[0, 3], PadMode::Constant, &[2, 1], &[3, 5]),
        (&[4, 3], PadMode::Constant, &[9, 0], &[5, 3]),
    ] {
        for dtype in [DType::F32, DType::U8] {
            push(pad(dtype, LayoutKind::Dense, dims, mode, before, to));
        }
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = (size.elements() / 4096).max(1);
    let case = |mode: PadMode| {
        let input = LayoutKind::Dense.spec(DType::F32, &[rows, 4096]).ok()?;
        let op = Pad::new(input, mode, vec![0, 3], &[rows, 4102], 0).ok()?;
        Some(BenchCase::new(format!("{} round rows of 4096 f32", mode.name()), Suite::Elementwise, op, Metric::Bytes))
    };
    [PadMode::Constant, PadMode::Wrap].into_iter().filter_map(case).collect()
}
