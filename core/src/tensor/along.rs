//! Elements by position: gathered or scattered along an axis, written at positions on several axes, chosen by a mask.
//! And sliding windows, which are views.

use crate::ops::elements::named;
use crate::ops::take::{check_rows, positions};
use crate::ops::{Gather, Indexing, MaskedScatter, MaskedSelect, Missing, Nonzero, ReduceFn, Scatter, ScatterFn};
use crate::tensor::outside::Look;
use crate::{CompareFn, DType, Error, Expr, Layout, Position, Result, Shape, Tensor};

impl Tensor {
    /// `y[.., i, ..] = x[.., indices[.., i, ..], ..]` along `axis`. The result has the shape of `indices` (i32 or u32,
    /// others are converted), broadcast to this tensor's extents along all other axes. A position outside of the axis, such
    /// as a negative one, is an error of the next read. The standard and NumPy call it `take_along_axis`, PyTorch `gather`.
    ///
    /// ```
    /// use polywarp_core::{Device, Error, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// let at = Tensor::from_slice(&device, &[2u32, 0, 1, 1], [2, 2])?;
    /// assert_eq!(x.gather(&at, 1)?.to_vec::<i32>()?, [3, 1, 5, 5]);
    /// let wrong = x.gather(&Tensor::from_slice(&device, &[2i32, 0, -1, 9], [2, 2])?, 1)?;
    /// let found = wrong.to_vec::<i32>();
    /// assert!(matches!(found, Err(Error::PositionOutside { op: "gather", position: -1, place: 2, extent: 3 })));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gather::new`]; [`Error::InvalidArgument`] for indices that are floats or bool; [`Error::DeviceMismatch`]; memory errors of
    /// the device. Of a read afterwards: [`Error::PositionOutside`].
    pub fn gather(&self, indices: &Tensor, axis: impl Position) -> Result<Tensor> {
        self.gather_by(Indexing::Gather, indices, self.axis(axis)?, None)
    }

    /// [`Tensor::gather`] without an error for positions outside of the axis: they give the value that `missing` names.
    ///
    /// ```
    /// use polywarp_core::ops::Missing;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let at = Tensor::from_slice(&device, &[2i32, -1, 9], [3])?;
    /// assert_eq!(x.gather_or(&at, 0, Missing::Zero)?.to_vec::<f32>()?, [3.0, 0.0, 0.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::gather`], but for positions outside.
    pub fn gather_or(&self, indices: &Tensor, axis: impl Position, missing: Missing) -> Result<Tensor> {
        self.gather_by(Indexing::Gather, indices, self.axis(axis)?, Some(missing))
    }

    fn gather_by(&self, by: Indexing, given: &Tensor, axis: usize, missing: Option<Missing>) -> Result<Tensor> {
        let converted = positions("gather", given)?;
        let indices = self.along("gather", &converted, axis)?;
        let op = Gather::new(self.spec(), indices.spec(), axis, missing.unwrap_or_default())?;
        let gathered = Tensor::apply(self.device(), op, &[self, &indices])?.swap_remove(0);
        if missing.is_none() {
            Look::of(by, self.dims()[axis]).through(given, &converted)?;
        }
        Ok(gathered)
    }

    /// Broadcasts `x` to this tensor's extents along all axes but `axis`.
    fn along(&self, op: &'static str, x: &Tensor, axis: usize) -> Result<Tensor> {
        if x.rank() != self.rank() {
            return Err(Error::shape_mismatch(op, self.shape(), x.shape(), None));
        }
        let mut dims = self.dims().to_vec();
        dims[axis] = x.dims()[axis];
        x.broadcast_to(dims)
    }

