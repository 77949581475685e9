//! How kernels walk the elements of several views at once: the fewest dimensions, one of them kept for itself.
//!
//! Neighbouring dimensions that step evenly in every view are one. What an operation does along its own axis differs from place to
//! place, so that axis is merged with none.

/// The dimensions of a walk and the steps of each view along them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Extents, outermost first.
    pub dims: Vec<u64>,
    /// For each view a stride for each dimension, in elements.
    pub strides: Vec<Vec<i64>>,
    /// The dimension that was kept for itself.
    pub axis: usize,
}

impl Walk {
    /// Over `dims`, with `axis` kept, of views with these strides.
    pub(crate) fn around(dims: &[u64], views: &[Vec<i64>], axis: usize) -> Walk {
        let part = |from: usize, to: usize| {
            let cut: Vec<&[i64]> = views.iter().map(|strides| &strides[from..to]).collect();
            merged(&dims[from..to], &cut)
        };
        let (outer, inner) = (part(0, axis), part(axis + 1, dims.len()));
        let whole =
            |number: usize, strides: &[i64]| [&outer.1[number][..], &[strides[axis]], &inner.1[number]].concat();
        Walk {
            dims: [&outer.0[..], &[dims[axis]], &inner.0].concat(),
            strides: views.iter().enumerate().map(|(number, strides)| whole(number, strides)).collect(),
            axis: outer.0.len(),
        }
    }

    /// Over `dims`, where any neighbours may be merged: the dimensions, and for each view its strides.
    pub(crate) fn through(dims: &[u64], views: &[Vec<i64>]) -> (Vec<u64>, Vec<Vec<i64>>) {
        merged(dims, &views.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Merges the kept dimension with the one behind it, if all views step evenly there, and gives the extent that the latter had.
    pub(crate) fn join_inner(&mut self) -> Option<u64> {
        let inner = *self.dims.get(self.axis + 1)?;
        let step = i64::try_from(inner).ok()?;
        let is_even = |strides: &Vec<i64>| strides[self.axis + 1].checked_mul(step) == Some(strides[self.axis]);
        if !self.strides.iter().all(is_even) {
            return None;
        }
        self.dims[self.axis] = self.dims[self.axis].checked_mul(inner)?;
        self.dims.remove(self.axis + 1);
        for strides in &mut self.strides {
            strides.remove(self.axis);
        }
        Some(inner)
    }
}

/// The same dimensions with those merged that step evenly in all views.
fn merged(dims: &[u64], views: &[&[i64]]) -> (Vec<u64>, Vec<Vec<i64>>) {
    // Innermost first.
    let mut kept: Vec<(u64, Vec<i64>)> = Vec::new();
    for axis in (0..dims.len()).rev().filter(|&axis| dims[axis] != 1) {
        let strides: Vec<i64> = views.iter().map(|view| view[axis]).collect();
        let is_even = |(extent, inner): &(u64, Vec<i64>)| {
            inner.iter().zip(&strides).all(|(&inner, &outer)| inner.checked_mul(*extent as i64) == Some(outer))
        };
        match kept.last_mut() {
            Some(inner) if is_even(inner) => inner.0 *= dims[axis],
            _ => kept.push((dims[axis], strides)),
        }
    }
    kept.reverse();
    let of_view = |number: usize| kept.iter().map(|(_, strides)| strides[number]).collect();
    (kept.iter().map(|(extent, _)| *extent).collect(), (0..views.len()).map(of_view).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_neighbours_are_merged_and_the_axis_is_kept() {
        let walk = Walk::around(&[2, 3, 4, 5, 6], &[vec![360, 120, 30, 6, 1]], 2);
        assert_eq!((walk.dims, walk.axis), (vec![6, 4, 30], 1));
        assert_eq!(walk.strides, [[120, 30, 1]]);
    }

    #[test]
    fn views_that_step_differently_keep_their_dimensions() {
        let mut walk = Walk::around(&[2, 1, 4, 5], &[vec![20, 20, 5, 1], vec![0, 0, 1, 4]], 1);
        assert_eq!((&walk.dims[..], walk.axis), (&[2, 1, 4, 5][..], 1));
        assert_eq!(walk.join_inner(), None);
        let mut walk = Walk::around(&[2, 3, 4], &[vec![12, 4, 1], vec![24, 8, 2]], 1);
        assert_eq!(walk.join_inner(), Some(4));
        assert_eq!((walk.dims, walk.strides), (vec![2, 12], vec![vec![12, 1], vec![24, 2]]));
    }
}
