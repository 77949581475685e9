//! Reductions of matrix products: D = activation(alpha (scale_a A)(B scale_b) + beta C + bias) of `ops/matmul.rs`, of which
//! only the sum, mean, largest, smallest or largest magnitude of each row, or of each column, is wanted.
//!
//! D itself is no operand: a kernel may reduce its tiles while they are in registers, and others make it a part at a time
//! ([`ReducedMatmul::parts`]). Its dtype is the one that its products add up in, so nothing is rounded on the way: f32 for
//! floats of up to 32 bits and for dequantised integers, f64, or integers, which wrap. Scores of which the best counts,
//! distances to the nearest of many, norms and row sums of an attention or a loss are such products.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;
mod tuned;

use std::ops::Range;

use super::matmul::parts::{aligned_step, ranges};
use super::matmul::{describe_epilogue, without_last_k};
use super::prelude::*;
use super::sample::every;
use super::{Matmul, Reduce, Role};
use crate::operation::Tuned;
use crate::oracle::Approx;

/// Results of a part start on 16 bytes, whatever their dtype and how they are batched, when there are so many before it.
const PART_STEP: u64 = 16;

/// A reduction over the rows or the columns of a (batched) matrix product.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReducedMatmul {
    /// How elements of D are combined: sum, mean, max, min or abs_max.
    pub function: ReduceFn,
    /// The axis of D that disappears: its last one, or the one before.
    pub axis: usize,
    /// The product; its `output` is D, dense from element 0, which no buffer holds.
    pub product: Matmul,
    /// Dense output of the remaining axes.
    pub output: TensorSpec,
}

