//! 2:4 compressed tensors: half of the elements with their places, their making from dense tensors, and products of them.
//!
//! The bit layout is that of [`crate::ops::sparse24`]. Dropped elements are lost: compressing is pruning, unless two of
//! each four neighbours were zero. Not here: choosing the kept elements by anything but magnitude (give them to
//! [`Sparse24::from_parts`]), and compressing right operands (A B = (B^T A^T)^T).

use super::MatmulOptions;
use super::compute::{Product, product};
use crate::ops::sparse24::{check_parts, dense_layout};
use crate::ops::{Compress24, Decompress24, Part24, SparseMatmul, sparse24};
use crate::{Error, Result, Shape, Tensor};

/// A tensor [..., rows, k] that keeps two of each four neighbours along k: half the bytes, plus 1/8 of a byte for each element.
#[derive(Clone, Debug)]
pub struct Sparse24 {
    values: Tensor,
    metadata: Tensor,
    k: u64,
}

const OP: &str = "compress24";

impl Tensor {
    /// Keeps the two elements of largest magnitude of each four neighbours along the last dimension. Of equal ones the
    /// first counts as larger, NaN as larger than everything, and bits stay as they are. Where k is no multiple of 4
    /// the last group is filled up with zeros that are not stored, so any k can be compressed.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let weights = Tensor::from_slice(&device, &[1.0f32, -3.0, 0.0, 2.0, 5.0, 5.0, 5.0, 0.5], [2, 4])?;
    /// let sparse = weights.compress_2_4()?;
    /// assert_eq!(sparse.values().to_vec::<f32>()?, [-3.0, 2.0, 5.0, 5.0]);
    /// assert_eq!(sparse.decompress()?.to_vec::<f32>()?, [0.0, -3.0, 0.0, 2.0, 5.0, 5.0, 0.0, 0.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for other dtypes than floats of up to 32 bits, i8 and u8; [`Error::InvalidArgument`] for a
    /// scalar; memory errors of the device.
    pub fn compress_2_4(&self) -> Result<Sparse24> {
        if !sparse24::compresses(self.dtype()) {
            return Err(Error::UndefinedForDType { op: OP, dtype: self.dtype() });
        }
        let part = |dense: &Tensor, part: Part24| {
            let dtype = if part == Part24::Values { self.dtype() } else { crate::DType::U32 };
            let out = Tensor::empty(self.device(), dtype, part.shape_of(self.shape())?)?;
            out.fill_by(&Compress24::new(part, dense.spec(), out.spec())?.into(), &[dense])?;
            Ok::<_, Error>(out)
        };
        let k = self.dims().last().copied().unwrap_or(0);
        Part24::Values.shape_of(self.shape())?;
        let dense = self.contiguous()?;
        Ok(Sparse24 { values: part(&dense, Part24::Values)?, metadata: part(&dense, Part24::Metadata)?, k })
    }
}

impl Sparse24 {
    /// A tensor of given values [..., rows, 2 ceil(k / 4)] and u32 metadata [..., rows, ceil(k / 32)], in the layout of
    /// [`crate::ops::sparse24`].
    ///
    /// The metadata is not checked here. Where it names one place of a group twice, or a larger one first,
    /// decompressing writes the second value there last, products are unspecified numbers, and no memory but the
    /// operands' is touched. Values at places beyond k have no effect.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`], [`Error::DTypeMismatch`] for metadata that is not u32, [`Error::ShapeMismatch`],
    /// [`Error::InvalidArgument`] for values of another k, [`Error::DeviceMismatch`]; memory errors of the device, as views are
    /// copied.
    pub fn from_parts(values: Tensor, metadata: Tensor, k: u64) -> Result<Sparse24> {
        values.expect_device(OP, &metadata)?;
        let dense = dense_layout(values.shape(), k)?;
        let (values, metadata) = (values.contiguous()?, metadata.contiguous()?);
        check_parts(OP, &values.spec(), &metadata.spec(), dense.shape())?;
        Ok(Sparse24 { values, metadata, k })
    }

    /// The kept values, [..., rows, 2 ceil(k / 4)].
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The places of the kept values, u32 [..., rows, ceil(k / 32)].
    pub fn metadata(&self) -> &Tensor {
        &self.metadata
    }

    /// The number of elements in a row before compression.
    pub fn k(&self) -> u64 {
        self.k
    }

    /// The shape of the dense tensor.
    ///
    /// # Errors
    /// Never for tensors from [`Sparse24::from_parts`] or [`Tensor::compress_2_4`].
    pub fn shape(&self) -> Result<Shape> {
        Ok(*dense_layout(self.values.shape(), self.k)?.shape())
    }

    /// Bytes of values and metadata.
    pub fn size_bytes(&self) -> u64 {
        self.values.spec().bytes() + self.metadata.spec().bytes()
    }

    /// The dense tensor, with +0 in the place of dropped elements.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn decompress(&self) -> Result<Tensor> {
        let out = Tensor::empty(self.values.device(), self.values.dtype(), self.shape()?)?;
        let op = Decompress24::new(self.values.spec(), self.metadata.spec(), out.spec())?;
        out.fill_by(&op.into(), &[&self.values, &self.metadata])?;
        Ok(out)
    }

    /// The matrix product with `rhs`: [..., m, k] x [..., k, n] -> [..., m, n], batch dimensions broadcast.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let weights = Tensor::from_slice(&device, &[1.0f32, 0.0, 0.0, 2.0, 0.0, 3.0], [1, 6])?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [6, 1])?;
    /// assert_eq!(weights.compress_2_4()?.matmul(&x)?.to_vec::<f32>()?, [27.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        self.matmul_with(rhs, &MatmulOptions::default())
    }

    /// [`Sparse24::matmul`] with all options of [`Tensor::matmul_with`], in one operation.
    ///
    /// The result is that of the decompressed product, except for NaN and infinities in `rhs` that meet a dropped zero:
    /// hardware that skips the zero does not make NaN of them.
    ///
    /// # Errors
    /// As [`Tensor::matmul_with`].
    pub fn matmul_with(&self, rhs: &Tensor, options: &MatmulOptions<'_>) -> Result<Tensor> {
        let (values, metadata) = (self.values.spec(), self.metadata.spec());
        let dense = dense_layout(self.values.shape(), self.k)?;
        let Product { op: product, others } = product(&self.values, &dense, rhs, options)?;
        let op = SparseMatmul { values, metadata, product }.check()?;
        let output = op.product.output;
        let out = Tensor::empty(self.values.device(), output.dtype, *output.layout.shape())?;
        let inputs: Vec<&Tensor> = [&self.values, &self.metadata].into_iter().chain(others).collect();
        out.fill_by(&op.into(), &inputs)?;
        Ok(out)
    }
}
