//! Products, reductions, softmax and random numbers.

use super::numbers::numbers_of_64;
use crate::axis;
use crate::ops::{
    ArgReduce, ArgReduceFn, Distribution, Extents, Matmul, Random, Reduce, ReduceFn, ReducedMatmul, ScaleBlocks,
    Softmax, SoftmaxFn,
};
use crate::{
    Axes, DType, Device, Error, IntoShape, KeepDims, Layout, Position, Precision, Result, Shape, Tensor, TensorSpec,
    UnaryFn,
};

/// Elements of k in a block where sums of 8-bit integers would not fit i32: as many as u8 allows, in whole steps of every tile.
const EXACT_BLOCK: u64 = 1 << 15;

/// What a matrix product does beyond A B: D = activation(alpha (scale_a A)(B scale_b) + beta C + bias).
#[derive(Clone, Debug)]
pub struct MatmulOptions<'a> {
    /// Scale of the product; 1 by default. With 0 the operands and their scales are not read, as in BLAS: NaN in them does not show.
    pub alpha: f64,
    /// C and its scale beta; C is broadcast to the result's shape. With a beta of 0 C is not read.
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

/// A product that is not checked yet.
pub(super) struct Product<'a> {
    pub op: Matmul,
    /// The tensors that it reads besides A, in the order of its operands.
    pub others: Vec<&'a Tensor>,
}

/// The product of A, which is `lhs` or what `lhs` stands for, with `rhs`. `a` is A with its own batch.
pub(super) fn product<'a>(
    lhs: &Tensor,
    a: &Layout,
    rhs: &'a Tensor,
    options: &MatmulOptions<'a>,
) -> Result<Product<'a>> {
    const OP: &str = "matmul";
    lhs.expect_device(OP, rhs)?;
    let extents = Extents::new(a.shape(), rhs.shape())?;
    let has_scales = options.scale_a.is_some() || options.scale_b.is_some();
    let scaled = has_scales.then_some(DType::F32);
    let undefined = Error::UndefinedForDType { op: OP, dtype: lhs.dtype };
    let dtype = options.output.or(scaled).or(Matmul::output_dtype(lhs.dtype)).ok_or(undefined)?;
    let output = TensorSpec::dense(dtype, extents.of_d()?);
    let c = options.add.map(|(c, _)| c);
    for other in [c, options.bias, options.scale_a, options.scale_b].into_iter().flatten() {
        lhs.expect_device(OP, other)?;
    }
    let Extents { m, n, rows_of_b: k, .. } = extents;
    // Longer sums of integers are cut into blocks that share their scales.
    let is_cut = Matmul::longest_exact(lhs.dtype) < k && dtype.is_float() && has_scales;
    let exact = is_cut.then_some(ScaleBlocks { m: 1, n: 1, k: EXACT_BLOCK });
    let scale_blocks = options.scale_blocks.or(exact);
    let [of_a, of_b] = match scale_blocks {
        Some(blocks) => blocks.check()?.extents([m, n, k]),
        None => [[m, 1], [1, n]],
    };
    let broadcast = |tensor: &Tensor, shape: Shape| Ok::<_, Error>(tensor.broadcast_to(shape)?.spec());
    let scale = |scale: Option<&Tensor>, [rows, columns]: [u64; 2]| {
        scale.map(|scale| broadcast(scale, extents.with_batch(rows, columns)?)).transpose()
    };
    let op = Matmul {
        c: c.map(|c| broadcast(c, *output.layout.shape())).transpose()?,
        bias: options.bias.map(Tensor::spec),
        scale_a: scale(options.scale_a, of_a)?,
        scale_b: scale(options.scale_b, of_b)?,
        scale_blocks,
        alpha: options.alpha,
        beta: options.add.map_or(0.0, |(_, beta)| beta),
        activation: options.activation,
        precision: options.precision,
        ..Matmul::product(
            TensorSpec::new(lhs.dtype, a.broadcast_to(extents.of_a()?)?),
            broadcast(rhs, extents.of_b()?)?,
            output,
        )
    };
    let places = op.places();
    let optional = [
        (places.c, c),
        (places.bias, options.bias),
        (places.scale_a, options.scale_a),
        (places.scale_b, options.scale_b),
    ];
    let mut others = vec![(1, rhs)];
    others.extend(optional.into_iter().filter_map(|(place, tensor)| place.zip(tensor)));
    others.sort_unstable_by_key(|&(place, _)| place);
    Ok(Product { op, others: others.into_iter().map(|(_, tensor)| tensor).collect() })
}

