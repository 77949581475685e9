//! The oracle of products: the definition in float64 with its bound, from the sum to the end of the epilogue. Sparse
//! and reduced products, and convolutions, use parts of it. Not here: rounding of products before they are added
//! (`roundoff.rs`).

use std::ops::Range;

use super::{Matmul, MatmulDims};
use crate::ops::prelude::*;
use crate::oracle::{Approx, Span};

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
        let factors = Factors::new(self, inputs, left_out);
        let [c, bias] = self.places().addends().map(|place| place.map(|place| &inputs[place].values));
        let rows = self.dims().batch as usize * factors.m;
        let mut out = Vec::with_capacity(self.output.layout.elements() as usize);
        for row in 0..rows {
            for column in 0..factors.n {
                let element = Element { matrix: row / factors.m, row, column };
                let c = c.map(|c| c[row * factors.n + column]);
                let expected = self.epilogue(factors.product(element), c, bias.map(|bias| bias[column]));
                out.push(if factors.may_be_nan(element) { expected.or_nan() } else { expected });
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
        // The share of the floors in sum|a||b|: (|a| + floor of A)(|b| + floor of B) - |a||b|.
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

/// One element of D.
#[derive(Clone, Copy)]
struct Element {
    /// The index of the product in the batch.
    matrix: usize,
    /// Rows are counted through the whole batch.
    row: usize,
    column: usize,
}

/// The operands of a product, as the oracle reads them.
struct Factors<'a, L> {
    op: &'a Matmul,
    m: usize,
    n: usize,
    k: usize,
    a: Factor<'a>,
    b: Factor<'a>,
    /// Tells which elements of A a kernel may skip.
    left_out: L,
}

/// A or B.
struct Factor<'a> {
    values: &'a [Scalar],
    /// The values as f64; empty for integers.
    floats: Vec<f64>,
    /// For each matrix, the least magnitude that its elements count as for the bound: see [`Matmul::floors`].
    floors: Vec<f64>,
    scales: Option<&'a [Scalar]>,
}

impl<'a> Factor<'a> {
    /// The operand `host`, each of whose matrices has `elements` elements.
    fn new(op: &Matmul, host: &'a HostTensor, elements: usize, scales: Option<&'a HostTensor>) -> Factor<'a> {
        let floats = if op.a.dtype.is_float() { numbers(&host.values) } else { Vec::new() };
        let floors = op.floors(&floats, elements);
        Factor { values: &host.values, floats, floors, scales: scales.map(|scales| scales.values.as_slice()) }
    }

    fn floor(&self, matrix: usize) -> f64 {
        self.floors.get(matrix).copied().unwrap_or(0.0)
    }

    fn scale(&self, at: usize) -> Option<Scalar> {
        self.scales.map(|scales| scales[at])
    }
}

impl<'a, L: Fn(usize) -> bool> Factors<'a, L> {
    fn new(op: &'a Matmul, inputs: &'a [HostTensor], left_out: L) -> Factors<'a, L> {
        let MatmulDims { m, n, k, .. } = op.dims();
        let [m, n, k] = [m, n, k].map(|extent| extent as usize);
        let [scale_a, scale_b] = op.places().scales().map(|place| place.map(|place| &inputs[place]));
        let (a, b) = (Factor::new(op, &inputs[0], m * k, scale_a), Factor::new(op, &inputs[1], k * n, scale_b));
        Factors { op, m, n, k, a, b, left_out }
    }

    /// Positions in A and B of the pairs that are multiplied for `element`, over a range along K.
    fn pairs(&self, element: Element, along_k: Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<L> {
        let Element { matrix, row, column } = element;
        let (k, n) = (self.k, self.n);
        along_k.map(move |i| (row * k + i, (matrix * k + i) * n + column))
    }

    /// The bare sum of a range along K.
    fn sum(&self, element: Element, along_k: Range<usize>) -> Approx {
        let pairs = self.pairs(element, along_k);
        if !self.op.a.dtype.is_float() {
            return self.op.dot_integers(pairs.map(|(i, j)| (self.a.values[i], self.b.values[j])));
        }
        // A skipped element of A is zero; its partner counts as zero too, whatever it holds.
        let b = |i: usize, j: usize| if (self.left_out)(i) { 0.0 } else { self.b.floats[j] };
        let floors = [self.a.floor(element.matrix), self.b.floor(element.matrix)];
        self.op.dot(pairs.map(|(i, j)| (self.a.floats[i], b(i, j))), floors)
    }

    /// The sum along all of K, with scales where the operands have some.
    fn product(&self, element: Element) -> Approx {
        let Element { matrix, row, column } = element;
        let Some(blocks) = self.op.scale_blocks else {
            let scales = [self.a.scale(row), self.b.scale(matrix * self.n + column)];
            return self.op.scaled(self.sum(element, 0..self.k), scales);
        };
        let [[rows, along_k], [_, columns]] = self.op.scale_extents().map(|last| last.map(|extent| extent as usize));
        let row = matrix * rows + row % self.m / blocks.m as usize;
        let column = column / blocks.n as usize;
        let scales = |block: usize| {
            [self.a.scale(row * along_k + block), self.b.scale((matrix * along_k + block) * columns + column)]
        };
        self.op.blocked(blocks, |range| self.sum(element, range), scales)
    }

    /// Whether a kernel may give NaN for an element that is not NaN by its definition: an infinity has no lower part when f32
    /// is split over tensor cores (see `Precision::High`), and a kernel may still multiply elements that may be left out.
    fn may_be_nan(&self, element: Element) -> bool {
        if !self.op.a.dtype.is_float() {
            return false;
        }
        let is_split = self.op.is_split();
        self.pairs(element, 0..self.k).any(|(i, j)| {
            let (a, b) = (self.a.floats[i], self.b.floats[j]);
            is_split && (a.is_infinite() || b.is_infinite()) || (self.left_out)(i) && !b.is_finite()
        })
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
        // Shader compilers choose the order in which three terms are added (Mesa's does); which order errs most depends on the terms.
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
