//! Sorting along one axis: the values of each line in order, all or the first of them, and where each of them stood. Equal elements keep their
//! order (a stable sort).
//!
//! NaN comes last, whichever way numbers are ordered, and keeps its order, too. Zeros of both signs are equal. Values are moved bit for
//! bit; positions are u32 along the axis. So of a line x: `values[k] = x[indices[k]]`.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};

use super::prelude::*;
use super::scatter::{Scatter, ScatterFn};
use crate::Position;

/// Which way numbers are ordered; NaN comes last in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortOrder {
    /// The smallest first.
    #[default]
    Ascending,
    /// The largest first.
    Descending,
}

impl SortOrder {
    /// Both of them.
    pub const ALL: [SortOrder; 2] = [SortOrder::Ascending, SortOrder::Descending];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            SortOrder::Ascending => "ascending",
            SortOrder::Descending => "descending",
        }
    }

    /// Which of two elements comes first, where they are not equal.
    fn compare(self, a: Scalar, b: Scalar) -> std::cmp::Ordering {
        use std::cmp::Ordering::Equal;
        let order = match (a.integer(), b.integer()) {
            _ if a.is_nan() || b.is_nan() => return a.is_nan().cmp(&b.is_nan()),
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Equal),
        };
        if self == SortOrder::Descending { order.reverse() } else { order }
    }
}

const OP: &str = "sort";

/// The elements of `input` in order along `axis`; as many of each line as the outputs have room for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Which comes first.
    pub order: SortOrder,
    /// What is read.
    pub input: TensorSpec,
    /// The axis that lines run along.
    pub axis: usize,
    /// Dense output of the input's dtype, and of its shape but for fewer along the axis where only the first are wanted: the elements.
    pub values: TensorSpec,
    /// Dense u32 output of the same shape: their positions along the axis.
    pub indices: TensorSpec,
}

impl Sort {
    /// A checked sort whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::IndexWidth`] when positions do not fit u32.
    pub fn new(order: SortOrder, input: TensorSpec, axis: usize) -> Result<Sort> {
        input.layout.shape().axis(axis)?;
        Sort::first(order, input, axis, input.layout.dims()[axis])
    }

    /// A checked sort that gives the first `kept` of each line, in results that start their buffers.
    ///
    /// # Errors
    /// As [`Sort::new`]; [`Error::InvalidArgument`] for more than a line has.
    pub fn first(order: SortOrder, input: TensorSpec, axis: usize, kept: u64) -> Result<Sort> {
        let layout = Layout::contiguous(input.layout.shape().with_dim(axis, kept)?);
        let (values, indices) = (TensorSpec::new(input.dtype, layout), TensorSpec::new(DType::U32, layout));
        Sort { order, input, axis, values, indices }.check()
    }

    /// Elements of a line.
    pub fn count(&self) -> u64 {
        self.input.layout.dims()[self.axis]
    }

    /// How many of them are given.
    pub fn kept(&self) -> u64 {
        self.values.layout.dims()[self.axis]
    }
}

