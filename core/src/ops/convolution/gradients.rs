//! The gradients of a convolution, which are operations of their own: [`ConvolutionInput`] and [`ConvolutionWeights`].
//!
//! The extents of x are given: windows need not reach its end, and then y does not say how large it was. A transposed convolution is
//! [`ConvolutionInput`] under another name. All three operations are linear in either operand, and each one's gradients are the other two.

use super::super::matmul::ended;
use super::super::{Arithmetic, Convolution, Facts, Matmul, Op, Operation, Sample, TensorSpec, sample};
use super::geometry::Geometry;
use super::window::Window;
use super::{KEEP, as_matrix, check_operands, float, graph_of, oracle, transposed};
use crate::gradient::{Gradient, Needs};
use crate::graph::Graph;
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::ops::RuleBuilder;
use crate::ops::prelude::{Checked, operands};
use crate::oracle::{Expected, HostTensor, Span};
use crate::plan::{Candidate, Caps, Plan};
use crate::{DType, Layout, Result};

/// The gradient of a convolution's input: `dx[n, i, c]` is the sum of `dy[n, o, k] w[k, t, c]` over all k, t and o whose tap t lies on i.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionInput {
    /// The gradient of y, [batch, outputs..., filters]: channels one after the other, pixels at one distance.
    pub gradient: TensorSpec,
    /// The filters, [filters, taps..., channels / groups], of its dtype, as it lies.
    pub weights: TensorSpec,
    /// How windows move.
    pub geometry: Geometry,
    /// Dense output, [batch, spatial..., channels], of their dtype.
    pub output: TensorSpec,
}

/// The gradient of a convolution's weights: `dw[k, t, c]` is the sum of `dy[n, o, k] x[n, i, c]` over all n and o, i being the input under
/// tap t of window o.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionWeights {
    /// The gradient of y, [batch, outputs..., filters]: channels one after the other, pixels at one distance.
    pub gradient: TensorSpec,
    /// What was convolved, [batch, spatial..., channels], of its dtype, as it lies.
    pub x: TensorSpec,
    /// How windows move.
    pub geometry: Geometry,
    /// Dense output, [filters, taps..., channels / groups], of their dtype.
    pub output: TensorSpec,
}

/// Sums rounded to `dtype`.
fn rounded(sums: Vec<oracle::Sum>, dtype: DType) -> Vec<Vec<Expected>> {
    let end = |(sum, may_be_nan)| {
        let y = ended(Span::from(sum), [None; 2], None, dtype);
        if may_be_nan { y.or_nan() } else { y }
    };
    vec![sums.into_iter().map(end).collect()]
}

/// The last `keep` indices of an axis.
fn last(spec: &TensorSpec, axis: usize, keep: u64) -> Result<TensorSpec> {
    let extent = spec.layout.dims()[axis];
    Ok(TensorSpec { layout: spec.layout.slice(axis, extent - keep, extent, 1)?, ..*spec })
}

/// All but the last index of an axis that has one.
fn cut(spec: &TensorSpec, axis: usize) -> Result<TensorSpec> {
    let extent = spec.layout.dims()[axis];
    Ok(TensorSpec { layout: spec.layout.slice(axis, 0, extent - 1, 1)?, ..*spec })
}

impl ConvolutionInput {
    /// The same by strides that end at the image: each remainder of a stride is work of its own.
    pub(super) fn with_shortest_strides(&self) -> ConvolutionInput {
        ConvolutionInput { geometry: self.geometry.with_shortest_strides(), ..self.clone() }
    }

    const OP: &str = "convolution_input";

    /// A checked gradient whose output starts its buffer.
    ///
    /// # Errors
    /// As [`Convolution::check`].
    pub fn of(geometry: Geometry, gradient: TensorSpec, weights: TensorSpec) -> Result<ConvolutionInput> {
        let output = TensorSpec::new(gradient.dtype, Layout::contiguous(geometry.input_shape()?));
        ConvolutionInput { gradient, weights, geometry, output }.check()
    }

    /// The matrix product that it is, over the same operands in the same order.
    ///
    /// # Errors
    /// None that the operands could cause.
    pub fn as_product(&self) -> Result<Option<Matmul>> {
        if !self.geometry.is_pointwise() {
            return Ok(None);
        }
        let (a, b) = (as_matrix(&self.gradient)?, as_matrix(&self.weights)?);
        Matmul::product(a, b, as_matrix(&self.output)?).check().map(Some)
    }
}