impl Tensor {
    /// The matrix product with `rhs`: [..., m, k] x [..., k, n] -> [..., m, n], batch dimensions broadcast. A vector, `[k]`, is a row on
    /// the left and a column on the right; its axis of length 1 is dropped from the result. Two vectors give one number, of shape `[]`.
    ///
    /// f16 and bf16 accumulate in f32; i8 and u8 give i32; 8-bit floats, also one of each kind, give f32. Quantised operands:
    /// [`Tensor::quantize`].
    ///
    /// # Errors
    /// [`Error::InnerDimension`], [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::DeviceMismatch`],
    /// [`Error::UndefinedForDType`] for bool.
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        let options = MatmulOptions::default();
        let (is_row, is_column) = (self.rank() == 1, rhs.rank() == 1);
        if !is_row && !is_column {
            return self.matmul_with(rhs, &options);
        }
        let row = if is_row { Some(self.unsqueeze(0)?) } else { None };
        let column = if is_column { Some(rhs.unsqueeze(1)?) } else { None };
        let mut product = row.as_ref().unwrap_or(self).matmul_with(column.as_ref().unwrap_or(rhs), &options)?;
        if is_row {
            product = product.squeeze(product.rank() - 2)?;
        }
        if is_column {
            product = product.squeeze(product.rank() - 1)?;
        }
        Ok(product)
    }

    /// [`Tensor::matmul`] of matrices with scales, addends, activation, precision and output dtype, all in one operation.
    ///
    /// # Errors
    /// As [`Tensor::matmul`], and [`Error::InvalidArgument`] for options that have no meaning together.
    pub fn matmul_with(&self, rhs: &Tensor, options: &MatmulOptions<'_>) -> Result<Tensor> {
        // Checked before the output is allocated: a bad request costs nothing.
        let Product { op, others } = product(self, &self.layout, rhs, options)?;
        let op = op.check()?;
        let out = Tensor::empty(&self.device, op.output.dtype, *op.output.layout.shape())?;
        let inputs: Vec<&Tensor> = [self].into_iter().chain(others).collect();
        out.fill_by(&op.into(), &inputs)?;
        Ok(out)
    }

    /// [`Tensor::matmul_with`] followed by `f` over `axis` of its result, in one operation that never keeps that result: its
    /// last axis (one number for each row of it), or the one before (one for each column).
    ///
    /// Use it where only sums or extrema of a large product are wanted: the best of many scores, row sums, largest
    /// magnitudes. Where operands are small beside the product, writing and reading it would take most of the time and
    /// the memory. `f` is sum, mean, max, min or abs_max. The product's elements are not rounded to 16 bits: f16 and
    /// bf16 give f32 here, and so addends are f32; [`MatmulOptions::output`] may ask for nothing else.
    ///
    /// ```
    /// use polywarp_core::ops::ReduceFn;
    /// use polywarp_core::{Device, MatmulOptions, Tensor};
    ///
    /// let device = Device::cpu();
    /// let queries = Tensor::from_slice(&device, &[1.0f32, 0.0, 0.0, 2.0], [2, 2])?;
    /// let keys = Tensor::from_slice(&device, &[3.0f32, -1.0, 0.5, 4.0, 1.0, 1.0], [3, 2])?;
    /// let best = queries.matmul_reduce(&keys.t()?, &MatmulOptions::default(), ReduceFn::Max, 1)?;
    /// assert_eq!(best.to_vec::<f32>()?, [3.0, 8.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::matmul_with`] and [`Tensor::reduce`]; [`Error::InvalidArgument`] for another `f` and for an axis of the
    /// batch, [`Error::DTypeMismatch`] for another output dtype.
    pub fn matmul_reduce(
        &self,
        rhs: &Tensor,
        options: &MatmulOptions<'_>,
        f: ReduceFn,
        axis: impl Position,
    ) -> Result<Tensor> {
        let scaled = options.scale_a.is_some() || options.scale_b.is_some();
        let sums = if scaled { Some(DType::F32) } else { ReducedMatmul::product_dtype(self.dtype) };
        let options = MatmulOptions { output: options.output.or(sums), ..options.clone() };
        let Product { op, others } = product(self, &self.layout, rhs, &options)?;
        let axis = axis::axis(axis, op.output.layout.rank())?;
        let op = ReducedMatmul::new(f, axis, op)?;
        let out = Tensor::empty(&self.device, op.output.dtype, *op.output.layout.shape())?;
        let inputs: Vec<&Tensor> = [self].into_iter().chain(others).collect();
        out.fill_by(&op.into(), &inputs)?;
        Ok(out)
    }

    /// `f` over `axes` (`..`: all of them), which disappear or stay with extent 1; those in [`keep`](crate::keep) stay.
    ///
    /// # Errors
    /// As [`Reduce::new`].
    pub fn reduce(&self, f: ReduceFn, axes: impl Axes, keep: KeepDims) -> Result<Tensor> {
        let (sorted, kept) = axis::reduced(f.name(), axes, self.rank())?;
        self.reduce_sorted(f, &sorted, if kept == KeepDims::Yes { kept } else { keep })
    }

    /// [`Tensor::reduce`] with results of `dtype`, rounded once: sums, means and products of floats of up to 32 bits in any other of these,
    /// as PyTorch's and NumPy's `sum(dtype=...)`.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, KeepDims, ReduceFn, Tensor};
    ///
    /// // More than f16 holds.
    /// let x = Tensor::full(&Device::cpu(), DType::F16, [100], 1000.0)?;
    /// assert_eq!(x.reduce_as(ReduceFn::Sum, .., KeepDims::No, DType::F32)?.item::<f32>()?, 100_000.0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Reduce::new`]: [`Error::DTypeMismatch`] for a dtype that `f` does not give.
    pub fn reduce_as(&self, f: ReduceFn, axes: impl Axes, keep: KeepDims, dtype: DType) -> Result<Tensor> {
        let (sorted, kept) = axis::reduced(f.name(), axes, self.rank())?;
        self.reduced(f, &sorted, if kept == KeepDims::Yes { kept } else { keep }, dtype)
    }

    /// [`Tensor::reduce`] over `sorted` axes.
    pub(super) fn reduce_sorted(&self, f: ReduceFn, sorted: &[usize], keep: KeepDims) -> Result<Tensor> {
        let op = f.name();
        let dtype = f.output_dtype(self.dtype).ok_or(Error::UndefinedForDType { op, dtype: self.dtype })?;
        self.reduced(f, sorted, keep, dtype)
    }

    fn reduced(&self, f: ReduceFn, sorted: &[usize], keep: KeepDims, dtype: DType) -> Result<Tensor> {
        let out = Tensor::empty(&self.device, dtype, self.shape().without_axes(sorted, KeepDims::No))?;
        out.fill_by(&Reduce::new(f, self.spec(), sorted, out.spec())?.into(), &[self])?;
        out.reshape(self.shape().without_axes(sorted, keep))
    }

    fn arg_reduce(&self, f: ArgReduceFn, axes: impl Axes) -> Result<Tensor> {
        let (sorted, keep) = axis::reduced(f.name(), axes, self.rank())?;
        let out = Tensor::empty(&self.device, DType::U32, self.shape().without_axes(&sorted, KeepDims::No))?;
        out.fill_by(&ArgReduce::new(f, self.spec(), &sorted, out.spec())?.into(), &[self])?;
        out.reshape(self.shape().without_axes(&sorted, keep))
    }

    /// Position of the largest element over `axes` (`..`: all), row-major within them, as u32; the first NaN wins.
    ///
    /// # Errors
    /// As [`ArgReduce::new`].
    pub fn argmax(&self, axes: impl Axes) -> Result<Tensor> {
        self.arg_reduce(ArgReduceFn::ArgMax, axes)
    }

    /// Position of the smallest element over `axes` (`..`: all), row-major within them, as u32; the first NaN wins.
    ///
    /// # Errors
    /// As [`ArgReduce::new`].
    pub fn argmin(&self, axes: impl Axes) -> Result<Tensor> {
        self.arg_reduce(ArgReduceFn::ArgMin, axes)
    }

    fn softmax_by(&self, f: SoftmaxFn, axis: impl Position) -> Result<Tensor> {
        let out = Tensor::empty(&self.device, self.dtype, *self.shape())?;
        out.fill_by(&Softmax::new(f, self.spec(), self.axis(axis)?, out.spec())?.into(), &[self])?;
        Ok(out)
    }

    /// exp(x - max) / sum exp(x - max) along `axis`.
    ///
    /// # Errors
    /// As [`Softmax::new`].
    pub fn softmax(&self, axis: impl Position) -> Result<Tensor> {
        self.softmax_by(SoftmaxFn::Softmax, axis)
    }

    /// The logarithm of [`Tensor::softmax`], without its underflow.
    ///
    /// # Errors
    /// As [`Softmax::new`].
    pub fn log_softmax(&self, axis: impl Position) -> Result<Tensor> {
        self.softmax_by(SoftmaxFn::LogSoftmax, axis)
    }

    /// Random numbers; the same seed and stream give the same numbers on every device, and at every replay of a recording. Numbers
    /// that go on from call to call are a [`Generator`](crate::Generator)'s, whose streams are numbered from 0 under its seed.
    ///
    /// Of f64 they are those of [`Generator::uniform`](crate::Generator::uniform) and [`Generator::normal`](crate::Generator::normal) for that seed
    /// and stream, from 53 and twice 64 random bits, computed in f64 from bounds, mean and deviation of f32.
    ///
    /// # Errors
    /// As [`Random::new`]; [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn random(
        device: &Device,
        dtype: DType,
        shape: impl IntoShape,
        distribution: Distribution,
        seed: u64,
        stream: u64,
    ) -> Result<Tensor> {
        if dtype == DType::F64
            && let Some(numbers) = numbers_of_64(distribution, seed, stream)
        {
            distribution.check()?;
            return Tensor::generate(device, distribution.name(), dtype, shape, &numbers);
        }
        let out = Tensor::empty(device, dtype, shape)?;
        out.fill_by(&Random::new(distribution, seed, stream, out.spec())?.into(), &[])?;
        Ok(out)
    }
}

