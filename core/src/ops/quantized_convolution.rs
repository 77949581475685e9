//! Convolutions of i8 with scales: `y[n, o, k] = activation(scale_x scale_w[k] sum + residual[n, o, k] + bias[k])`, the sum being that of
//! [`Convolution`](super::convolution), exact in i32; scales and all that follows in f32, then one rounding.
//!
//! For networks that have been trained: x has one scale, found beforehand on examples, and each filter its own. No offsets: zero is zero,
//! so that padding is. It is a graph of others: windows gathered as rows of bytes ([`Pad`] and a copy), and a product of i8
//! ([`Matmul`]); one tap without padding is that product alone. Groups are a batch of products. Next: [`Quantized::conv`].

use super::convolution::{ConvolutionOptions, Geometry, as_matrix, last, oracle};
use super::matmul::{ended, scaled};
use super::prelude::*;
use super::{Convolution, Copy, Matmul, Pad, PadMode};
use crate::Quantized;
use crate::oracle::{Approx, Span};

const OP: &str = "quantized_convolution";

/// A convolution of i8 with scales.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedConvolution {
    /// Operands and geometry: x and weights are i8, residual, bias and output f32, f16 or bf16.
    pub of: Convolution,
    /// What a step of x is worth: f32 `[1]`.
    pub scale_x: TensorSpec,
    /// What a step of each filter is worth: f32 `[filters]`.
    pub scale_w: TensorSpec,
}

