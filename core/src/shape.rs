//! Shapes: the extents of a tensor, rank 0 to 8, with every product checked in u64.
//!
//! A zero extent is legal anywhere. A [`Shape`] that exists has an element count that fits i64, so later arithmetic on
//! its strides cannot wrap; byte counts are checked where the dtype joins ([`Shape::bytes`]).

use std::fmt;

use crate::{DType, Error, Result};

/// The largest number of dimensions a tensor may have.
pub const MAX_RANK: usize = 8;

/// The extents of a tensor, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    // Unused trailing extents stay 0, so that derived equality is equality of shapes.
    dims: [u64; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape of a single element: rank 0.
    pub const SCALAR: Shape = Shape { dims: [0; MAX_RANK], rank: 0 };

    /// A shape from its extents.
    ///
    /// # Errors
    /// [`Error::RankTooLarge`] above [`MAX_RANK`]; [`Error::SizeOverflow`] when the element count exceeds i64.
    pub fn new(dims: &[u64]) -> Result<Shape> {
        if dims.len() > MAX_RANK {
            return Err(Error::RankTooLarge { rank: dims.len(), max: MAX_RANK });
        }
        let product = checked_product(dims).filter(|&n| n <= i64::MAX as u64);
        if product.is_none() {
            return Err(Error::SizeOverflow { shape: dims.to_vec(), dtype: None });
        }
        let mut shape = Shape { dims: [0; MAX_RANK], rank: dims.len() as u8 };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank()]
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// This shape with `extent` along `axis`.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; as [`Shape::new`].
    pub fn with_dim(&self, axis: usize, extent: u64) -> Result<Shape> {
        let mut dims = self.dims().to_vec();
        dims[self.axis(axis)?] = extent;
        Shape::new(&dims)
    }

    /// The number of elements; 1 for rank 0, 0 when any extent is 0.
    pub fn elements(&self) -> u64 {
        // Cannot overflow: `new` checked the same product.
        checked_product(self.dims()).unwrap_or(u64::MAX)
    }

    /// The size of a dense tensor of this shape, in bytes.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`] when it exceeds 2^60 bytes (1 EiB): no device holds that, and beyond it byte
    /// arithmetic could wrap.
    pub fn bytes(&self, dtype: DType) -> Result<u64> {
        const MAX_BYTES: u64 = 1 << 60;
        self.elements()
            .checked_mul(dtype.size_bytes())
            .filter(|&bytes| bytes <= MAX_BYTES)
            .ok_or_else(|| Error::SizeOverflow { shape: self.dims().to_vec(), dtype: Some(dtype) })
    }

    /// `axis` as an index of a dimension.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn axis(&self, axis: usize) -> Result<usize> {
        if axis < self.rank() { Ok(axis) } else { Err(Error::AxisOutOfRange { axis: axis as i128, rank: self.rank() }) }
    }

    /// Sorted, checked axes of a reduction; an empty list names none.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`].
    pub fn reduction_axes(&self, axes: &[usize]) -> Result<Vec<usize>> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        for (i, &axis) in sorted.iter().enumerate() {
            self.axis(axis)?;
            if i > 0 && sorted[i - 1] == axis {
                return Err(Error::DuplicateAxis { axis });
            }
        }
        Ok(sorted)
    }

    /// The shape both operands broadcast to: aligned at the innermost dimension, an extent of 1 stretches.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] naming `op` and the first axis of the result where the extents differ.
    pub fn broadcast(op: &'static str, lhs: &Shape, rhs: &Shape) -> Result<Shape> {
        let rank = lhs.rank().max(rhs.rank());
        let extent = |shape: &Shape, axis: usize| {
            let missing = rank - shape.rank();
            if axis < missing { 1 } else { shape.dims()[axis - missing] }
        };
        let mut dims = [0; MAX_RANK];
        for (axis, dim) in dims.iter_mut().enumerate().take(rank) {
            let (l, r) = (extent(lhs, axis), extent(rhs, axis));
            *dim = match (l, r) {
                (1, r) => r,
                (l, 1) => l,
                (l, r) if l == r => l,
                _ => return Err(Error::shape_mismatch(op, lhs, rhs, Some(axis))),
            };
        }
        Shape::new(&dims[..rank])
    }

    /// This shape without the (sorted) `axes`, or with them kept as extent 1.
    pub fn without_axes(&self, axes: &[usize], kept: KeepDims) -> Shape {
        let mut shape = Shape::SCALAR;
        for (axis, &dim) in self.dims().iter().enumerate() {
            let extent = match (axes.contains(&axis), kept) {
                (false, _) => dim,
                (true, KeepDims::Yes) => 1,
                (true, KeepDims::No) => continue,
            };
            shape.dims[shape.rank()] = extent;
            shape.rank += 1;
        }
        shape
    }
}

