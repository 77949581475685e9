//! What a product must be: the definition in float64 with its bound, from the sum to the end of the epilogue. Sparse and reduced products,
//! and convolutions, are held to parts of it.

use std::ops::Range;

use super::{Matmul, MatmulDims, PROMOTED_EVERY};
use crate::Precision;
use crate::ops::prelude::*;
use crate::oracle::{Approx, Span};

/// Where f32 is split (`High`), the bound counts each element as at least this share of the largest of its matrix.
const SPLIT_FLOOR: f64 = 1.0 / (1u64 << 29) as f64;

/// One tensor-core instruction adds this many products of 8-bit floats, and cuts off this share of the largest.
pub(super) const TENSOR_CORE_PRODUCTS: u64 = 32;
pub(super) const TENSOR_CORE_ROUNDOFF: f64 = 1.0 / 8192.0; // 2^-13: 14 bits, the leading one among them

impl Matmul {
    /// Three loops in float64 (integers: wrapping i64), then the epilogue step by step.
    ///
    /// Bound (Higham, section 3.5): |error| <= (h + 1) u |alpha| sum|a||b| with the chain h of [`Approx::sum`], which
    /// blocked accumulation satisfies with room; see [`Matmul::product_roundoff`] for what lower precisions add.
    pub(crate) fn expected(&self, inputs: &[HostTensor]) -> Vec<Expected> {
        self.expected_without(inputs, |_| false)
    }

    /// The same where a kernel may skip the elements of A at positions that are `left_out`. They are zeros: where they
    /// meet NaN or infinity, a kernel that multiplies them gives NaN, and one that skips them does not.
    pub(crate) fn expected_without(&self, inputs: &[HostTensor], left_out: impl Fn(usize) -> bool) -> Vec<Expected> {
        let MatmulDims { batch, m, n, k } = self.dims();
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let (a, b) = (&inputs[0].values, &inputs[1].values);
        let is_float = self.a.dtype.is_float();
        let (a_floats, b_floats) = if is_float { (numbers(a), numbers(b)) } else { (Vec::new(), Vec::new()) };
        let [c, bias, scale_a, scale_b] = self.places().map(|place| place.map(|place| &inputs[place].values));
        // An infinity has no lower part when f32 is split over tensor cores; see `Precision::High`.
        let split = self.a.dtype == DType::F32 && self.precision == Precision::High;
        let floors_of = |values: &[f64], matrix: usize| {
            let of = |x: &[f64]| SPLIT_FLOOR * x.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
            if split { values.chunks(matrix.max(1)).map(of).collect() } else { Vec::new() }
        };
        let (floors_a, floors_b) = (floors_of(&a_floats, m * k), floors_of(&b_floats, k * n));
        let mut out = Vec::with_capacity(self.output.layout.elements() as usize);
        for row in 0..batch as usize * m {
            let batch_b = row / m * k * n;
            for col in 0..n {
                let at = row * n + col;
                let indices = |range: Range<usize>| range.map(|i| (row * k + i, batch_b + i * n + col));
                let sum = |range| {
                    if is_float {
                        let b = |(i, j): (usize, usize)| if left_out(i) { 0.0 } else { b_floats[j] };
                        let floor = |floors: &[f64]| floors.get(row / m).copied().unwrap_or(0.0);
                        let floors = [floor(&floors_a), floor(&floors_b)];
                        self.dot(indices(range).map(|at| (a_floats[at.0], b(at))), floors)
                    } else {
                        self.dot_integers(indices(range).map(|(i, j)| (a[i], b[j])))
                    }
                };
                let product = match self.scale_blocks {
                    None => {
                        let of_b = row / m * n + col;
                        self.scaled(sum(0..k), [scale_a.map(|scale| scale[row]), scale_b.map(|scale| scale[of_b])])
                    }
                    Some(blocks) => {
                        let [[rows, along], [_, columns]] = self.scale_extents().map(|last| last.map(|x| x as usize));
                        let of_a = row / m * rows + row % m / blocks.m as usize;
                        let of_b = |i: usize| (row / m * along + i) * columns + col / blocks.n as usize;
                        self.blocked(blocks, sum, |i| {
                            [scale_a.map(|scale| scale[of_a * along + i]), scale_b.map(|scale| scale[of_b(i)])]
                        })
                    }
                };
                let expected = self.epilogue(product, c.map(|c| c[at]), bias.map(|bias| bias[col]));
                let infinite = |(i, j): (usize, usize)| a_floats[i].is_infinite() || b_floats[j].is_infinite();
                let may_be_nan =
                    |(i, j)| split && infinite((i, j)) || is_float && left_out(i) && !b_floats[j].is_finite();
                out.push(if indices(0..k).any(may_be_nan) { expected.or_nan() } else { expected });
            }
        }
        out
    }

    fn dot_integers(&self, pairs: impl Iterator<Item = (Scalar, Scalar)>) -> Approx {
        let sum = pairs.fold(Scalar::I(0), |sum, (a, b)| {
            let product = BinaryFn::Mul.eval(a, b, DType::I64);
            BinaryFn::Add.eval(sum, product, DType::I64)
        });
        // Sums wrap in the type that accumulates.
        let accumulator = Matmul::output_dtype(self.a.dtype).unwrap_or(self.a.dtype).compute();
        Approx::exact(sum.cast(accumulator))
    }

    /// The sum of products, as a float, times the operands' scales.
    pub(super) fn scaled(&self, product: Approx, scales: [Option<Scalar>; 2]) -> Approx {
        if self.is_quantised() { scaled(product, scales.into_iter().flatten()) } else { product }
    }