impl QuantizedConvolution {
    /// A convolution with results of `output`, dense at the start of their buffer; fill in residual and bias of `of` and call
    /// [`QuantizedConvolution::check`].
    ///
    /// # Errors
    /// As [`Geometry::new`] and [`QuantizedConvolution::check`].
    pub fn new(
        [x, weights, scale_x, scale_w]: [TensorSpec; 4],
        output: DType,
        options: &ConvolutionOptions,
    ) -> Result<QuantizedConvolution> {
        let geometry = Geometry::new(OP, x.layout.shape(), weights.layout.shape(), options)?;
        let output = TensorSpec::new(output, Layout::contiguous(geometry.output_shape()?));
        let activation = options.activation;
        let of = Convolution { x, weights, residual: None, bias: None, geometry, activation, output };
        QuantizedConvolution { of, scale_x, scale_w }.check()
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for operands that are not i8 and scales that are not f32, [`Error::UndefinedForDType`] for results of other
    /// dtypes than f32, f16 and bf16, [`Error::ShapeMismatch`], [`Error::InvalidArgument`] as [`Convolution::check`] and for windows of so
    /// many elements that their sum may not fit an i32.
    pub fn check(self) -> Result<QuantizedConvolution> {
        let dtype = self.of.output.dtype;
        if !Matmul::is_dequantised(DType::I8, dtype) {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        self.of.check_parts(OP, DType::I8)?;
        for (scale, extent) in [(self.scale_x, 1), (self.scale_w, self.of.geometry.filters)] {
            if scale.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op: OP, expected: DType::F32, got: scale.dtype });
            }
            if scale.layout.dims() != [extent] {
                return Err(Error::shape_mismatch(OP, scale.layout.shape(), &Shape::new(&[extent])?, None));
            }
        }
        Matmul::check_exact(DType::I8, dtype, self.terms())?;
        Ok(self)
    }

    /// Elements of a window: what one result adds up.
    fn terms(&self) -> u64 {
        self.of.geometry.taps().saturating_mul(self.of.geometry.group_channels())
    }

    /// x as rows of windows, `[pixels of y, terms]`, or with groups `[groups, pixels of y, terms]`.
    fn windows(&self, graph: &mut Builder) -> Result<Value> {
        let (geometry, x) = (&self.of.geometry, graph.input(0)?);
        let (groups, of_group) = (geometry.groups, geometry.group_channels());
        let pixels = geometry.batch * geometry.output_pixels();
        if geometry.is_pointwise() {
            return Ok(x.viewed(as_matrix(&self.of.x)?.layout));
        }
        let axes = &geometry.windows[3 - geometry.rank..];
        let padded = if axes.iter().all(|window| window.before == 0 && window.after == 0) {
            x
        } else {
            let mut dims = self.of.x.layout.dims().to_vec();
            let mut before = vec![0; dims.len()];
            for (axis, window) in axes.iter().enumerate() {
                dims[axis + 1] += window.before + window.after;
                before[axis + 1] = window.before as i64;
            }
            graph.one(Pad::new(self.of.x, PadMode::Constant, before, &dims, 0)?, &[x])?
        };
        // [batch, outputs..., taps..., channels]: a view, in which elements are met as often as windows hold them.
        let from = padded.spec().layout;
        let (strides, end) = (from.strides(), geometry.rank + 1);
        let mut dims = vec![geometry.batch];
        let mut steps = vec![strides[0]];
        dims.extend(axes.iter().map(|window| window.output));
        steps.extend((1..end).zip(axes).map(|(axis, window)| strides[axis] * window.stride as i64));
        dims.extend(axes.iter().map(|window| window.taps));
        steps.extend((1..end).zip(axes).map(|(axis, window)| strides[axis] * window.dilation as i64));
        dims.push(geometry.channels);
        steps.push(strides[end]);
        let view = padded.viewed(Layout::strided(Shape::new(&dims)?, &steps, from.offset())?);
        let dense = graph.one(Copy::new(view.spec(), TensorSpec::dense(DType::I8, Shape::new(&dims)?))?, &[view])?;
        if groups == 1 {
            return dense.reshape([pixels, self.terms()]);
        }
        let by_group = dense.reshape([pixels, geometry.taps(), groups, of_group])?.transpose(1, 2)?.transpose(0, 1)?;
        graph.contiguous(by_group)?.reshape([groups, pixels, self.terms()])
    }

    /// One group: a product with its epilogue.
    fn product(
        &self,
        graph: &mut Builder,
        windows: Value,
        weights: Value,
        [scale_x, scale_w]: [Value; 2],
    ) -> Result<Value> {
        let (geometry, output) = (&self.of.geometry, self.of.output.dtype);
        let pixels = geometry.batch * geometry.output_pixels();
        let weights = weights.reshape([geometry.filters, self.terms()])?.t()?;
        let scales = [scale_x.reshape([1, 1])?.broadcast_to([pixels, 1])?, scale_w.reshape([1, geometry.filters])?];
        let residual = self.of.residual.map(|spec| Ok::<_, Error>(graph.input(2)?.viewed(as_matrix(&spec)?.layout)));
        let residual = residual.transpose()?;
        let bias = self.of.bias.map(|_| graph.input(2 + usize::from(residual.is_some()))).transpose()?;
        let product = Matmul {
            c: residual.map(|value| value.spec()),
            beta: if residual.is_some() { 1.0 } else { 0.0 },
            bias: bias.map(|value| value.spec()),
            scale_a: Some(scales[0].spec()),
            scale_b: Some(scales[1].spec()),
            activation: self.of.activation,
            ..Matmul::product(
                windows.spec(),
                weights.spec(),
                TensorSpec::dense(output, Shape::new(&[pixels, geometry.filters])?),
            )
        };
        let operands = [Some(windows), Some(weights), residual, bias, Some(scales[0]), Some(scales[1])];
        let operands: Vec<Value> = operands.into_iter().flatten().collect();
        graph.one(product.check()?, &operands)
    }

    /// Several groups: a batch of products, and the rest behind it.
    fn products(
        &self,
        graph: &mut Builder,
        windows: Value,
        weights: Value,
        [scale_x, scale_w]: [Value; 2],
    ) -> Result<Value> {
        let (geometry, output) = (&self.of.geometry, self.of.output.dtype);
        let (groups, filters) = (geometry.groups, geometry.group_filters());
        let pixels = geometry.batch * geometry.output_pixels();
        let weights = weights.reshape([groups, filters, self.terms()])?.t()?;
        let scale_x = scale_x.reshape([1, 1, 1])?.broadcast_to([groups, pixels, 1])?;
        let scale_w = scale_w.reshape([groups, 1, filters])?;
        let sums = TensorSpec::dense(DType::F32, Shape::new(&[groups, pixels, filters])?);
        let product = Matmul {
            scale_a: Some(scale_x.spec()),
            scale_b: Some(scale_w.spec()),
            ..Matmul::product(windows.spec(), weights.spec(), sums)
        };
        let sums = graph.one(product.check()?, &[windows, weights, scale_x, scale_w])?;
        let mut values = vec![sums.transpose(0, 1)?];
        let mut y = Expr::input(0);
        if let Some(residual) = self.of.residual {
            y = y + Expr::input(values.len()).cast(DType::F32);
            let residual = graph.input(2)?.viewed(as_matrix(&residual)?.layout);
            values.push(graph.contiguous(residual)?.reshape([pixels, groups, filters])?);
        }
        if self.of.bias.is_some() {
            y = y + Expr::input(values.len()).cast(DType::F32);
            values.push(graph.input(2 + usize::from(self.of.residual.is_some()))?.reshape([groups, filters])?);
        }
        if let Some(activation) = self.of.activation {
            y = y.unary(activation);
        }
        graph.map(&y.cast(output), &values)
    }
}

