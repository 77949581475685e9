//! Cross-entropy of classes: of each row of logits x with target t, `-log softmax(x)[t]`, as PyTorch's `cross_entropy` gives it.
//!
//! With weights w of K classes and smoothing e (the target's share is 1 - e + e / K, each other class's e / K: Szegedy et al., arXiv 1512.00567,
//! section 7), a row's loss is `w[t] (1 - e) (lse - x[t]) + e / K sum_c w[c] (lse - x[c])`, where
//! `lse = log sum_c exp(x[c])`, with the largest logit taken out. A row whose target is the ignored one has loss 0 and counts nothing; one whose
//! target is no class has NaN, and [`Tensor::cross_entropy`] has it found, as an error of the next read ([`super::Positions`]). The mean is the sum of losses over the sum of `w[t]` of the rows that
//! count: NaN where none does. Over several batches add up both and divide once ([`Losses`]).
//!
//! Losses, what each row counts, and lse are results in f32 (f64 for f64); the gradient needs the latter two and no probabilities.

mod plan;

use super::Indexing;
use super::prelude::*;
use super::take::positions_with_sign;
use crate::Program;
use crate::tensor::outside::Look;

const OP: &str = "cross_entropy";

/// Losses of rows of logits.
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// Logits, [..., classes].
    pub logits: TensorSpec,
    /// The class of each row, i32 or u32, [...].
    pub targets: TensorSpec,
    /// A factor for each class, `[classes]`, in f32 (f64 for f64).
    pub weights: Option<TensorSpec>,
    /// The share of the target that all classes have in equal parts, 0 to 1.
    pub smoothing: f64,
    /// The target of rows that do not count.
    pub ignored: Option<i64>,
    /// Dense results, [...], in f32 (f64 for f64): the loss of each row, what it counts, and the logarithm of its sum of exponentials.
    pub outputs: [TensorSpec; 3],
}

impl CrossEntropy {
    /// A checked loss whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for logits that are no floats; [`Error::DTypeMismatch`] for targets that are neither i32 nor u32 and
    /// for weights of another type than f32 (f64); [`Error::ShapeMismatch`]; [`Error::InvalidArgument`] for scalar logits and a smoothing
    /// that is no share.
    pub fn new(
        logits: TensorSpec,
        targets: TensorSpec,
        weights: Option<TensorSpec>,
        smoothing: f64,
        ignored: Option<i64>,
    ) -> Result<CrossEntropy> {
        let dims = logits.layout.dims();
        let rows = Layout::contiguous(Shape::new(&dims[..dims.len().max(1) - 1])?);
        let outputs = [TensorSpec::new(logits.dtype.compute(), rows); 3];
        CrossEntropy { logits, targets, weights, smoothing, ignored, outputs }.check()
    }

    /// Everything it is, the smoothing by its bits.
    fn identity(&self) -> impl PartialEq + std::hash::Hash + use<> {
        let CrossEntropy { logits, targets, weights, smoothing, ignored, outputs } = *self;
        (logits, targets, weights, smoothing.to_bits(), ignored, outputs)
    }

    /// Classes.
    fn classes(&self) -> u64 {
        self.logits.layout.dims().last().copied().unwrap_or(0)
    }

    /// The last axis.
    fn axis(&self) -> usize {
        self.logits.layout.rank() - 1
    }

    /// e / K.
    fn share(&self) -> f64 {
        self.smoothing / self.classes().max(1) as f64
    }

    /// The numbers of the classes beside logits of that shape.
    fn numbers(&self, graph: &mut Builder) -> Result<Value> {
        let program = Program::compile(&Expr::index().cast(self.targets.dtype), &[])?;
        let shape = Shape::new(&[self.classes()])?;
        let numbers = TensorSpec::new(self.targets.dtype, Layout::contiguous(shape));
        let made = graph.apply(super::Map::new("arange", program, Vec::new(), numbers)?, &[])?;
        made[0].broadcast_to(*self.logits.layout.shape())
    }

    /// `counted` where the row counts, zero where it is ignored: by choice, so that NaN there does not show.
    fn unless_ignored(&self, target: &Expr, counted: Expr) -> Expr {
        match self.ignored {
            Some(ignored) => target.compare(CompareFn::Eq, ignored).select(0.0, counted),
            None => counted,
        }
    }
}

