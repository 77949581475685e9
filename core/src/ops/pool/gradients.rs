//! The gradient of a pool by its output's, and what it becomes by gradients of its own.

use super::super::{Arithmetic, Facts, Op, Operation, Sample, TensorSpec, check_dense_output, sample};
use super::{Pool, PoolFn, PoolGeometry, check_float, check_function, check_index, describe, last_image, oracle};
use crate::gradient::{Gradient, Needs};
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::ops::RuleBuilder;
use crate::ops::prelude::{Checked, operands};
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Caps, Plan};
use crate::{Layout, Result};

/// The gradient of a pool's input: of a maximum `dx[i]` is the sum of dy over the windows whose place is that of i, of an average the sum
/// of dy over all windows that contain i, each divided by its divisor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolGradient {
    /// Maximum or average.
    pub function: PoolFn,
    /// The gradient of y, [batch, outputs..., channels]: channels one after the other, pixels at one distance.
    pub gradient: TensorSpec,
    /// Of maxima, the places that [`Pool`] gave, dense.
    pub index: Option<TensorSpec>,
    /// Which windows.
    pub geometry: PoolGeometry,
    /// Dense output, [batch, spatial..., channels], of the gradient's dtype.
    pub output: TensorSpec,
}

/// The elements at the places of maxima: of x `y[o] = x[the input under tap index[o] of window o]`, zero where a place is none of the input's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolChosen {
    /// What is chosen from, [batch, spatial..., channels]: channels one after the other, pixels at one distance.
    pub x: TensorSpec,
    /// The places that [`Pool`] gave, dense.
    pub index: TensorSpec,
    /// Which windows.
    pub geometry: PoolGeometry,
    /// Dense output, [batch, outputs..., channels], of x's dtype.
    pub output: TensorSpec,
}

impl PoolGradient {
    /// A checked gradient whose output starts its buffer.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn new(
        function: PoolFn,
        gradient: TensorSpec,
        index: Option<TensorSpec>,
        geometry: PoolGeometry,
    ) -> Result<PoolGradient> {
        let output = TensorSpec::new(gradient.dtype, Layout::contiguous(geometry.input_shape()?));
        PoolGradient { function, gradient, index, geometry, output }.check()
    }
}

impl Operation for PoolGradient {
    fn name(&self) -> &'static str {
        if self.function == PoolFn::Max { "max_pool_gradient" } else { "avg_pool_gradient" }
    }

    operands! { read gradient, index; write output }

    fn validate(&self) -> Result<()> {
        let (op, geometry) = (self.name(), self.geometry.check(self.name())?);
        check_function(op, self.function)?;
        check_float(op, "gradient", (self.gradient, geometry.output_shape()?), self.gradient.dtype)?;
        check_float(op, "output", (self.output, geometry.input_shape()?), self.gradient.dtype)?;
        check_index(op, &geometry, self.index, self.function)?;
        check_dense_output(op, &self.output)
    }

    /// An addition for each tap.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.gradient.layout.elements().saturating_mul(self.geometry.taps()))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![oracle::gradient(self, before)]
    }

    /// Of dx with gradient g: that of dy is the average of g's windows, or g at the places of the maxima.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let g = rule.gradient(0)?;
        let gradient = if self.index.is_some() {
            let index = rule.input(1)?;
            let op = PoolChosen::new(g.spec(), index.spec(), self.geometry)?;
            rule.graph.apply(op, &[g, index])?.pop()
        } else {
            rule.graph.apply(Pool::new(self.function, g.spec(), self.geometry)?, &[g])?.pop()
        };
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::gradient(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        super::host::gradient(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        describe(name, &self.geometry, self.function);
        let inputs = self.geometry.windows[3 - self.geometry.rank..].iter().map(|window| window.input);
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
        let index = self.index.map_or(Some(None), |index| index.first(0, extent).map(Some))?;
        let geometry = PoolGeometry { batch: extent, ..self.geometry };
        Some(PoolGradient { gradient, index, geometry, output, ..self.clone() }.into())
    }

    /// The last image.
    fn sample(&self) -> Result<Option<Sample>> {
        if self.geometry.batch == 0 {
            return Ok(None);
        }
        let positions = last_image(&self.output)?.layout;
        let op = PoolGradient {
            gradient: last_image(&self.gradient)?,
            index: self.index.as_ref().map(last_image).transpose()?,
            geometry: PoolGeometry { batch: 1, ..self.geometry },
            output: sample::dense(self.output.dtype, &positions),
            ..self.clone()
        };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

impl PoolChosen {
    const OP: &str = "max_pool_chosen";

    /// A checked choice whose output starts its buffer.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn new(x: TensorSpec, index: TensorSpec, geometry: PoolGeometry) -> Result<PoolChosen> {
        let output = TensorSpec::new(x.dtype, Layout::contiguous(geometry.output_shape()?));
        PoolChosen { x, index, geometry, output }.check()
    }
}

impl Operation for PoolChosen {
    fn name(&self) -> &'static str {
        Self::OP
    }

    operands! { read x, index; write output }

    fn validate(&self) -> Result<()> {
        let geometry = self.geometry.check(Self::OP)?;
        check_float(Self::OP, "x", (self.x, geometry.input_shape()?), self.x.dtype)?;
        check_float(Self::OP, "output", (self.output, geometry.output_shape()?), self.x.dtype)?;
        check_index(Self::OP, &geometry, Some(self.index), PoolFn::Max)?;
        check_dense_output(Self::OP, &self.output)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![oracle::chosen(self, before)]
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (g, index) = (rule.gradient(0)?, rule.input(1)?);
        let op = PoolGradient::new(PoolFn::Max, g.spec(), Some(index.spec()), self.geometry)?;
        let gradient = rule.graph.apply(op, &[g, index])?.pop();
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::chosen(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        super::host::chosen(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        describe(name, &self.geometry, PoolFn::Max);
    }

    /// The op on the first `extent` images.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 {
            return None;
        }
        let (x, index) = (self.x.first(0, extent)?, self.index.first(0, extent)?);
        let geometry = PoolGeometry { batch: extent, ..self.geometry };
        Some(PoolChosen { x, index, geometry, output: self.output.dense_first(0, extent)? }.into())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
