//! Means and variances over any axes, in one walk: what normalisations over many values begin with.
//!
//! The variance is the mean of squared differences from the mean (biased), and never a difference of two large sums: kernels join sets of
//! which they know count, mean and sum of squared differences (Chan, Golub and LeVeque, STAN-CS-79-773). Floats only; results are f32, f64
//! of f64. Of NaN both are NaN; of an infinity the variance is NaN and the mean infinite or NaN.

pub(crate) mod plan;

use super::prelude::*;
use crate::axis;

const OP: &str = "moments";

/// Mean and biased variance of `input` over `axes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moments {
    /// Floats.
    pub input: TensorSpec,
    /// The axes that disappear, ascending.
    pub axes: Vec<usize>,
    /// Dense means of the other axes, f32 or f64.
    pub mean: TensorSpec,
    /// Dense variances, as `mean`.
    pub variance: TensorSpec,
}

impl Moments {
    /// A checked op whose results start their buffers; over no axes each element is its own mean, with a variance of 0.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::UndefinedForDType`] for integers and bool; [`Error::EmptyReduction`] for axes of no elements.
    pub fn new(input: TensorSpec, axes: &[usize]) -> Result<Moments> {
        let axes = input.layout.shape().reduction_axes(axes)?;
        let layout = Layout::contiguous(input.layout.shape().without_axes(&axes, KeepDims::No));
        let result = TensorSpec::new(input.dtype.compute(), layout);
        Moments { input, axes, mean: result, variance: result }.check()
    }

    /// Elements of each result.
    pub fn count(&self) -> u64 {
        extent_of(&self.input, &self.axes)
    }
}

impl Operation for Moments {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input; write mean, variance }

    fn validate(&self) -> Result<()> {
        check_float(OP, &self.input)?;
        check_not_empty(OP, &self.input, &self.axes)?;
        let shape = self.input.layout.shape().without_axes(&self.axes, KeepDims::No);
        [self.mean, self.variance]
            .iter()
            .try_for_each(|spec| check_output(OP, spec, self.input.dtype.compute(), &shape))
    }

    /// A sum, a difference, a square and its sum.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements().saturating_mul(4))
    }

    /// The definition in float64. Bounds, u being the roundoff and h the chain of a sum of n terms (2 sqrt n, at least 8): the mean errs by h u
    /// mean|x|, a difference c by that and u|c|, the variance by what its terms do and h u of itself.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (u, tiny) = (self.mean.dtype.unit_roundoff(), self.mean.dtype.min_normal());
        let of = |set: &Vec<Scalar>| {
            let x = numbers(set);
            let (n, chain) = (x.len() as f64, chain(x.len()) + 4.0);
            let mean = x.iter().sum::<f64>() / n;
            let off_mean = chain * u * x.iter().map(|x| x.abs()).sum::<f64>() / n + tiny;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let of_term = |x: &f64| {
                let off = off_mean + u * (x - mean).abs() + tiny;
                off * (2.0 * (x - mean).abs() + off)
            };
            let off_variance = x.iter().map(of_term).sum::<f64>() / n + chain * u * variance + tiny;
            (mean_within(mean, off_mean), Expected::near(variance, off_variance))
        };
        let (means, variances) = before[0].groups(&self.axes).iter().map(of).unzip();
        vec![means, variances]
    }

    /// dx = dmean / n + 2 dvariance (x - mean) / n.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        RuleBuilder::of_first(self, needs, |rule| {
            let (dtype, n) = (self.input.dtype, self.count() as f64);
            let (shape, kept) =
                (*self.input.layout.shape(), self.input.layout.shape().without_axes(&self.axes, KeepDims::Yes));
            let whole = |value: Value| value.reshape(kept)?.broadcast_to(shape);
            let of = |number: usize| Expr::input(number).cast(self.mean.dtype);
            let (x, mean) = (rule.input(0)?, whole(rule.output(0)?)?);
            let (dmean, dvariance) = (whole(rule.gradient(0)?)?, whole(rule.gradient(1)?)?);
            let by_variance = of(2) * (of(0) - of(1)) * (2.0 / n);
            let by_mean = of(3) / n;
            let sum = match needs.outputs {
                [true, false] => by_mean,
                [false, true] => by_variance,
                _ => by_variance + by_mean,
            };
            let gradient = rule.graph.map_used(&[sum.cast(dtype)], &[x, mean, dvariance, dmean])?;
            gradient
                .into_iter()
                .next()
                .ok_or(Error::InvalidArgument { what: "graph", reason: format!("{OP} has one gradient") })
        })
    }

    /// In two walks: the mean, then squares of differences from it.
    fn decompose(&self) -> Result<Option<Graph>> {
        Builder::whole(self, |graph, [x]| {
            let compute = self.mean.dtype;
            let over_count = Expr::input(0) / self.count() as f64;
            let wide = graph.cast(x, compute)?;
            let sum = graph.reduce(ReduceFn::Sum, wide, &self.axes, KeepDims::Yes)?;
            let mean = graph.map(&over_count, &[sum])?;
            let c = Expr::input(0).cast(compute) - Expr::input(1);
            let squares = graph.map(&(c.clone() * c), &[x, mean])?;
            let sum = graph.reduce(ReduceFn::Sum, squares, &self.axes, KeepDims::Yes)?;
            Ok([mean, graph.map(&over_count, &[sum])?])
        })
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axes{:?}", self.axes));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the results' `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let kept = (0..self.input.layout.rank()).filter(|axis| !self.axes.contains(axis)).nth(axis)?;
        let [mean, variance] = [self.mean, self.variance].map(|spec| spec.dense_first(axis, extent));
        let input = self.input.first(kept, extent)?;
        Some(Moments { input, mean: mean?, variance: variance?, ..self.clone() }.into())
    }

    /// Some results, each of its whole set.
    fn sample(&self) -> Result<Option<Sample>> {
        let of = |input, mean| Moments { input, mean, variance: mean, ..self.clone() };
        let sample = sample::of_lines(&self.input, &self.axes, &self.mean, of)?;
        let variance = self.variance.layout.offset();
        Ok(sample.map(|Sample { op, positions }| {
            let beside =
                positions.iter().map(|mean| mean.with_offset(mean.offset() - self.mean.layout.offset() + variance));
            let positions = positions.iter().copied().chain(beside).collect();
            Sample { op, positions }
        }))
    }
}

