//! Functions based on sorted lines: the best few, order statistics, distinct values. They are views and other
//! operations over [`Tensor::sort`], which also gives their gradients; nothing here has a kernel of its own.

use crate::ops::{Missing, SortOrder, Sorted};
use crate::{Axes, CompareFn, DType, Error, Expr, Position, Result, Shape, Tensor, axis};

/// The distinct values of a tensor, as [`Tensor::unique`] returns them, or its distinct slices, as [`Tensor::unique_along`] does.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The m distinct values in ascending order, `[m]`; of slices those, m along the axis.
    pub values: Tensor,
    /// For each element the index of its value in `values`, u32, of the tensor's shape; of slices `[n]`.
    pub inverse: Tensor,
    /// How often each value or slice occurs, u32, `[m]`.
    pub counts: Tensor,
}

/// A tensor as lines along one axis.
pub(crate) struct Lines {
    /// The tensor itself, where the lines are those of one of its axes.
    pub(crate) lines: Tensor,
    /// The axis that the lines go along.
    pub(crate) axis: usize,
    /// The shape of one value for each line.
    pub(crate) result: Shape,
}

impl Tensor {
    /// The lines along which a reduction `op` over `axes` goes. Several axes become one last axis, in row-major order.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`], [`Error::InvalidArgument`] for no axes; memory errors of the device.
    pub(crate) fn lines(&self, op: &'static str, axes: impl Axes) -> Result<Lines> {
        let (axes, kept) = axis::reduced(op, axes, self.rank())?;
        let result = self.shape().without_axes(&axes, kept);
        if let &[axis] = axes.as_slice() {
            return Ok(Lines { lines: self.clone(), axis, result });
        }
        let others: Vec<usize> = (0..self.rank()).filter(|axis| !axes.contains(axis)).collect();
        let extent = axes.iter().map(|&axis| self.dims()[axis]).product();
        let dims: Vec<u64> = others.iter().map(|&axis| self.dims()[axis]).chain([extent]).collect();
        let moved = self.permute([others.as_slice(), &axes].concat())?.contiguous()?;
        Ok(Lines { lines: moved.reshape(dims)?, axis: others.len(), result })
    }

    /// The extent of `axis`; an error in the name of `op` for a `k` that is no index of the axis.
    fn extent_beyond(&self, op: &'static str, axis: usize, k: u64) -> Result<u64> {
        let extent = self.dims()[axis];
        if k >= extent {
            let reason = format!("{op} of element {k} along axis {axis} of {extent}; count from 0");
            return Err(Error::InvalidArgument { what: "k", reason });
        }
        Ok(extent)
    }

    /// The first `k` elements of each line along `axis` in `order`, with their positions; in descending order these are
    /// the k largest. The result has extent k along `axis`. NaN comes last in either order.
    ///
    /// ```
    /// use polywarp_core::ops::SortOrder;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3.0f32, 1.0, 4.0, 1.5], [4])?;
    /// let best = x.topk(2, 0, SortOrder::Descending)?;
    /// assert_eq!(best.values.to_vec::<f32>()?, [4.0, 3.0]);
    /// assert_eq!(best.indices.to_vec::<u32>()?, [2, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`]; [`Error::InvalidArgument`] for a `k` beyond the extent.
    pub fn topk(&self, k: u64, axis: impl Position, order: SortOrder) -> Result<Sorted> {
        let axis = self.axis(axis)?;
        let extent = self.dims()[axis];
        if k > extent {
            let reason = format!("topk of {k} elements along axis {axis} of {extent}; ask for no more");
            return Err(Error::InvalidArgument { what: "k", reason });
        }
        self.sort_first(axis, order, k)
    }

    /// Element number `k`, counted from 0, of each line along `axes` in ascending order, with its position. The axes
    /// disappear, or stay with extent 1 ([`keep`](crate::keep)). Several axes form one line whose last axis varies
    /// fastest; positions are counted along it.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3i32, 1, 2, 9, 8, 7], [2, 3])?;
    /// let second = x.kth_value(1, 1)?;
    /// assert_eq!(second.values.to_vec::<i32>()?, [2, 8]);
    /// assert_eq!(second.indices.to_vec::<u32>()?, [2, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`]; [`Error::InvalidArgument`] for a `k` beyond the elements of a line, and for no axes.
    pub fn kth_value(&self, k: u64, axes: impl Axes) -> Result<Sorted> {
        const OP: &str = "kth_value";
        let Lines { lines, axis, result } = self.lines(OP, axes)?;
        lines.extent_beyond(OP, axis, k)?;
        let sorted = lines.sort_first(axis, SortOrder::Ascending, k + 1)?;
        let one = |x: &Tensor| x.select(axis, k)?.contiguous()?.reshape(result);
        Ok(Sorted { values: one(&sorted.values)?, indices: one(&sorted.indices)? })
    }

