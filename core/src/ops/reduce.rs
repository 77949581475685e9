//! Reductions over any axes: sum, mean, prod, max, min, abs_max, any, all.
//!
//! Sums and products accumulate in f32 (f64 for f64; integers exactly, wrapping to the result's dtype), tree-shaped,
//! with the same bits on every run on one device. Result dtypes: sum and prod of i8 and i16 give i32, of u8, u16 and bool u32,
//! otherwise the input's; mean of integers and bool gives f32; any and all give bool. Sums, means and products of floats of up to 32
//! bits may be asked for in any other of these: f32 sums of bf16 are not rounded on the way. Extrema propagate NaN; abs_max, the
//! largest magnitude, is for floats. Over no elements sum and abs_max are 0, prod 1, mean NaN, any false, all true; max and
//! min are refused.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::oracle::Approx;

pub(super) mod streamed;

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReduceFn {
    /// The largest magnitude, of floats; NaN if any is NaN.
    AbsMax,
    /// Whether every element is non-zero.
    All,
    /// Whether some element is non-zero.
    Any,
    /// The largest element; NaN if any is NaN.
    Max,
    /// Sum divided by count.
    Mean,
    /// The smallest element; NaN if any is NaN.
    Min,
    /// Product.
    Prod,
    /// Sum.
    Sum,
}

impl ReduceFn {
    /// Every reduction, alphabetically.
    pub const ALL: [ReduceFn; 8] = [
        ReduceFn::AbsMax,
        ReduceFn::All,
        ReduceFn::Any,
        ReduceFn::Max,
        ReduceFn::Mean,
        ReduceFn::Min,
        ReduceFn::Prod,
        ReduceFn::Sum,
    ];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceFn::AbsMax => "abs_max",
            ReduceFn::All => "all",
            ReduceFn::Any => "any",
            ReduceFn::Max => "max",
            ReduceFn::Mean => "mean",
            ReduceFn::Min => "min",
            ReduceFn::Prod => "prod",
            ReduceFn::Sum => "sum",
        }
    }

    /// The dtype of the result for an input of `dtype`; `None` where the reduction has no meaning: largest magnitudes of what
    /// is no float, and max and min of bool, which are `Any` and `All`.
    pub const fn output_dtype(self, dtype: DType) -> Option<DType> {
        match self {
            ReduceFn::AbsMax if dtype.is_float() => Some(dtype),
            ReduceFn::AbsMax => None,
            ReduceFn::All | ReduceFn::Any => Some(DType::Bool),
            ReduceFn::Max | ReduceFn::Min => match dtype {
                DType::Bool => None,
                other => Some(other),
            },
            ReduceFn::Mean => Some(if dtype.is_float() { dtype } else { DType::F32 }),
            ReduceFn::Prod | ReduceFn::Sum => Some(match dtype {
                DType::I8 | DType::I16 => DType::I32,
                DType::U8 | DType::U16 | DType::Bool => DType::U32,
                other => other,
            }),
        }
    }

    /// Whether an input of `dtype` can give results of `output`: the dtype of [`ReduceFn::output_dtype`], and for sums, means and products
    /// of floats any float that accumulates as the input does.
    pub fn gives(self, dtype: DType, output: DType) -> bool {
        let is_rounded_last = matches!(self, ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Sum);
        let alike = dtype.is_float() && output.is_float() && dtype.compute() == output.compute();
        self.output_dtype(dtype) == Some(output) || (is_rounded_last && alike)
    }
}

/// A reduction of `input` over `axes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// How elements are combined.
    pub function: ReduceFn,
    /// What is read.
    pub input: TensorSpec,
    /// The axes that disappear, ascending.
    pub axes: Vec<usize>,
    /// Dense output of the remaining axes.
    pub output: TensorSpec,
}

impl Reduce {
    /// A checked reduction; over no axes each element is a result of its own.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`], [`Error::UndefinedForDType`], [`Error::EmptyReduction`],
    /// [`Error::ShapeMismatch`] or [`Error::DTypeMismatch`] for an output of another shape or dtype.
    pub fn new(function: ReduceFn, input: TensorSpec, axes: &[usize], output: TensorSpec) -> Result<Reduce> {
        let axes = input.layout.shape().reduction_axes(axes)?;
        Reduce::over(function, input, axes, output)
    }

    /// The same over axes that ascend without repetition.
    fn over(function: ReduceFn, input: TensorSpec, axes: Vec<usize>, output: TensorSpec) -> Result<Reduce> {
        let op = function.name();
        let dtype = function.output_dtype(input.dtype).ok_or(Error::UndefinedForDType { op, dtype: input.dtype })?;
        if !function.gives(input.dtype, output.dtype) {
            return Err(Error::DTypeMismatch { op, expected: dtype, got: output.dtype });
        }
        let shape = input.layout.shape().without_axes(&axes, KeepDims::No);
        if shape != *output.layout.shape() {
            return Err(Error::shape_mismatch(op, &shape, output.layout.shape(), None));
        }
        if matches!(function, ReduceFn::Max | ReduceFn::Min) && axes.iter().any(|&a| input.layout.dims()[a] == 0) {
            return Err(Error::EmptyReduction { op, shape: input.layout.dims().to_vec() });
        }
        check_dense_output(op, &output)?;
        Ok(Reduce { function, input, axes, output })
    }

