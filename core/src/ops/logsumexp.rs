//! log sum exp(x) along an axis, with the largest element taken out, so that nothing overflows: of an infinity that infinity.

use super::reduce::plan::template::check_index;
use super::sample::{self, Thinning};
use super::softmax::plan::stats::{self, Ending};
use super::{Arithmetic, Facts, Op, Operand, Operation, ReduceFn, Sample, TensorSpec, check_dense_output};
use crate::gradient::{Gradient, Needs};
use crate::graph::Graph;
use crate::ops::Builder;
use crate::ops::RuleBuilder;
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Caps, Plan};
use crate::tensor::Lines;
use crate::wgsl::element::Element;
use crate::{Axes, CompareFn, Error, Expr, KeepDims, Layout, Result, Scalar, Tensor};

/// The logarithm of the sum of exponentials along one axis, which disappears.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogSumExp {
    /// Floats.
    pub input: TensorSpec,
    /// What is summed over.
    pub axis: usize,
    /// Dense output of the input's dtype.
    pub output: TensorSpec,
}

impl LogSumExp {
    /// A checked op whose result starts its buffer.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::UndefinedForDType`] for integers and bool; [`Error::EmptyReduction`] for an axis of no elements.
    pub fn new(input: TensorSpec, axis: usize) -> Result<LogSumExp> {
        input.layout.shape().axis(axis)?;
        let layout = Layout::contiguous(input.layout.shape().without_axes(&[axis], KeepDims::No));
        LogSumExp { input, axis, output: TensorSpec { layout, ..input } }.check()
    }

    fn check(self) -> Result<LogSumExp> {
        let (op, want) = (self.name(), self.input.layout.shape().without_axes(&[self.axis], KeepDims::No));
        if !self.input.dtype.is_float() {
            return Err(Error::UndefinedForDType { op, dtype: self.input.dtype });
        }
        if self.input.layout.dims()[self.axis] == 0 {
            return Err(Error::EmptyReduction { op, shape: self.input.layout.dims().to_vec() });
        }
        if *self.output.layout.shape() != want {
            return Err(Error::shape_mismatch(op, self.output.layout.shape(), &want, None));
        }
        check_dense_output(op, &self.output)?;
        Ok(self)
    }
}

impl Operation for LogSumExp {
    fn name(&self) -> &'static str {
        "logsumexp"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.input));
        each(Operand::write(self.output));
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// Maximum, difference, exponential and sum.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements().saturating_mul(4))
    }

    /// The definition in float64. Bound, u being the roundoff and h the chain of a sum of n terms (2 sqrt n, at least 8): u (16 + h + 2 sum p
    /// |x - max| + 8 |y - max| + |max| + |y|) with the shares p of the terms.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (dtype, u) = (self.output.dtype, self.output.dtype.compute().unit_roundoff());
        let of = |row: &Vec<Scalar>| {
            let x: Vec<f64> = row.iter().map(|x| x.as_f64()).collect();
            let max = x.iter().copied().fold(f64::NEG_INFINITY, |m, v| if v.is_nan() || v > m { v } else { m });
            let shift = if max.is_infinite() { 0.0 } else { max };
            let sum: f64 = x.iter().map(|v| (v - shift).exp()).sum();
            let y = shift + sum.ln();
            let spread: f64 = x.iter().map(|v| (v - max).exp() / sum * (v - max).abs()).filter(|x| x.is_finite()).sum();
            let chain = (2.0 * (x.len() as f64).sqrt()).max(8.0);
            let error = u * (16.0 + chain + 2.0 * spread + 8.0 * sum.ln().abs() + max.abs() + y.abs());
            Expected::within(Scalar::F(y), if y.is_finite() { error } else { 0.0 }).round_to(dtype)
        };
        vec![before[0].groups(&[self.axis]).iter().map(of).collect()]
    }

    /// dx = dy exp(x - y); nothing where all are -inf.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let kept = self.input.layout.shape().without_axes(&[self.axis], KeepDims::Yes);
        let [x, y, dy] = [0, 1, 2].map(|number| Expr::input(number).cast(self.input.dtype.compute()));
        let slope = y.compare(CompareFn::Eq, f64::NEG_INFINITY).select(0.0, dy * (x - y).exp());
        let values = [rule.input(0)?, rule.output(0)?.reshape(kept)?, rule.gradient(0)?.reshape(kept)?];
        let gradient = rule.graph.map(&slope.cast(self.input.dtype), &values)?;
        rule.finish(vec![Some(gradient)])
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let mut graph = Builder::new(vec![self.input]);
        let x = graph.input(0)?;
        let max = graph.reduce(ReduceFn::Max, x, &[self.axis], KeepDims::Yes)?;
        let [a, b] = [0, 1].map(|number| Expr::input(number).cast(self.input.dtype.compute()));
        let shift = |max: Expr| max.abs().compare(CompareFn::Eq, f64::INFINITY).select(0.0, max);
        let terms = graph.map(&(a.clone() - shift(b.clone())).exp(), &[x, max])?;
        let sum = graph.reduce(ReduceFn::Sum, terms, &[self.axis], KeepDims::Yes)?;
        let y = graph.map(&(shift(a) + b.log()).cast(self.input.dtype), &[max, sum])?;
        let y = y.reshape(*self.output.layout.shape())?;
        Ok(Some(graph.finish(self.name(), &[y], &[self.output])?))
    }

    /// One walk along the axis, over states of the largest element and the sum.
    fn plan(&self, caps: &Caps) -> Result<Plan> {
        check_index(self.name(), &self.output)?;
        let output = Element::new(self.output.dtype, caps)?;
        let target = self.output.layout.offset();
        stats::plan(self.name(), &self.input, self.axis, Ending::Logarithms(output), target, caps)
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn with_output(&self, _: usize, output: TensorSpec) -> Option<Op> {
        Some(LogSumExp { output, ..self.clone() }.into())
    }

    /// Some lines, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = Thinning::new(self.input.layout.dims(), |axis| axis != self.axis);
        let positions = thinning.of_kept(&[self.axis], &self.output.layout)?;
        let output = sample::dense(self.output.dtype, &positions);
        let op = LogSumExp { input: thinning.of_spec(&self.input)?, output, ..self.clone() };
        Ok(Some(Sample { op: op.into(), positions: vec![positions] }))
    }
}

impl Tensor {
    /// log sum exp(x) along `axes` (`..`: all), which disappear, or stay with extent 1 ([`keep`](crate::keep)): [`LogSumExp`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor, keep};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[0.0f32, 0.0, 5.0, f32::NEG_INFINITY], [2, 2])?;
    /// let sums = x.logsumexp(keep(1))?;
    /// assert_eq!((sums.dims(), sums.to_vec::<f32>()?), (&[2, 1][..], vec![2f32.ln(), 5.0]));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`LogSumExp::new`]; [`Error::InvalidArgument`] for no axes; memory errors of the device.
    pub fn logsumexp(&self, axes: impl Axes) -> Result<Tensor> {
        let Lines { lines, axis, result } = self.lines("logsumexp", axes)?;
        Tensor::apply(self.device(), LogSumExp::new(lines.spec(), axis)?, &[&lines])?.swap_remove(0).reshape(result)
    }
}