impl PartialEq for CrossEntropy {
    fn eq(&self, other: &CrossEntropy) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for CrossEntropy {}

impl std::hash::Hash for CrossEntropy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Operation for CrossEntropy {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read logits, targets, weights; write outputs }

    fn validate(&self) -> Result<()> {
        let Some((&classes, rows)) = self.logits.layout.dims().split_last() else {
            let reason = format!("{OP} of a scalar, which has no classes");
            return Err(Error::InvalidArgument { what: "operand", reason });
        };
        check_float(OP, &self.logits)?;
        if !matches!(self.targets.dtype, DType::I32 | DType::U32) {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::I32, got: self.targets.dtype });
        }
        if !(0.0..=1.0).contains(&self.smoothing) {
            let reason = format!("{} is no share between 0 and 1", self.smoothing);
            return Err(Error::InvalidArgument { what: "smoothing", reason });
        }
        let (rows, compute) = (Shape::new(rows)?, self.logits.dtype.compute());
        let weights = self.weights.map(|spec| (spec, Shape::new(&[classes])));
        let mut wanted = vec![(self.targets, rows, self.targets.dtype)];
        if let Some((spec, shape)) = weights {
            wanted.push((spec, shape?, compute));
        }
        wanted.extend(self.outputs.map(|output| (output, rows, compute)));
        for (spec, shape, dtype) in wanted {
            if *spec.layout.shape() != shape {
                return Err(Error::shape_mismatch(OP, spec.layout.shape(), &shape, None));
            }
            if spec.dtype != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: spec.dtype });
            }
        }
        self.outputs.iter().try_for_each(|output| check_dense_output(OP, output))
    }

    /// Maximum, difference, exponential and sum: four per logit, and two more for smoothing.
    fn arithmetic(&self) -> Arithmetic {
        let each = if self.smoothing > 0.0 { 6 } else { 4 };
        Arithmetic::flops(self.logits.layout.elements().saturating_mul(each))
    }

    /// The definition in float64. Bounds, u being the roundoff and h the chain of a sum of K terms (2 sqrt K, at least 8): lse errs by u (16
    /// + h + 2 sum p |x - max| + 8 |lse - max| + |max| + |lse|); smoothed sums by h u of their magnitudes; the rest are single roundings.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let compute = self.outputs[0].dtype;
        let u = compute.unit_roundoff();
        let classes = self.classes() as usize;
        let all = |number: usize| numbers(&before[number].values);
        let (x, targets) = (all(0), &before[1].values);
        let weights = if self.weights.is_some() { all(2) } else { vec![1.0; classes] };
        let (e, share) = (self.smoothing, self.share());
        let chain = chain(classes);
        let (mut losses, mut counted, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for (row, target) in targets.iter().enumerate() {
            let x = &x[row * classes..][..classes];
            let target = target.as_i64();
            let max = largest(x);
            let sum: f64 = x.iter().map(|v| (v - max).exp()).sum();
            let lse = max + sum.ln();
            let spread: f64 = x.iter().map(|v| (v - max).exp() / sum * (v - max).abs()).filter(|x| x.is_finite()).sum();
            let off_lse = u * (16.0 + chain + 2.0 * spread + 8.0 * sum.ln().abs() + max.abs() + lse.abs());
            logs.push(Expected::near(lse, off_lse));
            if self.ignored == Some(target) {
                losses.push(Expected::exact(Scalar::F(0.0)));
                counted.push(Expected::exact(Scalar::F(0.0)));
                continue;
            }
            let class = usize::try_from(target).ok().filter(|&class| class < classes);
            let (Some(x_of), Some(weight)) = (class.map(|class| x[class]), class.map(|class| weights[class])) else {
                losses.push(Expected::exact(Scalar::F(f64::NAN)));
                counted.push(Expected::exact(Scalar::F(f64::NAN)));
                continue;
            };
            let mut loss = weight * (1.0 - e) * (lse - x_of);
            let mut error = (weight * (1.0 - e)).abs() * (off_lse + u * (lse - x_of).abs()) + 4.0 * u * loss.abs();
            if e > 0.0 {
                let all: f64 = weights.iter().sum();
                let sum: f64 = weights.iter().zip(x).map(|(w, x)| w * x).sum();
                let magnitudes: f64 = weights.iter().zip(x).map(|(w, x)| (w * x).abs()).sum();
                let all_magnitudes: f64 = weights.iter().map(|w| w.abs()).sum();
                loss += share * (all * lse - sum);
                let off_sums = chain * u * (magnitudes + all_magnitudes * lse.abs()) + all_magnitudes * off_lse;
                error += share * (off_sums + 4.0 * u * ((all * lse).abs() + sum.abs())) + 4.0 * u * loss.abs();
            }
            losses.push(Expected::near(loss, error + compute.min_normal()));
            counted.push(Expected::exact(Scalar::F(weight)));
        }
        vec![losses, counted, logs]
    }

    /// With p = exp(x - lse), W = sum w and g the gradient of a row's loss, `dx[c] = g (w[t] (1 - e) (p[c] - [c = t]) + e / K (W p[c] - w[c]))`,
    /// plus `p[c]` times that of lse; nothing where the target is ignored. `dw[c]` is the sum over rows of
    /// `g ((1 - e) [c = t] + e / K) (lse - x[c])` and of what comes to the counts of class c.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (dtype, compute, axis) = (self.logits.dtype, self.outputs[0].dtype, self.axis());
        let shape = *self.logits.layout.shape();
        let kept = shape.without_axes(&[axis], KeepDims::Yes);
        let (x, targets) = (rule.input(0)?, rule.input(1)?);
        let by_row = [rule.output(1)?, rule.output(2)?, rule.gradient(0)?, rule.gradient(1)?, rule.gradient(2)?];
        let weights = self.weights.map(|_| rule.input(2)).transpose()?;
        let wants = [rule.wants(0), weights.is_some() && rule.wants(2)];
        let graph = &mut rule.graph;
        let mut values = vec![x, self.numbers(graph)?, targets.reshape(kept)?.broadcast_to(shape)?];
        for value in by_row {
            values.push(value.reshape(kept)?.broadcast_to(shape)?);
        }
        // Weights and their sum.
        if let Some(weights) = weights {
            let sum = graph.reduce(ReduceFn::Sum, weights, &[0], KeepDims::Yes)?;
            values.extend([weights.broadcast_to(shape)?, sum.broadcast_to(shape)?]);
        }
        let [x, class, target, counted, lse, dloss, dcounted, dlse, weight, all] =
            std::array::from_fn::<Expr, 10, _>(Expr::input);
        let (weight, all) = match self.weights {
            Some(_) => (weight, all),
            None => (Expr::constant(1.0).cast(compute), Expr::constant(self.classes() as f64).cast(compute)),
        };
        let (x, is_target) = (x.cast(compute), class.compare(CompareFn::Eq, &target));
        let (e, share) = (self.smoothing, self.share());
        let mut gradients = Vec::new();
        if wants[0] {
            let p = (x.clone() - &lse).exp();
            let mut terms = Vec::new();
            if needs.outputs[0] {
                let hit = is_target.select(Expr::constant(1.0), Expr::constant(0.0)).cast(compute);
                let mut slope = counted * (p.clone() - hit) * (1.0 - e);
                if e > 0.0 {
                    slope = slope + (all * &p - &weight) * share;
                }
                terms.push(self.unless_ignored(&target, dloss.clone() * slope));
            }
            if needs.outputs[2] {
                terms.push(dlse * p);
            }
            let dx = terms.into_iter().reduce(|sum, term| sum + term).map(|dx| dx.cast(dtype));
            gradients.push(graph.map_used(dx.as_slice(), &values)?.pop());
        }
        if wants[1] {
            let mut terms = Vec::new();
            if needs.outputs[0] {
                let part = is_target.select(Expr::constant(1.0 - e + share), Expr::constant(share)).cast(compute);
                terms.push(self.unless_ignored(&target, dloss * part * (lse - x)));
            }
            if needs.outputs[1] {
                terms.push(self.unless_ignored(&target, is_target.select(dcounted, Expr::constant(0.0))));
            }
            let dw = terms.into_iter().reduce(|sum, term| sum + term);
            let of_rows = graph.map_used(dw.as_slice(), &values)?.pop();
            let row = Shape::new(&[self.classes()])?;
            gradients.push(of_rows.map(|value| graph.sum_to(value, row, value.dtype())).transpose()?);
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let inputs = [Some(self.logits), Some(self.targets), self.weights];
        let mut graph = Builder::new(inputs.into_iter().flatten().collect());
        let (compute, axis) = (self.outputs[0].dtype, self.axis());
        let shape = *self.logits.layout.shape();
        let kept = shape.without_axes(&[axis], KeepDims::Yes);
        let (x, targets) = (graph.input(0)?, graph.input(1)?.reshape(kept)?);
        let max = graph.reduce(ReduceFn::Max, x, &[axis], KeepDims::Yes)?;
        // Of each logit: its exponential, whether it is the target's, its weight if so, and its part of the smoothed sum.
        let [x_of, max_of, class, target, weight] = std::array::from_fn::<Expr, 5, _>(Expr::input);
        let wide = x_of.cast(compute);
        let hit = class.compare(CompareFn::Eq, &target);
        let none = || Expr::constant(0.0).cast(compute);
        let mut exprs = vec![(wide.clone() - max_of.cast(compute)).exp(), hit.select(wide.clone(), none())];
        let mut values = vec![x, max, self.numbers(&mut graph)?, targets];
        if self.weights.is_some() {
            values.push(graph.input(2)?.broadcast_to(shape)?);
            exprs.push(hit.select(weight.clone(), none()));
        }
        // With weights and smoothing the steps would have more operands than the eight buffers that every device has: they are parted.
        let is_parted = self.weights.is_some() && self.smoothing > 0.0;
        let smoothed = if self.weights.is_some() { wide * weight } else { wide };
        if self.smoothing > 0.0 && !is_parted {
            exprs.push(smoothed.clone());
        }
        let mut terms = graph.map_all(&exprs, &values)?;
        if is_parted {
            let whole = values.iter().map(|value| value.broadcast_to(shape)).collect::<Result<Vec<_>>>()?;
            terms.extend(graph.map_used(&[smoothed], &whole)?);
        }
        let mut sums = Vec::new();
        for term in terms {
            sums.push(graph.reduce(ReduceFn::Sum, term, &[axis], KeepDims::Yes)?);
        }
        let [max, target, sum, x_of] = [0, 1, 2, 3].map(Expr::input);
        let mut next = 4;
        let mut take = || {
            next += 1;
            Expr::input(next - 1)
        };
        let counted = if self.weights.is_some() { take() } else { Expr::constant(1.0).cast(compute) };
        let (e, share) = (self.smoothing, self.share());
        let lse = max.cast(compute) + sum.log();
        let mut loss = counted.clone() * (lse.clone() - x_of) * (1.0 - e);
        let mut values = [vec![values[1], targets], sums].concat();
        if e > 0.0 {
            let smoothed = take();
            let all = match self.weights {
                Some(_) => {
                    let weights = graph.input(2)?;
                    let sum = graph.reduce(ReduceFn::Sum, weights, &[0], KeepDims::Yes)?;
                    values.push(sum.broadcast_to(kept)?);
                    take()
                }
                None => Expr::constant(self.classes() as f64).cast(compute),
            };
            loss = loss + (all * &lse - smoothed) * share;
        }
        let within = [
            target.compare(CompareFn::Ge, 0),
            target.compare(CompareFn::Lt, i64::try_from(self.classes()).unwrap_or(i64::MAX)),
        ];
        let wrong = || Expr::constant(f64::NAN).cast(compute);
        let or_nan = |value: Expr| within[0].select(within[1].select(value, wrong()), wrong());
        let results = [self.unless_ignored(&target, or_nan(loss)), self.unless_ignored(&target, or_nan(counted)), lse];
        let rows = *self.outputs[0].layout.shape();
        let results = if is_parted {
            let each = results.iter().map(|result| graph.map_used(std::slice::from_ref(result), &values));
            each.collect::<Result<Vec<_>>>()?.concat()
        } else {
            graph.map_all(&results, &values)?
        };
        let results = results.into_iter().map(|value| value.reshape(rows)).collect::<Result<Vec<_>>>()?;
        Ok(Some(graph.finish(self.name(), &results, &self.outputs)?))
    }

    /// One walk along the rows, over states of the largest logit and the sum. With weights and smoothing together, and with smoothing along other
    /// axes than the last, the graph.
    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    fn describe(&self, name: &mut String) {
        if self.smoothing > 0.0 {
            name.push_str(&format!(" smoothing{}", self.smoothing));
        }
        if let Some(ignored) = self.ignored {
            name.push_str(&format!(" ignored{ignored}"));
        }
    }

    fn content(&self, input: usize) -> Content {
        if input == 1 { Content::Rows { rows: self.classes() } } else { Content::Any }
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the first output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let (logits, targets) = (self.logits.first(axis, extent)?, self.targets.first(axis, extent)?);
        let [loss, counted, lse] = self.outputs.map(|output| output.dense_first(axis, extent));
        Some(CrossEntropy { logits, targets, outputs: [loss?, counted?, lse?], ..self.clone() }.into())
    }

    /// Some rows, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let axis = self.axis();
        let thinning = Thinning::new(self.logits.layout.dims(), |other| other != axis);
        let kept = |spec: &TensorSpec| thinning.of_kept(&[axis], &spec.layout);
        let positions = self.outputs.iter().map(kept).collect::<Result<Vec<_>>>()?;
        let outputs = std::array::from_fn(|number| sample::dense(self.outputs[number].dtype, &positions[number]));
        let targets = TensorSpec::new(self.targets.dtype, kept(&self.targets)?);
        let op = CrossEntropy { logits: thinning.of_spec(&self.logits)?, targets, outputs, ..self.clone() };
        Ok(Some(Sample { op: op.into(), positions }))
    }
}