macro_rules! reductions {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`ReduceFn::", stringify!($variant), "`] over `axes` (`..`: all), which disappear.\n\n# Errors\nAs [`Reduce::new`].")]
            pub fn $name(&self, axes: impl Axes) -> Result<Tensor> {
                self.reduce(ReduceFn::$variant, axes, KeepDims::No)
            }
        )*}
    };
}
reductions!(abs_max => AbsMax, all => All, any => Any, max => Max, mean => Mean, min => Min, prod => Prod, sum => Sum);

#[cfg(test)]
mod tests {
    use crate::{DType, Device, Error, Tape, Tensor};

    #[test]
    fn vectors_are_rows_on_the_left_and_columns_on_the_right() {
        let device = Device::cpu();
        let a = Tensor::arange(&device, DType::F32, 0, 1, 6).unwrap().reshape([2, 3]).unwrap();
        let [u, v] = [[1.0f32, 2.0], [3.0, 4.0]].map(|x| Tensor::from_slice(&device, &x, [2]).unwrap());
        let w = Tensor::from_slice(&device, &[1.0f32, 0.0, 2.0], [3]).unwrap();
        let of = |x: &Tensor| (x.dims().to_vec(), x.to_f64_vec().unwrap());
        assert_eq!(of(&u.matmul(&a).unwrap()), (vec![3], vec![6.0, 9.0, 12.0]));
        assert_eq!(of(&a.matmul(&w).unwrap()), (vec![2], vec![4.0, 13.0]));
        assert_eq!(of(&u.matmul(&v).unwrap()), (vec![], vec![11.0]));
        // Of a batch, and with a gradient.
        let tape = Tape::new();
        let watched = tape.watch(&w).unwrap();
        let batch = Tensor::cat(&[&a, &a], 0).unwrap().reshape([2, 2, 3]).unwrap();
        let y = batch.matmul(&watched).unwrap();
        assert_eq!(of(&y), (vec![2, 2], vec![4.0, 13.0, 4.0, 13.0]));
        let gradients = tape.backward(&y.sum(..).unwrap()).unwrap();
        assert_eq!(of(gradients.of(&watched).unwrap()), (vec![3], vec![6.0, 10.0, 14.0]));
        assert!(matches!(u.matmul(&w), Err(Error::InnerDimension { .. })));
        assert!(matches!(a.matmul(&w.zeros_like().unwrap().select(0, 0).unwrap()), Err(Error::ShapeMismatch { .. })));
    }

