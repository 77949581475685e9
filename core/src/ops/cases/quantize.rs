//! Cases of quantising: scales of largest magnitudes and their reciprocals, steps, and values again; per row, column and tensor, with scales
//! of 0, NaN and infinity, values beyond the largest step, ties.

use super::{add, map, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
use crate::ops::Map;
use crate::tensor::quantize::{inverse_of, scale_of, steps_of, value_of};
use crate::{DType, Expr, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "quantize";

/// A matrix and scales of shape `scales`, broadcast to it.
#[inline(never)]
fn by_scale(
    label: &'static str,
    expr: Result<Expr>,
    x: (DType, LayoutKind),
    dims: [u64; 2],
    scales: [u64; 2],
) -> Result<Map> {
    let scale = Layout::contiguous(Shape::new(&scales)?).broadcast_to(Shape::new(&dims)?)?;
    map(label, &expr?, vec![x.1.spec(x.0, &dims)?, TensorSpec::new(DType::F32, scale)], &dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let (positive, inverse) = (Values::Uniform(0.01, 0.1), Values::Uniform(10.0, 100.0));
    let dense = LayoutKind::Dense;
    let inverses = super::dense_map(FAMILY, &inverse_of(&Expr::input(0)), &[DType::F32], &[1031]);
    for scales in [Values::Uniform(0.0, 100.0), Values::Special, Values::RandomBits, Values::Constant(2f64.powi(126))] {
        add(&mut cases, FAMILY, inverses.clone(), &[scales]);
    }
    for to in [DType::I8, DType::F8E4M3, DType::F8E5M2] {
        // What is quantised, and comes back.
        for from in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let op = scale_of(to).and_then(|expr| super::dense_map(FAMILY, &expr, &[from], &[1031]));
            add(&mut cases, FAMILY, op.clone(), &[Values::Uniform(0.0, 100.0)]);
            add(&mut cases, FAMILY, op, &[Values::Special]);
            for scales in [[65, 1], [1, 131], [1, 1]] {
                let steps = || by_scale(FAMILY, steps_of(to), (from, dense), [65, 131], scales);
                add(&mut cases, FAMILY, steps(), &[Values::Uniform(-4.0, 4.0), inverse]);
                // Ties, and values beyond the largest step.
                add(&mut cases, FAMILY, steps(), &[Values::Integers(-200, 200), Values::Constant(2.0)]);
                add(&mut cases, FAMILY, steps(), &[Values::Integers(-200, 200), Values::Constant(0.5)]);
                let back = by_scale("dequantize", Ok(value_of(from)), (to, dense), [65, 131], scales);
                add(&mut cases, FAMILY, back, &[Values::RandomBits, positive]);
            }
            for scale in [0.0, f64::NAN, f64::INFINITY, 1e-30] {
                let back = by_scale("dequantize", Ok(value_of(from)), (to, dense), [9, 31], [9, 1]);
                add(&mut cases, FAMILY, back, &[Values::RandomBits, Values::Constant(scale)]);
            }
            for values in [Values::Planted(Plant::Nan, Where::Middle), Values::Planted(Plant::Inf, Where::First)] {
                for inverse in [inverse, Values::Constant(0.0)] {
                    let steps = by_scale(FAMILY, steps_of(to), (from, dense), [9, 31], [9, 1]);
                    add(&mut cases, FAMILY, steps, &[values, inverse]);
                }
            }
        }
        for kind in level.list(&[LayoutKind::Transposed, LayoutKind::Padded], &LayoutKind::ALL) {
            let steps = by_scale(FAMILY, steps_of(to), (DType::F32, kind), [33, 67], [33, 1]);
            add(&mut cases, FAMILY, steps, &[Values::Uniform(-4.0, 4.0), inverse]);
        }
    }
    for dims in [[0, 5], [5, 0]] {
        let steps = by_scale(FAMILY, steps_of(DType::I8), (DType::F32, dense), dims, [dims[0], 1]);
        add(&mut cases, FAMILY, steps, &[Values::Normal, inverse]);
    }
    unique(cases)
}

pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
