//! Matrix products with a 2:4 compressed A: `ops/matmul.rs` with A as values and metadata of `ops/sparse24.rs`.
//!
//! The op holds the dense product that it stands for, so that shapes, dtypes, epilogue and bound are said once, in
//! `ops/matmul.rs`. What decompressing A and multiplying gives is right; hardware that skips the zeros which were left out is
//! right as well, and differs where B is NaN or infinite opposite one: there both results are accepted. Metadata that breaks
//! the order of places gives unspecified numbers and nothing worse.

use super::{check_parts, dense_layout, scatter};
use crate::gradient::{Gradient, Needs};
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::operation::Tuned;
use crate::ops::matmul::describe_epilogue;
use crate::ops::sample::{self, thin};
use crate::ops::{Arithmetic, Content, Facts, Matmul, Op, Operand, Operation, Sample, TensorSpec};
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Candidate, Caps, Plan};
use crate::{Error, Layout, Result, Scalar, Shape};

/// A (batched) matrix product with a compressed A.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

impl Operation for SparseMatmul {
    fn name(&self) -> &'static str {
        "sparse_matmul"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.values));
        each(Operand::read(self.metadata));
        let mut own = true;
        self.product.operands(&mut |operand| {
            // The dense A is not there.
            if !std::mem::take(&mut own) {
                each(operand);
            }
        });
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// 2 m n k per product, as if A were dense: rates then compare with those of dense products.
    fn arithmetic(&self) -> Arithmetic {
        self.product.arithmetic()
    }

    /// The product of decompressed A, with that of `ops/matmul.rs`'s bound; NaN as well where a zero that was left out meets NaN or
    /// infinity.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (a, left_out) = self.dense(inputs);
        let hosts: Vec<HostTensor> = [a].into_iter().chain(inputs[2..].iter().cloned()).collect();
        vec![self.product.expected_without(&hosts, |i| left_out[i])]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("products of compressed matrices have no rule yet: decompress them first"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::multiply(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        super::plan::candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        super::host::multiply(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        // Values of one shape stand for several k.
        name.push_str(&format!(" k{}", self.product.dims().k));
        describe_epilogue(name, &self.product);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn tuned(&self) -> Option<&dyn Tuned> {
        (self.product.scale_blocks.is_none()).then_some(self)
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let rank = self.product.output.layout.rank();
        let product = self.product.first(axis, extent)?;
        // Extents in front that the values lack are 1: they repeat.
        let own = (axis + self.values.layout.rank()).checked_sub(rank);
        let own = own.filter(|&own| axis + 1 < rank && self.values.layout.dims()[own] > 1);
        let first = |spec: &TensorSpec| own.map_or(Some(*spec), |own| spec.dense_first(own, extent));
        let (values, metadata) = (first(&self.values)?, first(&self.metadata)?);
        let batch = &product.output.layout.dims()[..rank - 2];
        let a = SparseMatmul::dense_a(&values, product.dims().k, batch).ok()?;
        Some(SparseMatmul { values, metadata, product: Matmul { a, ..product } }.into())
    }

    fn with_output(&self, _: usize, output: TensorSpec) -> Option<Op> {
        let product = Matmul { output, ..self.product.clone() };
        Some(SparseMatmul { product, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        match input {
            1 => Content::Places24 { k: self.product.dims().k },
            // Metadata is one more.
            _ => self.product.content(input.saturating_sub(1)),
        }
    }

    /// The last rows, which alone lie dense in a compressed operand, by some of the columns; of a single product.
    fn sample(&self) -> Result<Option<Sample>> {
        const KEEP: u64 = 12;
        let product = &self.product;
        let (rank, dims) = (product.output.layout.rank(), product.dims());
        let rows = |layout: &Layout| layout.slice(layout.rank() - 2, dims.m.saturating_sub(KEEP), dims.m, 1);
        let last = |spec: &TensorSpec| Ok::<_, Error>(TensorSpec::new(spec.dtype, rows(&spec.layout)?));
        let positions = thin(&rows(&product.output.layout)?, rank - 1, KEEP)?;
        let (values, metadata) = (last(&self.values)?, last(&self.metadata)?);
        let b = TensorSpec::new(product.b.dtype, thin(&product.b.layout, rank - 1, KEEP)?);
        let a = SparseMatmul::dense_a(&values, dims.k, &[])?;
        let output = sample::dense(product.output.dtype, &positions);
        let op = SparseMatmul { values, metadata, product: Matmul { a, b, output, ..product.clone() } };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}
