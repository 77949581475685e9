//! Batch normalisation over all axes but the last: y = (x - mean) / sqrt(variance + epsilon), times gamma, plus beta, mean and variance
//! being those of a channel (Ioffe and Szegedy, arXiv 1502.03167); then, where they are asked for, plus a residual, and relu: the end of a
//! residual block in one pass, whose gradient takes from y where relu was 0.
//!
//! x is [..., channels]. The variance is the mean of squared differences (biased), as PyTorch's, and never a difference of two large sums.
//! Mean and variance of each channel are results of their own, in f32 (f64 for f64): the gradient reads them, and running statistics are
//! made of them. The decision to know: the variance is kept and not 1 / sqrt(variance + epsilon), from which a variance below epsilon could
//! not be had again. Floats only; those of 8 and 16 bits are computed in f32. What running statistics do is a map,
//! [`Tensor::batch_norm_with`]. A channel with NaN or an infinity is NaN throughout.

use super::moments::{Moments, mean_within};
use super::prelude::*;

const OP: &str = "batch_norm";

/// Normalisation of each channel, the last axis of `input`, over all others.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// What is normalised, [..., channels]: at least two values of a channel.
    pub input: TensorSpec,
    /// Factors, `[channels]`, of the input's dtype.
    pub gamma: TensorSpec,
    /// Addends, `[channels]`, of the input's dtype.
    pub beta: TensorSpec,
    /// Added before the activation, of the input's shape and dtype.
    pub residual: Option<TensorSpec>,
    /// Added to the variance; positive.
    pub epsilon: f64,
    /// Relu at the end, or nothing.
    pub activation: Option<UnaryFn>,
    /// Dense output of the input's shape and dtype.
    pub output: TensorSpec,
    /// Dense means, `[channels]`, f32 or f64.
    pub mean: TensorSpec,
    /// Dense biased variances, as `mean`.
    pub variance: TensorSpec,
}

impl BatchNorm {
    /// A checked normalisation whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool, [`Error::ShapeMismatch`] for gamma and beta that are not of one number for each
    /// channel, [`Error::DTypeMismatch`], [`Error::InvalidArgument`] for a scalar, for less than two values of a channel and for an epsilon that
    /// is not positive.
    pub fn new(input: TensorSpec, gamma: TensorSpec, beta: TensorSpec, epsilon: f64) -> Result<BatchNorm> {
        let channels = input.layout.dims().last().copied().unwrap_or(0);
        let of_channel = TensorSpec::new(input.dtype.compute(), Layout::contiguous(Shape::new(&[channels])?));
        let output = TensorSpec::new(input.dtype, Layout::contiguous(*input.layout.shape()));
        let (residual, activation, [mean, variance]) = (None, None, [of_channel; 2]);
        BatchNorm { input, gamma, beta, residual, epsilon, activation, output, mean, variance }.check()
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// As [`BatchNorm::new`].
    pub fn check(self) -> Result<BatchNorm> {
        let (dtype, compute, shape) = (self.input.dtype, self.input.dtype.compute(), *self.input.layout.shape());
        let channels = channels_of(&shape)?;
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        check_epsilon(self.epsilon)?;
        check_activation(self.activation)?;
        let values = self.values();
        if values < 2 {
            let reason = format!(
                "{OP} of {shape} has {values} of each channel, the last axis, and a variance needs two; take a larger batch, or normalise \
                 by running statistics (batch_norm_with)"
            );
            return Err(Error::InvalidArgument { what: "values", reason });
        }
        let wanted = [(self.gamma, channels, dtype), (self.beta, channels, dtype), (self.output, shape, dtype)];
        let of_channel = [(self.mean, channels, compute), (self.variance, channels, compute)];
        let residual = self.residual.map(|residual| (residual, shape, dtype));
        for (spec, shape, dtype) in wanted.into_iter().chain(of_channel).chain(residual) {
            if *spec.layout.shape() != shape {
                return Err(Error::shape_mismatch(OP, spec.layout.shape(), &shape, None));
            }
            if spec.dtype != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: spec.dtype });
            }
        }
        [self.output, self.mean, self.variance].iter().try_for_each(|output| check_dense_output(OP, output))?;
        Ok(self)
    }

    /// Everything it is, epsilon by its bits.
    fn identity(&self) -> impl Eq + std::hash::Hash + use<> {
        let BatchNorm { input, gamma, beta, residual, epsilon, activation, output, mean, variance } = *self;
        ((input, gamma, beta, residual), epsilon.to_bits(), activation, output, mean, variance)
    }

    /// The last axis.
    fn axis(&self) -> usize {
        self.input.layout.rank() - 1
    }

    /// The axes over which a channel goes.
    fn axes(&self) -> Vec<usize> {
        (0..self.axis()).collect()
    }

    /// How many values a channel has.
    fn values(&self) -> u64 {
        self.input.layout.dims().iter().rev().skip(1).product()
    }
}

