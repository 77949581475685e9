//! Matrix products with a 2:4 compressed A: `ops/matmul.rs` with A as values and metadata of `ops/sparse24.rs`.
//!
//! The op holds the dense product that it stands for, so that shapes, dtypes, epilogue and bound are said once, in
//! `ops/matmul.rs`. What decompressing A and multiplying gives is right; hardware that skips the zeros which were left out is
//! right as well, and differs where B is NaN or infinite opposite one: there both results are accepted. Metadata that breaks
//! the order of places gives unspecified numbers and nothing worse.

use super::sparse24::{check_parts, dense_layout, scatter};
use super::{Matmul, TensorSpec};
use crate::oracle::{Expected, HostTensor};
use crate::{Error, Layout, Result, Scalar, Shape};

/// A (batched) matrix product with a compressed A.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatmul {
    /// What A keeps: dense, [..., m, 2 ceil(k / 4)], each batch extent that of the output or 1.
    pub values: TensorSpec,
    /// Where it was: dense u32, [..., m, ceil(k / 32)].
    pub metadata: TensorSpec,
    /// The product of decompressed A: its `a` is a dense [..., m, k] from element 0, broadcast to the output's batch.
    pub product: Matmul,
}

impl SparseMatmul {
    /// The view of a decompressed A, of `values` with `k` elements in a row, in a product whose batch has the extents `batch`.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for values that are no matrix or do not broadcast, [`Error::InvalidArgument`] for another k.
    pub fn dense_a(values: &TensorSpec, k: u64, batch: &[u64]) -> Result<TensorSpec> {
        let shape = values.layout.shape();
        let dense = dense_layout(shape, k)?;
        let [.., m, _] = shape.dims() else {
            return Err(Error::shape_mismatch("sparse_matmul", shape, shape, None));
        };
        let to = Shape::new(&[batch, &[*m, k]].concat())?;
        Ok(TensorSpec::new(values.dtype, dense.broadcast_to(to)?))
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// As [`Matmul::check`] and [`super::Decompress24::new`].
    pub fn check(self) -> Result<SparseMatmul> {
        const OP: &str = "sparse_matmul";
        let product = self.product.check_whole()?;
        let batch = product.output.layout.dims();
        let k = product.dims().k;
        let a = SparseMatmul::dense_a(&self.values, k, &batch[..batch.len() - 2])?;
        if a != product.a {
            return Err(Error::shape_mismatch(OP, a.layout.shape(), product.a.layout.shape(), None));
        }
        check_parts(OP, &self.values, &self.metadata, dense_layout(self.values.layout.shape(), k)?.shape())?;
        if product.is_without_product() {
            return SparseMatmul { product, ..self }.without_product();
        }
        Ok(SparseMatmul { product, ..self })
    }

    /// The same with a K of 0, where alpha is 0: see `ops/matmul.rs`.
    fn without_product(self) -> Result<SparseMatmul> {
        let empty = |spec: TensorSpec| {
            let mut dims = spec.layout.dims().to_vec();
            if let Some(last) = dims.last_mut() {
                *last = 0;
            }
            Ok::<_, Error>(TensorSpec::new(spec.dtype, Layout::contiguous(Shape::new(&dims)?)))
        };
        let (values, metadata) = (empty(self.values)?, empty(self.metadata)?);
        let product = self.product.check()?;
        let batch = product.output.layout.dims();
        let a = SparseMatmul::dense_a(&values, 0, &batch[..batch.len() - 2])?;
        Ok(SparseMatmul { values, metadata, product: Matmul { a, ..product } })
    }

    /// What decompresses A into a dense tensor of its own.
    ///
    /// # Errors
    /// Never for a checked op.
    pub fn decompress(&self) -> Result<super::Decompress24> {
        let dense = dense_layout(self.values.layout.shape(), self.product.dims().k)?;
        super::Decompress24::new(self.values, self.metadata, TensorSpec::new(self.values.dtype, dense))
    }

    /// `sparse_matmul`.
    pub fn name(&self) -> &'static str {
        "sparse_matmul"
    }

    /// Values, metadata, B, then what else the product takes.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        let others = self.product.inputs();
        [self.values, self.metadata].into_iter().chain(others.into_iter().skip(1)).collect()
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    pub(crate) fn piece(&self, axis: usize, extent: u64) -> Option<SparseMatmul> {
        let rank = self.product.output.layout.rank();
        let product = self.product.piece(axis, extent)?;
        // Extents in front that the values lack are 1: they repeat.
        let own = (axis + self.values.layout.rank()).checked_sub(rank);
        let own = own.filter(|&own| axis + 1 < rank && self.values.layout.dims()[own] > 1);
        let first = |spec: &TensorSpec| own.map_or(Some(*spec), |own| spec.dense_first(own, extent));
        let (values, metadata) = (first(&self.values)?, first(&self.metadata)?);
        let batch = &product.output.layout.dims()[..rank - 2];
        let a = SparseMatmul::dense_a(&values, product.dims().k, batch).ok()?;
        Some(SparseMatmul { values, metadata, product: Matmul { a, ..product } })
    }

    /// 2 m n k per product, as if A were dense: rates then compare with those of dense products.
    pub fn flops(&self) -> u64 {
        self.product.flops()
    }

    /// The product of decompressed A, with that of `ops/matmul.rs`'s bound; NaN as well where a zero that was left out meets NaN or
    /// infinity.
    pub fn oracle(&self, inputs: &[HostTensor]) -> Vec<Expected> {
        let (a, left_out) = self.dense(inputs);
        let hosts: Vec<HostTensor> = [a].into_iter().chain(inputs[2..].iter().cloned()).collect();
        self.product.oracle_without(&hosts, |i| left_out[i])
    }

    /// A as the product has it, and which of its elements were left out.
    pub(crate) fn dense(&self, inputs: &[HostTensor]) -> (HostTensor, Vec<bool>) {
        let k = self.product.dims().k as usize;
        let zero = Scalar::F(0.0).cast(self.values.dtype);
        let dense = scatter(k, inputs, (zero, true), |i| (inputs[0].values[i], false));
        let matrix = self.values.layout.dims();
        let matrix = matrix[matrix.len() - 2] as usize * k;
        // Matrices of A as the product's batch repeats them.
        let a = self.product.a;
        let stored = (0..a.layout.elements()).step_by(matrix.max(1)).map(|i| a.layout.index_of(i) as usize);
        let (values, left_out) = stored.flat_map(|start| dense[start..start + matrix].to_vec()).unzip();
        (HostTensor { dtype: a.dtype, shape: *a.layout.shape(), values }, left_out)
    }
}
