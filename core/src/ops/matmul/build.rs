//! Products as steps of graphs.

use super::Extents;
use crate::ops::{Builder, Matmul, TensorSpec, Value};
use crate::{DType, Precision, Result};

impl Builder {
    /// The matrix product of the last two axes, batches broadcast, in `output`'s dtype.
    ///
    /// # Errors
    /// As [`crate::Tensor::matmul`].
    pub fn matmul(&mut self, a: Value, b: Value, precision: Precision, output: DType) -> Result<Value> {
        let extents = Extents::new(a.spec.layout.shape(), b.spec.layout.shape())?;
        let (a, b) = (a.broadcast_to(extents.of_a()?)?, b.broadcast_to(extents.of_b()?)?);
        let product =
            Matmul { precision, ..Matmul::product(a.spec, b.spec, TensorSpec::dense(output, extents.of_d()?)) };
        self.one(product.check()?, &[a, b])
    }
}
