//! Softmax and log-softmax along one axis: y = exp(x - max) / sum exp(x - max), or its logarithm.
//!
//! Floats only; those of 8 and 16 bits are computed in f32. A row holding NaN or +inf is NaN throughout. A row of -inf alone (all
//! masked) gives zeros from softmax and -inf from log-softmax, so that masked attention rows do not poison a batch.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};

use super::prelude::*;

/// Softmax or its logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftmaxFn {
    /// x - max - log sum exp(x - max)
    LogSoftmax,
    /// exp(x - max) / sum exp(x - max)
    Softmax,
}

impl SoftmaxFn {
    /// Both functions.
    pub const ALL: [SoftmaxFn; 2] = [SoftmaxFn::LogSoftmax, SoftmaxFn::Softmax];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            SoftmaxFn::LogSoftmax => "log_softmax",
            SoftmaxFn::Softmax => "softmax",
        }
    }
}

/// Softmax or log-softmax of `input` along `axis`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    /// The function to compute.
    pub function: SoftmaxFn,
    /// The operand.
    pub input: TensorSpec,
    /// The axis whose elements compete.
    pub axis: usize,
    /// Dense output of the input's shape and dtype.
    pub output: TensorSpec,
}

impl Softmax {
    /// A checked softmax.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::UndefinedForDType`] for integers and bool, [`Error::ShapeMismatch`],
    /// [`Error::DTypeMismatch`].
    pub fn new(function: SoftmaxFn, input: TensorSpec, axis: usize, output: TensorSpec) -> Result<Softmax> {
        let op = function.name();
        input.layout.shape().axis(axis)?;
        check_float(op, &input)?;
        check_output(op, &output, input.dtype, input.layout.shape())?;
        Ok(Softmax { function, input, axis, output })
    }
}

impl Operation for Softmax {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        Softmax::new(self.function, self.input, self.axis, self.output).map(drop)
    }

    /// Maximum, subtraction, exponential, sum and scale: five per element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements().saturating_mul(5))
    }

    /// The defining formula in float64.
    ///
    /// Bound of softmax, relative: the exponential's ULPs and its argument's rounding (u |x - max|), the sum's chain, one
    /// division. Of log-softmax, absolute: rounding of x - max and of the difference, and the relative error of the sum.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let input = &inputs[0];
        let dtype = self.output.dtype;
        let u = dtype.compute().unit_roundoff();
        let expected = input.map_groups(self.axis, |row| {
            let x = numbers(row);
            let max = largest(&x);
            let nan = x.iter().any(|v| v.is_nan());
            let sum: f64 = x.iter().map(|v| (v - max).exp()).sum();
            let chain = chain(x.len());
            x.iter()
                .map(|&v| {
                    let shifted = v - max;
                    let (value, error) = match self.function {
                        _ if nan || max == f64::INFINITY => (f64::NAN, 0.0),
                        SoftmaxFn::Softmax if max == f64::NEG_INFINITY => (0.0, 0.0),
                        SoftmaxFn::LogSoftmax if max == f64::NEG_INFINITY => (f64::NEG_INFINITY, 0.0),
                        SoftmaxFn::Softmax => {
                            let y = shifted.exp() / sum;
                            // The exponential may be subnormal before it is divided.
                            let tiny = u * dtype.compute().min_normal();
                            (y, y * u * (24.0 + chain + 2.0 * finite(shifted)) + tiny)
                        }
                        SoftmaxFn::LogSoftmax => {
                            let y = shifted - sum.ln();
                            (y, u * (16.0 + chain + 2.0 * finite(shifted) + 8.0 * sum.ln() + finite(y)))
                        }
                    };
                    Expected::within(Scalar::F(value), error).round_to(dtype)
                })
                .collect()
        });
        vec![expected]
    }

    /// The gradient of y = softmax(x) is y (dy - sum(dy y)), that of y = log softmax(x) is dy - exp(y) sum(dy).
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        RuleBuilder::of_first(self, needs, |rule| {
            let [dtype, compute] = [self.output.dtype, self.output.dtype.compute()];
            let (y, dy) = (rule.output(0)?, rule.gradient(0)?);
            let [a, b, c] = [0, 1, 2].map(|number| Expr::input(number).cast(compute));
            let graph = &mut rule.graph;
            let terms = match self.function {
                SoftmaxFn::Softmax => graph.map(&(b.clone() * &a), &[y, dy])?,
                SoftmaxFn::LogSoftmax => graph.cast(dy, compute)?,
            };
            let sum = graph.reduce(ReduceFn::Sum, terms, &[self.axis], KeepDims::Yes)?;
            let gradient = match self.function {
                SoftmaxFn::Softmax => a * (b - c),
                SoftmaxFn::LogSoftmax => b - a.exp() * c,
            };
            graph.map(&gradient.cast(dtype), &[y, dy, sum])
        })
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op restricted to the first `extent` indices of the output's `axis`; `None` along the softmax's own axis,
    /// which needs all of its elements.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis {
            return None;
        }
        let input = self.input.first(axis, extent)?;
        Some(Softmax { input, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    /// A few lines along the axis, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let of = |input, output| Softmax { input, output, ..self.clone() };
        sample::of_lines(&self.input, &[self.axis], &self.output, of)
    }
}

/// |x|, or 0 where an infinity makes the result exact anyway.
fn finite(x: f64) -> f64 {
    if x.is_finite() { x.abs() } else { 0.0 }
}

impl Builder {
    /// Softmax or its logarithm along `axis`.
    ///
    /// # Errors
    /// As [`Softmax::new`].
    pub fn softmax(&mut self, f: SoftmaxFn, x: Value, axis: usize) -> Result<Value> {
        let output = TensorSpec::dense(x.dtype(), *x.spec.layout.shape());
        self.one(Softmax::new(f, x.spec, axis, output)?, &[x])
    }
}
