//! Layer normalisation along the last axis: y = (x - mean) / sqrt(variance + epsilon), times gamma, plus beta (Ba, Kiros and Hinton,
//! arXiv 1607.06450).
//!
//! The variance is the mean of squared differences (biased), as PyTorch's. Mean and 1 / sqrt(variance + epsilon) of each row are
//! results of their own, in f32 (f64 for f64): the gradient needs them. Floats only; those of 8 and 16 bits are computed in f32.
//! Squares of differences must fit the type that is computed in. A row with NaN or an infinity is NaN throughout.

use super::prelude::*;

/// Normalisation of each row of the last axis of `input`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// What is normalised, [..., n].
    pub input: TensorSpec,
    /// Factors, `[n]`, of the input's dtype.
    pub gamma: TensorSpec,
    /// Addends, `[n]`, of the input's dtype.
    pub beta: TensorSpec,
    /// Added to the variance; positive.
    pub epsilon: f64,
    /// Dense output of the input's shape and dtype.
    pub output: TensorSpec,
    /// Dense means of the rows, [...], f32 or f64.
    pub mean: TensorSpec,
    /// Dense 1 / sqrt(variance + epsilon) of the rows, as `mean`.
    pub rstd: TensorSpec,
}

impl LayerNorm {
    /// A checked normalisation whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool, [`Error::ShapeMismatch`] for gamma and beta that are no rows,
    /// [`Error::DTypeMismatch`], [`Error::InvalidArgument`] for a scalar and for an epsilon that is not positive.
    pub fn new(input: TensorSpec, gamma: TensorSpec, beta: TensorSpec, epsilon: f64) -> Result<LayerNorm> {
        let dims = input.layout.dims();
        let rows =
            TensorSpec::new(input.dtype.compute(), Layout::contiguous(Shape::new(&dims[..dims.len().max(1) - 1])?));
        let output = TensorSpec::new(input.dtype, Layout::contiguous(*input.layout.shape()));
        LayerNorm { input, gamma, beta, epsilon, output, mean: rows, rstd: rows }.check()
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// As [`LayerNorm::new`].
    pub fn check(self) -> Result<LayerNorm> {
        const OP: &str = "layer_norm";
        let dtype = self.input.dtype;
        let Some((&n, rows)) = self.input.layout.dims().split_last() else {
            return Err(Error::InvalidArgument {
                what: "operand",
                reason: format!("{OP} of a scalar, which has no rows"),
            });
        };
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        if self.epsilon.is_nan() || self.epsilon <= 0.0 {
            let reason = format!("{} is not positive: a constant row has no variance", self.epsilon);
            return Err(Error::InvalidArgument { what: "epsilon", reason });
        }
        let (row, rows, compute) = (Shape::new(&[n])?, Shape::new(rows)?, dtype.compute());
        let whole = *self.input.layout.shape();
        let wanted = [(self.gamma, row, dtype), (self.beta, row, dtype), (self.output, whole, dtype)];
        for (spec, shape, dtype) in wanted.into_iter().chain([(self.mean, rows, compute), (self.rstd, rows, compute)]) {
            if *spec.layout.shape() != shape {
                return Err(Error::shape_mismatch(OP, spec.layout.shape(), &shape, None));
            }
            if spec.dtype != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: spec.dtype });
            }
        }
        [self.output, self.mean, self.rstd].iter().try_for_each(|output| check_dense_output(OP, output))?;
        Ok(self)
    }

    /// Everything it is, epsilon by its bits.
    fn identity(&self) -> impl Eq + std::hash::Hash + use<> {
        let LayerNorm { input, gamma, beta, epsilon, output, mean, rstd } = *self;
        (input, gamma, beta, epsilon.to_bits(), output, mean, rstd)
    }

    /// The last axis.
    fn axis(&self) -> usize {
        self.input.layout.rank() - 1
    }
}

impl PartialEq for LayerNorm {
    fn eq(&self, other: &LayerNorm) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for LayerNorm {}

impl std::hash::Hash for LayerNorm {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Operation for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    operands! { read input, gamma, beta; write output, mean, rstd }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// Two sums, a square, two differences and the affine map: eight per element.
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
        let (columns, rows) = (gamma.len(), self.mean.layout.elements() as usize);
        let n = columns as f64;
        let chain = chain(columns) + 4.0;
        let (mut outputs, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..rows {
            let x = &x[row * columns..][..columns];
            let mean = x.iter().sum::<f64>() / n;
            let off_mean = chain * u * x.iter().map(|x| x.abs()).sum::<f64>() / n + tiny;
            let off = |c: f64| off_mean + u * c.abs() + tiny;
            let squares = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let of_terms = x.iter().map(|x| off(x - mean) * (2.0 * (x - mean).abs() + off(x - mean))).sum::<f64>() / n;
            let off_squares = of_terms + chain * u * squares + tiny;
            // NaN stays NaN.
            let root = |variance: f64| 1.0 / (if variance < 0.0 { 0.0 } else { variance } + self.epsilon).sqrt();
            let rstd = root(squares);
            let ends = [root(squares - off_squares), root(squares + off_squares)].map(|end| (end - rstd).abs());
            let off_rstd = ends[0].max(ends[1]) + 8.0 * u * rstd;
            means.push(Expected::near(mean, off_mean));
            rstds.push(Expected::near(rstd, off_rstd));
            for ((x, gamma), beta) in x.iter().zip(&gamma).zip(&beta) {
                let c = x - mean;
                let scaled = c * rstd * gamma;
                let error = gamma.abs() * (off(c) * (rstd + off_rstd) + c.abs() * off_rstd);
                let y = scaled + beta;
                outputs.push(Expected::near(y, error + 4.0 * u * (scaled.abs() + beta.abs()) + tiny).round_to(dtype));
            }
        }
        vec![outputs, means, rstds]
    }