    /// The elements at `indices` (a vector) along `axis`, in their order. The standard and NumPy call it `take` with an
    /// axis, PyTorch `index_select`. A position outside of the axis is an error of the next read, as with
    /// [`Tensor::gather`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// let at = Tensor::from_slice(&device, &[2u32, 2, 0], [3])?;
    /// assert_eq!(x.index_select(&at, 1)?.to_vec::<i32>()?, [3, 3, 1, 6, 6, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for indices of another rank than 1; as [`Tensor::gather`].
    pub fn index_select(&self, indices: &Tensor, axis: impl Position) -> Result<Tensor> {
        self.index_select_by(indices, self.axis(axis)?, None)
    }

    /// [`Tensor::index_select`] without an error for positions outside of the axis: they give the value that `missing` names.
    ///
    /// # Errors
    /// As [`Tensor::index_select`], but for positions outside.
    pub fn index_select_or(&self, indices: &Tensor, axis: impl Position, missing: Missing) -> Result<Tensor> {
        self.index_select_by(indices, self.axis(axis)?, Some(missing))
    }

    fn index_select_by(&self, indices: &Tensor, axis: usize, missing: Option<Missing>) -> Result<Tensor> {
        if indices.rank() != 1 {
            let reason = format!("index_select takes a vector of them, not {:?}", indices.dims());
            return Err(Error::InvalidArgument { what: "indices", reason });
        }
        if axis == 0 && check_rows("index_select", &self.spec()).is_ok() {
            return self.take_by(Indexing::IndexSelect, indices, missing, None);
        }
        let mut dims = vec![1; self.rank()];
        dims[axis] = indices.elements();
        self.gather_by(Indexing::IndexSelect, &indices.reshape(dims)?, axis, missing)
    }

