//! log sum exp(x) along an axis, with the largest element taken out, so that nothing overflows: of an infinity that infinity.

use super::prelude::*;
use super::softmax::plan::stats;

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
        let layout = Layout::contiguous(input.layout.shape().without_axes(&[axis], KeepDims::No));
        LogSumExp { input, axis, output: TensorSpec { layout, ..input } }.check()
    }
}

impl Operation for LogSumExp {
    fn name(&self) -> &'static str {
        "logsumexp"
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        let (op, shape) = (self.name(), self.input.layout.shape());
        shape.axis(self.axis)?;
        check_float(op, &self.input)?;
        check_not_empty(op, &self.input, &[self.axis])?;
        check_output(op, &self.output, self.input.dtype, &shape.without_axes(&[self.axis], KeepDims::No))
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
            let x = numbers(row);
            let max = largest(&x);
            let shift = if max.is_infinite() { 0.0 } else { max };
            let sum: f64 = x.iter().map(|v| (v - shift).exp()).sum();
            let y = shift + sum.ln();
            let spread: f64 = x.iter().map(|v| (v - max).exp() / sum * (v - max).abs()).filter(|x| x.is_finite()).sum();
            let error = 16.0 + chain(x.len()) + 2.0 * spread + 8.0 * sum.ln().abs() + max.abs() + y.abs();
            Expected::near(y, u * error).round_to(dtype)
        };
        vec![before[0].groups(&[self.axis]).iter().map(of).collect()]
    }

    /// dx = dy exp(x - y); nothing where all are -inf.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        RuleBuilder::of_first(self, needs, |rule| {
            let kept = self.input.layout.shape().without_axes(&[self.axis], KeepDims::Yes);
            let [x, y, dy] = [0, 1, 2].map(|number| Expr::input(number).cast(self.input.dtype.compute()));
            let slope = y.compare(CompareFn::Eq, f64::NEG_INFINITY).select(0.0, dy * (x - y).exp());
            let values = [rule.input(0)?, rule.output(0)?.reshape(kept)?, rule.gradient(0)?.reshape(kept)?];
            rule.graph.map(&slope.cast(self.input.dtype), &values)
        })
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        Builder::whole(self, |graph, [x]| {
            let max = graph.reduce(ReduceFn::Max, x, &[self.axis], KeepDims::Yes)?;
            let [a, b] = [0, 1].map(|number| Expr::input(number).cast(self.input.dtype.compute()));
            let shift = |max: Expr| max.abs().compare(CompareFn::Eq, f64::INFINITY).select(0.0, max);
            let terms = graph.map(&(a.clone() - shift(b.clone())).exp(), &[x, max])?;
            let sum = graph.reduce(ReduceFn::Sum, terms, &[self.axis], KeepDims::Yes)?;
            Ok([graph.map(&(shift(a) + b.log()).cast(self.input.dtype), &[max, sum])?])
        })
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        stats::logarithms(self.name(), &self.input, self.axis, &self.output, caps)
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let of = |input, output| LogSumExp { input, output, ..self.clone() };
        sample::of_lines(&self.input, &[self.axis], &self.output, of)
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