impl Operation for ConvolutionInput {
    fn name(&self) -> &'static str {
        Self::OP
    }

    operands! { read gradient, weights; write output }

    fn validate(&self) -> Result<()> {
        let (geometry, dtype) = (&self.geometry, float(Self::OP, &self.output)?);
        let operands = [
            ("gradient", (self.gradient, dtype), geometry.output_shape()?),
            ("weights", (self.weights, dtype), geometry.weights_shape()?),
        ];
        check_operands(Self::OP, geometry, operands.into_iter(), (self.output, geometry.input_shape()?))
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic { flops: self.geometry.flops(), multiplies: Some(self.gradient.dtype) }
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let dtype = self.output.dtype;
        rounded(oracle::input(&self.geometry, &before[0], &before[1], dtype), dtype)
    }

    /// Of dx with gradient g: that of dy is the convolution of g, that of the weights the one of dy and g.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (dy, weights, g) = (rule.input(0)?, rule.input(1)?, rule.gradient(0)?);
        let mut gradients = Vec::new();
        if rule.wants(0) {
            let op = Convolution::of(self.geometry, g.spec(), weights.spec())?;
            gradients.push(rule.graph.apply(op, &[g, weights])?.pop());
        }
        if rule.wants(1) {
            let op = ConvolutionWeights::of(self.geometry, dy.spec(), g.spec())?;
            gradients.push(rule.graph.apply(op, &[dy, g])?.pop());
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        graph_of(Self::OP, self.inputs(), self.as_product()?, self.output)
    }

    fn by_products(&self) -> Result<Option<Graph>> {
        self.as_rows()
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::input_plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        super::plan::input(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        match self.as_product() {
            Ok(Some(product)) => crate::ops::matmul::host::execute(&product, inputs, outputs[0]),
            _ => super::host::input(&self.with_shortest_strides(), inputs, outputs[0]),
        }
    }

    fn describe(&self, name: &mut String) {
        self.geometry.describe(name);
        let inputs = self.geometry.windows[3 - self.geometry.rank..].iter().map(|Window { input, .. }| input);
        name.push_str(&format!(" to{:?}", inputs.collect::<Vec<_>>()));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` images.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 {
            return None;
        }
        let (gradient, output) = (self.gradient.first(0, extent)?, self.output.dense_first(0, extent)?);
        let geometry = Geometry { batch: extent, ..self.geometry };
        Some(ConvolutionInput { gradient, geometry, output, ..self.clone() }.into())
    }

    /// The last image and the last channels of one group.
    fn sample(&self) -> Result<Option<Sample>> {
        let Geometry { batch, channels, groups, rank, .. } = self.geometry;
        if batch == 0 || groups == 0 {
            return Ok(None);
        }
        let of_all = Geometry { channels: channels.min(KEEP), ..self.geometry };
        let part = if groups == 1 { of_all } else { self.geometry.last_groups(KEEP) };
        let positions = last(&last(&self.output, 0, 1)?, rank + 1, part.channels)?.layout;
        let weights = last(&self.weights, 0, part.filters)?;
        let op = ConvolutionInput {
            gradient: last(&last(&self.gradient, 0, 1)?, rank + 1, part.filters)?,
            weights: last(&weights, rank + 1, part.channels / part.groups)?,
            geometry: Geometry { batch: 1, ..part },
            output: sample::dense(self.output.dtype, &positions),
        };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }

    /// Without the last filter.
    fn shortened(&self) -> Result<Option<Op>> {
        let Geometry { filters, groups, rank, .. } = self.geometry;
        if groups != 1 || filters == 0 {
            return Ok(None);
        }
        let geometry = Geometry { filters: filters - 1, ..self.geometry };
        let (gradient, weights) = (cut(&self.gradient, rank + 1)?, cut(&self.weights, 0)?);
        Ok(Some(ConvolutionInput { gradient, weights, geometry, ..self.clone() }.check()?.into()))
    }
}

impl ConvolutionWeights {
    const OP: &str = "convolution_weights";

    /// A checked gradient whose output starts its buffer.
    ///
    /// # Errors
    /// As [`Convolution::check`].
    pub fn of(geometry: Geometry, gradient: TensorSpec, x: TensorSpec) -> Result<ConvolutionWeights> {
        let output = TensorSpec::new(gradient.dtype, Layout::contiguous(geometry.weights_shape()?));
        ConvolutionWeights { gradient, x, geometry, output }.check()
    }

    /// The matrix product that it is, over the same operands in the same order.
    ///
    /// # Errors
    /// None that the operands could cause.
    pub fn as_product(&self) -> Result<Option<Matmul>> {
        if !self.geometry.is_pointwise() {
            return Ok(None);
        }
        let (a, b) = (transposed(as_matrix(&self.gradient)?)?, as_matrix(&self.x)?);
        Matmul::product(a, b, as_matrix(&self.output)?).check().map(Some)
    }
}

impl Operation for ConvolutionWeights {
    fn name(&self) -> &'static str {
        Self::OP
    }

    operands! { read gradient, x; write output }

    fn validate(&self) -> Result<()> {
        let (geometry, dtype) = (&self.geometry, float(Self::OP, &self.output)?);
        let operands = [
            ("gradient", (self.gradient, dtype), geometry.output_shape()?),
            ("x", (self.x, dtype), geometry.input_shape()?),
        ];
        check_operands(Self::OP, geometry, operands.into_iter(), (self.output, geometry.weights_shape()?))
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic { flops: self.geometry.flops(), multiplies: Some(self.gradient.dtype) }
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let dtype = self.output.dtype;
        rounded(oracle::weights(&self.geometry, &before[0], &before[1], dtype), dtype)
    }

    /// Of dw with gradient g: that of dy is the convolution of x with g, that of x the gradient of the input with g for weights.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (dy, x, g) = (rule.input(0)?, rule.input(1)?, rule.gradient(0)?);
        let mut gradients = Vec::new();
        if rule.wants(0) {
            let op = Convolution::of(self.geometry, x.spec(), g.spec())?;
            gradients.push(rule.graph.apply(op, &[x, g])?.pop());
        }
        if rule.wants(1) {
            let op = ConvolutionInput::of(self.geometry, dy.spec(), g.spec())?;
            gradients.push(rule.graph.apply(op, &[dy, g])?.pop());
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        graph_of(Self::OP, self.inputs(), self.as_product()?, self.output)
    }

    fn by_products(&self) -> Result<Option<Graph>> {
        self.as_rows()
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::weights_plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        super::plan::weights(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        match self.as_product() {
            Ok(Some(product)) => crate::ops::matmul::host::execute(&product, inputs, outputs[0]),
            _ => super::host::weights(self, inputs, outputs[0]),
        }
    }

    fn describe(&self, name: &mut String) {
        self.geometry.describe(name);
        let taps = self.geometry.windows[3 - self.geometry.rank..].iter().map(|Window { taps, .. }| taps);
        name.push_str(&format!(" to{:?}", taps.collect::<Vec<_>>()));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` filters of one group.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 || self.geometry.groups != 1 {
            return None;
        }
        let gradient = self.gradient.first(self.geometry.rank + 1, extent)?;
        let geometry = Geometry { filters: extent, ..self.geometry };
        Some(
            ConvolutionWeights { gradient, geometry, output: self.output.dense_first(0, extent)?, ..self.clone() }
                .into(),
        )
    }

    /// The last filters and channels of one group.
    fn sample(&self) -> Result<Option<Sample>> {
        let Geometry { channels, filters, groups, rank, .. } = self.geometry;
        if groups == 0 {
            return Ok(None);
        }
        let of_all = Geometry { channels: channels.min(KEEP), filters: filters.min(KEEP), ..self.geometry };
        let part = if groups == 1 { of_all } else { self.geometry.last_groups(KEEP) };
        let (channels, filters) = (part.channels, part.filters);
        let positions = last(&last(&self.output, 0, filters)?, rank + 1, channels / part.groups)?.layout;
        let op = ConvolutionWeights {
            gradient: last(&self.gradient, rank + 1, filters)?,
            x: last(&self.x, rank + 1, channels)?,
            geometry: part,
            output: sample::dense(self.output.dtype, &positions),
        };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }

    /// Without the last image.
    fn shortened(&self) -> Result<Option<Op>> {
        let batch = self.geometry.batch;
        if batch == 0 {
            return Ok(None);
        }
        let geometry = Geometry { batch: batch - 1, ..self.geometry };
        let (gradient, x) = (cut(&self.gradient, 0)?, cut(&self.x, 0)?);
        Ok(Some(ConvolutionWeights { gradient, x, geometry, ..self.clone() }.check()?.into()))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;
