//! Convolutions: `y[n, o, k] = activation(sum + residual[n, o, k] + bias[k])`, the sum being that of
//! `x[n, o stride + t dilation - before, c] w[k, t, c]` over taps t and channels c.
//!
//! x is [batch, spatial..., channels], weights are [filters, taps..., channels / groups], y is [batch, outputs..., filters], of one to
//! three spatial axes, each with its own stride, dilation and two paddings: cross-correlation, as every network means it. With groups a
//! filter reads the channels of its own group. Floats of 16 bits are summed up in f32 and rounded once. Padding is zero; where an
//! infinite or NaN weight meets it, devices give a product of zero or NaN. Floats of 8 bits give f32; whole numbers (i32, u32, i64) are
//! exact and wrap. Both are products of gathered rows (`convolution/rows.rs`). Those of 8 bits have scales, and an operation of their
//! own: [`QuantizedConvolution`](super::QuantizedConvolution).
//!
//! The sum is linear in x, in the weights and in what its result is multiplied with: so each of the three operations here
//! ([`Convolution`], [`ConvolutionInput`], [`ConvolutionWeights`]) has the other two as its gradients. One tap without padding is a
//! matrix product ([`Matmul`]), and runs as such. Next: `convolution/geometry.rs`, `convolution/gradients.rs`.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

pub(crate) mod geometry;
mod gradients;
pub(super) mod oracle;
pub(super) mod rows;
mod tensor;
pub(crate) mod window;

pub use geometry::{ConvolutionOptions, Geometry, pixel_pitch};
pub use gradients::{ConvolutionInput, ConvolutionWeights};
pub use window::Window;

use super::Matmul;
use super::matmul::{describe_end, ended};
use super::prelude::*;
use crate::oracle::Span;
use crate::{Precision, Program};
use geometry::check_pixels;
use rows::Scales;

const OP: &str = "convolution";

/// Images and filters that a sample keeps.
const KEEP: u64 = 8;

/// A convolution with its epilogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// What is convolved, [batch, spatial..., channels]: channels one after the other, pixels at one distance.
    pub x: TensorSpec,
    /// The filters, [filters, taps..., channels / groups], of x's dtype, as x lies.
    pub weights: TensorSpec,
    /// Added to the sum, of y's shape, dtype and kind of layout.
    pub residual: Option<TensorSpec>,
    /// Added to every pixel, `[filters]`, of y's dtype.
    pub bias: Option<TensorSpec>,
    /// How windows move.
    pub geometry: Geometry,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// Dense output y, [batch, outputs..., filters], of x's dtype; f32 of floats of 8 bits.
    pub output: TensorSpec,
}

impl Convolution {
    /// A convolution whose output starts its buffer; fill in residual and bias and call [`Convolution::check`].
    ///
    /// # Errors
    /// As [`Geometry::new`] and [`Convolution::check`].
    pub fn new(x: TensorSpec, weights: TensorSpec, options: &ConvolutionOptions) -> Result<Convolution> {
        let geometry = Geometry::new(OP, x.layout.shape(), weights.layout.shape(), options)?;
        let activation = options.activation;
        Convolution::of(geometry, x, weights).and_then(|op| Convolution { activation, ..op }.check())
    }