/// `[channels]` of [..., channels].
fn channels_of(shape: &Shape) -> Result<Shape> {
    match shape.dims().last() {
        Some(&channels) => Shape::new(&[channels]),
        None => {
            let reason = format!("{OP} of a scalar, which has no channels; the last axis is that of channels");
            Err(Error::InvalidArgument { what: "operand", reason })
        }
    }
}

fn check_activation(activation: Option<UnaryFn>) -> Result<()> {
    match activation {
        None | Some(UnaryFn::Relu) => Ok(()),
        Some(other) => {
            let reason = format!("{OP} ends with relu or nothing; take {} as an operation of its own", other.name());
            Err(Error::InvalidArgument { what: "activation", reason })
        }
    }
}

fn check_epsilon(epsilon: f64) -> Result<()> {
    if epsilon > 0.0 && epsilon.is_finite() {
        return Ok(());
    }
    let reason = format!("{OP}: {epsilon} is not positive: a constant channel has no variance");
    Err(Error::InvalidArgument { what: "epsilon", reason })
}

impl PartialEq for BatchNorm {
    fn eq(&self, other: &BatchNorm) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for BatchNorm {}

impl std::hash::Hash for BatchNorm {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Operation for BatchNorm {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input, gamma, beta, residual; write output, mean, variance }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// Two sums, a square, two differences and the affine map: eight per element. A residual and relu are two more at most.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements().saturating_mul(8))
    }