    /// A copy of this tensor with elements of `source` written along `axis` at positions `indices`. For i in order,
    /// `y[.., indices[.., i, ..], ..]` becomes the result of `function` on its old value and `source[.., i, ..]`. A
    /// position outside of the axis is an error of the next read. Of equal positions the last one is set, and sums have
    /// the same bits on every run. PyTorch calls it `scatter` and `scatter_reduce`.
    ///
    /// `indices` (i32 or u32, others are converted) and `source` are broadcast to this tensor's extents along all other axes, and `source` to
    /// `indices` along `axis`. On GPUs the time grows with the product of this axis and the positions along it.
    ///
    /// ```
    /// use polywarp_core::ops::ScatterFn;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let at = Tensor::from_slice(&device, &[2u32, 0, 2], [3])?;
    /// let source = Tensor::from_slice(&device, &[10i32, 20, 30], [3])?;
    /// assert_eq!(x.scatter(&at, &source, 0, ScatterFn::Set)?.to_vec::<i32>()?, [20, 2, 30]);
    /// assert_eq!(x.scatter(&at, &source, 0, ScatterFn::Sum)?.to_vec::<i32>()?, [21, 2, 43]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scatter::new`] and [`Tensor::gather`].
    pub fn scatter(
        &self,
        indices: &Tensor,
        source: &Tensor,
        axis: impl Position,
        function: ScatterFn,
    ) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let look = Look::of(Indexing::Scatter, self.dims()[axis]);
        self.scatter_by(indices, source, axis, function, Some(look))
    }

    /// [`Tensor::scatter`] that skips positions outside of the axis.
    ///
    /// ```
    /// use polywarp_core::ops::ScatterFn;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let at = Tensor::from_slice(&device, &[2i32, -1, 7], [3])?;
    /// assert_eq!(x.scatter_within(&at, &x, 0, ScatterFn::Set)?.to_vec::<i32>()?, [1, 2, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scatter`], but for positions outside.
    pub fn scatter_within(
        &self,
        indices: &Tensor,
        source: &Tensor,
        axis: impl Position,
        function: ScatterFn,
    ) -> Result<Tensor> {
        self.scatter_by(indices, source, self.axis(axis)?, function, None)
    }

    fn scatter_by(
        &self,
        given: &Tensor,
        source: &Tensor,
        axis: usize,
        function: ScatterFn,
        look: Option<Look>,
    ) -> Result<Tensor> {
        let name = function.name();
        let converted = positions(name, given)?;
        let indices = self.along(name, &converted, axis)?;
        let source = source.broadcast_to(*indices.shape())?;
        let op = Scatter::new(function, self.spec(), indices.spec(), source.spec(), axis)?;
        let put = Tensor::apply(self.device(), op, &[self, &indices, &source])?.swap_remove(0);
        if let Some(look) = look {
            look.through(given, &converted)?;
        }
        Ok(put)
    }

    /// A copy of this tensor with `values` written at positions `indices`, which are integers of one shape for each of
    /// the first axes: `y[i, j] = values[n]` for i = `indices[0][n]`, j = `indices[1][n]`, in order. `values` is
    /// broadcast to the shape of the indices, followed by the remaining axes. A position outside of its axis is an
    /// error of the next read. NumPy calls it assignment by arrays of integers, PyTorch `index_put`.
    ///
    /// ```
    /// use polywarp_core::ops::ScatterFn;
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::zeros(&device, DType::I32, [2, 3])?;
    /// let [rows, columns] = [[0i32, 1, 1], [2, 0, 2]].map(|at| Tensor::from_slice(&device, &at, [3]));
    /// let values = Tensor::from_slice(&device, &[7i32, 8, 9], [3])?;
    /// let y = x.index_put(&[&rows?, &columns?], &values, ScatterFn::Set)?;
    /// assert_eq!(y.to_vec::<i32>()?, [0, 0, 7, 8, 0, 9]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no indices or more than axes; [`Error::ShapeMismatch`] for indices of several shapes; as
    /// [`Tensor::scatter`].
    pub fn index_put(&self, indices: &[&Tensor], values: &Tensor, function: ScatterFn) -> Result<Tensor> {
        self.index_put_by(indices, values, function, Some(Indexing::IndexPut))
    }

    /// [`Tensor::index_put`] that skips places with a position outside of its axis.
    ///
    /// # Errors
    /// As [`Tensor::index_put`], but for positions outside.
    pub fn index_put_within(&self, indices: &[&Tensor], values: &Tensor, function: ScatterFn) -> Result<Tensor> {
        self.index_put_by(indices, values, function, None)
    }

    fn index_put_by(
        &self,
        indices: &[&Tensor],
        values: &Tensor,
        function: ScatterFn,
        by: Option<Indexing>,
    ) -> Result<Tensor> {
        const OP: &str = "index_put";
        if indices.is_empty() || indices.len() > self.rank() {
            let reason = format!("{OP} takes some for each of the first axes: {} for {:?}", indices.len(), self.dims());
            return Err(Error::InvalidArgument { what: "indices", reason });
        }
        let shape = *indices[0].shape();
        if let Some(other) = indices.iter().find(|other| *other.shape() != shape) {
            return Err(Error::shape_mismatch(OP, &shape, other.shape(), None));
        }
        let (axes, rest) = self.dims().split_at(indices.len());
        let places = axes.iter().fold(1u64, |product, &n| product.saturating_mul(n));
        if places > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: places, max: u32::MAX.into() });
        }
        // One position over all axes; where the position on any axis is outside it is u32::MAX, which is outside as well.
        let of_axis = |at: &&Tensor| positions(OP, at);
        let each = indices.iter().map(of_axis).collect::<Result<Vec<_>>>()?;
        let (mut place, mut is_there) = (Expr::constant(0), None);
        for (axis, (at, &n)) in each.iter().zip(axes).enumerate() {
            let number = Expr::input(axis);
            // A negative i32 is a u32 of at least 2^31.
            let number = if at.dtype() == DType::U32 { number } else { number.cast(DType::U32) };
            let is_inside = number.compare(CompareFn::Lt, named(at.dtype(), n) as i64);
            is_there = Some(is_there.map_or(is_inside.clone(), |before| before & is_inside));
            place = if axis == 0 { number } else { place * n as i64 + number };
        }
        let place = is_there.map_or(place.clone(), |is_there| is_there.select(place, i64::from(u32::MAX)));
        let at = Tensor::map_named(OP, &place, &each.iter().collect::<Vec<_>>())?.reshape([shape.elements()])?;
        let values = values.broadcast_to([shape.dims(), rest].concat())?;
        let inner: u64 = rest.iter().product();
        let lines = values.reshape([shape.elements(), inner])?;
        let whole = self.reshape([places, inner])?;
        let put = whole.scatter_by(&at.unsqueeze(1)?, &lines, 0, function, None)?.reshape(*self.shape())?;
        if let Some(by) = by {
            for ((given, converted), &n) in indices.iter().zip(&each).zip(axes) {
                Look::of(by, n).through(given, converted)?;
            }
        }
        Ok(put)
    }

    /// The row-major positions of the first `count` true elements of this mask, as u32, then `u32::MAX` where fewer are
    /// true. Nothing waits for the device, so a recording can contain it.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let mask = Tensor::from_slice(&device, &[false, true, true], [3])?;
    /// assert_eq!(mask.nonzero_first(3)?.to_vec::<u32>()?, [1, 2, u32::MAX]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Nonzero::new`]; memory errors of the device.
    pub fn nonzero_first(&self, count: u64) -> Result<Tensor> {
        let mask = self.contiguous()?;
        Ok(Tensor::apply(self.device(), Nonzero::new(mask.spec(), count)?, &[&mask])?.swap_remove(0))
    }

    /// The indices of the elements that are not zero, as u32: [elements, rank], in row-major order. Waits for the
    /// device, which counts them first. PyTorch calls it `nonzero`; the standard and NumPy give a vector for each axis,
    /// which is a column of this result.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[0.0f32, 2.0, 3.0, 0.0], [2, 2])?;
    /// assert_eq!(x.nonzero()?.to_vec::<u32>()?, [0, 1, 1, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Nonzero::new`] and [`Tensor::to_vec`]; [`Error::Recording`] inside of a recording, whose shapes cannot depend on data.
    pub fn nonzero(&self) -> Result<Tensor> {
        let mask = if self.dtype() == DType::Bool { self.clone() } else { self.compare_scalar(CompareFn::Ne, 0)? };
        let at = mask.nonzero_first(mask.count_true()?)?;
        let (count, rank) = (at.elements(), self.rank());
        if rank < 2 || count == 0 {
            return at.reshape([count, 1])?.slice(1, 0..rank.min(1) as u64)?.broadcast_to([count, rank as u64]);
        }
        // Each column: the position divided by the number of elements that an index of the axis spans, modulo the axis's extent.
        let column = Expr::index().cast(DType::U32) % rank as i64;
        let mut inner = self.elements();
        let mut index = Expr::constant(0);
        for (axis, &n) in self.dims().iter().enumerate() {
            inner /= n;
            let own = Expr::input(0) / inner as i64 % n as i64;
            index = if axis == 0 { own } else { column.compare(CompareFn::Eq, axis as i64).select(own, index) };
        }
        let repeated = at.unsqueeze(1)?.broadcast_to([count, rank as u64])?;
        Tensor::map_named("nonzero", &index, &[&repeated])
    }

    /// The number of true elements of a mask; waits for the device.
    fn count_true(&self) -> Result<u64> {
        if self.elements() > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: "nonzero", elements: self.elements(), max: u32::MAX.into() });
        }
        if self.elements() == 0 {
            return Ok(0);
        }
        let ones = self.cast(DType::U32)?;
        Ok(ones.reduce(ReduceFn::Sum, .., crate::KeepDims::No)?.item::<u32>()?.into())
    }

    /// The elements where `mask` (bool, of this shape) is true, as a vector in row-major order. Waits for the device,
    /// which counts them first. The standard and NumPy index by a mask, PyTorch calls it `masked_select`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let mask = Tensor::from_slice(&device, &[true, false, true], [3])?;
    /// assert_eq!(x.masked_select(&mask)?.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`] for a mask that is not bool; as [`Tensor::nonzero`].
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        const OP: &str = "masked_select";
        self.expect_device(OP, mask)?;
        mask.expect_dtype(OP, DType::Bool)?;
        if mask.shape() != self.shape() {
            return Err(Error::shape_mismatch(OP, self.shape(), mask.shape(), None));
        }
        self.masked_first(mask, mask.count_true()?)
    }

    /// The first `count` elements of [`Tensor::masked_select`]; where fewer are chosen, NaN for floats and zeros for
    /// other dtypes follow. Nothing waits for the device, so a recording can contain it.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let mask = Tensor::from_slice(&device, &[true, false, true], [3])?;
    /// assert_eq!(x.masked_first(&mask, 3)?.to_vec::<i32>()?, [1, 3, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`MaskedSelect::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn masked_first(&self, mask: &Tensor, count: u64) -> Result<Tensor> {
        let (x, mask) = (self.contiguous()?, mask.contiguous()?);
        let op = MaskedSelect::new(x.spec(), mask.spec(), Missing::Nan, count)?;
        Ok(Tensor::apply(self.device(), op, &[&x, &mask])?.swap_remove(0))
    }

    /// A copy of this tensor with the elements of `source`, in row-major order, where `mask` (bool, of this shape) is
    /// true. Where `source` has fewer elements than the mask has true ones, the remaining ones stay unchanged;
    /// PyTorch's `masked_scatter` refuses that.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let mask = Tensor::from_slice(&device, &[true, false, true], [3])?;
    /// let source = Tensor::from_slice(&device, &[7i32, 8, 9], [3])?;
    /// assert_eq!(x.masked_scatter(&mask, &source)?.to_vec::<i32>()?, [7, 2, 8]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`MaskedScatter::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        let source = source.reshape([source.elements()])?.contiguous()?;
        let (x, mask) = (self.contiguous()?, mask.contiguous()?);
        let op = MaskedScatter::new(x.spec(), mask.spec(), source.spec())?;
        Ok(Tensor::apply(self.device(), op, &[&x, &mask, &source])?.swap_remove(0))
    }

    /// Windows of `size` elements along `axis`, each starting `step` after the one before: the axis counts windows, and
    /// a new last axis counts their elements. A view, which takes no memory; but a copy where a tape follows, because
    /// gradients of shared elements must be added up. PyTorch calls it `unfold`, NumPy with step 1
    /// `sliding_window_view`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5], [5])?;
    /// assert_eq!(x.sliding_windows(3, 2, 0)?.to_vec::<i32>()?, [1, 2, 3, 3, 4, 5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::RankTooLarge`]; [`Error::InvalidArgument`] for windows of no elements or more than there are, and
    /// for step 0.
    pub fn sliding_windows(&self, size: u64, step: u64, axis: impl Position) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let n = self.dims()[axis];
        if size == 0 || step == 0 || size > n {
            let reason = format!("windows of {size} elements with step {step} along axis {axis} of {n} elements");
            return Err(Error::InvalidArgument { what: "windows", reason });
        }
        let count = (n - size) / step + 1;
        let mut dims = [self.dims(), &[size]].concat();
        dims[axis] = count;
        if self.track().is_some() {
            let reach = (count - 1) * step + 1;
            let elements = (0..size).map(|first| self.slice_step(axis, first..first + reach, step as i64));
            let elements = elements.collect::<Result<Vec<_>>>()?;
            return Tensor::stack(&elements.iter().collect::<Vec<_>>(), self.rank());
        }
        let own = self.layout().strides()[axis];
        let mut strides = [self.layout().strides(), &[own]].concat();
        strides[axis] = if count > 1 { own * step as i64 } else { own };
        Ok(self.with_layout(Layout::strided(Shape::new(&dims)?, &strides, self.layout().offset())?))
    }
}
