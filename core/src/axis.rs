//! Axes, indices and ranges as callers write them: from either end, one or several, all of them.
//!
//! A negative number counts from the end, as in NumPy: axis -1 is the last one. [`Axes`] are what a reduction takes: `1`, `[0, -1]`, a slice or
//! a vector, or `..` for all; [`keep`] around any of them leaves them behind with extent 1. The decision to know: an empty list is refused, because
//! it means all axes in some libraries and none in others. Operations below [`Tensor`](crate::Tensor) count axes from 0 alone.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use crate::{Error, KeepDims, Result};

/// A whole number, where an axis or an index is asked for; below zero it counts from the end.
pub trait Position: Copy {
    /// Its value.
    fn value(self) -> i128;
}

/// The place of `axis` among `rank` axes.
///
/// # Errors
/// [`Error::AxisOutOfRange`] outside of `-rank..rank`.
pub(crate) fn axis(axis: impl Position, rank: usize) -> Result<usize> {
    from_either_end(axis, rank as u64).map(|at| at as usize).ok_or(Error::AxisOutOfRange { axis: axis.value(), rank })
}

/// `at` counted from the start of `len`, when it is one of them.
fn from_either_end(at: impl Position, len: u64) -> Option<u64> {
    let at = at.value();
    let from_start = if at < 0 { at.checked_add(i128::from(len))? } else { at };
    u64::try_from(from_start).ok().filter(|&at| at < len)
}

/// The place of `index` along an axis of `len` elements.
///
/// # Errors
/// [`Error::IndexOutOfRange`] outside of `-len..len`.
pub(crate) fn index(index: impl Position, axis: usize, len: u64) -> Result<u64> {
    from_either_end(index, len).ok_or(Error::IndexOutOfRange { axis, index: index.value(), len })
}

/// Which axes, not held to a tensor yet.
#[derive(Clone, Debug)]
pub enum AxisList {
    /// Every axis there is.
    All,
    /// This one, counted from either end.
    One(i128),
    /// Those listed, counted from either end.
    Listed(Vec<i128>),
}

/// What can be given where axes are asked for: a number, an array, slice or vector of numbers, `..` for all of them, and [`keep`] of these.
pub trait Axes {
    /// The axes meant.
    fn list(self) -> AxisList;

    /// Whether a reduction leaves them behind with extent 1.
    fn kept(&self) -> KeepDims {
        KeepDims::No
    }
}

/// Axes that a reduction leaves behind with extent 1; see [`keep`].
#[derive(Clone, Copy, Debug)]
pub struct Kept<A>(A);

/// `axes`, which a reduction leaves behind with extent 1, so that its result broadcasts against what was reduced. NumPy's `keepdims`.
///
/// ```
/// use polywarp_core::{Device, Tensor, keep};
///
/// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 3.0, 5.0, 9.0], [2, 2])?;
/// let centred = (&x - x.mean(keep(-1))?)?;
/// assert_eq!(centred.to_vec::<f32>()?, [-1.0, 1.0, -2.0, 2.0]);
/// assert_eq!(x.sum(keep(..))?.dims(), [1, 1]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub fn keep<A: Axes>(axes: A) -> Kept<A> {
    Kept(axes)
}

impl<A: Axes> Axes for Kept<A> {
    fn list(self) -> AxisList {
        self.0.list()
    }

    fn kept(&self) -> KeepDims {
        KeepDims::Yes
    }
}

impl Axes for RangeFull {
    fn list(self) -> AxisList {
        AxisList::All
    }
}

macro_rules! positions {
    ($($number:ty),*) => {$(
        impl Position for $number {
            fn value(self) -> i128 {
                self as i128
            }
        }

        impl Axes for $number {
            fn list(self) -> AxisList {
                AxisList::One(self.value())
            }
        }
    )*};
}
positions!(i32, i64, isize, u32, u64, usize);

impl<P: Position> Axes for &[P] {
    fn list(self) -> AxisList {
        AxisList::Listed(self.iter().map(|axis| axis.value()).collect())
    }
}

impl<P: Position, const N: usize> Axes for [P; N] {
    fn list(self) -> AxisList {
        self.as_slice().list()
    }
}

impl<P: Position, const N: usize> Axes for &[P; N] {
    fn list(self) -> AxisList {
        self.as_slice().list()
    }
}

impl<P: Position> Axes for Vec<P> {
    fn list(self) -> AxisList {
        self.as_slice().list()
    }
}

impl<P: Position> Axes for &Vec<P> {
    fn list(self) -> AxisList {
        self.as_slice().list()
    }
}

/// The axes of a tensor of `rank` that `axes` lists, in that order.
///
/// # Errors
/// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`].
pub(crate) fn in_order(axes: impl Axes, rank: usize) -> Result<Vec<usize>> {
    let listed = match axes.list() {
        AxisList::All => return Ok((0..rank).collect()),
        // No list is made of a number: every reduction of every program would.
        AxisList::One(number) => return Ok(vec![axis(Listed(number), rank)?]),
        AxisList::Listed(listed) => listed,
    };
    let mut found = Vec::with_capacity(listed.len());
    for number in listed {
        let place = axis(Listed(number), rank)?;
        if found.contains(&place) {
            return Err(Error::DuplicateAxis { axis: place });
        }
        found.push(place);
    }
    Ok(found)
}

