//! Layouts: how the elements of a view lie in its storage.
//!
//! A [`Layout`] is a shape, one signed stride per dimension (in elements) and an offset (in elements). Views are made
//! here and nowhere else; each constructor checks its request, so a layout that exists is in bounds of any storage of
//! at least [`Layout::required_elements`]. It knows neither dtype nor storage.

use std::fmt;

use crate::{Error, MAX_RANK, Result, Shape};

/// Shape, strides and offset of a view, all in elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: [i64; MAX_RANK],
    offset: u64,
}

impl Layout {
    /// Row-major, dense, from element 0.
    pub fn contiguous(shape: Shape) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1i64;
        for axis in (0..shape.rank()).rev() {
            strides[axis] = stride;
            // A zero extent keeps the strides finite; `Shape` keeps the product within i64.
            stride = stride.saturating_mul(shape.dims()[axis].max(1) as i64);
        }
        Layout { shape, strides, offset: 0 }
    }

    /// A view with explicit strides.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the number of strides is not the rank or an index would overflow or be negative.
    pub fn strided(shape: Shape, strides: &[i64], offset: u64) -> Result<Layout> {
        let refuse = |reason: String| Error::InvalidArgument { what: "strides", reason };
        if strides.len() != shape.rank() {
            return Err(refuse(format!("{} strides for rank {}", strides.len(), shape.rank())));
        }
        let mut layout = Layout { shape, strides: [0; MAX_RANK], offset };
        layout.strides[..strides.len()].copy_from_slice(strides);
        let (low, high) = layout
            .checked_range()
            .ok_or_else(|| refuse(format!("{strides:?} over {shape} overflow a 64-bit index")))?;
        if low < 0 || high < 0 {
            return Err(refuse(format!(
                "{strides:?} over {shape} reach {} elements before the storage",
                low.unsigned_abs()
            )));
        }
        Ok(layout)
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[u64] {
        self.shape.dims()
    }

    /// One stride per dimension, in elements; may be zero (broadcast) or negative (reversed).
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.shape.rank()]
    }

    /// Position of the element at index 0 in every dimension.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The number of elements of the view.
    pub fn elements(&self) -> u64 {
        self.shape.elements()
    }

    /// The same view, starting `elements` later in its storage.
    pub fn with_offset(mut self, offset: u64) -> Layout {
        self.offset = offset;
        self
    }

    /// Elements a storage needs for every index of this view to be inside it; 0 for an empty view.
    pub fn required_elements(&self) -> u64 {
        if self.elements() == 0 {
            return 0;
        }
        // Constructors refuse layouts whose range overflows or begins below 0, but `with_offset` may make one: no storage holds it.
        self.checked_range().filter(|&(low, _)| low >= 0).map_or(u64::MAX, |(_, high)| high as u64 + 1)
    }

    /// Smallest and largest storage index reached; `None` on overflow. Meaningless for an empty view.
    fn checked_range(&self) -> Option<(i64, i64)> {
        let start = i64::try_from(self.offset).ok()?;
        let (mut low, mut high) = (start, start);
        for (&dim, &stride) in self.dims().iter().zip(self.strides()) {
            let reach = stride.checked_mul(i64::try_from(dim.max(1) - 1).ok()?)?;
            low = low.checked_add(reach.min(0))?;
            high = high.checked_add(reach.max(0))?;
        }
        if self.elements() == 0 { Some((start, start)) } else { Some((low, high)) }
    }

    /// Whether the elements lie row-major without gaps (at any offset).
    pub fn is_contiguous(&self) -> bool {
        let dense = Layout::contiguous(self.shape);
        self.elements() == 0
            || (0..self.rank()).all(|axis| self.dims()[axis] == 1 || self.strides[axis] == dense.strides[axis])
    }

    /// Whether two indices may reach the same element. Exact for views made by this type's own methods; for
    /// hand-made strides it may say yes when the truth is no.
    pub fn may_overlap(&self) -> bool {
        if self.elements() <= 1 {
            return false;
        }
        let mut axes: Vec<(u64, u64)> = self
            .dims()
            .iter()
            .zip(self.strides())
            .filter(|&(&dim, _)| dim > 1)
            .map(|(&dim, &stride)| (stride.unsigned_abs(), dim))
            .collect();
        axes.sort_unstable();
        let mut span = 1u64;
        for (stride, dim) in axes {
            if stride < span {
                return true;
            }
            span = stride.saturating_mul(dim - 1).saturating_add(span);
        }
        false
    }

    /// Dimensions in a new order: dimension `i` of the result is dimension `order[i]` of this view.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`], [`Error::InvalidArgument`] when `order` is not a
    /// permutation of all axes.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        if order.len() != self.rank() {
            return Err(Error::InvalidArgument {
                what: "permutation",
                reason: format!(
                    "{order:?} names {} axes of a tensor of rank {rank}; name each of its axes 0..{rank} once",
                    order.len(),
                    rank = self.rank()
                ),
            });
        }
        let mut dims = [0; MAX_RANK];
        let mut out = *self;
        for (to, &from) in order.iter().enumerate() {
            self.shape.axis(from)?;
            if order[..to].contains(&from) {
                return Err(Error::DuplicateAxis { axis: from });
            }
            dims[to] = self.dims()[from];
            out.strides[to] = self.strides[from];
        }
        out.shape = Shape::new(&dims[..order.len()])?;
        Ok(out)
    }

    /// Two dimensions exchanged.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn transpose(&self, a: usize, b: usize) -> Result<Layout> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(self.shape.axis(a)?, self.shape.axis(b)?);
        self.permute(&order)
    }

    /// Every `step`-th index of `start..end` along `axis`; a negative step walks from `end - 1` down to `start`.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidSlice`].
    pub fn slice(&self, axis: usize, start: u64, end: u64, step: i64) -> Result<Layout> {
        let axis = self.shape.axis(axis)?;
        let len = self.dims()[axis];
        if step == 0 || start > end || end > len {
            return Err(Error::InvalidSlice { axis, start, end, step, len });
        }
        let taken = (end - start).div_ceil(step.unsigned_abs());
        let mut dims = [0; MAX_RANK];
        dims[..self.rank()].copy_from_slice(self.dims());
        dims[axis] = taken;
        let shape = Shape::new(&dims[..self.rank()])?;
        let mut out = Layout { shape, ..*self };
        if taken == 0 || self.elements() == 0 {
            return Ok(Layout { offset: self.offset, ..out });
        }
        let first = if step > 0 { start } else { end - 1 };
        out.offset = (self.offset as i64 + self.strides[axis] * first as i64) as u64;
        // With one index taken the stride is never used; keeping it avoids overflow for huge steps.
        if taken > 1 {
            out.strides[axis] = self.strides[axis] * step;
        }
        Ok(out)
    }

    /// Stretched to `shape`: new outer dimensions and extents of 1 repeat, with stride 0.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when an extent other than 1 would have to change.
    pub fn broadcast_to(&self, shape: Shape) -> Result<Layout> {
        let refuse = |axis| Error::shape_mismatch("broadcast", &self.shape, &shape, axis);
        let missing = shape.rank().checked_sub(self.rank()).ok_or_else(|| refuse(None))?;
        let mut strides = [0; MAX_RANK];
        for (axis, &dim) in self.dims().iter().enumerate() {
            let to = shape.dims()[missing + axis];
            if dim == to {
                strides[missing + axis] = self.strides[axis];
            } else if dim != 1 {
                return Err(refuse(Some(missing + axis)));
            }
        }
        Ok(Layout { shape, strides, offset: self.offset })
    }

    /// The same elements in the same order under another shape, when strides alone can say so; `None` when a copy is
    /// needed.
    ///
    /// # Errors
    /// [`Error::ReshapeSize`] when the element counts differ.
    pub fn reshape(&self, shape: Shape) -> Result<Option<Layout>> {
        if shape.elements() != self.elements() {
            let (from, to) = (self.elements(), shape.elements());
            return Err(Error::ReshapeSize { from, to, shape: shape.dims().to_vec() });
        }
        if self.elements() == 0 || self.is_contiguous() {
            return Ok(Some(Layout::contiguous(shape).with_offset(self.offset)));
        }
        // Split the merged runs of this view into the new extents, innermost first.
        let runs = self.collapse();
        let (mut run, mut left) = (runs.rank(), 1u64);
        let mut stride = 0i64;
        let mut out = Layout { shape, strides: [0; MAX_RANK], offset: self.offset };
        for axis in (0..shape.rank()).rev() {
            let dim = shape.dims()[axis];
            if dim == 1 {
                continue;
            }
            if left == 1 {
                run -= 1;
                left = runs.dims()[run];
                stride = runs.strides[run];
            }
            if left % dim != 0 {
                return Ok(None);
            }
            out.strides[axis] = stride;
            stride = stride.saturating_mul(dim as i64);
            left /= dim;
        }
        Ok(Some(out))
    }

    /// The axes along which elements repeat, and the layout with one index of each.
    ///
    /// # Errors
    /// None: these axes are there.
    pub(crate) fn without_repeats(&self) -> Result<(Vec<usize>, Layout)> {
        let is_repeated = |&axis: &usize| self.dims()[axis] > 1 && self.strides()[axis] == 0;
        let repeated: Vec<usize> = (0..self.rank()).filter(is_repeated).collect();
        let layout = repeated.iter().try_fold(*self, |layout, &axis| layout.slice(axis, 0, 1, 1))?;
        Ok((repeated, layout))
    }

    /// The order of axes in which it is dense, if there is one.
    pub(crate) fn dense_order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.sort_by_key(|&axis| {
            std::cmp::Reverse(if self.dims()[axis] == 1 { i64::MAX } else { self.strides()[axis] })
        });
        self.permute(&order).ok().filter(Layout::is_contiguous).map(|_| order)
    }

    /// The same elements in the same row-major order with the fewest dimensions: extents of 1 dropped, neighbours
    /// that step evenly merged. Rank 0 for a single element.
    pub fn collapse(&self) -> Layout {
        collapse_together(&[*self])[0]
    }

    /// The storage index of the element at row-major position `linear` of this view.
    pub fn index_of(&self, linear: u64) -> u64 {
        let mut rest = linear;
        let mut index = self.offset as i64;
        for axis in (0..self.rank()).rev() {
            let dim = self.dims()[axis].max(1);
            index += (rest % dim) as i64 * self.strides[axis];
            rest /= dim;
        }
        index as u64
    }
}