impl Operation for Sort {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input; write values, indices }

    fn validate(&self) -> Result<()> {
        let shape = self.input.layout.shape();
        shape.axis(self.axis)?;
        let kept = self.values.layout.dims().get(self.axis).copied().unwrap_or(0);
        if kept > self.count() {
            let reason =
                format!("{OP} of {kept} elements along axis {} of {}; ask for no more", self.axis, self.count());
            return Err(Error::InvalidArgument { what: "k", reason });
        }
        let shape = &shape.with_dim(self.axis, kept)?;
        for (written, dtype) in [(self.values, self.input.dtype), (self.indices, DType::U32)] {
            if written.dtype != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: written.dtype });
            }
            if written.layout.shape() != shape {
                return Err(Error::shape_mismatch(OP, shape, written.layout.shape(), None));
            }
            check_dense_output(OP, &written)?;
        }
        if self.count() > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: self.count(), max: u32::MAX.into() });
        }
        Ok(())
    }

    /// As many comparisons for each element as halving the line takes.
    fn arithmetic(&self) -> Arithmetic {
        let halvings = self.count().max(1).next_power_of_two().ilog2();
        Arithmetic::flops(self.input.layout.elements().saturating_mul(halvings.into()))
    }

    /// The standard library's sorts, exactly. Of what is not given the order is not asked: tables take 64 of 2^22.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let kept = self.kept() as usize;
        let sorted = before[0].map_groups(self.axis, |line| {
            let by = |&a: &usize, &b: &usize| self.order.compare(line[a], line[b]).then(a.cmp(&b));
            let mut places: Vec<usize> = (0..line.len()).collect();
            if (1..places.len()).contains(&kept) {
                places.select_nth_unstable_by(kept - 1, by);
            }
            places.truncate(kept);
            places.sort_unstable_by(by);
            let of = |at: usize| (Expected::exact(line[at]), Expected::exact(Scalar::I(at as i64)));
            places.into_iter().map(of).collect()
        });
        let (values, indices) = sorted.into_iter().unzip();
        vec![values, indices]
    }

    /// An element's gradient is that of the place it went to; zero for one that was not given.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        if !needs.outputs[0] {
            return rule.finish(vec![None]);
        }
        let (indices, dy) = (rule.output(1)?, rule.gradient(0)?);
        let graph = &mut rule.graph;
        let zeros = graph.full(self.input.dtype, *self.input.layout.shape(), 0)?;
        let scatter = Scatter::new(ScatterFn::Set, zeros.spec(), indices.spec(), dy.spec(), self.axis)?;
        let gradient = graph.apply(scatter, &[zeros, indices, dy])?.swap_remove(0);
        rule.finish(vec![Some(gradient)])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs)
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}] {}", self.axis, self.order.name()));
        if self.kept() < self.count() {
            name.push_str(&format!(" first {}", self.kept()));
        }
    }

    /// The op on the first `extent` indices of `axis` alone; `None` along the axis that is sorted.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis {
            return None;
        }
        let [values, indices] = [self.values, self.indices].map(|spec| spec.dense_first(axis, extent));
        Some(Sort { input: self.input.first(axis, extent)?, values: values?, indices: indices?, ..self.clone() }.into())
    }

    /// Some lines, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = Thinning::new(self.input.layout.dims(), |axis| axis != self.axis);
        let positions = vec![thinning.of(&self.values.layout)?, thinning.of(&self.indices.layout)?];
        let [values, indices] = [self.values, self.indices].map(|spec| sample::dense(spec.dtype, &positions[0]));
        let op = Sort { input: thinning.of_spec(&self.input)?, values, indices, ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions }))
    }
}

/// Elements in order and where they stood: what [`Tensor::sort`], [`Tensor::topk`] and [`Tensor::kth_value`] give.
#[derive(Clone, Debug)]
pub struct Sorted {
    /// The elements.
    pub values: Tensor,
    /// Their positions along the axis, u32, of the same shape.
    pub indices: Tensor,
}

impl Tensor {
    /// The elements of each line along `axis` in order, of this tensor's shape, and where they stood. Equal elements keep their order; NaN
    /// comes last in both orders.
    ///
    /// ```
    /// use polywarp_core::ops::SortOrder;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3.0f32, 1.0, 2.0], [3])?;
    /// let y = x.sort(0, SortOrder::Ascending)?;
    /// assert_eq!(y.values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(y.indices.to_vec::<u32>()?, [1, 2, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sort::new`]; memory errors of the device.
    pub fn sort(&self, axis: impl Position, order: SortOrder) -> Result<Sorted> {
        let axis = self.axis(axis)?;
        self.sort_first(axis, order, self.dims()[axis])
    }

    /// The first `kept` of [`Tensor::sort`].
    pub(crate) fn sort_first(&self, axis: usize, order: SortOrder, kept: u64) -> Result<Sorted> {
        let sort = Sort::first(order, self.spec(), axis, kept)?;
        let mut results = Tensor::apply(self.device(), sort, &[self])?;
        let indices = results.swap_remove(1);
        Ok(Sorted { values: results.swap_remove(0), indices })
    }

    /// The positions of [`Tensor::sort`] alone.
    ///
    /// ```
    /// use polywarp_core::ops::SortOrder;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3i32, 1, 3], [3])?;
    /// assert_eq!(x.argsort(0, SortOrder::Descending)?.to_vec::<u32>()?, [0, 2, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`].
    pub fn argsort(&self, axis: impl Position, order: SortOrder) -> Result<Tensor> {
        Ok(self.sort(axis, order)?.indices)
    }
}