    /// The definition in float64. Bounds, u being the roundoff and h the chain of a sum of n terms (2 sqrt n, at least 8): the mean
    /// errs by h u mean|x|, a difference c by that and u|c|, the variance by what its terms do and h u of itself; 1 / sqrt is
    /// evaluated at both ends of the variance; the rest are single roundings.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (dtype, compute) = (self.output.dtype, self.mean.dtype);
        let (u, tiny) = (compute.unit_roundoff(), compute.min_normal());
        let [x, gamma, beta] = [0, 1, 2].map(|i| numbers(&before[i].values));
        let residual = self.residual.map(|_| numbers(&before[3].values));
        let channels = gamma.len();
        let n = self.values() as f64;
        let chain = chain(self.values() as usize) + 4.0;
        let (mut outputs, mut means, mut variances) = (vec![None; x.len()], Vec::new(), Vec::new());
        for channel in 0..channels {
            let of_channel = || x.iter().skip(channel).step_by(channels);
            let mean = of_channel().sum::<f64>() / n;
            let off_mean = chain * u * of_channel().map(|x| x.abs()).sum::<f64>() / n + tiny;
            let off = |c: f64| off_mean + u * c.abs() + tiny;
            let variance = of_channel().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let of_term = |x: &f64| off(x - mean) * (2.0 * (x - mean).abs() + off(x - mean));
            let off_variance = of_channel().map(of_term).sum::<f64>() / n + chain * u * variance + tiny;
            // NaN stays NaN.
            let root = |variance: f64| 1.0 / (if variance < 0.0 { 0.0 } else { variance } + self.epsilon).sqrt();
            let rstd = root(variance);
            let ends = [root(variance - off_variance), root(variance + off_variance)].map(|end| (end - rstd).abs());
            let off_rstd = ends[0].max(ends[1]) + 8.0 * u * rstd;
            means.push(mean_within(mean, off_mean));
            variances.push(Expected::near(variance, off_variance));
            let (gamma, beta) = (gamma[channel], beta[channel]);
            for (at, output) in outputs.iter_mut().enumerate().skip(channel).step_by(channels) {
                let c = x[at] - mean;
                let scaled = c * rstd * gamma;
                let error = gamma.abs() * (off(c) * (rstd + off_rstd) + c.abs() * off_rstd);
                let added = residual.as_ref().map_or(0.0, |residual| residual[at]);
                let error = error + 6.0 * u * (scaled.abs() + beta.abs() + added.abs()) + tiny;
                let y = scaled + beta + added;
                // Relu moves nothing further apart; NaN stays NaN.
                let y = if self.activation.is_some() && y < 0.0 { 0.0 } else { y };
                *output = Some(Expected::near(y, error).round_to(dtype));
            }
        }
        vec![outputs.into_iter().flatten().collect(), means, variances]
    }

    /// With r = 1 / sqrt(variance + epsilon), n values of a channel, and dz the gradient behind relu, dy where y > 0 and else 0:
    /// dresidual = dz, dbeta = sum dz, dgamma = r s with s = sum dz (x - mean), dx = a dz - k (x - mean) - d with the numbers of a channel
    /// a = gamma r, k = (a r r s - 2 dvariance) / n and d = (a dbeta - dmean) / n: eight buffers at most, as WebGPU guarantees.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (dtype, compute, axes) = (self.input.dtype, self.mean.dtype, self.axes());
        let (shape, n) = (*self.input.layout.shape(), self.values() as f64);
        let (x, gamma, mut dz) = (rule.input(0)?, rule.input(1)?, rule.gradient(0)?);
        let (y, mean, variance) = (rule.output(0)?, rule.output(1)?, rule.output(2)?);
        let (dmean, dvariance) = (rule.gradient(1)?, rule.gradient(2)?);
        let wants = [0, 1, 2, 3].map(|input| rule.wants(input));
        let graph = &mut rule.graph;
        let of = |number: usize| Expr::input(number).cast(compute);
        // The affine map makes y alone: of mean and variance nothing depends on gamma, beta and the residual.
        let reaches = needs.outputs[0];
        let relu = |dy: Expr, y: Expr| y.compare(CompareFn::Gt, 0.0).select(dy, 0.0);
        let mut dz_of = of(1);
        let mut values = vec![x, dz];
        if self.activation.is_some() && reaches {
            if wants[3] {
                // Its own gradient, which the others read then.
                dz = graph.map(&relu(Expr::input(0), of(1)), &[dz, y])?;
                values[1] = dz;
            } else {
                dz_of = relu(of(1), of(2));
                values.push(y);
            }
        }
        let whole =
            |values: &[Value]| values.iter().map(|value| value.broadcast_to(shape)).collect::<Result<Vec<Value>>>();
        let [scaled, dbeta] = {
            let from_mean = of(0) - of(values.len());
            let inputs = whole(&[&values[..], &[mean]].concat())?;
            let mut sum = |of: usize, term: Expr| {
                if !reaches || !(wants[0] || wants[of]) {
                    return Ok(None);
                }
                let terms = graph.map_used(&[term], &inputs)?[0];
                graph.reduce(ReduceFn::Sum, terms, &axes, KeepDims::No).map(Some)
            };
            [sum(1, dz_of.clone() * from_mean)?, sum(2, dz_of.clone())?]
        };
        let mut dx = None;
        if wants[0] {
            let mut numbers: Vec<Value> = Vec::new();
            if let (Some(scaled), Some(dbeta)) = (scaled, dbeta) {
                let r = (of(1) + self.epsilon).rsqrt();
                let a = of(0) * &r;
                let all = [a.clone(), a.clone() * &r * &r * (of(2) / n), a * (of(3) / n)];
                numbers = graph.map_used(&all, &[gamma, variance, scaled, dbeta])?;
            }
            // What comes by way of mean and variance themselves.
            let beside = [(2, dmean, 1.0 / n), (1, dvariance, 2.0 / n)];
            let mut terms: [Option<Value>; 3] = std::array::from_fn(|at| numbers.get(at).copied());
            for (at, gradient, factor) in beside.into_iter().filter(|(at, ..)| needs.outputs[3 - at]) {
                let taken = of(0) * factor;
                terms[at] = Some(match terms[at] {
                    Some(number) => graph.map(&(of(1) - taken), &[gradient, number])?,
                    None => graph.map(&-taken, &[gradient])?,
                });
            }
            let at = values.len();
            let mut inputs = values.clone();
            let mut sum: Option<Expr> = None;
            let mut add = |term: Expr| sum = Some(sum.take().map_or_else(|| term.clone(), |sum| sum + term.clone()));
            inputs.push(mean);
            for (number, term) in terms.into_iter().enumerate().filter_map(|(number, term)| Some((number, term?))) {
                let by = of(inputs.len());
                inputs.push(term);
                match number {
                    0 => add(by * dz_of.clone()),
                    1 => add(-(by * (of(0) - of(at)))),
                    _ => add(-by),
                }
            }
            if let Some(sum) = sum {
                dx = graph.map_used(&[sum.cast(dtype)], &whole(&inputs)?)?.pop();
            }
        }
        let mut gradients = Vec::new();
        if wants[0] {
            gradients.push(dx);
        }
        if wants[1] {
            let dgamma = (of(0) * (of(1) + self.epsilon).rsqrt()).cast(dtype);
            gradients.push(scaled.map(|scaled| graph.map(&dgamma, &[scaled, variance])).transpose()?);
        }
        if wants[2] {
            gradients.push(dbeta.map(|sum| graph.cast(sum, dtype)).transpose()?);
        }
        if wants[3] {
            // Without relu it is what came, which is no result of a graph.
            let is_made = self.activation.is_some();
            let made = |graph: &mut Builder| if is_made { Ok(dz) } else { graph.map(&Expr::input(0), &[dz]) };
            gradients.push(if reaches { Some(made(graph)?) } else { None });
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let inputs = [self.input, self.gamma, self.beta].into_iter().chain(self.residual).collect();
        let mut graph = Builder::new(inputs);
        let (dtype, compute, axes) = (self.input.dtype, self.mean.dtype, self.axes());
        let (x, gamma, beta) = (graph.input(0)?, graph.input(1)?, graph.input(2)?);
        let of = |number: usize| Expr::input(number).cast(compute);
        let moments = graph.apply(Moments::new(self.input, &axes)?, &[x])?;
        let [mean, variance] = moments[..] else {
            return Err(Error::InvalidArgument { what: "graph", reason: format!("{OP} has two numbers of a channel") });
        };
        // Once for each channel, and not for each element.
        let factor = graph.map(&((Expr::input(0) + self.epsilon).rsqrt() * of(1)), &[variance, gamma])?;
        let c = of(0) - of(1);
        let mut y = c * of(2) + of(3);
        let mut values = vec![x, mean, factor, beta];
        if self.residual.is_some() {
            y = y + of(4);
            values.push(graph.input(3)?);
        }
        if let Some(activation) = self.activation {
            y = y.unary(activation);
        }
        let y = graph.map(&y.cast(dtype), &values)?;
        Ok(Some(graph.finish(OP, &[y, mean, variance], &[self.output, self.mean, self.variance])?))
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" eps{:e}", self.epsilon));
        if self.residual.is_some() {
            name.push_str(" residual");
        }
        if let Some(activation) = self.activation {
            name.push_str(&format!(" {}", activation.name()));
        }
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` channels: every other axis goes into the sums.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != self.axis() {
            return None;
        }
        let [mean, variance] = [self.mean, self.variance].map(|spec| spec.dense_first(0, extent));
        let [gamma, beta] = [self.gamma, self.beta].map(|spec| spec.first(0, extent));
        let (input, output) = (self.input.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        let (gamma, beta, mean, variance) = (gamma?, beta?, mean?, variance?);
        let residual = match &self.residual {
            Some(residual) => Some(residual.first(axis, extent)?),
            None => None,
        };
        Some(BatchNorm { input, gamma, beta, residual, output, mean, variance, ..self.clone() }.into())
    }

    /// Some channels, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let (axis, axes) = (self.axis(), self.axes());
        let thinning = Thinning::new(self.output.layout.dims(), |other| other == axis);
        let of_channel = |spec: &TensorSpec| thinning.of_kept(&axes, &spec.layout);
        let positions = vec![thinning.of(&self.output.layout)?, of_channel(&self.mean)?, of_channel(&self.variance)?];
        let dense = |number: usize, spec: &TensorSpec| sample::dense(spec.dtype, &positions[number]);
        let op = BatchNorm {
            input: thinning.of_spec(&self.input)?,
            gamma: TensorSpec { layout: of_channel(&self.gamma)?, ..self.gamma },
            beta: TensorSpec { layout: of_channel(&self.beta)?, ..self.beta },
            residual: self.residual.map(|residual| thinning.of_spec(&residual)).transpose()?,
            output: dense(0, &self.output),
            mean: dense(1, &self.mean),
            variance: dense(2, &self.variance),
            ..self.clone()
        };
        Ok(Some(Sample { op: op.into(), positions }))
    }
}

/// What comes behind a normalisation, in the same pass: the end of a residual block.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchNormEnd<'a> {
    /// Added, of the normalised tensor's shape and dtype.
    pub residual: Option<&'a Tensor>,
    /// Relu, or nothing.
    pub activation: Option<UnaryFn>,
}

/// What [`Tensor::batch_norm`] gives.
#[derive(Clone, Debug)]
pub struct BatchNormalised {
    /// The normalised tensor, of the operand's shape and dtype.
    pub y: Tensor,
    /// The mean of each channel, `[channels]`, f32 (f64 for f64).
    pub mean: Tensor,
    /// The biased variance of each channel: the mean of squared differences. Running variances are made of n / (n - 1) times it.
    pub variance: Tensor,
}

impl Tensor {
    /// Each channel, the last axis, less its mean over all other axes, over its deviation, times `gamma`, plus `beta` (both `[channels]`), as a
    /// network is trained: [`BatchNorm`](crate::ops::BatchNorm).
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 10.0, 3.0, 30.0], [2, 2])?;
    /// let (gamma, beta) = (Tensor::from_slice(&device, &[1.0f32, 1.0], [2])?, Tensor::from_slice(&device, &[0.0f32, 5.0], [2])?);
    /// let normal = x.batch_norm(&gamma, &beta, 1e-12)?;
    /// assert_eq!(normal.mean.to_vec::<f32>()?, [2.0, 20.0]);
    /// assert_eq!(normal.variance.to_vec::<f32>()?, [1.0, 100.0]);
    /// assert_eq!(normal.y.to_vec::<f32>()?, [-1.0, 4.0, 1.0, 6.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BatchNorm::new`](crate::ops::BatchNorm::new); [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn batch_norm(&self, gamma: &Tensor, beta: &Tensor, epsilon: f64) -> Result<BatchNormalised> {
        self.batch_norm_end(gamma, beta, epsilon, &BatchNormEnd::default())
    }

    /// [`Tensor::batch_norm`] with what comes behind it in the same pass.
    ///
    /// # Errors
    /// As [`Tensor::batch_norm`]; [`Error::ShapeMismatch`] and [`Error::DTypeMismatch`] for another residual, [`Error::InvalidArgument`] for another
    /// activation than relu.
    pub fn batch_norm_end(
        &self,
        gamma: &Tensor,
        beta: &Tensor,
        epsilon: f64,
        end: &BatchNormEnd<'_>,
    ) -> Result<BatchNormalised> {
        let BatchNormEnd { residual, activation } = *end;
        let op = BatchNorm::new(self.spec(), gamma.spec(), beta.spec(), epsilon)?;
        let op = BatchNorm { residual: residual.map(Tensor::spec), activation, ..op }.check()?;
        let inputs: Vec<&Tensor> = [self, gamma, beta].into_iter().chain(residual).collect();
        let mut results = Tensor::apply(self.device(), op, &inputs)?;
        let (variance, mean, y) = (results.swap_remove(2), results.swap_remove(1), results.swap_remove(0));
        Ok(BatchNormalised { y, mean, variance })
    }

    /// (x - mean) / sqrt(variance + epsilon) gamma + beta by known numbers, as a trained network is used: one map. `statistics`
    /// are mean and variance, f32 (f64 for f64); `gamma` and `beta` are of this tensor's dtype; all are `[channels]`.
    ///
    /// # Errors
    /// As [`BatchNorm::new`](crate::ops::BatchNorm::new), but for how many values a channel has; [`Error::DeviceMismatch`]; memory errors of
    /// the device.
    pub fn batch_norm_with(
        &self,
        statistics: [&Tensor; 2],
        gamma: &Tensor,
        beta: &Tensor,
        epsilon: f64,
    ) -> Result<Tensor> {
        self.batch_norm_with_end(statistics, gamma, beta, epsilon, &BatchNormEnd::default())
    }

    /// [`Tensor::batch_norm_with`] with what comes behind it in the same map.
    ///
    /// # Errors
    /// As [`Tensor::batch_norm_with`] and [`Tensor::batch_norm_end`].
    pub fn batch_norm_with_end(
        &self,
        statistics: [&Tensor; 2],
        gamma: &Tensor,
        beta: &Tensor,
        epsilon: f64,
        end: &BatchNormEnd<'_>,
    ) -> Result<Tensor> {
        check_activation(end.activation)?;
        let (dtype, compute) = (self.dtype(), self.dtype().compute());
        let channels = channels_of(self.shape())?;
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        check_epsilon(epsilon)?;
        let [mean, variance] = statistics;
        for (tensor, expected) in [(mean, compute), (variance, compute), (gamma, dtype), (beta, dtype)] {
            if *tensor.shape() != channels {
                return Err(Error::shape_mismatch(OP, tensor.shape(), &channels, None));
            }
            if tensor.dtype() != expected {
                return Err(Error::DTypeMismatch { op: OP, expected, got: tensor.dtype() });
            }
        }
        if let Some(residual) = end.residual {
            if residual.shape() != self.shape() {
                return Err(Error::shape_mismatch(OP, residual.shape(), self.shape(), None));
            }
            if residual.dtype() != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: residual.dtype() });
            }
        }
        let [x_of, mean_of, variance_of, gamma_of, beta_of, residual_of] =
            std::array::from_fn(|number| Expr::input(number).cast(compute));
        let mut y = (x_of - mean_of) * (variance_of + epsilon).rsqrt() * gamma_of + beta_of;
        if end.residual.is_some() {
            y = y + residual_of;
        }
        if let Some(activation) = end.activation {
            y = y.unary(activation);
        }
        let inputs: Vec<&Tensor> = [self, mean, variance, gamma, beta].into_iter().chain(end.residual).collect();
        Tensor::map(&y.cast(dtype), &inputs)
    }
}
