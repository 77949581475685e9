//! Normalisations of rows and channels, and the loss of classes.

use super::{F64, add, dense};
use crate::case::{Case, LayoutKind, Values};
use crate::ops::{BatchNorm, CrossEntropy, LayerNorm};
use crate::{DType, UnaryFn};

pub(super) fn small(cases: &mut Vec<Case>) {
    for kind in [LayoutKind::Dense, LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
        let op = || LayerNorm::new(kind.spec(F64, &[4, 6])?, dense(&[6])?, dense(&[6])?, 1e-3);
        add(cases, "layer_norm", op(), &[Values::Normal; 3]);
    }
    // Without rows the gradients of gamma and beta are sums of nothing.
    let op = || LayerNorm::new(dense(&[0, 6])?, dense(&[6])?, dense(&[6])?, 1e-3);
    add(cases, "layer_norm", op(), &[Values::Normal; 3]);
    for (kind, dims) in [
        (LayoutKind::Dense, &[5, 3][..]),
        (LayoutKind::Transposed, &[2, 3, 4]),
        (LayoutKind::Step, &[4, 2]),
        (LayoutKind::BroadcastOuter, &[2, 3, 4]),
        (LayoutKind::Dense, &[5, 0]),
    ] {
        let row = || dense(&dims[dims.len() - 1..]);
        let op = || BatchNorm::new(kind.spec(F64, dims)?, row()?, row()?, 1e-2);
        add(cases, "batch_norm", op(), &[Values::Normal; 3]);
        let residual = kind.spec(F64, dims).ok();
        for activation in [None, Some(UnaryFn::Relu)] {
            let ended = op().map(|op| BatchNorm { residual, activation, ..op });
            add(cases, "batch_norm", ended, &[Values::Normal; 4]);
        }
        let relu = op().map(|op| BatchNorm { activation: Some(UnaryFn::Relu), ..op });
        add(cases, "batch_norm", relu, &[Values::Normal; 3]);
    }
    for (weighted, smoothing, kind, rows) in [
        (false, 0.0, LayoutKind::Transposed, 7),
        (true, 0.0, LayoutKind::Transposed, 7),
        (false, 0.1, LayoutKind::Transposed, 7),
        (true, 0.25, LayoutKind::Transposed, 7),
        (true, 0.25, LayoutKind::BroadcastOuter, 7),
        (true, 0.25, LayoutKind::Dense, 0),
    ] {
        let op = || {
            let weights = if weighted { Some(dense(&[5])?) } else { None };
            let targets = LayoutKind::Dense.spec(DType::I32, &[rows])?;
            CrossEntropy::new(kind.spec(F64, &[rows, 5])?, targets, weights, smoothing, Some(-1))
        };
        let values = [Values::Normal, Values::Integers(-1, 4), Values::Uniform(0.5, 2.0)];
        add(cases, "cross_entropy", op(), &values[..if weighted { 3 } else { 2 }]);
    }
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    let op = || LayerNorm::new(dense(&[17, 300])?, dense(&[300])?, dense(&[300])?, 1e-5);
    add(cases, "layer_norm", op(), &normal[..3]);
    let op = || BatchNorm::new(dense(&[3, 9, 11, 19])?, dense(&[19])?, dense(&[19])?, 1e-5);
    let ended = op().map(|op| BatchNorm { residual: Some(op.input), activation: Some(UnaryFn::Relu), ..op });
    add(cases, "batch_norm", ended, &normal);
    let op = || CrossEntropy::new(dense(&[33, 61])?, LayoutKind::Dense.spec(DType::I32, &[33])?, None, 0.1, Some(-1));
    add(cases, "cross_entropy", op(), &[Values::Normal, Values::Integers(-1, 60)]);
}
