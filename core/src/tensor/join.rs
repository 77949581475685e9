//! Joining, repeating, rolling and padding: tensors made of the elements of others, in one launch each.

use crate::axis;
use crate::ops::{Cat, Pad, PadMode};
use crate::{Axes, Error, MAX_RANK, Position, Result, Scalar, Tensor};

/// How [`Tensor::meshgrid`] orders its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshOrder {
    /// Axis i of every result is that of vector i (`ij` in NumPy and PyTorch).
    Matrix,
    /// The first two axes exchanged: vector 0 is x, along the columns (`xy`, the default of NumPy and the standard).
    Cartesian,
}

impl Tensor {
    /// Joins `tensors` along `axis`. They must have one dtype, and equal extents along all other axes. The standard
    /// calls it `concat`, PyTorch `cat`.
    ///
    /// One launch. Where there are more tensors than the device binds at once (7 on any device), one launch for each
    /// seven and one that joins their results.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let a = Tensor::from_slice(&device, &[1i32, 2, 3, 4], [2, 2])?;
    /// let b = Tensor::from_slice(&device, &[5i32, 6], [2, 1])?;
    /// assert_eq!(Tensor::cat(&[&a, &b], 1)?.to_vec::<i32>()?, [1, 2, 5, 3, 4, 6]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cat::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn cat(tensors: &[&Tensor], axis: impl Position) -> Result<Tensor> {
        let axis = tensors.first().map_or(Ok(0), |first| first.axis(axis))?;
        let op = Cat::new(tensors.iter().map(|tensor| tensor.spec()).collect(), axis)?;
        // `Cat::new` refuses to join no tensors, so there is a first one.
        Ok(Tensor::apply(tensors[0].device(), op, tensors)?.swap_remove(0))
    }

    /// `tensors` of one shape along a new axis before axis `axis`. `stack` of the standard, NumPy and PyTorch.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let [a, b] = [[1i32, 2], [3, 4]].map(|x| Tensor::from_slice(&device, &x, [2]));
    /// let (a, b) = (a?, b?);
    /// assert_eq!(Tensor::stack(&[&a, &b], 0)?.to_vec::<i32>()?, [1, 2, 3, 4]);
    /// assert_eq!(Tensor::stack(&[&a, &b], 1)?.to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::cat`]; [`Error::ShapeMismatch`] for tensors of several shapes; [`Error::RankTooLarge`].
    pub fn stack(tensors: &[&Tensor], axis: impl Position) -> Result<Tensor> {
        if let Some(other) = tensors.iter().find(|other| other.shape() != tensors[0].shape()) {
            return Err(Error::shape_mismatch("stack", tensors[0].shape(), other.shape(), None));
        }
        let one = tensors.iter().map(|tensor| tensor.unsqueeze(axis)).collect::<Result<Vec<_>>>()?;
        Tensor::cat(&one.iter().collect::<Vec<_>>(), axis)
    }

    /// Adds `before` and `after` positions at the two ends of each axis, with values chosen by `mode`. Negative amounts
    /// remove elements there. NumPy calls it `pad`; PyTorch's `replicate` is `Edge`, its `circular` is `Wrap`.
    ///
    /// ```
    /// use polywarp_core::ops::PadMode;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let pad = |mode| x.pad(&[(2, 1)], mode)?.to_vec::<i32>();
    /// assert_eq!(pad(PadMode::Constant)?, [0, 0, 1, 2, 3, 0]);
    /// assert_eq!(pad(PadMode::Edge)?, [1, 1, 1, 2, 3, 3]);
    /// assert_eq!(pad(PadMode::Reflect)?, [3, 2, 1, 2, 3, 2]);
    /// assert_eq!(pad(PadMode::Wrap)?, [2, 3, 1, 2, 3, 1]);
    /// assert_eq!(x.pad(&[(-1, 0)], PadMode::Edge)?.to_vec::<i32>()?, [2, 3]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pad::new`]; [`Error::InvalidArgument`] for a number of pairs other than that of axes, and for removing more
    /// elements than there are.
    pub fn pad(&self, amounts: &[(i64, i64)], mode: PadMode) -> Result<Tensor> {
        self.pad_by(amounts, mode, 0.into())
    }

    /// [`Tensor::pad`] with `value` at the added positions.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0], [1, 2])?;
    /// assert_eq!(x.pad_with(&[(0, 1), (1, 0)], 7.5)?.to_vec::<f32>()?, [7.5, 1.0, 2.0, 7.5, 7.5, 7.5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::pad`]; [`Error::NumberOutOfRange`] for a number that the dtype cannot hold.
    pub fn pad_with(&self, amounts: &[(i64, i64)], value: impl Into<Scalar>) -> Result<Tensor> {
        self.pad_by(amounts, PadMode::Constant, value.into())
    }

    fn pad_by(&self, amounts: &[(i64, i64)], mode: PadMode, fill: Scalar) -> Result<Tensor> {
        if amounts.len() != self.rank() {
            let (pairs, rank) = (amounts.len(), self.rank());
            let reason = format!("pad takes a pair for each axis: {pairs} pairs for rank {rank}");
            return Err(Error::InvalidArgument { what: "padding", reason });
        }
        let extent = |(&n, &(before, after)): (&u64, &(i64, i64))| {
            let sum = i128::from(n) + i128::from(before) + i128::from(after);
            let reason = format!("{n} elements with {before} before and {after} behind have no extent");
            u64::try_from(sum).map_err(|_| Error::InvalidArgument { what: "padding", reason })
        };
        let dims = self.dims().iter().zip(amounts).map(extent).collect::<Result<Vec<_>>>()?;
        let before = amounts.iter().map(|&(before, _)| before).collect();
        self.taken_by(Pad::new(self.spec(), mode, before, &dims, fill)?)
    }

    fn taken_by(&self, op: Pad) -> Result<Tensor> {
        Ok(Tensor::apply(self.device(), op, &[self])?.swap_remove(0))
    }

    /// Moves the elements along each axis `axes[i]` by `shifts[i]` positions towards its end; those that leave the end
    /// enter at the start. The standard, NumPy and PyTorch call it `roll`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(x.roll(&[1], [1])?.to_vec::<i32>()?, [3, 1, 2, 6, 4, 5]);
    /// assert_eq!(x.roll(&[1, -1], [0, 1])?.to_vec::<i32>()?, [5, 6, 4, 2, 3, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`]; [`Error::InvalidArgument`] for another number of shifts than axes; as
    /// [`Pad::new`].
    pub fn roll(&self, shifts: &[i64], axes: impl Axes) -> Result<Tensor> {
        let axes = axis::in_order(axes, self.rank())?;
        if shifts.len() != axes.len() {
            let reason = format!("roll takes a shift for each axis: {} for {}", shifts.len(), axes.len());
            return Err(Error::InvalidArgument { what: "shifts", reason });
        }
        let mut before = vec![0; self.rank()];
        for (&shift, axis) in shifts.iter().zip(axes) {
            let n = self.dims()[axis];
            before[axis] = if n == 0 { 0 } else { shift.rem_euclid(n as i64) };
        }
        self.taken_by(Pad::new(self.spec(), PadMode::Wrap, before, self.dims(), 0)?)
    }

    /// Repeats the whole tensor `counts[i]` times along axis i. Where there are fewer counts than axes, or fewer axes
    /// than counts, the missing first ones are 1. The standard and NumPy call it `tile`; PyTorch has `repeat` as well.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2], [2])?;
    /// assert_eq!(x.tile(&[2])?.to_vec::<i32>()?, [1, 2, 1, 2]);
    /// assert_eq!(x.tile(&[3, 1])?.dims(), [3, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pad::new`]; [`Error::RankTooLarge`], [`Error::SizeOverflow`].
    pub fn tile(&self, counts: &[u64]) -> Result<Tensor> {
        let rank = self.rank().max(counts.len());
        if rank > MAX_RANK {
            return Err(Error::RankTooLarge { rank, max: MAX_RANK });
        }
        let with_ones = |all: &[u64]| [&vec![1; rank - all.len()], all].concat();
        let (dims, counts) = (with_ones(self.dims()), with_ones(counts));
        let x = self.reshape(&dims[..])?;
        let tiled: Vec<u64> = dims.iter().zip(&counts).map(|(&n, &count)| n.saturating_mul(count)).collect();
        x.taken_by(Pad::new(x.spec(), PadMode::Wrap, vec![0; rank], &tiled, 0)?)
    }

    /// Repeats each element `count` times in a row along `axis`. The standard and NumPy call it `repeat`, PyTorch
    /// `repeat_interleave`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.repeat(2, 1)?.to_vec::<i32>()?, [1, 1, 2, 2, 3, 3, 4, 4]);
    /// assert_eq!(x.repeat(2, 0)?.to_vec::<i32>()?, [1, 2, 1, 2, 3, 4, 3, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::SizeOverflow`]; memory errors of the device.
    pub fn repeat(&self, count: u64, axis: impl Position) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let mut dims = self.dims().to_vec();
        dims[axis] = dims[axis].saturating_mul(count);
        if self.rank() < MAX_RANK {
            let mut repeated = self.dims().to_vec();
            repeated.insert(axis + 1, count);
            return self.unsqueeze(axis + 1)?.broadcast_to(repeated)?.reshape(dims);
        }
        // The rank is the largest already: the axes before `axis` become one, and so do those behind it.
        let [outer, inner] = [&self.dims()[..axis], &self.dims()[axis + 1..]].map(|dims| dims.iter().product());
        self.reshape([outer, self.dims()[axis], inner])?.repeat(count, 1)?.reshape(dims)
    }

    /// Cuts this tensor along `axis` into consecutive views of `sizes[0]`, `sizes[1]`, ... indices. PyTorch calls it
    /// `split` by a list; NumPy's `split` takes the places of the cuts instead.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5], [5])?;
    /// let parts = x.split(&[2, 3], 0)?;
    /// assert_eq!(parts[1].to_vec::<i32>()?, [3, 4, 5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::InvalidArgument`] for sizes that do not add up to the extent.
    pub fn split(&self, sizes: &[u64], axis: impl Position) -> Result<Vec<Tensor>> {
        let axis = self.axis(axis)?;
        let n = self.dims()[axis];
        let sum = sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
        if sum != n {
            let reason = format!("{sizes:?} are {sum} indices, and axis {axis} has {n}");
            return Err(Error::InvalidArgument { what: "sizes", reason });
        }
        let mut start = 0;
        let part = |&size: &u64| {
            start += size;
            self.slice(axis, start - size..start)
        };
        sizes.iter().map(part).collect()
    }

    /// Cuts this tensor along `axis` into at most `count` views of equal length; the last may be shorter. PyTorch calls it `chunk`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::arange(&device, polywarp_core::DType::I32, 0, 1, 7)?;
    /// let extents: Vec<u64> = x.chunk(3, 0)?.iter().map(Tensor::elements).collect();
    /// assert_eq!(extents, [3, 3, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::InvalidArgument`] for no parts.
    pub fn chunk(&self, count: u64, axis: impl Position) -> Result<Vec<Tensor>> {
        let axis = self.axis(axis)?;
        let n = self.dims()[axis];
        if count == 0 {
            let reason = format!("axis {axis} of {n} indices in 0 parts");
            return Err(Error::InvalidArgument { what: "count", reason });
        }
        let size = n.div_ceil(count).max(1);
        let starts = (0..n.div_ceil(size).max(1)).map(|part| part * size);
        starts.map(|start| self.slice(axis, start..n.min(start + size))).collect()
    }

    /// For each vector a tensor over all combinations: the vector's elements along its own axis, repeated along the
    /// other axes. Views, which take no memory. The standard, NumPy and PyTorch call it `meshgrid`.
    ///
    /// ```
    /// use polywarp_core::{Device, MeshOrder, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3], [3])?;
    /// let y = Tensor::from_slice(&device, &[10i32, 20], [2])?;
    /// let grids = Tensor::meshgrid(&[&x, &y], MeshOrder::Cartesian)?;
    /// assert_eq!(grids[0].to_vec::<i32>()?, [1, 2, 3, 1, 2, 3]);
    /// assert_eq!(grids[1].to_vec::<i32>()?, [10, 10, 10, 20, 20, 20]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for tensors of another rank than 1; [`Error::RankTooLarge`].
    pub fn meshgrid(vectors: &[&Tensor], order: MeshOrder) -> Result<Vec<Tensor>> {
        let mut dims = Vec::with_capacity(vectors.len());
        for vector in vectors {
            let &[n] = vector.dims() else {
                let reason = format!("meshgrid takes vectors, not {:?}; reshape it", vector.dims());
                return Err(Error::InvalidArgument { what: "vectors", reason });
            };
            dims.push(n);
        }
        let grid = |(axis, vector): (usize, &&Tensor)| {
            let mut own = vec![1; dims.len()];
            own[axis] = dims[axis];
            let grid = vector.reshape(own)?.broadcast_to(&dims[..])?;
            if order == MeshOrder::Cartesian && dims.len() > 1 { grid.transpose(0, 1) } else { Ok(grid) }
        };
        vectors.iter().enumerate().map(grid).collect()
    }
}
