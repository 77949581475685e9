//! k nearest neighbours with 5-fold cross-validation, all folds in one pass over the matrix of distances.
//!
//! |x - y|^2 = |x|^2 + |y|^2 - 2 x.y, so one matrix product gives every distance. Pairs of the same fold are not left out;
//! they get a distance out of reach. Ties go to the earlier line, then to the smaller digit, as argmin and argmax do.

use polywarp::{BinaryFn, CompareFn, DType, Device, Expr, KeepDims, ReduceFn, Result, Tensor};

use crate::data::{Digits, PIXELS};

/// Neighbours that vote.
pub const K: usize = 3;
const FOLDS: u32 = 5;
const CLASSES: u64 = 10;

/// Above every squared distance (at most 64 * 16^2 = 16384); finite, because shaders may assume there is no infinity.
const OUT_OF_REACH: f32 = 1e9;

/// The number of digits that neighbours in the other folds classify correctly; line i is in fold i modulo 5.
pub fn correct_by_cross_validation(device: &Device, digits: &Digits) -> Result<u32> {
    let n = digits.labels.len() as u64;
    let pixels = Tensor::from_slice(device, &digits.pixels, [n, PIXELS as u64])?;
    let labels = Tensor::from_slice(device, &digits.labels, [n])?;
    let line = Tensor::arange(device, DType::U32, 0, 1, n)?;
    let fold = line.binary_scalar(BinaryFn::Rem, FOLDS)?;

    let mut distances = distances_across_folds(&pixels, &fold)?;
    let out_of_reach = Tensor::full(device, DType::F32, [1], OUT_OF_REACH)?;
    let mut chosen = Tensor::zeros(device, DType::Bool, [n, n])?;
    for _ in 0..K {
        let nearest = distances.argmin(1)?.unsqueeze(1)?; // one line number per row
        let is_nearest = nearest.eq(&line)?; // one-hot: [n, 1] against [n]
        chosen = chosen.or(&is_nearest)?;
        distances = is_nearest.where_(&out_of_reach, &distances)?;
    }

    let one_hot = labels.unsqueeze(1)?.eq(&Tensor::arange(device, DType::U32, 0, 1, CLASSES)?)?;
    let votes = chosen.cast(DType::F32)?.matmul(&one_hot.cast(DType::F32)?)?;
    let predicted = votes.argmax(1)?;
    predicted.eq(&labels)?.cast(DType::U32)?.sum(..)?.item()
}

/// Squared distances between all rows of `x`, [n, n]; out of reach within one fold.
fn distances_across_folds(x: &Tensor, fold: &Tensor) -> Result<Tensor> {
    let norms = x.mul(x)?.reduce(ReduceFn::Sum, 1, KeepDims::Yes)?;
    let products = x.matmul(&x.t()?)?;
    let [product, norm_i, norm_j, fold_i, fold_j] = std::array::from_fn(Expr::input);
    let distance = norm_i + norm_j - product * 2.0f32;
    let across = fold_i.compare(CompareFn::Eq, fold_j).select(OUT_OF_REACH, distance);
    Tensor::map(&across, &[&products, &norms, &norms.t()?, &fold.unsqueeze(1)?, &fold.unsqueeze(0)?])
}
