//! Products, reductions, softmax and random numbers.

use crate::ops::{
    ArgReduce, ArgReduceFn, Distribution, Matmul, Random, Reduce, ReduceFn, ScaleBlocks, Softmax, SoftmaxFn,
};
use crate::{DType, Device, Error, IntoShape, KeepDims, MAX_RANK, Precision, Result, Shape, Tensor, UnaryFn};

/// What a matrix product does beyond A B: D = activation(alpha (scale_a A)(B scale_b) + beta C + bias).
#[derive(Clone, Debug)]
pub struct MatmulOptions<'a> {
    /// Scale of the product; 1 by default.
    pub alpha: f64,
    /// C and its scale beta; C is broadcast to the result's shape.
    pub add: Option<(&'a Tensor, f64)>,
    /// A vector of length n added to every row.
    pub bias: Option<&'a Tensor>,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// How exact f32 products must be; [`Precision::Highest`] by default.
    pub precision: Precision,
    /// f32 instead of the operands' dtype, for f16 and bf16; f16 or bf16 instead of f32, for 8-bit floats; f32, f16 or bf16
    /// instead of i32, for i8 and u8.
    pub output: Option<DType>,
    /// f32 scales of A's rows, broadcast to [..., m, 1]: of 8-bit operands. The result is f32 where `output` says nothing.
    pub scale_a: Option<&'a Tensor>,
    /// f32 scales of B's columns, broadcast to [..., 1, n].
    pub scale_b: Option<&'a Tensor>,
    /// Scales belong to blocks: those of A are broadcast to [..., ceil(m / block m), ceil(k / block k)], those of B to
    /// [..., ceil(k / block k), ceil(n / block n)]; see [`ScaleBlocks`].
    pub scale_blocks: Option<ScaleBlocks>,
}

impl Default for MatmulOptions<'_> {
    fn default() -> Self {
        MatmulOptions {
            alpha: 1.0,
            add: None,
            bias: None,
            activation: None,
            precision: Precision::default(),
            output: None,
            scale_a: None,
            scale_b: None,
            scale_blocks: None,
        }
    }
}