    /// The sum of products of `pairs`. For [`Matmul::product_roundoff`] elements of A and B count as at least `floors`.
    fn dot(&self, pairs: impl Iterator<Item = (f64, f64)>, floors: [f64; 2]) -> Approx {
        let compute = self.output.dtype.compute();
        let product_roundoff = self.product_roundoff();
        // Each product is rounded once where there is no fused multiply-add; f64 products are not exact here either.
        let roundoff = compute.unit_roundoff() + product_roundoff;
        let mut below = 0.0;
        let products = pairs.map(|(a, b)| {
            below += (a.abs() + floors[0]) * floors[1] + floors[0] * b.abs();
            a * b
        });
        let sum = Approx::sum(products, compute, roundoff);
        // Products below the normal range may vanish one by one.
        match sum.value {
            Scalar::F(x) if x.is_finite() && sum.error > 0.0 => {
                let vanished = self.dims().k as f64 * compute.min_normal();
                Approx { error: sum.error + product_roundoff * below + vanished, ..sum }
            }
            _ => sum,
        }
    }

    /// Relative error each product may carry before it is added. f32: two operand roundings at tf32 or f16/bf16 for
    /// `Medium` and `Low`, the dropped low-order products of a split for `High`; nothing at `Highest`. A split into parts of f16
    /// scales each matrix into their range, below which parts have a fixed distance: for this error an element counts as
    /// its magnitude plus 2^-29 of the largest finite one of its matrix.
    ///
    /// 8-bit floats: the tensor cores of Ada and Hopper take 32 products and the sum so far, shift them to the largest
    /// exponent among them and cut off all but 14 bits (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.5.2;
    /// a sum of 13 bits of fraction on Ada: SageAttention2, arXiv 2411.10958). So each of the 32, the sum, and the
    /// result may lose 2^-13 of the largest, which is at most the sum of all |a||b| since the last promotion. That is,
    /// for the h = min(k, 128) products between two promotions, h + 2 ceil(h / 32) times 2^-13 of them all: 1.7 %. A
    /// kernel that never promotes loses about K / 4 times 2^-13 where the products have one sign, and exceeds the bound
    /// for long K.
    pub fn product_roundoff(&self) -> f64 {
        match (self.a.dtype, self.precision) {
            (DType::F8E4M3 | DType::F8E5M2, _) => {
                let chunk = self.dims().k.min(PROMOTED_EVERY);
                (chunk + 2 * chunk.div_ceil(TENSOR_CORE_PRODUCTS)) as f64 * TENSOR_CORE_ROUNDOFF
            }
            (DType::F32, Precision::High) => (-20f64).exp2(),
            (DType::F32, Precision::Medium) => (-10f64).exp2(),
            (DType::F32, Precision::Low) => (-7f64).exp2(),
            _ => 0.0,
        }
    }

    fn epilogue(&self, product: Approx, c: Option<Scalar>, bias: Option<Scalar>) -> Expected {
        let dtype = self.output.dtype;
        let constant = |x: f64| {
            Span::exact(if dtype.is_float() { Scalar::F(x).cast(dtype.compute()) } else { Scalar::I(x as i64) })
        };
        let mut x = Span::from(product);
        if self.alpha != 1.0 {
            x = x.binary(BinaryFn::Mul, constant(self.alpha), dtype);
        }
        let c = c.filter(|_| self.beta != 0.0);
        let c = c.map(|c| Span::exact(c).binary(BinaryFn::Mul, constant(self.beta), dtype));
        ended(x, [c, bias.map(Span::exact)], self.activation, dtype)
    }
}

/// A sum of products, as a float, times scales.
///
/// Bound: the conversion of an integer to f32, to either neighbour (WGSL leaves it open), and the rounding of each step.
pub(in crate::ops) fn scaled(sum: Approx, scales: impl IntoIterator<Item = Scalar>) -> Approx {
    let mut x = match sum.value {
        Scalar::I(sum) => {
            let exact = sum.unsigned_abs() <= 1 << 24;
            let error = if exact { 0.0 } else { 2.0 * DType::F32.unit_roundoff() * sum.unsigned_abs() as f64 };
            Approx { value: Scalar::F(sum as f64), error }
        }
        Scalar::F(_) | Scalar::U(_) => sum,
    };
    for scale in scales {
        let scaled = Span::from(x).binary(BinaryFn::Mul, Span::exact(scale), DType::F32);
        x = scaled.flushable(DType::F32).into_approx(DType::F32);
    }
    x
}

/// The end of a product or convolution: adds `c` and `bias` to the sum `x`, in any order, then applies the activation.
pub(in crate::ops) fn ended(
    x: Span,
    [c, bias]: [Option<Span>; 2],
    activation: Option<UnaryFn>,
    dtype: DType,
) -> Expected {
    let add = |x: Span, y| x.binary(BinaryFn::Add, y, dtype);
    let mut x = match (c, bias) {
        (None, None) => x,
        (Some(y), None) | (None, Some(y)) => add(x, y),
        // Shader compilers add three terms in the order they like (Mesa's does); which one errs most depends on the terms.
        (Some(c), Some(bias)) => {
            let orders = [[x, c, bias], [x, bias, c], [c, bias, x]].map(|[a, b, c]| add(add(a, b), c));
            orders[0].or(orders[1]).or(orders[2])
        }
    };
    if let Some(f) = activation {
        x = x.unary(f, dtype);
    }
    x.round_to(dtype).into_expected(dtype)
}