/// How [`Tensor::cross_entropy_with`] counts.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyOptions<'a> {
    /// A factor for each class, `[classes]`, in f32 (f64 for f64 logits).
    pub weights: Option<&'a Tensor>,
    /// The share of the target that all classes have in equal parts, 0 to 1.
    pub smoothing: f64,
    /// The target of rows that do not count; PyTorch's -100 unless said otherwise.
    pub ignored: Option<i64>,
}

impl Default for CrossEntropyOptions<'_> {
    fn default() -> Self {
        CrossEntropyOptions { weights: None, smoothing: 0.0, ignored: Some(-100) }
    }
}

/// Losses of rows, and what each row counts.
#[derive(Clone, Debug)]
pub struct Losses {
    /// The loss of each row: f32 (f64 for f64 logits), zero for ignored ones.
    pub each: Tensor,
    /// What each row counts: the weight of its target, 1 without weights, zero for ignored ones.
    pub counted: Tensor,
}

impl Losses {
    /// The sum of all losses. Over several batches, add up this and [`Losses::count`] and divide once.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn sum(&self) -> Result<Tensor> {
        self.each.sum(..)
    }

    /// What all rows count together.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn count(&self) -> Result<Tensor> {
        self.counted.sum(..)
    }

    /// The mean loss: [`Losses::sum`] over [`Losses::count`]; NaN where no row counts, as PyTorch's.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn mean(&self) -> Result<Tensor> {
        self.sum()?.div(&self.count()?)
    }
}