    #[test]
    fn reading_as_another_type_is_refused_with_the_call_that_does_it() {
        let x = Tensor::full(&Device::cpu(), DType::F32, [1], 1).unwrap();
        let text = x.item::<f64>().unwrap_err().to_string();
        assert_eq!(text, "item: expected f64, got f32; read it as f32, or any dtype as f64 with item_f64()");
        let text = x.to_vec::<f64>().unwrap_err().to_string();
        assert_eq!(text, "to_vec: expected f64, got f32; read it as f32, or any dtype as f64 with to_f64_vec()");
        let text = x.add(&x.cast(DType::F16).unwrap()).unwrap_err().to_string();
        assert_eq!(text, "add: expected f32, got f16; convert with cast()");
    }

    #[test]
    fn numbers_of_every_dtype_read_as_f64() {
        let device = Device::cpu();
        for dtype in DType::ALL {
            let x = Tensor::full(&device, dtype, [3], 1).unwrap();
            assert_eq!(x.to_f64_vec().unwrap(), [1.0; 3], "{dtype}");
            assert_eq!(x.select(0, 1).unwrap().item_f64().unwrap(), 1.0, "{dtype}");
            assert!(matches!(x.item_f64(), Err(Error::DataLength { expected: 1, got: 3, .. })));
            assert_eq!(x.zeros_like().unwrap().to_f64_vec().unwrap(), [0.0; 3], "{dtype}");
            assert_eq!((x.full_like(1).unwrap().dtype(), x.full_like(1).unwrap().dims()), (dtype, &[3][..]));
        }
    }
}
