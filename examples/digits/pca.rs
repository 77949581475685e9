//! Principal components by power iteration with deflation: the directions of largest variance, one after the other.
//!
//! v <- C v / |C v| turns any start towards the leading eigenvector of the covariance C. Subtracting the share of that vector,
//! C <- C - lambda v v^T, makes the next one lead. Nothing is read before the end: thousands of small kernels in a row.

use polywarp::{DType, Device, KeepDims, ReduceFn, Result, Tensor};

use crate::data::{Digits, PIXELS};

/// The number of directions to find.
pub const COMPONENTS: usize = 10;

/// Neighbouring eigenvalues here differ by 8 % or more, and a variance's error shrinks with the square of their ratio:
/// 0.92^(2 * 120) is 2e-9, below f32's own rounding.
const ITERATIONS: usize = 120;

/// scikit-learn 1.9's `PCA(n_components=10).fit(pixels).explained_variance_`.
pub const REFERENCE: [f32; COMPONENTS] =
    [179.00693, 163.71775, 141.78844, 101.10038, 69.51317, 59.108525, 51.88454, 44.015107, 40.310993, 37.0118];

/// The variance along each of the first components, largest first.
pub fn explained_variances(device: &Device, digits: &Digits) -> Result<Vec<f32>> {
    let n = digits.labels.len();
    let pixels = Tensor::from_slice(device, &digits.pixels, [n as u64, PIXELS as u64])?;
    let centred = pixels.sub(&pixels.mean(0)?)?;
    let mut covariance = centred.t()?.matmul(&centred)?.div_scalar((n - 1) as f32)?;

    let variances = Tensor::zeros(device, DType::F32, [COMPONENTS as u64])?;
    for component in 0..COMPONENTS as u64 {
        let direction = leading_direction(&covariance)?;
        let variance = direction.t()?.matmul(&covariance.matmul(&direction)?)?; // [1, 1]
        variances.slice(0, component..component + 1)?.assign(&variance.reshape([1])?)?;
        covariance = covariance.sub(&direction.matmul(&direction.t()?)?.mul(&variance)?)?;
    }
    variances.to_vec()
}

/// The unit vector, [n, 1], that `matrix` stretches most.
fn leading_direction(matrix: &Tensor) -> Result<Tensor> {
    let start = Tensor::arange(matrix.device(), DType::F32, 1, 1, matrix.dims()[0])?;
    let mut direction = start.unsqueeze(1)?;
    for _ in 0..ITERATIONS {
        let stretched = matrix.matmul(&direction)?;
        let length = stretched.mul(&stretched)?.reduce(ReduceFn::Sum, 0, KeepDims::Yes)?.sqrt()?;
        direction = stretched.div(&length)?;
    }
    Ok(direction)
}