impl Operation for QuantizedConvolution {
    fn name(&self) -> &'static str {
        OP
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        let Convolution { x, weights, residual, bias, output, .. } = self.of;
        let read = [Some(x), Some(weights), residual, bias, Some(self.scale_x), Some(self.scale_w)];
        read.into_iter().flatten().for_each(|spec| each(Operand::read(spec)));
        each(Operand::write(output));
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic { flops: self.of.geometry.flops(), multiplies: Some(DType::I8) }
    }

    /// Exact sums; each step behind them rounds once, in f32.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (dtype, filters) = (self.of.output.dtype, self.of.geometry.filters as usize);
        let mut others = before[2..].iter();
        let residual = self.of.residual.and_then(|_| others.next());
        let bias = self.of.bias.and_then(|_| others.next());
        let (Some(scale_x), Some(scale_w)) = (others.next(), others.next()) else { return Vec::new() };
        // Sums below 2^53 are exact in f64.
        let sums = oracle::forward(&self.of.geometry, &before[0], &before[1], DType::F64).into_iter().enumerate();
        let ends = |(i, (sum, _)): (usize, oracle::Sum)| {
            let sum = Approx::exact(Scalar::I(sum.value.as_f64() as i64));
            let x = scaled(sum, [scale_x.values[0], scale_w.values[i % filters]]);
            let addends = [residual.map(|c| c.values[i]), bias.map(|bias| bias.values[i % filters])];
            ended(Span::from(x), addends.map(|addend| addend.map(Span::exact)), self.of.activation, dtype)
        };
        vec![sums.map(ends).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused(
            "steps are whole numbers, which do not change by small steps: train in floats, and quantise then",
        ))
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let mut graph = Builder::new(self.inputs());
        let scales = 2 + usize::from(self.of.residual.is_some()) + usize::from(self.of.bias.is_some());
        let scales = [graph.input(scales)?, graph.input(scales + 1)?];
        let windows = self.windows(&mut graph)?;
        let weights = graph.input(1)?;
        let weights = graph.contiguous(weights)?;
        let y = match self.of.geometry.groups {
            1 => self.product(&mut graph, windows, weights, scales)?,
            _ => self.products(&mut graph, windows, weights, scales)?,
        };
        let y = y.reshape(*self.of.output.layout.shape())?;
        graph.finish(OP, &[y], &[self.of.output]).map(Some)
    }

    fn describe(&self, name: &mut String) {
        self.of.describe(name);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` images.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let of = (axis == 0).then(|| self.of.first(extent))??;
        Some(QuantizedConvolution { of, ..self.clone() }.into())
    }

    fn with_output(&self, _: usize, output: TensorSpec) -> Option<Op> {
        Some(QuantizedConvolution { of: Convolution { output, ..self.of.clone() }, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        let scales = self.inputs().len() - 2;
        if input >= scales { Content::Scales } else { Content::Any }
    }

    /// The last image and the last filters.
    fn sample(&self) -> Result<Option<Sample>> {
        let Some((of, positions)) = self.of.last_filters()? else { return Ok(None) };
        let scale_w = last(&self.scale_w, 0, of.geometry.filters)?;
        let op = QuantizedConvolution { of, scale_w, ..self.clone() }.check()?;
        Ok(Some(Sample { op: op.into(), positions: vec![positions] }))
    }
}

impl Quantized {
    /// The convolution of the values that both stand for, [batch, spatial..., channels] with `weights` [filters, taps..., channels / groups]:
    /// [batch, outputs..., filters] of `output` (f32, f16 or bf16). The sums of i8 are exact; scales, `residual`, `bias` and the activation
    /// of `options` follow in f32. This has one scale, the weights have one or one for each filter
    /// ([`Granularity::PerFilter`](crate::Granularity::PerFilter)).
    ///
    /// ```
    /// use polywarp_core::ops::ConvolutionOptions;
    /// use polywarp_core::{DType, Device, Granularity, Tensor};
    ///
    /// let device = Device::cpu();
    /// let image = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 127.0], [1, 4, 1])?.quantize(DType::I8, Granularity::PerTensor)?;
    /// let weights = Tensor::from_slice(&device, &[1.0f32, 1.0, 127.0, 127.0], [2, 2, 1])?.quantize(DType::I8, Granularity::PerFilter)?;
    /// let y = image.conv(&weights, None, None, DType::F32, &ConvolutionOptions::default())?;
    /// assert_eq!(y.dims(), [1, 3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 381.0, 5.0, 635.0, 130.0, 16510.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`QuantizedConvolution::check`]; [`Error::InvalidArgument`] for scales that are none of these; [`Error::DeviceMismatch`]; memory
    /// errors of the device.
    pub fn conv(
        &self,
        weights: &Quantized,
        residual: Option<&Tensor>,
        bias: Option<&Tensor>,
        output: DType,
        options: &ConvolutionOptions,
    ) -> Result<Tensor> {
        let filters = weights.values().dims().first().copied().unwrap_or(0);
        let scale_x = one_scale(self, "x", [1])?;
        let scale_w = one_scale(weights, "weights", [filters])?;
        let [x, weights] = [self.values(), weights.values()].map(Tensor::contiguous);
        let (x, weights, residual) = (x?, weights?, residual.map(Tensor::contiguous).transpose()?);
        let specs = [&x, &weights, &scale_x, &scale_w].map(Tensor::spec);
        let op = QuantizedConvolution::new(specs, output, options)?;
        let of = Convolution { residual: residual.as_ref().map(Tensor::spec), bias: bias.map(Tensor::spec), ..op.of };
        let op = QuantizedConvolution { of, ..op }.check()?;
        let operands = [Some(&x), Some(&weights), residual.as_ref(), bias, Some(&scale_x), Some(&scale_w)];
        let operands: Vec<&Tensor> = operands.into_iter().flatten().collect();
        Ok(Tensor::apply(x.device(), op, &operands)?.swap_remove(0))
    }
}

/// The scales of `what` as `[extent]`: one for all, or one for each index of the first axis.
fn one_scale(of: &Quantized, what: &'static str, [extent]: [u64; 1]) -> Result<Tensor> {
    let scales = of.scales();
    match scales.elements() {
        1 => scales.reshape([1])?.broadcast_to([extent]),
        count if count == extent && scales.rank() == of.values().rank() && scales.dims()[0] == extent => {
            scales.reshape([extent])
        }
        _ => {
            let few = if extent == 1 {
                "one scale (Granularity::PerTensor)"
            } else {
                "one scale, or one for each filter (Granularity::PerFilter)"
            };
            let reason = format!("{OP}: {what} must have {few}, not scales {}", scales.shape());
            Err(Error::InvalidArgument { what: "scales", reason })
        }
    }
}