/// Whether a reduction leaves its axes behind with extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeepDims {
    /// Reduced axes stay, with extent 1.
    Yes,
    /// Reduced axes disappear.
    No,
}

/// Product of extents; `None` when it exceeds u64. A zero extent makes it zero whatever the others are.
fn checked_product(dims: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

/// What can be given where a shape is asked for: `[2, 3]`, `[]` for one number, a slice, a vector, a [`Shape`].
pub trait IntoShape {
    /// The shape, checked.
    ///
    /// # Errors
    /// As [`Shape::new`].
    fn into_shape(self) -> Result<Shape>;
}

impl<const N: usize> IntoShape for [u64; N] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}

impl<const N: usize> IntoShape for &[u64; N] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}

impl IntoShape for &[u64] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}

impl IntoShape for Vec<u64> {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}

impl IntoShape for &Vec<u64> {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}

impl IntoShape for Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(self)
    }
}

impl IntoShape for &Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u64]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn shape_product_overflow_is_refused() {
        let huge = Shape::new(&[1 << 33, 1 << 33]);
        assert!(matches!(huge, Err(Error::SizeOverflow { ref shape, dtype: None }) if shape == &[1 << 33, 1 << 33]));
        assert_eq!(shape(&[1 << 40, 1 << 40, 0]).elements(), 0);
    }

    #[test]
    fn shape_bytes_over_one_exbibyte_are_refused() {
        let wide = shape(&[1 << 58]);
        assert!(wide.bytes(DType::F32).is_ok());
        assert!(matches!(wide.bytes(DType::F64), Err(Error::SizeOverflow { dtype: Some(DType::F64), .. })));
    }

    #[test]
    fn shape_rank_nine_is_refused() {
        assert!(matches!(Shape::new(&[1; 9]), Err(Error::RankTooLarge { rank: 9, max: 8 })));
    }

    #[test]
    fn broadcast_stretches_ones_and_names_the_bad_axis() {
        assert_eq!(Shape::broadcast("add", &shape(&[4, 1, 3]), &shape(&[2, 1])).unwrap(), shape(&[4, 2, 3]));
        assert_eq!(Shape::broadcast("add", &shape(&[0]), &shape(&[1])).unwrap(), shape(&[0]));
        let err = Shape::broadcast("add", &shape(&[2, 3]), &shape(&[4, 3])).unwrap_err();
        assert!(matches!(err, Error::ShapeMismatch { op: "add", axis: Some(0), .. }));
    }

    #[test]
    fn reduction_axes_are_checked() {
        let s = shape(&[2, 3, 4]);
        assert_eq!(s.reduction_axes(&[]).unwrap(), [0usize; 0]);
        assert_eq!(s.reduction_axes(&[2, 0]).unwrap(), [0, 2]);
        assert!(matches!(s.reduction_axes(&[4]), Err(Error::AxisOutOfRange { axis: 4, rank: 3 })));
        assert!(matches!(s.reduction_axes(&[1, 1]), Err(Error::DuplicateAxis { axis: 1 })));
        assert_eq!(s.without_axes(&[1], KeepDims::No), shape(&[2, 4]));
        assert_eq!(s.without_axes(&[1], KeepDims::Yes), shape(&[2, 1, 4]));
    }
}