impl Tensor {
    /// The matrix product with `rhs`: [..., m, k] x [..., k, n] -> [..., m, n], batch dimensions broadcast.
    ///
    /// f16 and bf16 accumulate in f32; i8 and u8 give i32; 8-bit floats, also one of each kind, give f32. Quantised operands:
    /// [`Tensor::quantize`].
    ///
    /// # Errors
    /// [`Error::InnerDimension`], [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::DeviceMismatch`],
    /// [`Error::UndefinedForDType`] for bool.
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        self.matmul_with(rhs, &MatmulOptions::default())
    }

    /// [`Tensor::matmul`] with scales, addends, activation, precision and output dtype, all in one operation.
    ///
    /// # Errors
    /// As [`Tensor::matmul`], and [`Error::InvalidArgument`] for options that have no meaning together.
    pub fn matmul_with(&self, rhs: &Tensor, options: &MatmulOptions<'_>) -> Result<Tensor> {
        self.expect_device("matmul", rhs)?;
        let (a, b) = (self.dims(), rhs.dims());
        if a.len() < 2 || b.len() < 2 {
            return Err(Error::shape_mismatch("matmul", self.shape(), rhs.shape(), None));
        }
        let ([a_batch @ .., m, k], [b_batch @ .., _, n]) = (a, b) else {
            return Err(Error::shape_mismatch("matmul", self.shape(), rhs.shape(), None));
        };
        let batch = Shape::broadcast("matmul", &Shape::new(a_batch)?, &Shape::new(b_batch)?)?;
        let with_batch = |rows: u64, cols: u64| {
            let mut dims = [0; MAX_RANK];
            let rank = batch.rank();
            dims[..rank].copy_from_slice(batch.dims());
            dims[rank] = rows;
            dims[rank + 1] = cols;
            Shape::new(&dims[..rank + 2])
        };
        let lhs = self.broadcast_to(with_batch(*m, *k)?)?;
        let rhs = rhs.broadcast_to(with_batch(b[b.len() - 2], *n)?)?;
        let undefined = Error::UndefinedForDType { op: "matmul", dtype: self.dtype };
        let scaled = (options.scale_a.is_some() || options.scale_b.is_some()).then_some(DType::F32);
        let dtype = options.output.or(scaled).or(Matmul::output_dtype(self.dtype)).ok_or(undefined)?;
        let shape = with_batch(*m, *n)?;
        let addend = match options.add {
            Some((c, beta)) => Some((c.broadcast_to(shape)?, beta)),
            None => None,
        };
        let [of_a, of_b] = match options.scale_blocks {
            Some(blocks) => blocks.check()?.extents([*m, *n, *k]),
            None => [[*m, 1], [1, *n]],
        };
        let scale = |scale: Option<&Tensor>, [rows, cols]: [u64; 2]| {
            scale.map(|scale| scale.broadcast_to(with_batch(rows, cols)?)).transpose()
        };
        let (scale_a, scale_b) = (scale(options.scale_a, of_a)?, scale(options.scale_b, of_b)?);
        let mut inputs = vec![&lhs, &rhs];
        inputs.extend(addend.as_ref().map(|(c, _)| c));
        inputs.extend(options.bias);
        inputs.extend(&scale_a);
        inputs.extend(&scale_b);
        for input in &inputs {
            self.expect_device("matmul", input)?;
        }
        // Checked before the output is allocated: a bad request costs nothing.
        let op = Matmul {
            c: addend.as_ref().map(|(c, _)| c.spec()),
            bias: options.bias.map(Tensor::spec),
            scale_a: scale_a.as_ref().map(Tensor::spec),
            scale_b: scale_b.as_ref().map(Tensor::spec),
            scale_blocks: options.scale_blocks,
            alpha: options.alpha,
            beta: addend.as_ref().map_or(0.0, |(_, beta)| *beta),
            activation: options.activation,
            precision: options.precision,
            ..Matmul::product(lhs.spec(), rhs.spec(), crate::TensorSpec::new(dtype, crate::Layout::contiguous(shape)))
        }
        .check()?;
        let out = Tensor::empty(&self.device, dtype, shape)?;
        out.fill_by(&op.into(), &inputs)?;
        Ok(out)
    }

    /// `f` over `axes` (none: all of them), which disappear or stay with extent 1.
    ///
    /// # Errors
    /// As [`Reduce::new`].
    pub fn reduce(&self, f: ReduceFn, axes: &[usize], keep: KeepDims) -> Result<Tensor> {
        let sorted = self.shape().reduction_axes(axes)?;
        let op = f.name();
        let dtype = f.output_dtype(self.dtype).ok_or(Error::UndefinedForDType { op, dtype: self.dtype })?;
        let out = Tensor::empty(&self.device, dtype, self.shape().without_axes(&sorted, KeepDims::No))?;
        out.fill_by(&Reduce::new(f, self.spec(), &sorted, out.spec())?.into(), &[self])?;
        out.reshape(self.shape().without_axes(&sorted, keep))
    }

    fn arg_reduce(&self, f: ArgReduceFn, axes: &[usize], keep: KeepDims) -> Result<Tensor> {
        let sorted = self.shape().reduction_axes(axes)?;
        let out = Tensor::empty(&self.device, DType::U32, self.shape().without_axes(&sorted, KeepDims::No))?;
        out.fill_by(&ArgReduce::new(f, self.spec(), &sorted, out.spec())?.into(), &[self])?;
        out.reshape(self.shape().without_axes(&sorted, keep))
    }

    /// Position of the largest element over `axes` (none: all), row-major within them, as u32; the first NaN wins.
    ///
    /// # Errors
    /// As [`ArgReduce::new`].
    pub fn argmax(&self, axes: &[usize]) -> Result<Tensor> {
        self.arg_reduce(ArgReduceFn::ArgMax, axes, KeepDims::No)
    }

    /// Position of the smallest element over `axes` (none: all), row-major within them, as u32; the first NaN wins.
    ///
    /// # Errors
    /// As [`ArgReduce::new`].
    pub fn argmin(&self, axes: &[usize]) -> Result<Tensor> {
        self.arg_reduce(ArgReduceFn::ArgMin, axes, KeepDims::No)
    }

    fn softmax_by(&self, f: SoftmaxFn, axis: usize) -> Result<Tensor> {
        let out = Tensor::empty(&self.device, self.dtype, *self.shape())?;
        out.fill_by(&Softmax::new(f, self.spec(), axis, out.spec())?.into(), &[self])?;
        Ok(out)
    }

    /// exp(x - max) / sum exp(x - max) along `axis`.
    ///
    /// # Errors
    /// As [`Softmax::new`].
    pub fn softmax(&self, axis: usize) -> Result<Tensor> {
        self.softmax_by(SoftmaxFn::Softmax, axis)
    }

    /// The logarithm of [`Tensor::softmax`], without its underflow.
    ///
    /// # Errors
    /// As [`Softmax::new`].
    pub fn log_softmax(&self, axis: usize) -> Result<Tensor> {
        self.softmax_by(SoftmaxFn::LogSoftmax, axis)
    }

    /// Random numbers; the same seed and stream give the same numbers on every device.
    ///
    /// # Errors
    /// As [`Random::new`]; memory errors of the device.
    pub fn random(
        device: &Device,
        dtype: DType,
        shape: impl IntoShape,
        distribution: Distribution,
        seed: u64,
        stream: u64,
    ) -> Result<Tensor> {
        let out = Tensor::empty(device, dtype, shape)?;
        out.fill_by(&Random::new(distribution, seed, stream, out.spec())?.into(), &[])?;
        Ok(out)
    }
}

macro_rules! reductions {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`ReduceFn::", stringify!($variant), "`] over `axes` (none: all), which disappear.\n\n# Errors\nAs [`Reduce::new`].")]
            pub fn $name(&self, axes: &[usize]) -> Result<Tensor> {
                self.reduce(ReduceFn::$variant, axes, KeepDims::No)
            }
        )*}
    };
}
reductions!(abs_max => AbsMax, all => All, any => Any, max => Max, mean => Mean, min => Min, prod => Prod, sum => Sum);