/// The axes that a reduction `op` over a tensor of `rank` goes along, sorted, and whether it leaves them behind.
///
/// # Errors
/// [`Error::InvalidArgument`] for an empty list; as [`in_order`].
pub(crate) fn reduced(op: &'static str, axes: impl Axes, rank: usize) -> Result<(Vec<usize>, KeepDims)> {
    let (kept, list) = (axes.kept(), axes.list());
    if matches!(&list, AxisList::Listed(listed) if listed.is_empty()) {
        let reason = format!("{op} over an empty list of axes; `..` names all of them");
        return Err(Error::InvalidArgument { what: "axes", reason });
    }
    let mut axes = in_order(list, rank)?;
    axes.sort_unstable();
    Ok((axes, kept))
}

impl Axes for AxisList {
    fn list(self) -> AxisList {
        self
    }
}

/// A number of a list.
#[derive(Clone, Copy)]
struct Listed(i128);

impl Position for Listed {
    fn value(self) -> i128 {
        self.0
    }
}

/// What can be given where a stretch of an axis is asked for: `1..3`, `-2..`, `..-1`, `..`. Ends below zero count from the end of the axis, and ends
/// beyond the axis are its ends, as in NumPy; a start at or behind the end leaves nothing. Clippy takes
/// `1..-1` for an empty range: `#[allow(clippy::reversed_empty_ranges)]` where it looks.
pub trait Stretch {
    /// Start and end, where given.
    fn ends(self) -> (Option<i128>, Option<i128>);
}

impl<P: Position> Stretch for Range<P> {
    fn ends(self) -> (Option<i128>, Option<i128>) {
        (Some(self.start.value()), Some(self.end.value()))
    }
}

impl<P: Position> Stretch for RangeFrom<P> {
    fn ends(self) -> (Option<i128>, Option<i128>) {
        (Some(self.start.value()), None)
    }
}

impl<P: Position> Stretch for RangeTo<P> {
    fn ends(self) -> (Option<i128>, Option<i128>) {
        (None, Some(self.end.value()))
    }
}

impl Stretch for RangeFull {
    fn ends(self) -> (Option<i128>, Option<i128>) {
        (None, None)
    }
}

/// The indices `stretch` of an axis of `len` elements, counted from its start.
pub(crate) fn indices(stretch: impl Stretch, len: u64) -> Range<u64> {
    let (start, end) = stretch.ends();
    let whole = i128::from(len);
    // Numbers of 64 bits: their sums with a length fit.
    let within = |at: i128| (if at < 0 { at.saturating_add(whole) } else { at }).clamp(0, whole) as u64;
    let (start, end) = (start.map_or(0, within), end.map_or(len, within));
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!((axis(0, 3).unwrap(), axis(-1, 3).unwrap(), axis(-3i64, 3).unwrap()), (0, 2, 0));
        for (asked, rank) in [(3, 3), (-4, 3), (0, 0), (-1, 0)] {
            let error = axis(asked, rank).unwrap_err();
            assert!(matches!(error, Error::AxisOutOfRange { axis, rank: r } if axis == asked.into() && r == rank));
        }
        assert!(axis(u64::MAX, 3).is_err());
        assert_eq!(in_order([-1, 0], 3).unwrap(), [2, 0]);
        assert!(matches!(in_order([1, -2], 3), Err(Error::DuplicateAxis { axis: 1 })));
    }

    #[test]
    fn an_empty_list_of_axes_is_refused_and_all_have_a_sign() {
        assert_eq!(reduced("sum", .., 2).unwrap(), (vec![0, 1], KeepDims::No));
        assert_eq!(reduced("sum", keep([-1, 0]), 2).unwrap(), (vec![0, 1], KeepDims::Yes));
        // A tensor without axes is reduced over all of them.
        assert_eq!(reduced("sum", .., 0).unwrap(), (vec![], KeepDims::No));
        let error = reduced("sum", Vec::<usize>::new(), 2).unwrap_err().to_string();
        assert!(error.contains("sum over an empty list of axes"), "{error}");
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)] // which they are not
    fn ends_are_those_of_numpy() {
        // What `range(10)[start:end]` gives.
        assert_eq!(indices(2..5, 10), 2..5);
        assert_eq!(indices(-3.., 10), 7..10);
        assert_eq!(indices(..-3, 10), 0..7);
        assert_eq!(indices(-20..20, 10), 0..10);
        assert_eq!(indices(5..2, 10), 5..5);
        assert_eq!(indices(12..15, 10), 10..10);
        assert_eq!(indices(.., 0), 0..0);
        assert_eq!(indices(0..u64::MAX, 10), 0..10);
        assert_eq!(indices(i64::MIN..i64::MAX, 10), 0..10);
    }
}
