//! Matrix products: D = activation(alpha A B + beta C + bias), batched, with broadcasting.
//!
//! A is [..., m, k], B [..., k, n], C and D [..., m, n], bias [n]. Transposes are strides of the operands' layouts. Batch
//! dimensions are broadcast before the op exists (stride 0). f16 and bf16 products accumulate in f32, i8 and u8 products
//! in i32; the other integers wrap. C is not read when beta is 0.

use super::{TensorSpec, UnaryFn, check_dense_output};
use crate::oracle::{Approx, Expected, HostTensor};
use crate::{BinaryFn, DType, Error, Precision, Result, Scalar};

/// A (batched) matrix product with its epilogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// Left operand, [..., m, k].
    pub a: TensorSpec,
    /// Right operand, [..., k, n].
    pub b: TensorSpec,
    /// Addend, [..., m, n], scaled by beta; of the output's dtype.
    pub c: Option<TensorSpec>,
    /// Vector of length n added to every row, unscaled; of the output's dtype.
    pub bias: Option<TensorSpec>,
    /// Scale of the product.
    pub alpha: f64,
    /// Scale of C.
    pub beta: f64,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// How exact f32 products must be.
    pub precision: Precision,
    /// Dense output, [..., m, n].
    pub output: TensorSpec,
}

/// The extents of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulDims {
    /// Products in the batch.
    pub batch: u64,
    /// Rows of A and D.
    pub m: u64,
    /// Columns of B and D.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
}

impl Matmul {
    /// The result dtype of a product of `dtype` operands; `None` where products have no meaning (bool).
    pub const fn output_dtype(dtype: DType) -> Option<DType> {
        match dtype {
            DType::I8 | DType::U8 => Some(DType::I32),
            DType::Bool => None,
            other => Some(other),
        }
    }

    /// D = A B with no epilogue; fill in the other fields and call [`Matmul::check`].
    pub fn product(a: TensorSpec, b: TensorSpec, output: TensorSpec) -> Matmul {
        Matmul {
            a,
            b,
            c: None,
            bias: None,
            alpha: 1.0,
            beta: 0.0,
            activation: None,
            precision: Precision::default(),
            output,
        }
    }