    /// That of a known geometry, without epilogue.
    pub(super) fn of(geometry: Geometry, x: TensorSpec, weights: TensorSpec) -> Result<Convolution> {
        let dtype = Matmul::output_dtype(x.dtype).unwrap_or(x.dtype);
        let output = TensorSpec::new(dtype, Layout::contiguous(geometry.output_shape()?));
        Convolution { x, weights, residual: None, bias: None, geometry, activation: None, output }.check()
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for bool and whole numbers that no product is of, [`Error::DTypeMismatch`], [`Error::ShapeMismatch`],
    /// [`Error::InvalidArgument`] for whole numbers of 8 bits, which have scales ([`Quantized::conv`](crate::Quantized::conv)), for operands
    /// that do not lie as they must, a geometry or an activation without meaning.
    pub fn check(self) -> Result<Convolution> {
        let dtype = self.x.dtype;
        if matches!(dtype, DType::I8 | DType::U8) {
            let reason = format!(
                "{OP} of {dtype} has no scales; give both operands as Quantized (quantize(DType::I8, ..), then Quantized::conv), or \
                 cast(DType::I32) for exact sums of whole numbers"
            );
            return Err(Error::InvalidArgument { what: "scales", reason });
        }
        let expected = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: OP, dtype })?;
        if self.output.dtype != expected {
            return Err(Error::DTypeMismatch { op: OP, expected, got: self.output.dtype });
        }
        self.check_parts(OP, dtype)?;
        Ok(self)
    }

    /// Whether it is computed as a product of rows, for there are no kernels that gather such elements themselves.
    fn is_of_rows(&self) -> bool {
        !matches!(self.x.dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// The checks of [`Convolution::check`] for `op`, whose x and weights are of `dtype`, but for which dtypes there are.
    pub(super) fn check_parts(&self, op: &'static str, dtype: DType) -> Result<()> {
        let (geometry, output) = (&self.geometry, self.output.dtype);
        let y = geometry.output_shape()?;
        let operands = [
            ("x", Some((self.x, dtype)), geometry.input_shape()?),
            ("weights", Some((self.weights, dtype)), geometry.weights_shape()?),
            ("residual", self.residual.map(|residual| (residual, output)), y),
        ];
        let operands = operands.into_iter().filter_map(|(what, spec, shape)| Some((what, spec?, shape)));
        check_operands(op, geometry, operands, (self.output, y))?;
        if let Some(bias) = self.bias {
            if bias.layout.dims() != [geometry.filters] {
                return Err(Error::shape_mismatch(op, bias.layout.shape(), &y, Some(geometry.rank + 1)));
            }
            if bias.dtype != output {
                return Err(Error::DTypeMismatch { op, expected: output, got: bias.dtype });
            }
        }
        Matmul::check_activation(self.activation, output)
    }

    /// The op on the first `extent` images.
    pub(super) fn first(&self, extent: u64) -> Option<Convolution> {
        let geometry = Geometry { batch: extent, ..self.geometry };
        let (x, output) = (self.x.first(0, extent)?, self.output.dense_first(0, extent)?);
        let residual = self.residual.map_or(Some(None), |spec| spec.first(0, extent).map(Some))?;
        Some(Convolution { x, residual, geometry, output, ..self.clone() })
    }

    /// The op on the last image and the last [`KEEP`] filters, or groups where there are several, and where its results lie among all; `None`
    /// without images.
    pub(super) fn last_filters(&self) -> Result<Option<(Convolution, Layout)>> {
        let Geometry { batch, filters, groups, rank, .. } = self.geometry;
        if batch == 0 || groups == 0 {
            return Ok(None);
        }
        let of_all = Geometry { filters: filters.min(KEEP), ..self.geometry };
        let part = if groups == 1 { of_all } else { self.geometry.last_groups(KEEP) };
        let cut = |spec: &TensorSpec| last(&last(spec, 0, 1)?, rank + 1, part.filters);
        let positions = cut(&self.output)?.layout;
        let op = Convolution {
            x: last(&last(&self.x, 0, 1)?, rank + 1, part.channels)?,
            weights: last(&self.weights, 0, part.filters)?,
            residual: self.residual.as_ref().map(cut).transpose()?,
            bias: self.bias.as_ref().map(|bias| last(bias, 0, part.filters)).transpose()?,
            geometry: Geometry { batch: 1, ..part },
            output: sample::dense(self.output.dtype, &positions),
            ..self.clone()
        };
        Ok(Some((op, positions)))
    }

    /// The matrix product of pixels and filters that it is, over the same operands in the same order.
    ///
    /// # Errors
    /// None that the operands could cause.
    pub fn as_product(&self) -> Result<Option<Matmul>> {
        if !self.geometry.is_pointwise() || self.is_of_rows() {
            return Ok(None);
        }
        let weights = as_matrix(&self.weights)?;
        let product = Matmul {
            c: self.residual.as_ref().map(as_matrix).transpose()?,
            beta: if self.residual.is_some() { 1.0 } else { 0.0 },
            bias: self.bias,
            activation: self.activation,
            ..Matmul::product(as_matrix(&self.x)?, transposed(weights)?, as_matrix(&self.output)?)
        };
        product.check().map(Some)
    }
}

/// The dtype of a result, where convolutions of floats have it.
fn float(op: &'static str, output: &TensorSpec) -> Result<DType> {
    match output.dtype {
        dtype @ (DType::F16 | DType::BF16 | DType::F32 | DType::F64) => Ok(dtype),
        dtype => Err(Error::UndefinedForDType { op, dtype }),
    }
}

/// Checks the operands of one of the operations, each with its dtype, and its dense output.
fn check_operands(
    op: &'static str,
    geometry: &Geometry,
    operands: impl Iterator<Item = (&'static str, (TensorSpec, DType), Shape)>,
    (output, shape): (TensorSpec, Shape),
) -> Result<()> {
    geometry.check_numbers(op)?;
    for (what, (spec, dtype), shape) in operands {
        check_dtype(op, &spec, dtype)?;
        if *spec.layout.shape() != shape {
            return Err(Error::shape_mismatch(op, spec.layout.shape(), &shape, None));
        }
        check_pixels(op, what, &spec)?;
    }
    if *output.layout.shape() != shape {
        return Err(Error::shape_mismatch(op, output.layout.shape(), &shape, None));
    }
    check_dense_output(op, &output)
}

/// The last `keep` indices of an axis.
pub(super) fn last(spec: &TensorSpec, axis: usize, keep: u64) -> Result<TensorSpec> {
    let extent = spec.layout.dims()[axis];
    Ok(TensorSpec { layout: spec.layout.slice(axis, extent - keep, extent, 1)?, ..*spec })
}

/// [pixels, channels] of [batch, spatial..., channels].
pub(super) fn as_matrix(spec: &TensorSpec) -> Result<TensorSpec> {
    let dims = spec.layout.dims();
    let (last, pixels) = (dims.len() - 1, dims[..dims.len() - 1].iter().product());
    // Checked when the op was made.
    let pitch = pixel_pitch(spec).unwrap_or(0);
    let layout = Layout::strided(Shape::new(&[pixels, dims[last]])?, &[pitch, 1], spec.layout.offset())?;
    Ok(TensorSpec::new(spec.dtype, layout))
}

fn transposed(spec: TensorSpec) -> Result<TensorSpec> {
    Ok(TensorSpec { layout: spec.layout.transpose(0, 1)?, ..spec })
}

/// The graph that is one product of the operands.
fn graph_of(
    name: &'static str,
    inputs: Vec<TensorSpec>,
    product: Option<Matmul>,
    output: TensorSpec,
) -> Result<Option<Graph>> {
    let Some(product) = product else { return Ok(None) };
    let mut graph = Builder::new(inputs.clone());
    let views = inputs.iter().zip(Op::from(product.clone()).inputs()).enumerate();
    let views =
        views.map(|(number, (_, spec))| Ok(graph.input(number)?.viewed(spec.layout))).collect::<Result<Vec<_>>>()?;
    let dense = TensorSpec { layout: Layout::contiguous(*product.output.layout.shape()), ..product.output };
    let y = graph.apply(Matmul { output: dense, ..product }, &views)?[0].reshape(*output.layout.shape())?;
    graph.finish(name, &[y], &[output]).map(Some)
}

impl Operation for Convolution {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read x, weights, residual, bias; write output }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic { flops: self.geometry.flops(), multiplies: Some(self.x.dtype) }
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let dtype = self.output.dtype;
        let mut others = before[2..].iter();
        let residual = self.residual.and_then(|_| others.next());
        let bias = self.bias.and_then(|_| others.next());
        let filters = self.geometry.filters as usize;
        let forward = if dtype.is_float() { oracle::forward } else { oracle::forward_whole };
        let sums = forward(&self.geometry, &before[0], &before[1], dtype).into_iter().enumerate();
        let ends = |(i, (sum, may_be_nan)): (usize, oracle::Sum)| {
            let addends = [residual.map(|c| c.values[i]), bias.map(|bias| bias.values[i % filters])];
            let y = ended(Span::from(sum), addends.map(|addend| addend.map(Span::exact)), self.activation, dtype);
            if may_be_nan { y.or_nan() } else { y }
        };
        vec![sums.map(ends).collect()]
    }

    /// dx and dw are [`ConvolutionInput`] and [`ConvolutionWeights`] of dy; the bias's is its sum over pixels, the residual's is itself. With
    /// an activation y is computed again without it, and the activation's derivative there multiplies dy first.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        if self.is_of_rows() {
            return Ok(Gradient::Refused(
                "convolutions of whole numbers and of 8 bits have no rule: train in wider floats",
            ));
        }
        let mut rule = RuleBuilder::new(self, needs)?;
        let mut dy = rule.gradient(0)?;
        if let Some(activation) = self.activation.filter(|_| needs.inputs.contains(&true)) {
            let inputs = (0..needs.inputs.len()).map(|input| rule.input(input)).collect::<Result<Vec<_>>>()?;
            let before = Convolution { activation: None, output: dy.spec(), ..self.clone() }.check()?;
            let before = rule.graph.apply(before, &inputs)?;
            let program = Program::compile(&crate::Expr::input(0).unary(activation), &[self.output.dtype])?;
            let slopes = program.derivative(1, &[0], &[true])?;
            let values = [before[0], rule.output(0)?, dy];
            let known: Vec<crate::Expr> = slopes.into_iter().flatten().collect();
            let found = rule.graph.map_used(&known, &values)?.pop();
            dy = found.map_or_else(|| rule.graph.full(dy.dtype(), *self.output.layout.shape(), 0), Ok)?;
        }
        let bias = 2 + usize::from(self.residual.is_some());
        let mut gradients = Vec::new();
        for input in (0..needs.inputs.len()).filter(|&input| needs.inputs[input]) {
            gradients.push(match input {
                0 => {
                    let weights = rule.input(1)?;
                    let op = ConvolutionInput::of(self.geometry, dy.spec(), weights.spec())?;
                    rule.graph.apply(op, &[dy, weights])?.pop()
                }
                1 => {
                    let x = rule.input(0)?;
                    let op = ConvolutionWeights::of(self.geometry, dy.spec(), x.spec())?;
                    rule.graph.apply(op, &[dy, x])?.pop()
                }
                _ if input == bias => {
                    let axes: Vec<usize> = (0..=self.geometry.rank).collect();
                    Some(rule.graph.reduce(ReduceFn::Sum, dy, &axes, KeepDims::No)?)
                }
                _ => Some(dy),
            });
        }
        rule.finish(gradients)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        if self.is_of_rows() {
            return rows::forward(OP, self.inputs(), self, Scales::Absent).map(Some);
        }
        graph_of(OP, self.inputs(), self.as_product()?, self.output)
    }

    fn by_products(&self) -> Result<Option<Graph>> {
        self.as_rows()
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::forward_plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        plan::forward(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        match self.as_product() {
            Ok(Some(product)) => super::matmul::host::execute(&product, inputs, outputs[0]),
            _ if self.is_of_rows() => match self.decompose() {
                Ok(Some(graph)) => graph.host(inputs, outputs),
                _ => Err(super::HostError::NoRoutine),
            },
            _ => host::forward(self, inputs, outputs[0]),
        }
    }

    fn describe(&self, name: &mut String) {
        self.geometry.describe(name);
        let parts = [(self.residual, " residual"), (self.bias, " bias")];
        parts.into_iter().filter(|(part, _)| part.is_some()).for_each(|(_, word)| name.push_str(word));
        describe_end(name, self.activation, Precision::default());
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        (axis == 0).then(|| self.first(extent))?.map(Op::from)
    }

    /// The last image and the last filters of one group.
    fn sample(&self) -> Result<Option<Sample>> {
        let Some((op, positions)) = self.last_filters()? else { return Ok(None) };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }

    /// Without the last channel.
    fn shortened(&self) -> Result<Option<Op>> {
        let channels = self.geometry.channels;
        if self.geometry.groups != 1 || channels == 0 {
            return Ok(None);
        }
        let axis = self.geometry.rank + 1;
        let cut = |spec: &TensorSpec| {
            Ok::<_, Error>(TensorSpec { layout: spec.layout.slice(axis, 0, channels - 1, 1)?, ..*spec })
        };
        let geometry = Geometry { channels: channels - 1, ..self.geometry };
        Ok(Some(
            Convolution { x: cut(&self.x)?, weights: cut(&self.weights)?, geometry, ..self.clone() }.check()?.into(),
        ))
    }
}