    /// The value below which a share `q` of each line along `axes` (`..`: all) lies, interpolated linearly between two
    /// elements. The axes disappear, or stay with extent 1 ([`keep`](crate::keep)). A line with NaN gives NaN. Integers
    /// are converted to f32.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[4.0f32, 1.0, 3.0, 2.0], [2, 2])?;
    /// assert_eq!(x.quantile(0.25, ..)?.item::<f32>()?, 1.75);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`]; [`Error::InvalidArgument`] for a `q` outside of 0 to 1, or no axes; [`Error::EmptyReduction`] along no elements;
    /// [`Error::UndefinedForDType`] for bool.
    pub fn quantile(&self, q: f64, axes: impl Axes) -> Result<Tensor> {
        const OP: &str = "quantile";
        let Lines { lines, axis, result: shape } = self.lines(OP, axes)?;
        let extent = lines.dims()[axis];
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::InvalidArgument { what: "q", reason: format!("{OP} of {q}; give a share from 0 to 1") });
        }
        if extent == 0 {
            return Err(Error::EmptyReduction { op: OP, shape: self.dims().to_vec() });
        }
        if self.dtype() == DType::Bool {
            return Err(Error::UndefinedForDType { op: OP, dtype: DType::Bool });
        }
        let x = if lines.dtype().is_float() { lines } else { lines.cast(DType::F32)? };
        let sorted = x.sort(axis, SortOrder::Ascending)?.values;
        let at = q * (extent - 1) as f64;
        let (below, above) = (at.floor(), at.ceil());
        let parts = [below as u64, above as u64, extent - 1].map(|k| sorted.select(axis, k));
        let [low, high, last] = parts;
        let [a, b, c] = [0, 1, 2].map(|number| Expr::input(number).cast(x.dtype().compute()));
        // The difference of two equal infinities would be NaN.
        let between = a.compare(CompareFn::Eq, b.clone()).select(a.clone(), a.clone() + (b - &a) * (at - below));
        let result = c.compare(CompareFn::Eq, c.clone()).select(between, c);
        Tensor::map(&result.cast(x.dtype()), &[&low?, &high?, &last?])?.reshape(shape)
    }

    /// The median of each line along `axes`; for an even number of elements the mean of the two middle ones:
    /// [`Tensor::quantile`] of 0.5.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor, keep};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[4.0f32, 1.0, 3.0, 2.0], [2, 2])?;
    /// assert_eq!(x.median(..)?.item::<f32>()?, 2.5);
    /// assert_eq!((&x - x.median(keep(1))?)?.to_vec::<f32>()?, [1.5, -1.5, 0.5, -0.5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::quantile`].
    pub fn median(&self, axes: impl Axes) -> Result<Tensor> {
        self.quantile(0.5, axes)
    }

    /// The distinct values of all elements in ascending order, the index of each element's value, and the number of
    /// times that each value occurs. Zeros of both signs are one value, represented by the first of them; each NaN is a
    /// value of its own. Waits for the device, because the host reads the number of values.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3i32, 1, 3, 2], [2, 2])?;
    /// let found = x.unique()?;
    /// assert_eq!(found.values.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(found.inverse.to_vec::<u32>()?, [2, 0, 2, 1]);
    /// assert_eq!(found.counts.to_vec::<u32>()?, [1, 1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`] and [`Tensor::take`]; its read is refused while the device records.
    pub fn unique(&self) -> Result<Unique> {
        let (device, elements) = (self.device(), self.elements());
        let flat = self.reshape([elements])?;
        let sorted = flat.sort(0, SortOrder::Ascending)?;
        if elements == 0 {
            let none = Tensor::zeros(device, DType::U32, [0])?;
            return Ok(Unique { values: sorted.values, inverse: none.reshape(*self.shape())?, counts: none });
        }
        // A new value begins where an element differs from the one before.
        let marks = sorted.values.detach().changes(&Expr::input(1).compare(CompareFn::Ne, Expr::input(0)))?;
        let Runs { numbers, begins, counts } = Runs::of(&marks)?;
        let went = sorted.indices.argsort(0, SortOrder::Ascending)?;
        Ok(Unique {
            values: sorted.values.take_or(&begins, Missing::Nan)?,
            inverse: numbers.take_or(&went, Missing::Nan)?.reshape(*self.shape())?,
            counts,
        })
    }

    /// The distinct slices across `axis`, one for each of its indices, in ascending order of their elements, the first one (row-major) weighing most:
    /// `values` has this tensor's shape but for fewer along the axis. `inverse` is u32 `[n]`, the index of each slice among them, for the
    /// axis of extent n, and `counts` u32 `[m]`. Zeros of both signs are equal, and the first slice of equal ones stands for them; one with a NaN is equal to
    /// none, and NaN comes last. NumPy's `unique` with an axis. Waits for the device, because the host reads the number of slices.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3i32, 1, 2, 9, 3, 1], [3, 2])?;
    /// let found = x.unique_along(0)?;
    /// assert_eq!(found.values.to_vec::<i32>()?, [2, 9, 3, 1]);
    /// assert_eq!(found.inverse.to_vec::<u32>()?, [1, 0, 1]);
    /// assert_eq!(found.counts.to_vec::<u32>()?, [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// Ranks of single elements become ranks of slices by pairs: log2 of a slice's elements rounds, each of three sorts, and a few times the tensor's
    /// memory.
    ///
    /// # Errors
    /// As [`Tensor::sort`] and [`Tensor::index_select`]; its read is refused while the device records.
    pub fn unique_along(&self, axis: impl Position) -> Result<Unique> {
        let axis = self.axis(axis)?;
        let (device, n) = (self.device(), self.dims()[axis]);
        if n == 0 {
            let none = Tensor::zeros(device, DType::U32, [0])?;
            return Ok(Unique { values: self.contiguous()?, inverse: none.clone(), counts: none });
        }
        let others = (0..self.rank()).filter(|&other| other != axis);
        let order: Vec<usize> = others.chain([axis]).collect();
        let each: u64 = order[..order.len() - 1].iter().map(|&other| self.dims()[other]).product();
        // A line for each element of a slice.
        let lines = self.detach().permute(order)?.contiguous()?.reshape([each, n])?;
        let rank = if each == 0 {
            // Slices of nothing are equal.
            Tensor::zeros(device, DType::U32, [n])?
        } else {
            let mut ranks = lines.ranks()?;
            while ranks.dims()[0] > 1 {
                ranks = ranks.ranks_of_pairs()?;
            }
            ranks.reshape([n])?
        };
        let sorted = rank.sort(0, SortOrder::Ascending)?;
        let mut marks = sorted.values.changes(&Expr::input(1).compare(CompareFn::Ne, Expr::input(0)))?;
        if self.dtype().is_float() && each > 0 {
            let has_nan = lines.is_nan()?.any(0)?.take_or(&sorted.indices, Missing::Nan)?;
            let (is_new, is_first) = (Expr::input(0), Expr::index().compare(CompareFn::Eq, 0));
            let is_new = Expr::input(1).select(1, is_new);
            marks = Tensor::map(&is_first.select(0, is_new).cast(DType::U32), &[&marks, &has_nan])?;
        }
        let Runs { numbers, begins, counts } = Runs::of(&marks)?;
        let firsts = sorted.indices.take_or(&begins, Missing::Nan)?;
        let went = sorted.indices.argsort(0, SortOrder::Ascending)?;
        Ok(Unique {
            values: self.index_select_or(&firsts, axis, Missing::Nan)?,
            inverse: numbers.take_or(&went, Missing::Nan)?,
            counts,
        })
    }

    /// u32 of this tensor's shape: 1 where `is_new` of the element before in its line along the last axis (input 0) and of the element (input 1), else
    /// 0, and 0 at the begin of each line.
    fn changes(&self, is_new: &Expr) -> Result<Tensor> {
        let axis = self.rank() - 1;
        let extent = self.dims()[axis];
        let marks = Tensor::zeros(self.device(), DType::U32, *self.shape())?;
        if extent > 1 {
            let [before, next] = [0..extent - 1, 1..extent].map(|range| self.slice(axis, range));
            let new = Tensor::map(&is_new.cast(DType::U32), &[&before?, &next?])?;
            marks.slice(axis, 1..extent)?.assign(&new)?;
        }
        Ok(marks)
    }

    /// Of lines [count, n] the rank of each element in its own, from 0 and without gaps: u32. Equal elements have one, and all NaN.
    fn ranks(&self) -> Result<Tensor> {
        let sorted = self.sort(1, SortOrder::Ascending)?;
        let [before, element] = [0, 1].map(Expr::input);
        let differs = element.compare(CompareFn::Ne, &before);
        let is_new = match self.dtype().is_float() {
            // Behind a NaN is none but NaN.
            true => differs & before.compare(CompareFn::Eq, &before),
            false => differs,
        };
        let went = sorted.indices.argsort(1, SortOrder::Ascending)?;
        sorted.values.changes(&is_new)?.cumsum(1)?.gather_or(&went, 1, Missing::Nan)
    }

    /// Of ranks [count, n] those of pairs of lines, the first one weighing more: [count / 2, n], the last line alone where they are odd.
    fn ranks_of_pairs(&self) -> Result<Tensor> {
        let (count, n) = (self.dims()[0], self.dims()[1]);
        let pairs = count.div_ceil(2);
        let even = if count % 2 == 0 { self.clone() } else { self.pad_with(&[(0, 1), (0, 0)], 0)? };
        let even = even.reshape([pairs, 2, n])?;
        let [upper, lower] = [even.select(1, 0)?.contiguous()?, even.select(1, 1)?.contiguous()?];
        // By the lower ones, then, stably, by the upper ones.
        let by_lower = lower.argsort(1, SortOrder::Ascending)?;
        let by_upper = upper.gather_or(&by_lower, 1, Missing::Nan)?.argsort(1, SortOrder::Ascending)?;
        let order = by_lower.gather_or(&by_upper, 1, Missing::Nan)?;
        let differs = Expr::input(1).compare(CompareFn::Ne, Expr::input(0));
        let [upper, lower] = [&upper, &lower].map(|ranks| ranks.gather_or(&order, 1, Missing::Nan)?.changes(&differs));
        let marks = Tensor::map(&(Expr::input(0) | Expr::input(1)), &[&upper?, &lower?])?;
        let went = order.argsort(1, SortOrder::Ascending)?;
        marks.cumsum(1)?.gather_or(&went, 1, Missing::Nan)
    }
}

