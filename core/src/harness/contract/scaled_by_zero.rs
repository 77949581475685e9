//! What is scaled by 0 is not there: NaN and infinities in the operands of a product with an alpha of 0, or in a C with a beta
//! of 0, do not show, whichever kernel computes it.
//!
//! Cases of `ops/matmul.rs` cannot say that of alpha: a checked op has no operands left then. Here are the tensors themselves.

use super::{Answer, Test, demand};
use crate::ops::{ReduceFn, ScaleBlocks};
use crate::{DType, Device, Error, MatmulOptions, Result, Tensor, UnaryFn};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("a product scaled by 0 does not show", products),
    ("8-bit operands and scales that are scaled by 0 do not show", scaled),
    ("nor does a product that is reduced, or one of a compressed matrix", others),
    ("an addend scaled by 0 does not show", addends),
];

const DIMS: [[u64; 4]; 5] = [[1, 17, 33, 40], [3, 64, 64, 64], [1, 1, 65, 300], [2, 70, 1, 33], [1, 256, 128, 512]];

fn spoilt(device: &Device, dtype: DType, dims: &[u64]) -> Result<Tensor> {
    Tensor::full(device, dtype, dims.to_vec(), f64::NAN)
}

/// Whether the device has `dtype`.
fn has(device: &Device, dtype: DType) -> bool {
    !matches!(Tensor::zeros(device, dtype, [1]), Err(Error::UnsupportedDType { .. } | Error::Unsupported { .. }))
}

fn all_are(x: &Tensor, want: f64) -> Result<bool> {
    Ok(x.cast(DType::F32)?.to_vec::<f32>()?.iter().all(|&x| f64::from(x) == want))
}

fn products(device: &Device) -> Result<Answer> {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64].into_iter().filter(|&dtype| has(device, dtype)) {
        for [batch, m, n, k] in DIMS {
            let (a, b) = (spoilt(device, dtype, &[batch, m, k])?, spoilt(device, dtype, &[batch, k, n])?);
            let c = Tensor::full(device, dtype, [batch, m, n], 3)?;
            let bias = Tensor::full(device, dtype, [n], -4)?;
            let none = MatmulOptions { alpha: 0.0, ..MatmulOptions::default() };
            let plain = a.matmul_with(&b, &none)?;
            demand!(all_are(&plain, 0.0)?, "{dtype} {batch}x{m}x{n}x{k}: 0 A B is not 0");
            let of_c = MatmulOptions { add: Some((&c, 2.0)), ..none.clone() };
            demand!(all_are(&a.matmul_with(&b, &of_c)?, 6.0)?, "{dtype} {batch}x{m}x{n}x{k}: 0 A B + 2 C is not 2 C");
            let activation = Some(UnaryFn::Relu);
            let ended = MatmulOptions { alpha: -0.0, add: Some((&c, 3.0)), bias: Some(&bias), activation, ..none };
            let ended = a.matmul_with(&b, &ended)?;
            demand!(
                all_are(&ended, 5.0)?,
                "{dtype} {batch}x{m}x{n}x{k}: relu(-0 A B + 3 C + bias) is not relu(3 C + bias)"
            );
        }
    }
    let (a, b) = (spoilt(device, DType::F32, &[9, 20])?, spoilt(device, DType::F32, &[20, 9])?);
    let vanishing = MatmulOptions { alpha: 1e-60, ..MatmulOptions::default() };
    demand!(all_are(&a.matmul_with(&b, &vanishing)?, 0.0)?, "an alpha that is 0 in f32 is no alpha of 0");
    Ok(Ok(()))
}

fn scaled(device: &Device) -> Result<Answer> {
    for dtype in [DType::F8E4M3, DType::F8E5M2, DType::I8] {
        for [batch, m, n, k] in DIMS {
            let (a, b) = (spoilt(device, dtype, &[batch, m, k])?, spoilt(device, dtype, &[batch, k, n])?);
            let bias = Tensor::full(device, DType::F32, [n], 7)?;
            let blocks = ScaleBlocks { m: 1, n: 8, k: 16 };
            let [of_a, of_b] = blocks.extents([m, n, k]);
            for (blocks, of_a, of_b) in [(None, [m, 1], [1, n]), (Some(blocks), of_a, of_b)] {
                let scale_a = spoilt(device, DType::F32, &[batch, of_a[0], of_a[1]])?;
                let scale_b = spoilt(device, DType::F32, &[batch, of_b[0], of_b[1]])?;
                let options = MatmulOptions {
                    alpha: 0.0,
                    bias: Some(&bias),
                    scale_a: Some(&scale_a),
                    scale_b: Some(&scale_b),
                    scale_blocks: blocks,
                    ..MatmulOptions::default()
                };
                let d = a.matmul_with(&b, &options)?;
                demand!(all_are(&d, 7.0)?, "{dtype} {batch}x{m}x{n}x{k} {blocks:?}: more than the bias is there");
            }
        }
    }
    Ok(Ok(()))
}

fn others(device: &Device) -> Result<Answer> {
    for dtype in [DType::F16, DType::F32] {
        let (a, b) = (spoilt(device, dtype, &[65, 64])?, spoilt(device, dtype, &[64, 33])?);
        let c = Tensor::full(device, DType::F32, [65, 33], 3)?;
        let options = MatmulOptions { alpha: 0.0, add: Some((&c, 1.0)), ..MatmulOptions::default() };
        for (axis, sum) in [(1, 99.0), (0, 195.0)] {
            for (f, want) in [(ReduceFn::Sum, sum), (ReduceFn::Max, 3.0), (ReduceFn::AbsMax, 3.0)] {
                let reduced = a.matmul_reduce(&b, &options, f, axis)?;
                demand!(
                    all_are(&reduced, want)?,
                    "{dtype}: {} over axis {axis} of 0 A B + C is not that of C",
                    f.name()
                );
            }
        }
        let sparse = a.compress_2_4()?;
        let options = MatmulOptions { output: Some(DType::F32), ..options };
        demand!(all_are(&sparse.matmul_with(&b, &options)?, 3.0)?, "{dtype}: 0 A B + C of a compressed A is not C");
    }
    Ok(Ok(()))
}

fn addends(device: &Device) -> Result<Answer> {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64].into_iter().filter(|&dtype| has(device, dtype)) {
        for [batch, m, n, k] in DIMS {
            let a = Tensor::full(device, dtype, [batch, m, k], 1)?;
            let b = Tensor::full(device, dtype, [batch, k, n], 2)?;
            let c = spoilt(device, dtype, &[batch, m, n])?;
            for alpha in [0.0, 0.5] {
                let options = MatmulOptions { alpha, add: Some((&c, 0.0)), ..MatmulOptions::default() };
                let want = 2.0 * alpha * k as f64;
                let d = a.matmul_with(&b, &options)?;
                demand!(all_are(&d, want)?, "{dtype} {batch}x{m}x{n}x{k}: {alpha} A B + 0 C is not {want}");
            }
        }
    }
    Ok(Ok(()))
}