impl Tensor {
    /// The mean cross-entropy of logits x [..., classes] and classes t [...], whole numbers: of each row `log sum_c exp(x[c]) - x[t]`, the mean over the
    /// rows that count; those with target -100 do not. The result is rank 0, in f32 (f64 for f64). Weights and label smoothing (Szegedy et al., arXiv 1512.00567):
    /// [`Tensor::cross_entropy_with`] and the [module](crate::ops::cross_entropy).
    ///
    /// # Errors
    /// As [`Tensor::cross_entropy_with`].
    pub fn cross_entropy(&self, targets: &Tensor) -> Result<Tensor> {
        self.cross_entropy_with(targets, &CrossEntropyOptions::default())?.mean()
    }

    /// The cross-entropy of each row. A target that is neither a class nor the ignored one is an error of the next read.
    ///
    /// # Errors
    /// As [`CrossEntropy::new`]; [`Error::InvalidArgument`] for targets that are floats or bool; [`Error::DeviceMismatch`]; memory errors
    /// of the device. Of a read afterwards: [`Error::PositionOutside`].
    pub fn cross_entropy_with(&self, targets: &Tensor, options: &CrossEntropyOptions<'_>) -> Result<Losses> {
        let given = targets;
        let targets = positions_with_sign(OP, given)?;
        let weights = options.weights.map(Tensor::spec);
        let op = CrossEntropy::new(self.spec(), targets.spec(), weights, options.smoothing, options.ignored)?;
        let held: Vec<&Tensor> = [Some(self), Some(&targets), options.weights].into_iter().flatten().collect();
        let mut results = Tensor::apply(self.device(), op, &held)?.into_iter();
        match (results.next(), results.next()) {
            (Some(each), Some(counted)) => {
                let extent = self.dims().last().copied().unwrap_or(0);
                let look = Look { by: Indexing::CrossEntropy, extent, ignored: options.ignored };
                look.through(given, &targets)?;
                Ok(Losses { each, counted })
            }
            _ => Err(Error::InvalidArgument { what: "operation", reason: format!("{OP} gave no results") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Tape};

    fn logits(device: &Device) -> Tensor {
        Tensor::from_slice(device, &[1.0f32, 2.0, 0.5, -1.0, 0.0, 3.0, 2.0, 2.0, 2.0], [3, 3]).unwrap()
    }

    /// The formula of PyTorch's documentation, in f64.
    #[test]
    fn losses_are_those_of_the_formula() {
        let device = Device::cpu();
        let x = logits(&device);
        let y = Tensor::from_slice(&device, &[1i64, 2, -100], [3]).unwrap();
        let near = |found: Tensor, want: f64| {
            let found = f64::from(found.to_vec::<f32>().unwrap()[0]);
            assert!((found - want).abs() < 1e-6, "{found} {want}");
        };
        let lse = |row: [f64; 3]| row.iter().map(|x| x.exp()).sum::<f64>().ln();
        let (a, b) = (lse([1.0, 2.0, 0.5]), lse([-1.0, 0.0, 3.0]));
        near(x.cross_entropy(&y).unwrap(), ((a - 2.0) + (b - 3.0)) / 2.0);
        let weights = Tensor::from_slice(&device, &[1.0f32, 2.0, 0.5], [3]).unwrap();
        let options = CrossEntropyOptions { weights: Some(&weights), smoothing: 0.1, ignored: Some(-100) };
        let smooth = |lse: f64, x: [f64; 3]| (lse - x[0] + 2.0 * (lse - x[1]) + 0.5 * (lse - x[2])) * 0.1 / 3.0;
        let sum = 0.9 * (2.0 * (a - 2.0) + 0.5 * (b - 3.0)) + smooth(a, [1.0, 2.0, 0.5]) + smooth(b, [-1.0, 0.0, 3.0]);
        let losses = x.cross_entropy_with(&y, &options).unwrap();
        near(losses.sum().unwrap(), sum);
        near(losses.count().unwrap(), 2.5);
    }

    #[test]
    fn all_ignored_is_nan_and_a_wrong_target_is_an_error() {
        let device = Device::cpu();
        let x = logits(&device);
        let of = |targets: [i64; 3]| {
            let y = Tensor::from_slice(&device, &targets, [3]).unwrap();
            let loss = x.cross_entropy(&y).unwrap();
            loss.item::<f32>().map_err(|error| match error {
                Error::PositionOutside { op: OP, position, place: 2, extent: 3 } => {
                    assert!(loss.item::<f32>().unwrap().is_nan(), "the loss itself shows it");
                    position
                }
                error => panic!("{error}"),
            })
        };
        assert!(of([-100; 3]).unwrap().is_nan());
        assert_eq!([of([0, -100, 3]), of([0, 1, -1]), of([0, 1, 1 << 40])], [Err(3), Err(-1), Err(1 << 40)]);
        assert!(of([0, 1, 2]).unwrap().is_finite() && of([0, -100, 2]).unwrap().is_finite());
    }

    /// Ignored rows have no gradient, whatever their logits are.
    #[test]
    fn ignored_rows_have_zero_gradients() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[f32::NAN, f32::INFINITY, 1.0, 1.0], [2, 2]).unwrap();
        let y = Tensor::from_slice(&device, &[-100i32, 0], [2]).unwrap();
        let tape = Tape::new();
        let watched = tape.watch(&x).unwrap();
        let loss = watched.cross_entropy(&y).unwrap();
        let gradient = tape.backward(&loss).unwrap().of(&watched).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(gradient, [0.0, 0.0, -0.5, 0.5]);
    }
}
