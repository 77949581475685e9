//! Convolutions of i8 with scales: `y[n, o, k] = activation(scale_x scale_w[k] sum + residual[n, o, k] + bias[k])`, the sum being that of
//! [`Convolution`](super::convolution), exact in i32; scales and all that follows in f32, then one rounding.
//!
//! For networks that have been trained: x has one scale, found beforehand on examples, and each filter its own. No offsets: zero is zero,
//! so that padding is. It is a graph of others: windows gathered as rows of bytes, and a product of i8 ([`Matmul`]); one tap
//! without padding is that product alone. Groups are a batch of products. A backend may have kernels for the whole instead. Next:
//! `convolution/rows.rs`, [`Quantized::conv`].

use super::convolution::rows::{self, Scales};
use super::convolution::{ConvolutionOptions, Geometry, last, oracle};
use super::matmul::{ended, scaled};
use super::prelude::*;
use super::{Convolution, Matmul};
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
        rows::forward(OP, self.inputs(), &self.of, Scales::Last).map(Some)
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
