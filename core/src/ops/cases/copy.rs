//! Cases of copy: every kind of layout on either side, every width of element, transposes of any permutation; all bits
//! random, so that NaN payloads must survive.

use super::{add, ranks, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::Copy;
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "copy";

#[inline(never)]
fn gather(dtype: DType, kind: LayoutKind, dims: &[u64]) -> Result<Copy> {
    Copy::new(kind.spec(dtype, dims)?, output(dtype, dims)?)
}

#[inline(never)]
fn scatter(dtype: DType, kind: LayoutKind, dims: &[u64]) -> Result<Copy> {
    Copy::new(LayoutKind::Dense.spec(dtype, dims)?, kind.spec(dtype, dims)?)
}

#[inline(never)]
fn permuted(dtype: DType, dims: &[u64], order: &[usize]) -> Result<Copy> {
    let layout = Layout::contiguous(Shape::new(dims)?).permute(order)?;
    let out = output(dtype, layout.dims())?;
    Copy::new(TensorSpec::new(dtype, layout), out)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const BITS: &[Values] = &[Values::RandomBits];
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        add(&mut cases, FAMILY, gather(dtype, LayoutKind::Dense, &[1031]), BITS);
        add(&mut cases, FAMILY, gather(dtype, LayoutKind::Transposed, &[67, 35]), BITS);
    }
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I64] {
        for kind in LayoutKind::ALL {
            for dims in level.list(&[[5, 33, 7]], &[[2, 3, 257], [65, 1, 31], [33, 65, 2]]) {
                add(&mut cases, FAMILY, gather(dtype, kind, &dims), BITS);
                if !matches!(kind, LayoutKind::BroadcastInner | LayoutKind::BroadcastOuter) {
                    add(&mut cases, FAMILY, scatter(dtype, kind, &dims), BITS);
                }
            }
        }
        for count in sizes(level) {
            add(&mut cases, FAMILY, gather(dtype, LayoutKind::Offset, &[count]), BITS);
        }
    }
    for dims in ranks() {
        add(&mut cases, FAMILY, gather(DType::U32, LayoutKind::Transposed, &dims), BITS);
        add(&mut cases, FAMILY, scatter(DType::U32, LayoutKind::Padded, &dims), BITS);
    }
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for dtype in [DType::F32, DType::U8] {
            add(&mut cases, FAMILY, permuted(dtype, &[33, 65, 31], &order), BITS);
        }
    }
    for side in level.list(&[32, 129], &[31, 33, 64, 255, 1025]) {
        add(&mut cases, FAMILY, permuted(DType::F32, &[side, side + 1], &[1, 0]), BITS);
    }
    add(&mut cases, FAMILY, permuted(DType::F32, &[2, 3, 2, 5, 2, 3, 2, 2], &[7, 0, 6, 1, 5, 2, 4, 3]), BITS);
    if level == Level::Full {
        let beyond = super::BEYOND_ONE_GRID_ROW;
        add(&mut cases, FAMILY, gather(DType::U8, LayoutKind::Step, &[beyond]), BITS);
        add(&mut cases, FAMILY, permuted(DType::F32, &[2, 8_388_609], &[1, 0]), BITS);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let side = size.side();
    let half = [side / 64, 64, side];
    let wanted = [
        ("copy f32", gather(DType::F32, LayoutKind::Dense, &[size.elements()])),
        ("transpose f32", permuted(DType::F32, &[side, side], &[1, 0])),
        ("transpose f16", permuted(DType::F16, &[side, side], &[1, 0])),
        ("permute f32 [1,0,2]", permuted(DType::F32, &half, &[1, 0, 2])),
    ];
    wanted
        .into_iter()
        .filter_map(|(name, op)| Some(BenchCase::new(name, Suite::Copy, op.ok()?, Metric::Bytes)))
        .collect()
}
