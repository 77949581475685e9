//! Products as steps of graphs.

use crate::ops::{Builder, Matmul, TensorSpec, Value};
use crate::{DType, Error, MAX_RANK, Precision, Result, Shape};

impl Builder {
    /// The matrix product of the last two axes, batches broadcast, in `output`'s dtype.
    ///
    /// # Errors
    /// As [`crate::Tensor::matmul`].
    pub fn matmul(&mut self, a: Value, b: Value, precision: Precision, output: DType) -> Result<Value> {
        let ([a_batch @ .., m, k], [b_batch @ .., _, n]) = (a.dims(), b.dims()) else {
            return Err(Error::shape_mismatch("matmul", a.spec.layout.shape(), b.spec.layout.shape(), None));
        };
        let batch = Shape::broadcast("matmul", &Shape::new(a_batch)?, &Shape::new(b_batch)?)?;
        let with = |rows: u64, columns: u64| {
            let mut dims = [0; MAX_RANK];
            let rank = batch.rank();
            dims[..rank].copy_from_slice(batch.dims());
            dims[rank..rank + 2].copy_from_slice(&[rows, columns]);
            Shape::new(&dims[..rank + 2])
        };
        let b_rows = b.dims()[b.dims().len() - 2];
        let (a, b) = (a.broadcast_to(with(*m, *k)?)?, b.broadcast_to(with(b_rows, *n)?)?);
        let product = Matmul { precision, ..Matmul::product(a.spec, b.spec, TensorSpec::dense(output, with(*m, *n)?)) };
        self.one(product.check()?, &[a, b])
    }
}
