//! How often each whole number from 0 occurs: `y[b]` is the number of elements equal to b. Of parts between limits: `histogram.rs`.
//!
//! Counts are u32 and exact, so that the order in which a device adds them does not show. Numbers that are no bin, negative ones among
//! them, are left out; [`Tensor::bincount`] has them found, as an error of the next read ([`super::Positions`]).

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::Indexing;
use super::prelude::*;
use super::take::{check_indices, positions};
use crate::tensor::outside::Look;
use crate::{CompareFn, Expr, Position};

const OP: &str = "bincount";

/// Counts of the numbers in `indices`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bincount {
    /// Whole numbers, i32 or u32, dense, of any shape.
    pub indices: TensorSpec,
    /// Dense u32 output `[bins]`.
    pub output: TensorSpec,
}

impl Bincount {
    /// A checked count into `bins` bins that start their buffer.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for indices that are neither i32 nor u32; [`Error::InvalidArgument`] for indices that are not dense;
    /// [`Error::IndexWidth`] for more than 2^32 - 1 elements or bins.
    pub fn new(indices: TensorSpec, bins: u64) -> Result<Bincount> {
        let output = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[bins])?));
        Bincount { indices, output }.check()
    }

    /// Counts that there are.
    pub fn bins(&self) -> u64 {
        self.output.layout.dims()[0]
    }

    fn counts(&self, indices: impl Iterator<Item = Scalar>) -> Vec<Expected> {
        let mut counts = vec![0i64; self.bins() as usize];
        for index in indices {
            let bin = usize::try_from(index.as_i64()).ok().and_then(|bin| counts.get_mut(bin));
            bin.into_iter().for_each(|count| *count += 1);
        }
        counts.into_iter().map(|count| Expected::exact(Scalar::I(count))).collect()
    }
}

impl Operation for Bincount {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read indices; write output }

    fn validate(&self) -> Result<()> {
        check_indices(OP, &self.indices)?;
        check_dtype(OP, &self.output, DType::U32)?;
        if self.output.layout.rank() != 1 {
            let reason = format!("{OP} writes one axis of bins, not {:?}", self.output.layout.dims());
            return Err(Error::InvalidArgument { what: "output", reason });
        }
        let most = self.indices.layout.elements().max(self.bins());
        if most > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: most, max: u32::MAX.into() });
        }
        check_dense_output(OP, &self.output)
    }

    /// An addition for each element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.indices.layout.elements())
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![self.counts(before[0].values.iter().copied())]
    }

    /// An element at a time: tables count 2^28 of them.
    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        Some(self.counts(self.indices.dense_values(inputs.first()?)?))
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("counts are whole numbers, which do not change by small steps"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" bins{}", self.bins()));
    }

    fn content(&self, _: usize) -> Content {
        Content::Rows { rows: self.bins() }
    }
}

impl Tensor {
    /// How often each number from 0 to `bins` - 1 occurs among all elements, whole numbers of any shape: u32, `[bins]`. Another number is
    /// an error of the next read.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2u32, 0, 2], [3])?;
    /// assert_eq!(x.bincount(3)?.to_vec::<u32>()?, [1, 0, 2]);
    /// assert!(x.bincount(2)?.to_vec::<u32>().is_err());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Bincount::new`]; [`Error::InvalidArgument`] for floats and bool; memory errors of the device. Of a read afterwards:
    /// [`Error::PositionOutside`].
    pub fn bincount(&self, bins: u64) -> Result<Tensor> {
        self.bincount_by(bins, Some(Look::of(Indexing::Bincount, bins)))
    }

    /// [`Tensor::bincount`] that leaves out other numbers.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2i32, 0, 2, 9, -1], [5])?;
    /// assert_eq!(x.bincount_within(3)?.to_vec::<u32>()?, [1, 0, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::bincount`], but for other numbers.
    pub fn bincount_within(&self, bins: u64) -> Result<Tensor> {
        self.bincount_by(bins, None)
    }

    /// [`Tensor::bincount`] of each line along `axis` alone: u32, of this tensor's shape but for `bins` along the axis. Two launches, and the look at
    /// the numbers.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2u32, 0, 2, 1, 1, 1], [2, 3])?;
    /// assert_eq!(x.bincount_along(3, 1)?.to_vec::<u32>()?, [1, 0, 2, 0, 3, 0]);
    /// assert_eq!(x.bincount_along(3, 0)?.dims(), [3, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::bincount`], where all bins of all lines count; [`Error::AxisOutOfRange`]. Of a read afterwards: [`Error::PositionOutside`].
    pub fn bincount_along(&self, bins: u64, axis: impl Position) -> Result<Tensor> {
        self.bincount_along_by(bins, self.axis(axis)?, Some(Look::of(Indexing::Bincount, bins)))
    }

    /// [`Tensor::bincount_along`] that leaves out other numbers.
    ///
    /// # Errors
    /// As [`Tensor::bincount_along`], but for other numbers.
    pub fn bincount_along_within(&self, bins: u64, axis: impl Position) -> Result<Tensor> {
        self.bincount_along_by(bins, self.axis(axis)?, None)
    }

    fn bincount_along_by(&self, bins: u64, axis: usize, look: Option<Look>) -> Result<Tensor> {
        let indices = positions(OP, self)?;
        let number = Expr::input(0);
        let is_bin =
            number.compare(CompareFn::Ge, 0) & number.compare(CompareFn::Lt, i64::try_from(bins).unwrap_or(i64::MAX));
        let counts = indices.counts_along(OP, axis, bins, &is_bin, &number.cast(DType::U32))?;
        if let Some(look) = look {
            look.through(self, &indices)?;
        }
        Ok(counts)
    }

    /// How often each bin occurs in each line along `axis`, where `is_bin` is true of an element (input 0) and `bin` its bin, u32: bins
    /// of all lines in one row, counted as one.
    pub(crate) fn counts_along(
        &self,
        op: &'static str,
        axis: usize,
        bins: u64,
        is_bin: &Expr,
        bin: &Expr,
    ) -> Result<Tensor> {
        let shape = self.shape().with_dim(axis, bins)?;
        let most = self.elements().max(shape.elements());
        if most > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op, elements: most, max: u32::MAX.into() });
        }
        if self.elements() == 0 {
            return Tensor::zeros(self.device(), DType::U32, shape);
        }
        // Elements of all axes behind this one, and of a line's whole block; the row has the order of the result.
        let inner: u64 = self.dims()[axis + 1..].iter().product();
        let [inner, block, bins] = [inner, inner * self.dims()[axis], bins].map(|extent| extent as i64);
        let place = Expr::index().cast(DType::U32);
        let at = ((place.clone() / block) * bins + bin) * inner + place % inner;
        // What is no bin of its line is none of the row: the last number is no bin of any.
        let at = is_bin.select(at, i64::from(u32::MAX));
        let row = Tensor::map_named(op, &at, &[self])?;
        let counts = Bincount::new(row.spec(), shape.elements())?;
        Tensor::apply(self.device(), counts, &[&row])?.swap_remove(0).reshape(shape)
    }

    fn bincount_by(&self, bins: u64, look: Option<Look>) -> Result<Tensor> {
        let indices = positions(OP, self)?;
        let op = Bincount::new(indices.spec(), bins)?;
        let counts = Tensor::apply(self.device(), op, &[&indices])?.swap_remove(0);
        if let Some(look) = look {
            look.through(self, &indices)?;
        }
        Ok(counts)
    }
}