    /// With h = (x - mean) rstd and g = gamma dy: dx = rstd (g - mean(g) - h mean(g h)) + (dmean - h rstd^2 drstd) / n; dgamma is the sum
    /// of dy h over rows, dbeta that of dy.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (dtype, compute, axis) = (self.input.dtype, self.mean.dtype, self.axis());
        let (shape, row) = (*self.input.layout.shape(), *self.gamma.layout.shape());
        let kept = shape.without_axes(&[axis], KeepDims::Yes);
        let (x, gamma, dy) = (rule.input(0)?, rule.input(1)?, rule.gradient(0)?);
        let [mean, rstd, dmean, drstd] =
            [rule.output(1)?, rule.output(2)?, rule.gradient(1)?, rule.gradient(2)?].map(|value| value.reshape(kept));
        let values = [x, gamma, dy, mean?, rstd?, dmean?, drstd?];
        let [x_of, gamma_of, dy_of, mean_of, rstd_of, dmean_of, drstd_of] =
            std::array::from_fn(|number| Expr::input(number).cast(compute));
        let wants = [0, 1, 2].map(|input| rule.wants(input));
        let graph = &mut rule.graph;
        let values = values.map(|value| value.broadcast_to(shape));
        let values = values.into_iter().collect::<Result<Vec<Value>>>()?;
        let h = (x_of - mean_of) * &rstd_of;
        let mut gradients = Vec::new();
        if wants[0] {
            let (mut values, mut terms) = (values.clone(), Vec::new());
            if needs.outputs[0] {
                let g = gamma_of * &dy_of;
                let sums = graph.map_used(&[g.clone(), g.clone() * &h], &values)?;
                for sum in sums {
                    let mean = graph.reduce(ReduceFn::Mean, sum, &[axis], KeepDims::Yes)?;
                    values.push(mean.broadcast_to(shape)?);
                }
                terms.push(rstd_of.clone() * (g - Expr::input(7) - h.clone() * Expr::input(8)));
            }
            let n = self.gamma.layout.elements() as f64;
            if needs.outputs[1] {
                terms.push(dmean_of / n);
            }
            if needs.outputs[2] {
                terms.push(-(h.clone() * &rstd_of * &rstd_of * drstd_of) / n);
            }
            let dx = terms.into_iter().reduce(|sum, term| sum + term).map(|dx| dx.cast(dtype));
            gradients.push(graph.map_used(dx.as_slice(), &values)?.pop());
        }
        // Of mean and rstd alone nothing depends on the affine map.
        let affine = wants[1..].iter().filter(|wanted| **wanted).count();
        if !needs.outputs[0] {
            gradients.extend(vec![None; affine]);
            return rule.finish(gradients);
        }
        if wants[1] {
            let terms = graph.map_used(&[dy_of * h], &values)?;
            gradients.push(terms.into_iter().next().map(|terms| graph.sum_to(terms, row, dtype)).transpose()?);
        }
        if wants[2] {
            gradients.push(Some(graph.sum_to(dy, row, dtype)?));
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        Builder::whole(self, |graph, [x, gamma, beta]| {
            let (dtype, compute, axis) = (self.input.dtype, self.mean.dtype, self.axis());
            let of = |number: usize| Expr::input(number).cast(compute);
            let wide = graph.cast(x, compute)?;
            let mean = graph.reduce(ReduceFn::Mean, wide, &[axis], KeepDims::Yes)?;
            let c = of(0) - of(1);
            let squares = graph.map(&(c.clone() * &c), &[wide, mean])?;
            let variance = graph.reduce(ReduceFn::Mean, squares, &[axis], KeepDims::Yes)?;
            let rstd = graph.map(&(of(0) + self.epsilon).rsqrt(), &[variance])?;
            let y = graph.map(&(c * of(2) * of(3) + of(4)).cast(dtype), &[x, mean, rstd, gamma, beta])?;
            Ok([y, mean, rstd])
        })
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" eps{:e}", self.epsilon));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the output's `axis` alone: of any but the rows'.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis() {
            return None;
        }
        let [mean, rstd] = [self.mean, self.rstd].map(|spec| spec.dense_first(axis, extent));
        let (input, output) = (self.input.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        Some(LayerNorm { input, output, mean: mean?, rstd: rstd?, ..self.clone() }.into())
    }

    /// Some rows, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let axis = self.axis();
        let thinning = Thinning::new(self.output.layout.dims(), |other| other != axis);
        let kept = |spec: &TensorSpec| thinning.of_kept(&[axis], &spec.layout);
        let positions = vec![thinning.of(&self.output.layout)?, kept(&self.mean)?, kept(&self.rstd)?];
        let dense = |number: usize, spec: &TensorSpec| sample::dense(spec.dtype, &positions[number]);
        let (output, mean, rstd) = (dense(0, &self.output), dense(1, &self.mean), dense(2, &self.rstd));
        let op = LayerNorm { input: thinning.of_spec(&self.input)?, output, mean, rstd, ..self.clone() };
        Ok(Some(Sample { op: op.into(), positions }))
    }
}

impl Tensor {
    /// Each row of the last axis less its mean, over its deviation, times `gamma`, plus `beta` (both `[n]`): [`LayerNorm`].
    ///
    /// # Errors
    /// As [`LayerNorm::new`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn layer_norm(&self, gamma: &Tensor, beta: &Tensor, epsilon: f64) -> Result<Tensor> {
        let op = LayerNorm::new(self.spec(), gamma.spec(), beta.spec(), epsilon)?;
        Ok(Tensor::apply(self.device(), op, &[self, gamma, beta])?.swap_remove(0))
    }
}
