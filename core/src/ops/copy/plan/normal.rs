//! A copy in its normal form: the widest units, the fewest dimensions, the output walked upwards.
//!
//! The order in which elements move is free, so dimensions are turned until every output stride is positive and sorted
//! until the smallest is innermost. What steps evenly on both sides is merged; bytes and halves that lie together on
//! both sides become words; 8-byte elements become pairs of words.

use crate::ops::Copy;
use crate::{Error, Result};

/// One dimension of a copy: strides in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) extent: u64,
    pub(super) from: i64,
    /// Positive.
    pub(super) to: i64,
}

/// A copy of units of `size_bytes` (1, 2 or 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) size_bytes: u64,
    /// Outermost first, by falling output stride.
    pub(super) dims: Vec<Dim>,
    /// Input offset, units.
    pub(super) from: u64,
    /// Output offset, units.
    pub(super) to: u64,
}

impl Move {
    /// The normal form of `op`.
    ///
    /// # Errors
    /// [`Error::IndexWidth`] when a unit of either side cannot be numbered in 32 bits.
    pub(super) fn of(op: &Copy) -> Result<Move> {
        let (from, to) = (&op.input.layout, &op.output.layout);
        let size_bytes = op.input.dtype.size_bytes();
        let words = size_bytes.div_ceil(4);
        // Counted before merging to wider units: a bound on every index that a kernel computes.
        let reached = from.required_elements().max(to.required_elements()).saturating_mul(words);
        if reached > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: "copy", elements: reached, max: u64::from(u32::MAX) });
        }
        let mut moved = Move {
            size_bytes: size_bytes / words,
            dims: Vec::new(),
            from: from.offset() * words,
            to: to.offset() * words,
        };
        for (axis, &extent) in from.dims().iter().enumerate().filter(|(_, extent)| **extent != 1) {
            let words = words as i64;
            let dim = Dim { extent, from: from.strides()[axis] * words, to: to.strides()[axis] * words };
            moved.push(dim);
        }
        if words == 2 {
            moved.push(Dim { extent: 2, from: 1, to: 1 });
        }
        moved.dims.sort_by_key(|dim| std::cmp::Reverse(dim.to));
        moved.merge();
        moved.widen();
        Ok(moved)
    }

    pub(super) fn elements(&self) -> u64 {
        self.dims.iter().map(|dim| dim.extent).product()
    }

    /// Whether the output is one run without gaps.
    pub(super) fn is_dense_output(&self) -> bool {
        let mut stride = 1;
        self.dims.iter().rev().all(|dim| {
            let dense = dim.to == stride;
            stride = stride.saturating_mul(dim.extent as i64);
            dense
        })
    }

    /// Adds a dimension, walked so that the output goes upwards.
    fn push(&mut self, dim: Dim) {
        if dim.to >= 0 {
            return self.dims.push(dim);
        }
        let last = dim.extent as i64 - 1;
        // Both ends of a dimension lie inside their storage, so neither offset leaves it.
        self.from = self.from.wrapping_add_signed(dim.from * last);
        self.to = self.to.wrapping_add_signed(dim.to * last);
        self.dims.push(Dim { extent: dim.extent, from: -dim.from, to: -dim.to });
    }

    fn merge(&mut self) {
        let mut merged: Vec<Dim> = Vec::new();
        for &outer in self.dims.iter().rev() {
            match merged.last_mut() {
                Some(inner)
                    if outer.from == inner.from * inner.extent as i64 && outer.to == inner.to * inner.extent as i64 =>
                {
                    inner.extent *= outer.extent;
                }
                _ => merged.push(outer),
            }
        }
        merged.reverse();
        self.dims = merged;
    }

    /// Takes 4 or 2 units as one where all of the copy allows it.
    fn widen(&mut self) {
        for factor in [4, 2] {
            let Some((inner, outer)) = self.dims.split_last() else { return };
            let steps = outer.iter().flat_map(|dim| [dim.from, dim.to]);
            let even = [inner.extent, self.from, self.to].iter().all(|n| n.is_multiple_of(factor));
            if self.size_bytes * factor > 4
                || (inner.from, inner.to) != (1, 1)
                || !even
                || steps.into_iter().any(|step| step % factor as i64 != 0)
            {
                continue;
            }
            self.size_bytes *= factor;
            self.from /= factor;
            self.to /= factor;
            let last = self.dims.len() - 1;
            for dim in &mut self.dims[..last] {
                dim.from /= factor as i64;
                dim.to /= factor as i64;
            }
            self.dims[last].extent /= factor;
        }
    }
}
