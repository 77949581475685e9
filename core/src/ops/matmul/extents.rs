//! The extents of two operands of a product that is still to be made.

use crate::{Error, MAX_RANK, Result, Shape};

/// The extents of A, [..., m, k], and of B, [..., k, n]. The two k may still differ: [`super::Matmul::check`] refuses that.
pub(crate) struct Extents {
    /// Both operands' batch dimensions, broadcast.
    batch: Shape,
    pub m: u64,
    pub n: u64,
    columns_of_a: u64,
    pub rows_of_b: u64,
}

impl Extents {
    /// # Errors
    /// [`Error::ShapeMismatch`] for operands that are no matrices, and batches that do not broadcast.
    pub fn new(a: &Shape, b: &Shape) -> Result<Extents> {
        const OP: &str = "matmul";
        let ([a_batch @ .., m, columns_of_a], [b_batch @ .., rows_of_b, n]) = (a.dims(), b.dims()) else {
            return Err(Error::shape_mismatch(OP, a, b, None));
        };
        let batch = Shape::broadcast(OP, &Shape::new(a_batch)?, &Shape::new(b_batch)?)?;
        Ok(Extents { batch, m: *m, n: *n, columns_of_a: *columns_of_a, rows_of_b: *rows_of_b })
    }

    /// A's shape, with the whole batch.
    pub fn of_a(&self) -> Result<Shape> {
        self.with_batch(self.m, self.columns_of_a)
    }

    /// B's shape, with the whole batch.
    pub fn of_b(&self) -> Result<Shape> {
        self.with_batch(self.rows_of_b, self.n)
    }

    /// The product's shape.
    pub fn of_d(&self) -> Result<Shape> {
        self.with_batch(self.m, self.n)
    }

    /// The shape of a matrix for each product of the batch.
    pub fn with_batch(&self, rows: u64, columns: u64) -> Result<Shape> {
        let rank = self.batch.rank();
        let mut dims = [0; MAX_RANK];
        dims[..rank].copy_from_slice(self.batch.dims());
        dims[rank..rank + 2].copy_from_slice(&[rows, columns]);
        Shape::new(&dims[..rank + 2])
    }
}