/// Runs of equal elements in a sorted line.
struct Runs {
    /// The number of each element's run, u32 `[n]`.
    numbers: Tensor,
    /// Where each run begins, u32 `[m]`.
    begins: Tensor,
    /// How many elements it has, u32 `[m]`.
    counts: Tensor,
}

impl Runs {
    /// Of `marks`, u32 `[n]` with n above 0: 1 where another run begins, but for the first. Reads how many there are.
    fn of(marks: &Tensor) -> Result<Runs> {
        let (device, n) = (marks.device(), marks.elements());
        let numbers = marks.cumsum(0)?;
        let found = u64::from(numbers.slice(0, n - 1..n)?.item::<u32>()?) + 1;
        let (mark, position) = (Expr::input(0), Expr::index());
        let is_first = position.compare(CompareFn::Eq, 0);
        let position = position.cast(DType::U32);
        let begins = mark.compare(CompareFn::Eq, 1).select(position.clone(), i64::from(u32::MAX));
        let begins = Tensor::map(&is_first.select(position, begins).cast(DType::U32), &[marks])?;
        let begins = begins.sort(0, SortOrder::Ascending)?.values.slice(0, 0..found)?.contiguous()?;
        let ends = Tensor::full(device, DType::U32, [found], n as i64)?;
        ends.slice(0, 0..found - 1)?.assign(&begins.slice(0, 1..found)?)?;
        let counts = ends.sub(&begins)?;
        Ok(Runs { numbers, begins, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Tape, keep};

    fn of(values: &[f32]) -> Tensor {
        Tensor::from_slice(&Device::cpu(), values, [values.len() as u64]).unwrap()
    }

    #[test]
    fn quantile_of_nan_and_of_infinities_is_numpys() {
        assert!(of(&[1.0, f32::NAN, 2.0]).median(0).unwrap().item::<f32>().unwrap().is_nan());
        assert_eq!(of(&[f32::INFINITY; 2]).median(0).unwrap().item::<f32>().unwrap(), f32::INFINITY);
        for (q, want) in [(0.0, 1.0), (0.5, 2.0), (0.75, 4.5), (1.0, 7.0)] {
            assert_eq!(of(&[7.0, 1.0, 2.0]).quantile(q, 0).unwrap().item::<f32>().unwrap(), want);
        }
        let bytes = Tensor::from_slice(&Device::cpu(), &[1u8, 4], [2]).unwrap();
        assert_eq!(bytes.median(0).unwrap().item::<f32>().unwrap(), 2.5);
    }

    #[test]
    fn several_axes_are_one_line_and_kept_ones_stay() {
        // 2 x 3 x 2: the lines along axes 0 and 2 are [0, 1, 6, 7], [2, 3, 8, 9] and [4, 5, 10, 11].
        let x = Tensor::arange(&Device::cpu(), DType::F32, 0, 1, 12).unwrap().reshape([2, 3, 2]).unwrap();
        let middle = x.median([2, 0]).unwrap();
        assert_eq!((middle.dims(), middle.to_vec::<f32>().unwrap()), (&[3][..], vec![3.5, 5.5, 7.5]));
        let third = x.kth_value(2, keep([0, -1])).unwrap();
        assert_eq!((third.values.dims(), third.indices.dims()), (&[1, 3, 1][..], &[1, 3, 1][..]));
        assert_eq!(third.values.to_vec::<f32>().unwrap(), [6.0, 8.0, 10.0]);
        assert_eq!(third.indices.to_vec::<u32>().unwrap(), [2, 2, 2]);
        assert_eq!(x.quantile(0.5, keep(1)).unwrap().dims(), [2, 1, 2]);
        assert_eq!(x.quantile(1.0, keep(..)).unwrap().to_vec::<f32>().unwrap(), [11.0]);
        let one = of(&[3.0]).select(0, 0).unwrap();
        assert_eq!((one.median(..).unwrap().rank(), one.median(keep(..)).unwrap().item::<f32>().unwrap()), (0, 3.0));
        let (tape, watched) = (Tape::new(), x);
        let watched = tape.watch(&watched).unwrap();
        let gradients = tape.backward(&watched.median(keep(..)).unwrap().sum(..).unwrap()).unwrap();
        let expected: Vec<f32> = (0..12).map(|at| if at == 5 || at == 6 { 0.5 } else { 0.0 }).collect();
        assert_eq!(gradients.of(&watched).unwrap().to_vec::<f32>().unwrap(), expected);
        assert!(watched.median([0usize; 0]).unwrap_err().to_string().contains("quantile over an empty list of axes"));
    }

    #[test]
    fn unique_of_zeros_nan_and_nothing() {
        let found = of(&[0.0, f32::NAN, -0.0, 1.0, f32::NAN]).unique().unwrap();
        let values = found.values.to_vec::<f32>().unwrap();
        assert!(values[..2] == [0.0, 1.0] && values[2].is_nan() && values[3].is_nan() && values.len() == 4);
        assert_eq!(found.counts.to_vec::<u32>().unwrap(), [2, 1, 1, 1]);
        assert_eq!(found.inverse.to_vec::<u32>().unwrap(), [0, 2, 0, 1, 3]);
        assert_eq!(of(&[]).unique().unwrap().values.dims(), [0]);
        assert_eq!(of(&[5.0]).unique().unwrap().counts.to_vec::<u32>().unwrap(), [1]);
    }

    #[test]
    fn gradients_reach_the_elements_that_were_chosen() {
        let (tape, x) = (Tape::new(), of(&[3.0, 1.0, 4.0, 1.5]));
        let watched = tape.watch(&x).unwrap();
        let best = watched.topk(2, 0, SortOrder::Descending).unwrap().values;
        let total = best.sum(..).unwrap().add(&watched.median(0).unwrap()).unwrap();
        let gradients = tape.backward(&total).unwrap();
        assert_eq!(gradients.of(&watched).unwrap().to_vec::<f32>().unwrap(), [1.5, 0.0, 1.0, 0.5]);
    }

    #[test]
    fn what_a_line_has_not_is_refused_with_its_extent() {
        let x = of(&[1.0, 2.0]);
        let named = |error: Error, part: &str| assert!(error.to_string().contains(part), "{error}");
        named(x.topk(3, 0, SortOrder::Descending).unwrap_err(), "axis 0 of 2");
        named(x.kth_value(2, 0).unwrap_err(), "count from 0");
        named(x.quantile(1.5, 0).unwrap_err(), "from 0 to 1");
        assert!(matches!(x.slice(0, 0..0).unwrap().median(0).unwrap_err(), Error::EmptyReduction { .. }));
        assert!(matches!(x.sort(1, SortOrder::Ascending).unwrap_err(), Error::AxisOutOfRange { axis: 1, rank: 1 }));
        assert_eq!(x.topk(0, 0, SortOrder::Ascending).unwrap().values.dims(), [0]);
    }
}