impl ReducedMatmul {
    /// The dtype that products of `dtype` add up in, and of what is reduced: f32 in place of f16 and bf16; `None` for bool.
    pub const fn product_dtype(dtype: DType) -> Option<DType> {
        match dtype {
            DType::F16 | DType::BF16 => Some(DType::F32),
            other => Matmul::output_dtype(other),
        }
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// As [`Matmul::check`] and [`Reduce::new`]; [`Error::InvalidArgument`] for another function or axis,
    /// [`Error::DTypeMismatch`] for a D of another dtype than sums have.
    pub fn check(self) -> Result<ReducedMatmul> {
        const OP: &str = "reduced_matmul";
        if !ReducedMatmul::takes(self.function) {
            let name = self.function.name();
            let reason =
                format!("{name} of a product needs the product itself; sum, mean, max, min and abs_max do not");
            return Err(Error::InvalidArgument { what: "reduction", reason });
        }
        let product = self.product.check()?;
        let d = TensorSpec { layout: product.output.layout.with_offset(0), ..product.output };
        let product = Matmul { output: d, ..product };
        let a = product.a.dtype;
        let expected = ReducedMatmul::product_dtype(a).ok_or(Error::UndefinedForDType { op: OP, dtype: a })?;
        if d.dtype != expected && !(product.dequantises() && d.dtype == DType::F32) {
            return Err(Error::DTypeMismatch { op: OP, expected, got: d.dtype });
        }
        let rank = d.layout.rank();
        if self.axis + 2 < rank {
            let reason = format!("axis {} of {rank} is one of the batch; reduce the results over it", self.axis);
            return Err(Error::InvalidArgument { what: "axis", reason });
        }
        // Function, dtype, axis, shape and emptiness are judged as those of any reduction.
        Reduce::new(self.function, d, &[self.axis], self.output)?;
        if let Some(expected) = self.function.output_dtype(d.dtype).filter(|&dtype| dtype != self.output.dtype) {
            return Err(Error::DTypeMismatch { op: OP, expected, got: self.output.dtype });
        }
        check_dense_output(OP, &self.output)?;
        Ok(ReducedMatmul { product, ..self })
    }

    /// Whether products are reduced by `function`: those of whose error something can be said, element by element.
    pub const fn takes(function: ReduceFn) -> bool {
        match function {
            ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Mean | ReduceFn::Min | ReduceFn::Sum => true,
            ReduceFn::All | ReduceFn::Any | ReduceFn::Prod => false,
        }
    }

    /// Whether each row of D gives a result; else each column does.
    pub fn is_of_rows(&self) -> bool {
        self.axis + 1 == self.product.output.layout.rank()
    }

    /// Elements of D that give one result.
    pub fn count(&self) -> u64 {
        self.product.output.layout.dims()[self.axis]
    }

    /// The reduction of a D that lies at the start of a buffer.
    pub fn reduce(&self) -> Reduce {
        let (function, input, axes) = (self.function, self.product.output, vec![self.axis]);
        Reduce { function, input, axes, output: self.output }
    }

    /// The op cut into others, one after the other, whose D takes at most `most_bytes`, where its shape allows: each writes
    /// its share of the output. One part where that is all, or where there is nothing to cut.
    pub fn parts(&self, most_bytes: u64) -> Vec<ReducedMatmul> {
        let whole = || vec![self.clone()];
        let dims = self.output.layout.dims();
        // What lies before it has one index, so that a part of the output is dense.
        let Some(axis) = dims.iter().position(|&extent| extent > 1) else { return whole() };
        let extent = dims[axis];
        let along = self.axis_of_d(axis);
        let is_of_batch = along + 2 < self.product.output.layout.rank();
        let step = match is_of_batch {
            true => aligned_step(self.output.layout.elements() / extent),
            false => PART_STEP.saturating_mul(self.product.scale_block_along(along)),
        };
        let each = self.product.output.bytes() / extent;
        let ranges = ranges(extent, most_bytes / each.max(1), step);
        if ranges.len() < 2 {
            return whole();
        }
        let parts = ranges.into_iter().map(|range| self.part(axis, range)).collect::<Option<Vec<_>>>();
        // Of one product that is too large by itself its rows, or columns.
        let within = |part: ReducedMatmul| match is_of_batch && step == 1 && each > most_bytes {
            true => part.parts(most_bytes),
            false => vec![part],
        };
        parts.map_or_else(whole, |parts| parts.into_iter().flat_map(within).collect())
    }

    /// The op on a range of the output's `axis` alone; its output is that part of this one's.
    fn part(&self, axis: usize, range: Range<u64>) -> Option<ReducedMatmul> {
        let product = self.product.part(self.axis_of_d(axis), range.clone())?;
        let layout = self.output.layout.slice(axis, range.start, range.end, 1).ok()?;
        Some(ReducedMatmul { product, output: TensorSpec::new(self.output.dtype, layout), ..self.clone() })
    }

    /// Which axis of D the output's `axis` is.
    fn axis_of_d(&self, axis: usize) -> usize {
        if axis < self.axis { axis } else { axis + 1 }
    }

    fn combine(&self, elements: &[Expected]) -> Expected {
        let dtype = self.product.output.dtype;
        let values = || elements.iter().map(|element| element.value);
        if !dtype.is_float() {
            let reduce = |f: BinaryFn, from: Scalar| values().fold(from, |acc, x| f.eval(acc, x, DType::I64));
            let first = values().next().unwrap_or(Scalar::I(0));
            return match self.function {
                ReduceFn::Max => Expected::exact(reduce(BinaryFn::Max, first)),
                ReduceFn::Min => Expected::exact(reduce(BinaryFn::Min, first)),
                ReduceFn::Mean => {
                    // As `ops/reduce.rs` bounds it: the sum, its conversion, and a division.
                    let u = DType::F32.unit_roundoff();
                    let sum = Approx::sum(values().map(|x| x.as_f64()), DType::F32, u);
                    self.divided(sum).round_to(DType::F32).into_expected()
                }
                _ => Expected::exact(reduce(BinaryFn::Add, Scalar::I(0)).cast(self.output.dtype)),
            };
        }
        let nan_allowed = elements.iter().any(|element| element.nan_allowed);
        let open = |element: &&Expected| {
            let x = element.value.as_f64();
            x.is_finite() && x.abs() + element.error > dtype.max_finite()
        };
        if elements.iter().find(open).is_some() {
            return Expected::within(Scalar::F(0.0), f64::INFINITY);
        }
        let fold = |f: BinaryFn| {
            let worst = elements.iter().map(|element| element.error).fold(0.0, f64::max);
            let magnitude = |x: Scalar| if self.function == ReduceFn::AbsMax { UnaryFn::Abs.eval(x, dtype) } else { x };
            let best = values().map(magnitude).reduce(|acc, x| f.eval(acc, x, dtype)).unwrap_or(Scalar::F(0.0));
            Approx { value: best, error: worst }
        };
        let sum = || {
            let sum = Approx::sum(values().map(|x| x.as_f64()), dtype, 0.0);
            // What is added up is as far off as the elements are, and 1 % more than covers what that adds to the sum's own error.
            let own: f64 = elements.iter().map(|element| element.error).sum();
            if sum.value.as_f64().is_finite() { Approx { error: sum.error + 1.01 * own, ..sum } } else { sum }
        };
        let result = match self.function {
            ReduceFn::Min => fold(BinaryFn::Min),
            ReduceFn::AbsMax | ReduceFn::Max => fold(BinaryFn::Max),
            ReduceFn::Mean => self.divided(sum()),
            _ => sum(),
        };
        Expected { nan_allowed, ..result.round_to(self.output.dtype).into_expected() }
    }

    /// A sum divided by the number of its terms (2.5 ULP).
    fn divided(&self, sum: Approx) -> Approx {
        let n = self.count() as f64;
        let value = sum.value.as_f64() / n;
        let u = self.output.dtype.compute().unit_roundoff();
        let division = if value.is_finite() { 6.0 * u * value.abs() } else { 0.0 };
        Approx { value: Scalar::F(value), error: sum.error / n + division }
    }

    /// The op of `product` and this function, with a dense output.
    ///
    /// # Errors
    /// As [`ReducedMatmul::check`].
    pub fn new(function: ReduceFn, axis: usize, product: Matmul) -> Result<ReducedMatmul> {
        let d = product.output;
        let undefined = Error::UndefinedForDType { op: function.name(), dtype: d.dtype };
        let dtype = function.output_dtype(d.dtype).ok_or(undefined)?;
        let shape = d.layout.shape();
        shape.axis(axis)?;
        let output = TensorSpec::new(dtype, Layout::contiguous(shape.without_axes(&[axis], KeepDims::No)));
        ReducedMatmul { function, axis, product, output }.check()
    }
}

impl Operation for ReducedMatmul {
    fn name(&self) -> &'static str {
        "reduced_matmul"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.product.operands(&mut |operand| {
            if operand.role == Role::Read {
                each(operand);
            }
        });
        each(Operand::write(self.output));
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// 2 m n k per product, and one operation for each element of D.
    fn arithmetic(&self) -> Arithmetic {
        let Arithmetic { flops, multiplies } = self.product.arithmetic();
        Arithmetic { flops: flops.saturating_add(self.product.output.layout.elements()), multiplies }
    }