    /// Elements combined into each result.
    pub fn count(&self) -> u64 {
        extent_of(&self.input, &self.axes)
    }

    fn reduce_group(&self, group: &[Scalar]) -> Expected {
        let (input, output) = (self.input.dtype, self.output.dtype);
        let exact = |value| Expected::exact(Scalar::cast(value, output));
        let fold = |f: BinaryFn, from| group.iter().fold(from, |acc, &x| f.eval(acc, x, DType::I64));
        match self.function {
            ReduceFn::AbsMax => {
                let larger = |so_far, &x| BinaryFn::Max.eval(so_far, UnaryFn::Abs.eval(x, input), input);
                Expected::exact(group.iter().fold(Scalar::F(0.0), larger))
            }
            ReduceFn::All => exact(Scalar::from(group.iter().all(|&x| x.cast(DType::Bool) == Scalar::I(1)))),
            ReduceFn::Any => exact(Scalar::from(group.iter().any(|&x| x.cast(DType::Bool) == Scalar::I(1)))),
            ReduceFn::Max | ReduceFn::Min => {
                let f = if self.function == ReduceFn::Max { BinaryFn::Max } else { BinaryFn::Min };
                // One of the elements: an infinite f8e5m2 stays one.
                Expected::exact(group[1..].iter().fold(group[0], |acc, &x| f.eval(acc, x, input)))
            }
            ReduceFn::Sum if !input.is_float() => exact(fold(BinaryFn::Add, Scalar::I(0))),
            ReduceFn::Prod if !input.is_float() => exact(fold(BinaryFn::Mul, Scalar::I(1))),
            ReduceFn::Sum | ReduceFn::Mean | ReduceFn::Prod => self.bound(group),
        }
    }

    /// Value and bound of a float sum, mean or product.
    ///
    /// Sum: [`Approx::sum`]. Mean: the sum, a division (2.5 ULP) and, for integers, their conversion. Product: n u
    /// relative, and open where the factors could overflow or vanish on the way.
    fn bound(&self, group: &[Scalar]) -> Expected {
        let n = group.len() as f64;
        let compute = self.output.dtype.compute();
        let u = compute.unit_roundoff();
        let values = group.iter().map(|x| x.as_f64());
        let result = match self.function {
            ReduceFn::Prod => {
                let product: f64 = values.clone().product();
                let spread = |keep: fn(f64) -> bool| values.clone().map(f64::abs).filter(|&x| keep(x)).product::<f64>();
                let (up, down) = (spread(|x| x > 1.0 && x.is_finite()), spread(|x| x < 1.0 && x > 0.0));
                let open = up > compute.max_finite() || down < compute.min_normal();
                let signed = product.is_nan() && group.iter().any(|x| x.is_nan());
                let error = if n > 1.0 && product.is_finite() { (n - 1.0) * u * product.abs() } else { 0.0 };
                let settled = up == 1.0 || down == 1.0;
                Approx {
                    value: Scalar::F(product),
                    error: if open && !signed && !settled { f64::INFINITY } else { error },
                }
            }
            ReduceFn::Mean => {
                let conversion = if self.input.dtype.is_float() { 0.0 } else { u };
                let sum = Approx::sum(values, compute, conversion);
                let value = sum.value.as_f64() / n;
                let division = if value.is_finite() { 6.0 * u * value.abs() } else { 0.0 };
                Approx { value: Scalar::F(value), error: sum.error / n + division }
            }
            _ => Approx::sum(values, compute, 0.0),
        };
        result.round_to(self.output.dtype).into_expected()
    }
}