/// A mean give or take `error`; of an infinity NaN, too: sets that hold it are joined by differences.
pub(crate) fn mean_within(mean: f64, error: f64) -> Expected {
    let expected = Expected::near(mean, error);
    if mean.is_infinite() { expected.or_nan() } else { expected }
}

impl Tensor {
    /// Variance and mean over `axes` (`..`: all), which disappear, or stay with extent 1 ([`keep`](crate::keep)), by one walk over the elements
    /// ([`Moments`]). The variance is the sum of squared differences over the number of elements less `correction`, as [`Tensor::var`]'s.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 2.0, 3.0, 6.0], [2, 2])?;
    /// let (variance, mean) = x.var_mean(0, 1.0)?;
    /// assert_eq!((variance.to_vec::<f32>()?, mean.to_vec::<f32>()?), (vec![2.0, 8.0], vec![2.0, 4.0]));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::EmptyReduction`] for axes of no elements; [`Error::InvalidArgument`] for a
    /// correction that is not finite; axes as in [`Tensor::reduce`]; memory errors of the device.
    pub fn var_mean(&self, axes: impl Axes, correction: f64) -> Result<(Tensor, Tensor)> {
        const NAME: &str = "var_mean";
        let (axes, keep) = axis::reduced(NAME, axes, self.rank())?;
        if !correction.is_finite() {
            let reason = format!("{NAME} with a correction of {correction}; give a finite number, such as 1");
            return Err(Error::InvalidArgument { what: "correction", reason });
        }
        let op = Moments::new(self.spec(), &axes)?;
        // As PyTorch: of too few elements an infinity, or NaN.
        let divisor = (op.count() as f64 - correction).max(0.0);
        let factor = op.count() as f64 / divisor;
        let shape = self.layout().shape().without_axes(&axes, keep);
        let found = Tensor::apply(self.device(), op, &[self])?;
        let [mean, variance] = [0, 1].map(|number| found[number].reshape(shape));
        let variance = variance?;
        let corrected =
            if correction == 0.0 { variance } else { Tensor::map(&(Expr::input(0) * factor), &[&variance])? };
        Ok((corrected.cast(self.dtype())?, mean?.cast(self.dtype())?))
    }
}
