//! 2:4 compressed tensors: what was kept comes back to its place, products are those of what comes back, and metadata of any bits
//! is harmless.
//!
//! The ops have cases of their own; here they meet, on tensors and views.

use super::{Answer, Test, demand};
use crate::harness::values::mix;
use crate::{DType, Device, MatmulOptions, Result, Sparse24, Tensor, UnaryFn};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("two of four come back, the others are zero", comes_back),
    ("a product of a compressed matrix is that of the dense one", products),
    ("metadata of any bits touches nothing else", any_metadata),
];

/// Integers in -8..8, a pattern of their own for each seed.
fn numbers(count: u64, seed: u64) -> Vec<f32> {
    (0..count).map(|i| (mix(seed, i) % 17) as f32 - 8.0).collect()
}

fn comes_back(device: &Device) -> Result<Answer> {
    for (rows, k) in [(5, 64), (3, 7), (1, 1), (4, 33)] {
        let dense = Tensor::from_slice(device, &numbers(rows * k, 1), [rows, k])?;
        // A view: columns of a matrix that lies the other way.
        for x in [dense.clone(), dense.t()?.copy()?.t()?] {
            let sparse = x.compress_2_4()?;
            demand!(sparse.shape()?.dims() == [rows, k], "shape {:?}", sparse.shape()?.dims());
            let (was, back): (Vec<f32>, Vec<f32>) = (dense.to_vec()?, sparse.decompress()?.to_vec()?);
            for (row, (was, back)) in was.chunks(k as usize).zip(back.chunks(k as usize)).enumerate() {
                for (group, (was, back)) in was.chunks(4).zip(back.chunks(4)).enumerate() {
                    let mut order: Vec<usize> = (0..was.len()).collect();
                    // Stable: of equals the first stays first.
                    order.sort_by(|&i, &j| was[j].abs().total_cmp(&was[i].abs()));
                    let kept = |i: usize| order.iter().take(2).any(|&place| place == i);
                    let right = (0..was.len()).all(|i| back[i] == if kept(i) { was[i] } else { 0.0 });
                    demand!(right, "row {row}, group {group}: {was:?} came back as {back:?}");
                }
            }
            let again = sparse.decompress()?.compress_2_4()?;
            let same = again.values().to_vec::<f32>()? == sparse.values().to_vec::<f32>()?;
            demand!(same, "what was compressed before is compressed otherwise");
        }
    }
    Ok(Ok(()))
}

fn products(device: &Device) -> Result<Answer> {
    let a = Tensor::from_slice(device, &numbers(2 * 17 * 70, 2), [2, 17, 70])?;
    let b = Tensor::from_slice(device, &numbers(9 * 70, 3), [9, 70])?;
    let bias = Tensor::from_slice(device, &numbers(9, 4), [9])?;
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let sparse = a.cast(dtype)?.compress_2_4()?;
        let (b, bias) = (b.cast(dtype)?.t()?, bias.cast(DType::F32)?);
        let options = MatmulOptions {
            alpha: 0.5,
            bias: Some(&bias),
            activation: Some(UnaryFn::Relu),
            output: Some(DType::F32),
            ..MatmulOptions::default()
        };
        // Small integers: sums are exact, so both ways give the same bits.
        let want: Vec<f32> = sparse.decompress()?.matmul_with(&b, &options)?.to_vec()?;
        let product = sparse.matmul_with(&b, &options)?;
        demand!(product.dims() == [2, 17, 9], "{dtype}: shape {:?}", product.dims());
        let got: Vec<f32> = product.to_vec()?;
        demand!(got == want, "{dtype}: the product is not that of the decompressed matrix");
        demand!(want.iter().any(|x| *x > 0.0), "{dtype}: nothing but zeros was compared");
    }
    Ok(Ok(()))
}

fn any_metadata(device: &Device) -> Result<Answer> {
    let (rows, k) = (33, 130);
    let values = Tensor::from_slice(device, &numbers(rows * 66, 5), [rows, 66])?;
    let words: Vec<u32> = (0..rows * 5).map(|i| mix(6, i) as u32).collect();
    let metadata = Tensor::from_slice(device, &words, [rows, 5])?;
    let sparse = Sparse24::from_parts(values.clone(), metadata.clone(), k)?;
    demand!(sparse.decompress()?.dims() == [rows, k], "the dense shape is another");
    let b = Tensor::full(device, DType::F32, [k, 3], 1.0)?;
    // Its numbers are nobody's promise; that it ends, and leaves its operands alone, is.
    let product: Vec<f32> = sparse.matmul(&b)?.to_vec()?;
    demand!(product.len() as u64 == rows * 3, "{} elements", product.len());
    let unchanged = values.to_vec::<f32>()? == numbers(rows * 66, 5) && metadata.to_vec::<u32>()? == words;
    demand!(unchanged, "an operand was written to");
    Ok(Ok(()))
}
