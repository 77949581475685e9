//! Views: other shapes and orders of the same elements, without a copy where strides can say it.

use std::ops::Range;

use crate::{Error, IntoShape, Layout, Result, Shape, Tensor};

impl Tensor {
    pub(super) fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor { layout, ..self.clone() }
    }

    /// Dimensions in a new order: dimension `i` of the result is dimension `order[i]` of this.
    ///
    /// # Errors
    /// As [`Layout::permute`].
    pub fn permute(&self, order: &[usize]) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.permute(order)?))
    }

    /// Dimensions `a` and `b` exchanged.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn transpose(&self, a: usize, b: usize) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.transpose(a, b)?))
    }

    /// The last two dimensions exchanged: the transpose of a matrix or of each matrix of a batch.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] below rank 2.
    pub fn t(&self) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(Error::AxisOutOfRange { axis: 1, rank });
        }
        self.transpose(rank - 2, rank - 1)
    }

    /// The indices `range` along `axis`.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidSlice`].
    pub fn slice(&self, axis: usize, range: Range<u64>) -> Result<Tensor> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th index of `range` along `axis`; a negative step walks from the last index down.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidSlice`].
    pub fn slice_step(&self, axis: usize, range: Range<u64>, step: i64) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.slice(axis, range.start, range.end, step)?))
    }

    /// Index `index` along `axis`, which disappears.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidSlice`].
    pub fn select(&self, axis: usize, index: u64) -> Result<Tensor> {
        self.slice(axis, index..index.saturating_add(1))?.squeeze(axis)
    }

    /// Stretched to `shape`: new outer dimensions and extents of 1 repeat.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.broadcast_to(shape.into_shape()?)?))
    }

    /// The same elements in row-major order under another shape; a view when strides allow it, else a copy.
    ///
    /// # Errors
    /// [`Error::ReshapeSize`] when the element counts differ; memory errors of a copy.
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        match self.layout.reshape(shape)? {
            Some(layout) => Ok(self.with_layout(layout)),
            None => self.copy()?.reshape(shape),
        }
    }

    /// [`Tensor::reshape`] with at most one extent given as -1, which is inferred.
    ///
    /// # Errors
    /// [`Error::AmbiguousReshape`] for more than one -1, [`Error::InvalidArgument`] for other negative extents,
    /// [`Error::ReshapeSize`].
    pub fn reshape_infer(&self, dims: &[i64]) -> Result<Tensor> {
        let inferred = dims.iter().filter(|&&d| d == -1).count();
        if inferred > 1 {
            return Err(Error::AmbiguousReshape { inferred, shape: dims.to_vec() });
        }
        if let Some(bad) = dims.iter().find(|&&d| d < -1) {
            return Err(Error::InvalidArgument { what: "shape", reason: format!("extent {bad} in {dims:?}") });
        }
        let known: Vec<u64> = dims.iter().filter(|&&d| d >= 0).map(|&d| d as u64).collect();
        let product = Shape::new(&known)?.elements();
        let rest = self.elements().checked_div(product).unwrap_or(0);
        let full: Vec<u64> = dims.iter().map(|&d| if d == -1 { rest } else { d as u64 }).collect();
        self.reshape(full)
    }

    /// Without dimension `axis`, whose extent must be 1.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::ReshapeSize`] when the extent is not 1.
    pub fn squeeze(&self, axis: usize) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        dims.remove(self.shape().axis(axis)?);
        self.reshape(dims)
    }

    /// With a new dimension of extent 1 before dimension `axis`.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] when `axis` exceeds the rank, [`Error::RankTooLarge`].
    pub fn unsqueeze(&self, axis: usize) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        if axis > dims.len() {
            return Err(Error::AxisOutOfRange { axis, rank: dims.len() });
        }
        dims.insert(axis, 1);
        self.reshape(dims)
    }

    /// The order of indices along `axis` reversed.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn flip(&self, axis: usize) -> Result<Tensor> {
        let len = self.dims()[self.shape().axis(axis)?];
        self.slice_step(axis, 0..len, -1)
    }
}