    /// The product's reference, reduced.
    ///
    /// Bound: an extremum is off by no more than the element that is off most. A sum: each element's error, the f32 (f64) sum of
    /// what was computed ([`Approx::sum`]), a mean's division as in `ops/reduce.rs`. Where an element may overflow the
    /// result is open.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let elements = self.product.expected(inputs);
        let dims = self.product.output.layout.dims();
        let inner: usize = dims[self.axis + 1..].iter().product::<u64>() as usize;
        let count = dims[self.axis] as usize;
        let results = self.output.layout.elements() as usize;
        let group = |at: usize| {
            let (outer, within) = (at / inner.max(1), at % inner.max(1));
            (0..count).map(move |i| (outer * count + i) * inner + within)
        };
        let result = |at| self.combine(&group(at).map(|i| elements[i]).collect::<Vec<Expected>>());
        vec![(0..results).map(result).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("reduced products have no rule yet: make the product, then reduce it"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        plan::candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" {} axis[{}]", self.function.name(), self.axis));
        describe_epilogue(name, &self.product);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn tuned(&self) -> Option<&dyn Tuned> {
        (self.product.scale_blocks.is_none()).then_some(self)
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let product = self.product.first(self.axis_of_d(axis), extent)?;
        Some(ReducedMatmul { product, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    fn with_output(&self, _: usize, output: TensorSpec) -> Option<Op> {
        Some(ReducedMatmul { output, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        self.product.content(input)
    }

    fn shortened(&self) -> Result<Option<Op>> {
        let Some([a, b]) = without_last_k(&self.product.a, &self.product.b)? else { return Ok(None) };
        let product = Matmul { a, b, ..self.product.clone() };
        Ok(Some(ReducedMatmul { product, ..self.clone() }.check()?.into()))
    }

    /// Some of the results, each of a whole row or column.
    fn sample(&self) -> Result<Option<Sample>> {
        const KEEP: u64 = 12;
        let (product, rank) = (&self.product, self.product.output.layout.rank());
        let kept = if self.is_of_rows() { rank - 2 } else { rank - 1 };
        let step = (product.output.layout.dims()[kept] / KEEP).max(1);
        let cut = |spec: &TensorSpec, axis: usize| {
            Ok::<_, Error>(TensorSpec::new(spec.dtype, every(&spec.layout, axis, step)?))
        };
        let cut_option = |spec: &Option<TensorSpec>, axis| spec.as_ref().map(|spec| cut(spec, axis)).transpose();
        let positions = every(&self.output.layout, self.output.layout.rank() - 1, step)?;
        let output = sample::dense(product.output.dtype, &cut(&product.output, kept)?.layout);
        let c = cut_option(&product.c, kept)?;
        let part = if self.is_of_rows() {
            let scale_a = cut_option(&product.scale_a, kept)?;
            Matmul { a: cut(&product.a, kept)?, scale_a, c, output, ..product.clone() }
        } else {
            let (bias, scale_b) = (cut_option(&product.bias, 0)?, cut_option(&product.scale_b, kept)?);
            Matmul { b: cut(&product.b, kept)?, bias, scale_b, c, output, ..product.clone() }
        };
        Ok(Some(Sample { op: ReducedMatmul::new(self.function, self.axis, part)?.into(), positions: vec![positions] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScaleBlocks, Shape};

    fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
    }

    fn op(dims: &[u64], axis: usize) -> ReducedMatmul {
        let [batch @ .., m, n] = dims else { panic!("{dims:?}") };
        let (a, b) = ([batch, &[*m, 8]].concat(), [batch, &[8, *n]].concat());
        let product = Matmul::product(dense(DType::F32, &a), dense(DType::F32, &b), dense(DType::F32, dims));
        ReducedMatmul::new(ReduceFn::Sum, axis, product).unwrap()
    }

    #[test]
    fn parts_write_the_whole_output_once_and_hold_what_they_may() {
        for (dims, axis) in [
            (&[100, 37][..], 1),
            (&[100, 37], 0),
            (&[5, 48, 30], 2),
            (&[70, 3, 4], 1),
            (&[1, 90, 7], 2),
            (&[40, 21, 9], 2),
        ] {
            let op = op(dims, axis);
            for most in [0, 4096, 20_000, u64::MAX] {
                let parts = op.parts(most);
                let mut next = 0;
                for part in &parts {
                    let part = part.clone().check().unwrap();
                    assert_eq!(part.output.layout.offset(), next, "{dims:?} {axis} {most}");
                    next += part.output.layout.elements();
                    // Rows, or columns, of one product; or as many products as begin together where outputs may.
                    let inner = op.output.layout.elements() / op.output.layout.dims()[0];
                    let together = if dims.len() > 2 && dims[0] > 1 { aligned_step(inner) * inner } else { 0 };
                    let least = if together == inner { PART_STEP } else { PART_STEP.max(together) };
                    let forced = part.output.layout.elements() <= least;
                    assert!(part.product.output.bytes() <= most || forced, "{dims:?} {axis} {most}: {part:?}");
                }
                assert_eq!(next, op.output.layout.elements(), "{dims:?} {axis} {most}");
            }
        }
    }

    #[test]
    fn parts_start_where_blocks_of_scales_do() {
        let blocks = ScaleBlocks { m: 3, n: 5, k: 8 };
        let (a, b) = (dense(DType::F8E4M3, &[200, 16]), dense(DType::F8E4M3, &[16, 300]));
        let product = Matmul {
            scale_a: Some(dense(DType::F32, &[67, 2])),
            scale_b: Some(dense(DType::F32, &[2, 60])),
            scale_blocks: Some(blocks),
            ..Matmul::product(a, b, dense(DType::F32, &[200, 300]))
        };
        for (axis, block) in [(1, blocks.m), (0, blocks.n)] {
            let op = ReducedMatmul::new(ReduceFn::Max, axis, product.clone()).unwrap();
            let parts = op.parts(1 << 16);
            assert!(parts.len() > 1);
            for part in parts {
                assert!(part.output.layout.offset().is_multiple_of(block));
                part.check().unwrap();
            }
        }
    }

    #[test]
    fn what_is_no_reduction_of_rows_or_columns_is_refused() {
        let whole = op(&[2, 4, 5], 2);
        let with = |function, axis| ReducedMatmul::new(function, axis, whole.product.clone());
        assert!(matches!(with(ReduceFn::Prod, 2), Err(Error::InvalidArgument { what: "reduction", .. })));
        assert!(matches!(with(ReduceFn::Sum, 0), Err(Error::InvalidArgument { what: "axis", .. })));
        assert!(matches!(with(ReduceFn::Sum, 3), Err(Error::AxisOutOfRange { axis: 3, rank: 3 })));
        let halves =
            Matmul::product(dense(DType::F16, &[4, 8]), dense(DType::F16, &[8, 5]), dense(DType::F16, &[4, 5]));
        let error = ReducedMatmul::new(ReduceFn::Sum, 1, halves).unwrap_err();
        assert!(matches!(error, Error::DTypeMismatch { expected: DType::F32, got: DType::F16, .. }), "{error}");
        let empty = Matmul::product(dense(DType::F32, &[4, 8]), dense(DType::F32, &[8, 0]), dense(DType::F32, &[4, 0]));
        assert!(matches!(ReducedMatmul::new(ReduceFn::Max, 1, empty), Err(Error::EmptyReduction { .. })));
    }
}
