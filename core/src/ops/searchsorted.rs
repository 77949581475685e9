//! Where numbers belong among sorted ones: for each value the number of sorted elements before it. `searchsorted` of the standard,
//! NumPy and PyTorch; `bucketize` is the same seen from the values.
//!
//! One binary search an element. NaN stands behind all numbers, as NumPy sorts it. What is not sorted gives some position within the
//! line, the same on every device, and reads nothing else.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;

const OP: &str = "searchsorted";

/// Where a value that equals sorted elements belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchSide {
    /// Before them: `sorted[i - 1] < value <= sorted[i]`.
    #[default]
    Left,
    /// Behind them: `sorted[i - 1] <= value < sorted[i]`.
    Right,
}

impl SearchSide {
    /// Whether the value lies behind a sorted element, which is before it, or behind it, or neither.
    pub(crate) fn goes_on(self, is_before: bool, is_behind: bool) -> bool {
        match self {
            SearchSide::Left => is_before,
            SearchSide::Right => !is_behind,
        }
    }
}

/// The places of `values` in `sorted`, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SearchSorted {
    /// Ascending along the last axis: any view, of the values' extents but along that axis.
    pub sorted: TensorSpec,
    /// What is looked for: any view.
    pub values: TensorSpec,
    /// Where a value belongs that is there already.
    pub side: SearchSide,
    /// Dense u32 output of the values' shape.
    pub output: TensorSpec,
}

impl SearchSorted {
    /// A checked search whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for scalars, other ranks and other extents before the last axis; [`Error::DTypeMismatch`] for values of
    /// another dtype; [`Error::UndefinedForDType`] for bool; [`Error::IndexWidth`] for lines of 2^32 elements and more.
    pub fn new(sorted: TensorSpec, values: TensorSpec, side: SearchSide) -> Result<SearchSorted> {
        let output = TensorSpec::new(DType::U32, Layout::contiguous(*values.layout.shape()));
        SearchSorted { sorted, values, side, output }.check()
    }

    /// Elements of a sorted line, and from one to the next.
    pub fn line(&self) -> (u64, i64) {
        let last = self.sorted.layout.rank() - 1;
        (self.sorted.layout.dims()[last], self.sorted.layout.strides()[last])
    }

    /// For each value where its line begins, and where it lies itself: views of the values' shape.
    pub fn lines(&self) -> (Layout, Layout) {
        let mut strides = self.sorted.layout.strides().to_vec();
        if let Some(last) = strides.last_mut() {
            *last = 0;
        }
        let shape = *self.values.layout.shape();
        // Of an empty line no element is read.
        let offset = self.sorted.layout.offset();
        let starts = Layout::strided(shape, &strides, offset).unwrap_or(Layout::contiguous(shape));
        (starts, self.values.layout)
    }
}