impl Operation for Reduce {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        Reduce::over(self.function, self.input, self.axes.clone(), self.output).map(drop)
    }

    /// One operation per element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements())
    }

    /// Plain accumulation in float64 (integers: wrapping i64), with the bounds stated at `Reduce::bound`.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![inputs[0].groups(&self.axes).iter().map(|group| self.reduce_group(group)).collect()]
    }

    /// Each element's share of the gradient of its sum, mean or extremum; of several largest an equal share each, as PyTorch's amax.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        if matches!(self.function, ReduceFn::All | ReduceFn::Any) {
            return Ok(Gradient::Refused("all and any give bool, which has no gradient"));
        }
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (shape, dtype) = (*self.input.layout.shape(), self.input.dtype);
        let compute = dtype.compute();
        let kept = shape.without_axes(&self.axes, KeepDims::Yes);
        let spread = |value: Value| value.reshape(kept)?.broadcast_to(shape);
        let dy = rule.gradient(0)?;
        // A sum hands its gradient on as it is.
        let dy = if self.function == ReduceFn::Sum { rule.graph.cast(dy, dtype)? } else { dy };
        let (x, y, dy) = (rule.input(0)?, spread(rule.output(0)?)?, spread(dy)?);
        let [a, b, c, d] = [0, 1, 2, 3].map(|number| Expr::input(number).cast(compute));
        let gradient = match self.function {
            ReduceFn::Sum => dy,
            ReduceFn::Mean => {
                let count = super::extent_of(&self.input, &self.axes);
                rule.graph.map(&(a / count as f64).cast(dtype), &[dy])?
            }
            // The product of all others: of a single zero that of what is not zero, of several none.
            ReduceFn::Prod => {
                let is_zero = a.compare(CompareFn::Eq, 0.0);
                let parts = [is_zero.select(1.0, 0.0).cast(compute), is_zero.select(1.0, a.clone()).cast(compute)];
                let parts = rule.graph.map_all(&parts, &[x])?;
                let zeros = rule.graph.reduce(ReduceFn::Sum, parts[0], &self.axes, KeepDims::Yes)?;
                let others = rule.graph.reduce(ReduceFn::Prod, parts[1], &self.axes, KeepDims::Yes)?;
                let of_zero = is_zero.select(b.clone() * &c, 0.0);
                let of_one = d.compare(CompareFn::Eq, 1.0).select(of_zero, 0.0);
                let slope = d.compare(CompareFn::Eq, 0.0).select(b * c / a, of_one);
                rule.graph.map(&slope.cast(dtype), &[x, dy, others, zeros])?
            }
            _ => {
                let magnitude = if self.function == ReduceFn::AbsMax { a.abs() } else { a.clone() };
                let is_it = magnitude.compare(CompareFn::Eq, b);
                let marks = rule.graph.map(&is_it.select(1.0, 0.0).cast(compute), &[x, y])?;
                let count = rule.graph.reduce(ReduceFn::Sum, marks, &self.axes, KeepDims::Yes)?;
                let share = c / d;
                let share = if self.function == ReduceFn::AbsMax { share * a.sign() } else { share };
                rule.graph.map(&is_it.select(share, 0.0).cast(dtype), &[x, y, dy, count])?
            }
        };
        rule.finish(vec![Some(gradient)])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axes{:?}", self.axes));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let kept = (0..self.input.layout.rank()).filter(|axis| !self.axes.contains(axis)).nth(axis)?;
        let input = self.input.first(kept, extent)?;
        Some(Reduce { input, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let of = |input, output| Reduce { input, output, ..self.clone() };
        sample::of_lines(&self.input, &self.axes, &self.output, of)
    }

    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        Some(vec![streamed::reduced(self, inputs.first()?)?])
    }
}

impl Builder {
    /// `f` over `axes`, which disappear or stay with extent 1. No axes: nothing is reduced.
    ///
    /// # Errors
    /// As [`Reduce::new`].
    pub fn reduce(&mut self, f: ReduceFn, x: Value, axes: &[usize], keep: KeepDims) -> Result<Value> {
        if axes.is_empty() {
            return Ok(x);
        }
        let dtype = f.output_dtype(x.dtype()).ok_or(Error::UndefinedForDType { op: f.name(), dtype: x.dtype() })?;
        self.reduce_as(f, x, axes, keep, dtype)
    }

    /// The same with results of `dtype`, one that `f` [gives](ReduceFn::gives). No axes: a cast.
    ///
    /// # Errors
    /// As [`Reduce::new`].
    pub fn reduce_as(&mut self, f: ReduceFn, x: Value, axes: &[usize], keep: KeepDims, dtype: DType) -> Result<Value> {
        if axes.is_empty() {
            return self.cast(x, dtype);
        }
        let output = TensorSpec::dense(dtype, x.spec.layout.shape().without_axes(axes, KeepDims::No));
        let reduced = self.one(Reduce::new(f, x.spec, axes, output)?, &[x])?;
        if keep == KeepDims::Yes { reduced.with_ones(axes) } else { Ok(reduced) }
    }

    /// The sum over what `x` repeats beyond `shape`, in `shape` and `dtype`: for the rule of an operation that uses an operand of that shape
    /// for all rows. (Views that repeat are undone by those who follow gradients, not by rules.)
    ///
    /// # Errors
    /// As [`Reduce::new`].
    pub fn sum_to(&mut self, x: Value, shape: Shape, dtype: DType) -> Result<Value> {
        let (from, to) = (x.dims().to_vec(), shape.dims());
        let new = from.len().saturating_sub(to.len());
        let is_repeated = |axis: usize| axis < new || (to[axis - new] == 1 && from[axis] != 1);
        let axes: Vec<usize> = (0..from.len()).filter(|&axis| is_repeated(axis)).collect();
        let summed = self.reduce_as(ReduceFn::Sum, x, &axes, KeepDims::No, dtype)?;
        let summed = if axes.is_empty() { self.contiguous(summed)? } else { summed };
        summed.reshape(shape)
    }
}
