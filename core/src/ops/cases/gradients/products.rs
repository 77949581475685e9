//! Matrix products with their epilogues, and attention.

use super::{F64, add, dense};
use crate::case::{Case, LayoutKind, Values, output};
use crate::ops::{Attention, AttentionDropout, Matmul};
use crate::{DType, Layout, Shape, TensorSpec, UnaryFn};

pub(super) fn small(cases: &mut Vec<Case>) {
    for (batch, kind) in
        [(&[][..], LayoutKind::Dense), (&[2], LayoutKind::Transposed), (&[2], LayoutKind::BroadcastOuter)]
    {
        let dims = |rows, columns| [batch, &[rows, columns]].concat();
        let product = || {
            Ok::<_, crate::Error>(Matmul::product(
                kind.spec(F64, &dims(3, 4))?,
                dense(&dims(4, 5))?,
                output(F64, &dims(3, 5))?,
            ))
        };
        add(cases, "matmul", product().and_then(Matmul::check), &[Values::Normal; 2]);
        let whole = || {
            let bias = TensorSpec::new(F64, Layout::contiguous(Shape::new(&[5])?));
            let c = dense(&dims(3, 5))?;
            Matmul { c: Some(c), bias: Some(bias), alpha: 0.5, beta: -2.0, ..product()? }.check()
        };
        add(cases, "matmul", whole(), &[Values::Normal; 4]);
        for activation in [UnaryFn::Tanh, UnaryFn::Gelu, UnaryFn::Sigmoid] {
            let op = || Matmul { activation: Some(activation), ..whole()? }.check();
            add(cases, "matmul", op(), &[Values::Normal; 4]);
        }
    }
    // No rows, no columns, and sums of nothing.
    for [m, n, k] in [[0, 5, 4], [3, 0, 4], [3, 5, 0]] {
        let op = || Ok::<_, crate::Error>(Matmul::product(dense(&[m, k])?, dense(&[k, n])?, output(F64, &[m, n])?));
        add(cases, "matmul", op().and_then(Matmul::check), &[Values::Normal; 2]);
    }
    for ([queries, keys], [heads, groups], causal, rate, n, kind) in [
        ([3, 4], [2, 2], false, None, 3, LayoutKind::Padded),
        ([4, 3], [4, 2], true, None, 2, LayoutKind::Padded),
        ([3, 5], [2, 1], true, Some(0.3), 3, LayoutKind::Padded),
        // Longer heads than kernels serve: a graph of other operations.
        ([2, 3], [2, 1], true, Some(0.3), 258, LayoutKind::Padded),
        ([3, 4], [2, 2], false, None, 3, LayoutKind::BroadcastOuter),
        ([0, 4], [2, 2], false, None, 3, LayoutKind::Dense),
    ] {
        let op = || {
            let words = LayoutKind::Dense.spec(DType::U32, &[2])?;
            let dropout = rate.map(|rate| AttentionDropout { rate, key: [words; 2] });
            let mask =
                rate.map(|_| LayoutKind::Transposed.spec(DType::Bool, &[1, heads, queries, keys])).transpose()?;
            let batch = if kind == LayoutKind::BroadcastOuter { 2 } else { 1 };
            let q = kind.spec(F64, &[batch, queries, heads, n])?;
            let op = Attention::new(q, dense(&[batch, keys, groups, n])?, dense(&[batch, keys, groups, 2])?)?;
            // Where all are hidden, lse is -inf, and no number's neighbour.
            Attention { mask, dropout, causal: causal && queries <= keys, ..op }.check()
        };
        let mut values = vec![Values::Normal; 3];
        values.extend(rate.into_iter().flat_map(|_| [Values::Constant(1.0), Values::RandomBits, Values::RandomBits]));
        add(cases, "attention", op(), &values);
    }
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    let op = || {
        Ok::<_, crate::Error>(Matmul::product(dense(&[2, 65, 129])?, dense(&[2, 129, 37])?, output(F64, &[2, 65, 37])?))
    };
    add(cases, "matmul", op().and_then(Matmul::check), &normal[..2]);
    let op = || Matmul { bias: Some(dense(&[37])?), activation: Some(UnaryFn::Gelu), ..op()? }.check();
    add(cases, "matmul", op(), &normal[..3]);
    for causal in [false, true] {
        let op = || {
            let [q, k] = [dense(&[2, 37, 4, 16])?, dense(&[2, 41, 2, 16])?];
            Attention { causal, ..Attention::new(q, k, k)? }.check()
        };
        add(cases, "attention", op(), &normal[..3]);
    }
}
