//! Quantised tensors: 8-bit values with f32 scales, their making from floats, and products of them.
//!
//! Symmetric: value = step * scale, scale = largest magnitude / largest step (i8: 127; f8e4m3: 448; f8e5m2: 57344), so
//! that zero is zero and no offsets need adding up. Quantising is no op of its own: the largest magnitudes are a
//! reduction, multiplying by their reciprocals is a map, and products take scales themselves ([`MatmulOptions::scale_a`]). So beside
//! its i8 product a quantised layer costs reading the activations twice. Scales of blocks (`quantize/blocks.rs`) change
//! along k, too, where outliers would spoil whole rows. Not here: choosing scales from many batches (give them to
//! [`Quantized::new`]), offsets, integer activations between layers.

mod blocks;
mod nibbles;

use super::MatmulOptions;
pub use nibbles::{FourBit, Nibbles, Quantized4};

use crate::{CompareFn, DType, Error, Expr, KeepDims, ReduceFn, Result, ScaleBlocks, Shape, Tensor, UnaryFn};

/// The elements of [..., rows, columns] that share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// All elements share one; every extent of the scales is 1.
    PerTensor,
    /// The elements of a row (a token of activations, an output channel of [n, k] weights); scales are [..., rows, 1].
    PerRow,
    /// The elements of a column; scales are [..., 1, columns].
    PerColumn,
    /// The elements of one index of the first axis (a filter of a convolution); scales are [filters, 1, ...].
    PerFilter,
    /// The elements of a block; scales are [..., ceil(rows / `rows`), ceil(columns / `columns`)]. Activations [m, k] in
    /// blocks of 1 x 128 and weights [n, k] in blocks of 128 x 128 are the recipe of DeepSeek-V3.
    Blocks {
        /// Rows of a block; there may be fewer in the last one.
        rows: u64,
        /// Columns of a block; there may be fewer in the last one.
        columns: u64,
    },
}

/// 8-bit values and f32 scales that they are multiplied by. The scales broadcast to the values' shape, or belong to blocks.
#[derive(Clone, Debug)]
pub struct Quantized {
    values: Tensor,
    scales: Tensor,
    /// Rows and columns that share a scale.
    blocks: Option<[u64; 2]>,
}

const OP: &str = "quantize";

/// The largest step of a dtype for quantised values; `None` for dtypes without a rule.
fn largest_step(dtype: DType) -> Option<f64> {
    match dtype {
        // -128 is left out: both signs have the same steps.
        DType::I8 => Some(127.0),
        DType::F8E4M3 | DType::F8E5M2 => Some(dtype.max_finite()),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
        DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => None,
    }
}

/// The scale for the largest magnitude (input 0).
pub(crate) fn scale_of(dtype: DType) -> Result<Expr> {
    let largest = largest_step(dtype).ok_or(Error::UndefinedForDType { op: OP, dtype })?;
    Ok(Expr::input(0).cast(DType::F32) / largest)
}

/// What values are multiplied by that `scale` is the step of: its reciprocal; 0 for scales that are NaN, zero, below f32's normal
/// numbers or above 2^126, whose reciprocals are none of them.
pub(crate) fn inverse_of(scale: &Expr) -> Expr {
    let is_normal = [(CompareFn::Ge, -126), (CompareFn::Le, 126)].map(|(f, power)| scale.compare(f, 2f64.powi(power)));
    let [from, to] = is_normal;
    from.select(to.select(Expr::from(1.0) / scale.clone(), 0.0), 0.0)
}

/// The step of a value (input 0) for the reciprocal of its scale (input 1): rounded to nearest even, never beyond the largest; as i8, 0
/// of NaN. No division, and the bounds of i8 as integers: on a GPU either would take longer than memory.
pub(crate) fn steps_of(dtype: DType) -> Result<Expr> {
    let largest = largest_step(dtype).ok_or(Error::UndefinedForDType { op: OP, dtype })?;
    let exact = Expr::input(0).cast(DType::F32) * Expr::input(1);
    // A cast to a float rounds by itself.
    let rounded = if dtype.is_float() { exact } else { exact.round().cast(DType::I32) };
    Ok(rounded.clamp(-largest, largest).cast(dtype))
}

/// The value of a step (input 0) with its scale (input 1).
pub(crate) fn value_of(dtype: DType) -> Expr {
    (Expr::input(0).cast(DType::F32) * Expr::input(1)).cast(dtype)
}

/// Scales, and the reciprocals that values are multiplied by: for [`Tensor::quantize_with`].
#[derive(Clone, Debug)]
pub struct QuantizeScales {
    scales: Tensor,
    inverses: Tensor,
}