    /// This op, when its parts fit together.
    ///
    /// The output has the operands' dtype or that of [`Matmul::output_dtype`]; f16 and bf16 may also give f32.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::InnerDimension`], [`Error::DTypeMismatch`], [`Error::UndefinedForDType`],
    /// [`Error::InvalidArgument`] for an epilogue that has no meaning.
    pub fn check(self) -> Result<Matmul> {
        const OP: &str = "matmul";
        let (a, b, d) = (self.a.layout.shape(), self.b.layout.shape(), self.output.layout.shape());
        let rank = d.rank();
        if rank < 2 || a.rank() != rank || b.rank() != rank {
            return Err(Error::shape_mismatch(OP, a, b, None));
        }
        let (k_lhs, k_rhs) = (a.dims()[rank - 1], b.dims()[rank - 2]);
        if k_lhs != k_rhs {
            return Err(Error::InnerDimension { lhs: a.dims().to_vec(), rhs: b.dims().to_vec(), k_lhs, k_rhs });
        }
        for axis in 0..rank {
            let fits = match axis {
                _ if axis == rank - 2 => a.dims()[axis] == d.dims()[axis],
                _ if axis == rank - 1 => b.dims()[axis] == d.dims()[axis],
                _ => a.dims()[axis] == d.dims()[axis] && b.dims()[axis] == d.dims()[axis],
            };
            if !fits {
                return Err(Error::shape_mismatch(OP, a, b, Some(axis)));
            }
        }
        if self.a.dtype != self.b.dtype {
            return Err(Error::DTypeMismatch { op: OP, expected: self.a.dtype, got: self.b.dtype });
        }
        let dtype =
            Matmul::output_dtype(self.a.dtype).ok_or(Error::UndefinedForDType { op: OP, dtype: self.a.dtype })?;
        let widened = matches!(self.a.dtype, DType::F16 | DType::BF16) && self.output.dtype == DType::F32;
        if self.output.dtype != dtype && !widened {
            return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: self.output.dtype });
        }
        self.check_epilogue()?;
        check_dense_output(OP, &self.output)?;
        Ok(self)
    }

    fn check_epilogue(&self) -> Result<()> {
        const OP: &str = "matmul";
        let d = self.output.layout.shape();
        if let Some(c) = self.c.filter(|c| c.layout.shape() != d) {
            return Err(Error::shape_mismatch(OP, c.layout.shape(), d, None));
        }
        if let Some(bias) = self.bias.filter(|bias| bias.layout.dims() != &d.dims()[d.rank() - 1..]) {
            return Err(Error::shape_mismatch(OP, bias.layout.shape(), d, Some(d.rank() - 1)));
        }
        for addend in [&self.c, &self.bias].into_iter().flatten() {
            if addend.dtype != self.output.dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: self.output.dtype, got: addend.dtype });
            }
        }
        let invalid = |what, reason: String| Err(Error::InvalidArgument { what, reason });
        if self.c.is_none() && self.beta != 0.0 {
            return invalid("beta", format!("{} scales C, which is not given", self.beta));
        }
        let dtype = self.output.dtype;
        if !dtype.is_float() && (self.alpha.fract() != 0.0 || self.beta.fract() != 0.0) {
            return invalid("alpha, beta", format!("{} and {} must be integers for {dtype}", self.alpha, self.beta));
        }
        match self.activation {
            Some(f) if !f.is_activation() => invalid("activation", format!("{} is not one", f.name())),
            Some(f) if !f.defined_for(dtype) => Err(Error::UndefinedForDType { op: f.name(), dtype }),
            _ => Ok(()),
        }
    }

    /// The extents.
    pub fn dims(&self) -> MatmulDims {
        let d = self.output.layout.dims();
        let rank = d.len();
        MatmulDims {
            batch: d[..rank - 2].iter().product(),
            m: d[rank - 2],
            n: d[rank - 1],
            k: self.a.layout.dims()[rank - 1],
        }
    }

    /// `matmul`.
    pub fn name(&self) -> &'static str {
        "matmul"
    }

    /// A, B, then C and bias where given.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        [Some(self.a), Some(self.b), self.c, self.bias].into_iter().flatten().collect()
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    pub(crate) fn piece(&self, axis: usize, extent: u64) -> Option<Matmul> {
        let last = self.output.layout.rank().checked_sub(1)?;
        let slice = |operand: TensorSpec| operand.first(axis, extent);
        let slice_option = |operand: Option<TensorSpec>| operand.map_or(Some(None), |operand| slice(operand).map(Some));
        // A has no columns of D, B none of its rows, the bias nothing but columns.
        let a = if axis == last { self.a } else { slice(self.a)? };
        let b = if axis + 1 == last { self.b } else { slice(self.b)? };
        let bias = match self.bias {
            Some(bias) if axis == last => Some(bias.first(0, extent)?),
            bias => bias,
        };
        Some(Matmul {
            a,
            b,
            c: slice_option(self.c)?,
            bias,
            output: self.output.dense_first(axis, extent)?,
            ..self.clone()
        })
    }

    /// 2 m n k per product.
    pub fn flops(&self) -> u64 {
        let MatmulDims { batch, m, n, k } = self.dims();
        [2, batch, m, n, k].into_iter().fold(1, u64::saturating_mul)
    }

    /// Three loops in float64 (integers: wrapping i64), then the epilogue step by step.
    ///
    /// Bound (Higham, section 3.5): |error| <= (h + 1) u |alpha| sum|a||b| with the chain h of [`Approx::sum`], which
    /// blocked accumulation satisfies with room; see [`Matmul::product_roundoff`] for what lower precisions add.
    pub fn oracle(&self, inputs: &[HostTensor]) -> Vec<Expected> {
        let MatmulDims { batch, m, n, k } = self.dims();
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let (a, b) = (&inputs[0].values, &inputs[1].values);
        let floats = |values: &[Scalar]| values.iter().map(|x| x.as_f64()).collect::<Vec<f64>>();
        let is_float = self.output.dtype.is_float();
        let (a_floats, b_floats) = if is_float { (floats(a), floats(b)) } else { (Vec::new(), Vec::new()) };
        let addends = &inputs[2..];
        let c = self.c.map(|_| &addends[0].values);
        let bias = self.bias.map(|_| &addends[addends.len() - 1].values);
        let mut out = Vec::with_capacity(self.output.layout.elements() as usize);
        for row in 0..batch as usize * m {
            let batch_b = row / m * k * n;
            for col in 0..n {
                let indices = (0..k).map(|i| (row * k + i, batch_b + i * n + col));
                let product = if is_float {
                    self.dot(indices.map(|(i, j)| (a_floats[i], b_floats[j])))
                } else {
                    self.dot_integers(indices.map(|(i, j)| (a[i], b[j])))
                };
                let at = row * n + col;
                out.push(self.epilogue(product, c.map(|c| c[at]), bias.map(|bias| bias[col])));
            }
        }
        out
    }

    fn dot_integers(&self, pairs: impl Iterator<Item = (Scalar, Scalar)>) -> Approx {
        let sum = pairs.fold(Scalar::I(0), |sum, (a, b)| {
            let product = BinaryFn::Mul.eval(a, b, DType::I64);
            BinaryFn::Add.eval(sum, product, DType::I64)
        });
        Approx::exact(sum.cast(self.output.dtype.compute()))
    }

    fn dot(&self, pairs: impl Iterator<Item = (f64, f64)>) -> Approx {
        let compute = self.output.dtype.compute();
        // Each product is rounded once where there is no fused multiply-add; f64 products are not exact here either.
        let roundoff = compute.unit_roundoff() + self.product_roundoff();
        let sum = Approx::sum(pairs.map(|(a, b)| a * b), compute, roundoff);
        // Products below the normal range may vanish one by one.
        match sum.value {
            Scalar::F(x) if x.is_finite() && sum.error > 0.0 => {
                Approx { error: sum.error + self.dims().k as f64 * compute.min_normal(), ..sum }
            }
            _ => sum,
        }
    }

    /// Relative error each product may carry before it is added: two operand roundings at tf32 or f16/bf16 for
    /// `Medium` and `Low`, the dropped low-order products of a split for `High`; nothing at `Highest`.
    pub fn product_roundoff(&self) -> f64 {
        match (self.a.dtype, self.precision) {
            (DType::F32, Precision::High) => (-20f64).exp2(),
            (DType::F32, Precision::Medium) => (-10f64).exp2(),
            (DType::F32, Precision::Low) => (-7f64).exp2(),
            _ => 0.0,
        }
    }

    fn epilogue(&self, product: Approx, c: Option<Scalar>, bias: Option<Scalar>) -> Expected {
        let dtype = self.output.dtype;
        let constant = |x: f64| {
            Approx::exact(if dtype.is_float() { Scalar::F(x).cast(dtype.compute()) } else { Scalar::I(x as i64) })
        };
        let mut x = product;
        if self.alpha != 1.0 {
            x = Approx::binary(BinaryFn::Mul, x, constant(self.alpha), dtype);
        }
        if let Some(c) = c.filter(|_| self.beta != 0.0) {
            let scaled = Approx::binary(BinaryFn::Mul, Approx::exact(c), constant(self.beta), dtype);
            x = Approx::binary(BinaryFn::Add, x, scaled, dtype);
        }
        if let Some(bias) = bias {
            x = Approx::binary(BinaryFn::Add, x, Approx::exact(bias), dtype);
        }
        if let Some(f) = self.activation {
            x = Approx::unary(f, x, dtype);
        }
        x.round_to(dtype).into_expected()
    }
}
