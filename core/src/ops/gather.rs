//! Elements along an axis, chosen by position for each place of the result: `y[.., i, ..] = x[.., indices[.., i, ..], ..]`. The
//! standard's and NumPy's `take_along_axis`, PyTorch's `gather`; with positions that repeat along the other axes, `index_select`.
//!
//! Positions that are none of the axis give NaN in floats and zeros in other dtypes ([`Missing`]), whatever their sign, as rows of
//! [`super::Take`] do: nothing outside is read. Bits are moved as they are. The gradient adds up what was taken from each place.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;
use super::take::Missing;
use super::walk::Walk;
use super::{Scatter, ScatterFn};

const OP: &str = "gather";

/// Elements of `input` along `axis`, at `indices`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// What is read: any view.
    pub input: TensorSpec,
    /// Positions along the axis, i32 or u32: any view, of the input's extents but along the axis.
    pub indices: TensorSpec,
    /// The axis.
    pub axis: usize,
    /// What other positions give.
    pub missing: Missing,
    /// Dense output of the indices' shape and the input's dtype.
    pub output: TensorSpec,
}

/// Refuses positions that are no whole numbers of 32 bits, and an axis longer than they count.
pub(crate) fn check_along(op: &'static str, input: &TensorSpec, indices: &TensorSpec, axis: usize) -> Result<()> {
    if !matches!(indices.dtype, DType::I32 | DType::U32) {
        return Err(Error::DTypeMismatch { op, expected: DType::I32, got: indices.dtype });
    }
    let (shape, dims) = (input.layout.shape(), indices.layout.dims());
    shape.axis(axis)?;
    let differs = |other: &usize| *other != axis && dims[*other] != shape.dims()[*other];
    let fault = (dims.len() == shape.rank()).then(|| (0..dims.len()).find(differs));
    if fault != Some(None) {
        return Err(Error::shape_mismatch(op, shape, indices.layout.shape(), fault.flatten()));
    }
    let (most, max) = (shape.dims()[axis].max(dims[axis]), u64::from(u32::MAX));
    if most > max { Err(Error::IndexWidth { op, elements: most, max }) } else { Ok(()) }
}

impl Gather {
    /// A checked choice whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for indices that are neither i32 nor u32; [`Error::AxisOutOfRange`]; [`Error::ShapeMismatch`] for indices
    /// of another rank, or other extents along another axis; [`Error::IndexWidth`] for an axis of 2^32 and more.
    pub fn new(input: TensorSpec, indices: TensorSpec, axis: usize, missing: Missing) -> Result<Gather> {
        let output = TensorSpec::new(input.dtype, Layout::contiguous(*indices.layout.shape()));
        Gather { input, indices, axis, missing, output }.check()
    }

    /// The fewest dimensions of the result, then the strides of the input (0 along the axis) and those of the indices.
    pub fn walk(&self) -> (Vec<u64>, [Vec<i64>; 2]) {
        let mut strides = self.input.layout.strides().to_vec();
        strides[self.axis] = 0;
        let (dims, mut views) =
            Walk::through(self.output.layout.dims(), &[strides, self.indices.layout.strides().to_vec()]);
        let indices = views.pop().unwrap_or_default();
        (dims, [views.pop().unwrap_or_default(), indices])
    }
}

impl Operation for Gather {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input, indices; write output }

    fn validate(&self) -> Result<()> {
        check_along(OP, &self.input, &self.indices, self.axis)?;
        if self.output.layout.shape() != self.indices.layout.shape() {
            return Err(Error::shape_mismatch(OP, self.indices.layout.shape(), self.output.layout.shape(), None));
        }
        check_dtype(OP, &self.output, self.input.dtype)?;
        check_dense_output(OP, &self.output)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (n, count) = (self.input.layout.dims()[self.axis], self.indices.layout.dims()[self.axis]);
        let inner: u64 = self.output.layout.dims()[self.axis + 1..].iter().product();
        let none = self.missing.scalar(self.output.dtype);
        let element = |(i, index): (usize, &Scalar)| {
            let (outer, column) = (i as u64 / (count * inner), i as u64 % inner);
            let at = u64::try_from(index.as_i64()).ok().filter(|&at| at < n);
            let value = at.map(|at| before[0].values[((outer * n + at) * inner + column) as usize]);
            Expected::exact(value.unwrap_or(none))
        };
        vec![before[1].values.iter().enumerate().map(element).collect()]
    }

    /// `dx[.., r, ..]` is the sum of `dy[.., i, ..]` over the places i with `indices[.., i, ..]` = r.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (indices, dy) = (rule.input(1)?, rule.gradient(0)?);
        let zeros = rule.graph.full(self.input.dtype, *self.input.layout.shape(), 0)?;
        let sum = Scatter::new(ScatterFn::Sum, zeros.spec(), indices.spec(), dy.spec(), self.axis)?;
        let gradient = rule.graph.apply(sum, &[zeros, indices, dy])?.pop();
        rule.finish(vec![gradient])
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
        name.push_str(&format!(" axis[{}]", self.axis));
        if self.missing == Missing::Zero {
            name.push_str(" or0");
        }
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let input = if axis == self.axis { self.input } else { self.input.first(axis, extent)? };
        let (indices, output) = (self.indices.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        Some(Gather { input, indices, output, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        if input == 1 { Content::Rows { rows: self.input.layout.dims()[self.axis] } } else { Content::Any }
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = sample::Thinning::new(self.output.layout.dims(), |axis| axis != self.axis);
        let positions = thinning.of(&self.output.layout)?;
        let (input, indices) = (thinning.of_spec(&self.input)?, thinning.of_spec(&self.indices)?);
        let op = Gather { input, indices, output: sample::dense(self.output.dtype, &positions), ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}
