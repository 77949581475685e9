//! A matrix product of given extents, as an operation: for the products that suites and `polywarp tune` name by numbers.

use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Layout, Precision, Result, Shape, TensorSpec};

/// The order of an operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// By rows.
    Plain,
    /// By columns: the transpose of an operand by rows.
    Transposed,
}

/// A matrix of `rows` x `columns` that lies as `lie` says, without gaps.
fn operand([rows, columns]: [u64; 2], dtype: DType, lie: Lie) -> Result<TensorSpec> {
    let layout = match lie {
        Lie::Plain => Layout::contiguous(Shape::new(&[rows, columns])?),
        Lie::Transposed => Layout::contiguous(Shape::new(&[columns, rows])?).transpose(0, 1)?,
    };
    Ok(TensorSpec::new(dtype, layout))
}

/// The product \[m, k\] by \[k, n\], not checked yet. The result, by rows, has the usual dtype of products of `dtype`.
///
/// # Errors
/// As [`Shape::new`].
pub fn product([m, n, k]: [u64; 3], dtype: DType, [a, b]: [Lie; 2], precision: Precision) -> Result<Matmul> {
    let output = Matmul::output_dtype(dtype).unwrap_or(dtype); // which the check refuses
    let (a, b) = (operand([m, k], dtype, a)?, operand([k, n], dtype, b)?);
    Ok(Matmul { precision, ..Matmul::product(a, b, operand([m, n], output, Lie::Plain)?) })
}