impl QuantizeScales {
    /// Makes `scales` (f32) ready. Values of scales that are NaN, zero, below f32's normal numbers or above 2^126 have steps 0.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for scales that are not f32; memory errors of the device.
    pub fn new(scales: &Tensor) -> Result<QuantizeScales> {
        if scales.dtype() != DType::F32 {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::F32, got: scales.dtype() });
        }
        let inverses = Tensor::map_named(OP, &inverse_of(&Expr::input(0)), &[scales])?;
        Ok(QuantizeScales { scales: scales.clone(), inverses })
    }

    /// The scales that `scale` gives for the largest magnitudes.
    fn of(scale: &Expr, largest: &Tensor) -> Result<QuantizeScales> {
        let both = Tensor::map_all(&[scale.clone(), inverse_of(scale)], &[largest])?;
        match both.as_slice() {
            [scales, inverses] => Ok(QuantizeScales { scales: scales.clone(), inverses: inverses.clone() }),
            _ => QuantizeScales::new(&Tensor::map_named(OP, scale, &[largest])?),
        }
    }

    /// The value of one step.
    pub fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// Bytes of both.
    pub fn size_bytes(&self) -> u64 {
        self.scales.spec().bytes() + self.inverses.spec().bytes()
    }
}

impl Tensor {
    /// Quantises these floats to `dtype` (i8, f8e4m3 or f8e5m2) with scales of the given granularity: scale = largest
    /// magnitude / largest step in f32, step = value times 1 / scale, to nearest even.
    ///
    /// The error of a finite value is at most half a scale (and 2^-12 of that) as i8. As f8e4m3 it is at most 2^-4 of
    /// the value, as f8e5m2 2^-3, or half the smallest subnormal number of that type times the scale where that is more.
    /// A row (tensor, column, block) of zeros has scale 0 and steps 0, and comes back as zeros; so does one whose scale
    /// is below f32's normal numbers. A NaN or an infinity makes its scale NaN or infinite:
    /// every value that comes back, and every product with that row, is NaN, so that the fault does not go unseen.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for values that are no floats and for a `dtype` other than these three;
    /// [`Error::InvalidArgument`] for rows, columns or blocks of a tensor of rank below 2, and for blocks of no
    /// elements; memory errors of the device.
    pub fn quantize(&self, dtype: DType, granularity: Granularity) -> Result<Quantized> {
        let scale = scale_of(dtype)?;
        if !self.dtype().is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype: self.dtype() });
        }
        let rank = self.rank();
        let least = match granularity {
            Granularity::PerTensor => 0,
            Granularity::PerFilter => 1,
            Granularity::PerRow | Granularity::PerColumn | Granularity::Blocks { .. } => 2,
        };
        if rank < least {
            let reason = format!("{granularity:?} needs {least} dimensions or more, not shape {:?}", self.dims());
            return Err(Error::InvalidArgument { what: "granularity", reason });
        }
        let axes: Vec<usize> = match granularity {
            Granularity::PerTensor => (0..rank).collect(),
            Granularity::PerFilter => (1..rank).collect(),
            Granularity::PerRow => vec![rank - 1],
            Granularity::PerColumn => vec![rank - 2],
            Granularity::Blocks { rows, columns } => return blocks::quantize(self, dtype, [rows, columns]),
        };
        // A reduction needs at least one axis; the largest magnitude of a single number is its own.
        let largest = if axes.is_empty() { self.abs()? } else { self.reduce(ReduceFn::AbsMax, &axes, KeepDims::Yes)? };
        self.quantize_with(dtype, &QuantizeScales::of(&scale, &largest)?)
    }

    /// Quantises these floats to `dtype` with given `scales` (found on examples, for activations), f32 and broadcast to
    /// the shape: step = value times 1 / scale, to nearest even. Values beyond the largest step become that step. Scales that serve
    /// many tensors are best made ready once, for [`Tensor::quantize_with`].
    ///
    /// # Errors
    /// As [`Tensor::quantize`] and [`Quantized::new`].
    pub fn quantize_by(&self, dtype: DType, scales: &Tensor) -> Result<Quantized> {
        self.quantize_with(dtype, &QuantizeScales::new(scales)?)
    }

    /// [`Tensor::quantize_by`] scales that are ready: one launch.
    ///
    /// # Errors
    /// As [`Tensor::quantize`] and [`Quantized::new`].
    pub fn quantize_with(&self, dtype: DType, scales: &QuantizeScales) -> Result<Quantized> {
        if !self.dtype().is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype: self.dtype() });
        }
        // Refuses scales of a larger shape, which would broadcast the values to that shape.
        scales.scales.broadcast_to(*self.shape())?;
        let values = Tensor::map_named(OP, &steps_of(dtype)?, &[self, &scales.inverses])?;
        Quantized::new(values, scales.scales.clone())
    }

    /// A quantised linear layer: activation(x W^T + bias) of x [..., m, k] (f32, f16 or bf16), weights [n, k] with scales
    /// per tensor, per row (output channel) or of blocks, bias `[n]` of x's dtype; the result is `[..., m, n]` of x's dtype.
    ///
    /// x is quantised to the weights' dtype per row, or, for weights with scales of blocks, in runs of a row as long as
    /// the blocks are along k. The product of i8 is exact in i32; with more than 131,071 elements along k it is
    /// computed in blocks whose sums are added in f32. Scales, bias and activation follow in f32 before the one
    /// rounding to x's dtype. The error is that of quantising: as i8 at most 0.4 % of a row's largest magnitude on each
    /// factor, which averages out along k.
    ///
    /// # Errors
    /// As [`Tensor::quantize`] and [`Quantized::matmul`]; [`Error::ShapeMismatch`] for weights that are no matrix.
    pub fn linear(&self, weights: &Quantized, bias: Option<&Tensor>, activation: Option<UnaryFn>) -> Result<Tensor> {
        if weights.values.rank() != 2 || self.rank() < 2 {
            return Err(Error::shape_mismatch("linear", self.shape(), weights.values.shape(), None));
        }
        let k = self.dims()[self.rank() - 1];
        let rows = self.dims()[..self.rank() - 1].iter().copied().fold(1, u64::saturating_mul);
        // One product for all rows, whatever their batches.
        let granularity = match weights.blocks {
            Some([_, columns]) => Granularity::Blocks { rows: 1, columns },
            None => Granularity::PerRow,
        };
        let x = self.reshape([rows, k])?.quantize(weights.values.dtype(), granularity)?;
        let options = MatmulOptions { bias, activation, output: Some(self.dtype()), ..MatmulOptions::default() };
        let flat = x.matmul(&weights.t()?, &options)?;
        let mut dims = self.dims().to_vec();
        dims[self.rank() - 1] = weights.values.dims()[0];
        flat.reshape(Shape::new(&dims)?)
    }
}