/// Several layouts of one shape, with the dimensions merged that step evenly in all of them.
///
/// What a strided kernel iterates over: fewer dimensions, the same row-major order.
///
/// # Panics
/// When the shapes differ; callers pass layouts already broadcast to one shape.
pub fn collapse_together(layouts: &[Layout]) -> Vec<Layout> {
    let Some(first) = layouts.first() else { return Vec::new() };
    assert!(layouts.iter().all(|l| l.shape == first.shape), "layouts of different shapes");
    // Kept dimensions, innermost first: extent, and one stride per layout.
    let mut dims: Vec<(u64, Vec<i64>)> = Vec::new();
    for axis in (0..first.rank()).rev() {
        let dim = first.dims()[axis];
        if dim == 1 {
            continue;
        }
        let strides: Vec<i64> = layouts.iter().map(|l| l.strides[axis]).collect();
        let merged = dims.last_mut().filter(|(inner, inner_strides)| {
            inner_strides.iter().zip(&strides).all(|(&i, &outer)| i.checked_mul(*inner as i64) == Some(outer))
        });
        match merged {
            Some((inner, _)) => *inner *= dim,
            None => dims.push((dim, strides)),
        }
    }
    dims.reverse();
    let extents: Vec<u64> = dims.iter().map(|d| d.0).collect();
    // Fewer dimensions with the same product: always a valid shape.
    let shape = Shape::new(&extents).unwrap_or(Shape::SCALAR);
    layouts
        .iter()
        .enumerate()
        .map(|(i, l)| {
            let mut strides = [0; MAX_RANK];
            for (axis, dim) in dims.iter().enumerate() {
                strides[axis] = dim.1[i];
            }
            Layout { shape, strides, offset: l.offset }
        })
        .collect()
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if !self.is_contiguous() {
            write!(f, " strides {:?}", self.strides())?;
        }
        if self.offset != 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(dims: &[u64]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    fn indices(layout: &Layout) -> Vec<u64> {
        (0..layout.elements()).map(|i| layout.index_of(i)).collect()
    }

    #[test]
    fn permute_moves_strides() {
        let l = dense(&[2, 3, 4]).permute(&[2, 0, 1]).unwrap();
        assert_eq!((l.dims(), l.strides()), (&[4, 2, 3][..], &[1, 12, 4][..]));
        assert!(matches!(dense(&[2, 3]).permute(&[0, 0]), Err(Error::DuplicateAxis { axis: 0 })));
        assert!(matches!(dense(&[2, 3]).permute(&[0]), Err(Error::InvalidArgument { .. })));
        assert!(matches!(dense(&[2, 3]).permute(&[0, 2]), Err(Error::AxisOutOfRange { axis: 2, rank: 2 })));
    }

    #[test]
    fn slice_steps_both_ways() {
        let l = dense(&[10]);
        assert_eq!(indices(&l.slice(0, 1, 8, 3).unwrap()), [1, 4, 7]);
        assert_eq!(indices(&l.slice(0, 1, 8, -3).unwrap()), [7, 4, 1]);
        assert_eq!(l.slice(0, 4, 4, 1).unwrap().elements(), 0);
        for (start, end, step) in [(3, 2, 1), (0, 11, 1), (0, 5, 0)] {
            let err = l.slice(0, start, end, step).unwrap_err();
            assert!(matches!(err, Error::InvalidSlice { axis: 0, len: 10, .. }), "{err}");
        }
    }

    #[test]
    fn reshape_of_a_view_splits_and_merges_runs() {
        let l = dense(&[4, 6]).slice(1, 0, 4, 1).unwrap();
        assert_eq!(l.reshape(Shape::new(&[16]).unwrap()).unwrap(), None);
        let split = l.reshape(Shape::new(&[2, 2, 2, 2]).unwrap()).unwrap().unwrap();
        assert_eq!(indices(&split), indices(&l));
        assert!(matches!(l.reshape(Shape::new(&[5, 3]).unwrap()), Err(Error::ReshapeSize { from: 16, to: 15, .. })));
    }

    #[test]
    fn broadcast_repeats_with_stride_zero() {
        let l = dense(&[3, 1]).broadcast_to(Shape::new(&[2, 3, 2]).unwrap()).unwrap();
        assert_eq!(indices(&l), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert!(l.may_overlap());
        assert!(dense(&[3]).broadcast_to(Shape::new(&[4]).unwrap()).is_err());
    }

    #[test]
    fn overlap_is_found_and_not_imagined() {
        assert!(!dense(&[4, 5]).transpose(0, 1).unwrap().may_overlap());
        assert!(!dense(&[4, 6]).slice(1, 0, 6, -2).unwrap().may_overlap());
        assert!(Layout::strided(Shape::new(&[3, 3]).unwrap(), &[1, 1], 0).unwrap().may_overlap());
    }

    #[test]
    fn strided_before_or_beyond_the_index_range_is_refused() {
        let s = Shape::new(&[3]).unwrap();
        assert!(matches!(Layout::strided(s, &[-1], 1), Err(Error::InvalidArgument { what: "strides", .. })));
        assert!(matches!(Layout::strided(s, &[i64::MAX], 0), Err(Error::InvalidArgument { .. })));
        let pair = Shape::new(&[2]).unwrap();
        assert!(matches!(Layout::strided(pair, &[i64::MIN], 0), Err(Error::InvalidArgument { .. })));
        let backwards = Layout::strided(s, &[-1], 2).unwrap();
        assert_eq!(backwards.required_elements(), 3);
        assert_eq!(backwards.with_offset(1).required_elements(), u64::MAX, "begins before the storage");
    }

    #[test]
    fn dense_order_undoes_permutations_alone() {
        let permuted = dense(&[2, 1, 3, 4]).permute(&[3, 1, 0, 2]).unwrap();
        let order = permuted.dense_order().unwrap();
        assert!(permuted.permute(&order).unwrap().is_contiguous());
        assert_eq!(dense(&[4, 6]).slice(1, 0, 6, 2).unwrap().dense_order(), None);
        assert_eq!(dense(&[4, 6]).slice(0, 0, 4, -1).unwrap().dense_order(), None);
        let (repeated, once) =
            dense(&[3, 1]).broadcast_to(Shape::new(&[2, 3, 2]).unwrap()).unwrap().without_repeats().unwrap();
        assert_eq!((repeated, once.dims()), (vec![0, 2], &[1, 3, 1][..]));
    }

    #[test]
    fn collapse_keeps_order_with_fewer_dimensions() {
        let l = dense(&[2, 1, 3, 4]);
        assert_eq!(l.collapse().dims(), [24]);
        let t = dense(&[2, 3, 4]).permute(&[2, 0, 1]).unwrap();
        assert_eq!(t.collapse().dims(), [4, 6]);
        assert_eq!(indices(&t.collapse()), indices(&t));
        assert_eq!(dense(&[1, 1]).collapse().rank(), 0);
        assert_eq!(dense(&[0, 3]).collapse().elements(), 0);
    }
}