impl Operation for SearchSorted {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read sorted, values; write output }

    fn validate(&self) -> Result<()> {
        let (sorted, values) = (self.sorted.layout.shape(), self.values.layout.shape());
        let (Some((&n, lines)), Some((_, others))) = (sorted.dims().split_last(), values.dims().split_last()) else {
            return Err(Error::shape_mismatch(OP, sorted, values, None));
        };
        if lines != others {
            return Err(Error::shape_mismatch(OP, sorted, values, None));
        }
        check_dtype(OP, &self.values, self.sorted.dtype)?;
        if self.sorted.dtype == DType::Bool {
            return Err(Error::UndefinedForDType { op: OP, dtype: DType::Bool });
        }
        if n > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: n, max: u32::MAX.into() });
        }
        if self.output.layout.shape() != values {
            return Err(Error::shape_mismatch(OP, values, self.output.layout.shape(), None));
        }
        check_dtype(OP, &self.output, DType::U32)?;
        check_dense_output(OP, &self.output)
    }

    /// A comparison for each halving of a line.
    fn arithmetic(&self) -> Arithmetic {
        let halvings = u64::from(64 - self.line().0.leading_zeros());
        Arithmetic::flops(self.values.layout.elements().saturating_mul(halvings))
    }

    /// The definition by halving, exactly, the middle of an even number being the upper one: so lines that are not sorted have an answer, too.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let n = self.line().0 as usize;
        let per_line = self.values.layout.dims()[self.values.layout.rank() - 1] as usize;
        // Both are numbers of one dtype: integers of 64 bits are compared as such.
        let is_before = |a: Scalar, b: Scalar| CompareFn::Lt.eval(a, b) || (b.is_nan() && !a.is_nan());
        let place = |(i, &x): (usize, &Scalar)| {
            let line = &before[0].values[i / per_line * n..][..n];
            let (mut low, mut high) = (0, n);
            while low < high {
                let middle = low + (high - low) / 2;
                let m = line[middle];
                if self.side.goes_on(is_before(m, x), is_before(x, m)) { low = middle + 1 } else { high = middle }
            }
            Expected::exact(Scalar::I(low as i64))
        };
        vec![before[1].values.iter().enumerate().map(place).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("places among sorted numbers are whole numbers, which have no gradient"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], inputs[1], outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(if self.side == SearchSide::Left { " left" } else { " right" });
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let is_last = axis + 1 == self.values.layout.rank();
        let sorted = if is_last { self.sorted } else { self.sorted.first(axis, extent)? };
        let (values, output) = (self.values.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        Some(SearchSorted { sorted, values, output, ..self.clone() }.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let last = self.values.layout.rank() - 1;
        let thinning = sample::Thinning::new(self.values.layout.dims(), |_| true);
        let positions = thinning.of(&self.output.layout)?;
        // The lines of the values that are kept, whole.
        let starts = thinning.of(&self.lines().0)?;
        let (n, step) = self.line();
        let shape = Shape::new(&[&starts.dims()[..last], &[n]].concat())?;
        let strides = [&starts.strides()[..last], &[step]].concat();
        let sorted = TensorSpec::new(self.sorted.dtype, Layout::strided(shape, &strides, starts.offset())?);
        let values = thinning.of_spec(&self.values)?;
        let op = SearchSorted { sorted, values, side: self.side, output: sample::dense(DType::U32, &positions) };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

impl Tensor {
    /// For each of `values` the number of elements of this sorted tensor before it, as u32: where it belongs. A sorted vector serves values of
    /// any shape; else lines along the last axis serve those of the same line. `searchsorted` of the standard, NumPy and PyTorch.
    ///
    /// ```
    /// use polywarp_core::ops::SearchSide;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let sorted = Tensor::from_slice(&device, &[1.0f32, 3.0, 3.0, 7.0], [4])?;
    /// let values = Tensor::from_slice(&device, &[0.0f32, 3.0, 9.0], [3])?;
    /// assert_eq!(sorted.searchsorted(&values, SearchSide::Left)?.to_vec::<u32>()?, [0, 1, 4]);
    /// assert_eq!(sorted.searchsorted(&values, SearchSide::Right)?.to_vec::<u32>()?, [0, 3, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`SearchSorted::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn searchsorted(&self, values: &Tensor, side: SearchSide) -> Result<Tensor> {
        let lines = if values.rank() == 0 { values.reshape([1])? } else { values.clone() };
        let sorted = match (self.dims(), lines.dims()) {
            (&[n], [outer @ .., _]) => self.broadcast_to([outer, &[n]].concat())?,
            _ => self.clone(),
        };
        let op = SearchSorted::new(sorted.spec(), lines.spec(), side)?;
        Tensor::apply(self.device(), op, &[&sorted, &lines])?.swap_remove(0).reshape(*values.shape())
    }

    /// For each element the number of the bucket that it lies in, between sorted `boundaries` (a vector), as u32. PyTorch's `bucketize`,
    /// whose `right=False` is [`SearchSide::Left`]; NumPy's `digitize` is [`SearchSide::Right`].
    ///
    /// ```
    /// use polywarp_core::ops::SearchSide;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[5i32, 10, 25], [3])?;
    /// let boundaries = Tensor::from_slice(&device, &[10i32, 20], [2])?;
    /// assert_eq!(x.bucketize(&boundaries, SearchSide::Left)?.to_vec::<u32>()?, [0, 0, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for boundaries of another rank than 1; as [`Tensor::searchsorted`].
    pub fn bucketize(&self, boundaries: &Tensor, side: SearchSide) -> Result<Tensor> {
        if boundaries.rank() != 1 {
            let reason = format!("bucketize takes a vector of them, not {:?}", boundaries.dims());
            return Err(Error::InvalidArgument { what: "boundaries", reason });
        }
        boundaries.searchsorted(self, side)
    }
}