impl Quantized {
    /// A tensor of given quantised values, with scales that broadcast to their shape.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for values of a dtype without quantisation, [`Error::DTypeMismatch`] for scales
    /// that are not f32, [`Error::ShapeMismatch`], [`Error::DeviceMismatch`].
    pub fn new(values: Tensor, scales: Tensor) -> Result<Quantized> {
        Quantized::check(&values, &scales)?;
        scales.broadcast_to(*values.shape())?;
        Ok(Quantized { values, scales, blocks: None })
    }

    fn check(values: &Tensor, scales: &Tensor) -> Result<()> {
        if largest_step(values.dtype()).is_none() {
            return Err(Error::UndefinedForDType { op: OP, dtype: values.dtype() });
        }
        if scales.dtype() != DType::F32 {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::F32, got: scales.dtype() });
        }
        values.expect_device(OP, scales)
    }

    /// The steps.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The value of one step.
    pub fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// Bytes of values and scales.
    pub fn size_bytes(&self) -> u64 {
        self.values.spec().bytes() + self.scales.spec().bytes()
    }

    /// The values as `dtype`: steps times scales in f32, rounded once.
    ///
    /// # Errors
    /// [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn dequantize(&self, dtype: DType) -> Result<Tensor> {
        match self.blocks {
            Some(blocks) => blocks::dequantize(&self.values, &self.scales, blocks, dtype),
            None => Tensor::map_named("dequantize", &value_of(dtype), &[&self.values, &self.scales]),
        }
    }

    /// The transpose of the last two dimensions, as views: scales of rows become scales of columns.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] for rank below 2.
    pub fn t(&self) -> Result<Quantized> {
        let rank = self.values.rank();
        let scales = self.scales.broadcast_rank(rank)?;
        let blocks = self.blocks.map(|[rows, columns]| [columns, rows]);
        Ok(Quantized { values: self.values.t()?, scales: scales.t()?, blocks })
    }

    /// The product of the values that both represent: [`Tensor::matmul_with`] on the steps, with these scales instead
    /// of those in `options`, and an f32 result unless its `output` names another dtype.
    ///
    /// # Errors
    /// As [`Tensor::matmul_with`]; [`Error::ShapeMismatch`] where scales differ along k: those of the left operand must be per
    /// tensor or per row, those of the right one per tensor or per column, or either of blocks;
    /// [`Error::InvalidArgument`] for blocks that are not as long along k on both sides.
    pub fn matmul(&self, rhs: &Quantized, options: &MatmulOptions<'_>) -> Result<Tensor> {
        let scale_blocks = match (self.blocks, rhs.blocks) {
            (None, None) => None,
            (Some([m, k]), None) => Some(ScaleBlocks { m, n: 1, k }),
            (None, Some([k, n])) => Some(ScaleBlocks { m: 1, n, k }),
            (Some([m, k]), Some([other, n])) if k == other => Some(ScaleBlocks { m, n, k }),
            (Some([_, k]), Some([other, _])) => {
                let reason =
                    format!("blocks of {k} along k on the left, of {other} on the right; quantize one of them anew");
                return Err(Error::InvalidArgument { what: "scale blocks", reason });
            }
        };
        let (scale_a, scale_b) = (Some(&self.scales), Some(&rhs.scales));
        let options = MatmulOptions { scale_a, scale_b, scale_blocks, ..options.clone() };
        self.values.matmul_with(&rhs.values, &options)
    }
}

impl Tensor {
    /// Adds axes of extent 1 in front until there are `rank` of them.
    fn broadcast_rank(&self, rank: usize) -> Result<Tensor> {
        let mut dims = vec![1; rank.saturating_sub(self.rank())];
        dims.extend(self.dims());
        self.reshape(Shape::new(&dims)?)
    }
}
