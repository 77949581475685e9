//! Cuts a product into parts that each write a share of D: where scratch space for all of it would be too large, and
//! for reductions, which need a part of D at a time.

use std::ops::Range;

use crate::ScaleBlocks;
use crate::ops::{Matmul, TensorSpec};

impl Matmul {
    /// The op restricted to the first `extent` indices of the output's `axis`.
    pub(crate) fn first(&self, axis: usize, extent: u64) -> Option<Matmul> {
        self.part(axis, 0..extent)
    }

    /// The op restricted to a range of the output's `axis`, with a dense output. Blocks of scales begin where the range does.
    pub(in crate::ops) fn part(&self, axis: usize, range: Range<u64>) -> Option<Matmul> {
        let last = self.output.layout.rank().checked_sub(1)?;
        let slice = |operand: TensorSpec| operand.range(axis, range.clone());
        let slice_option = |operand: Option<TensorSpec>| operand.map_or(Some(None), |operand| slice(operand).map(Some));
        // A and its scales have no columns of D, B and its scales no rows of D; the bias has columns alone.
        let a = if axis == last { self.a } else { slice(self.a)? };
        let b = if axis + 1 == last { self.b } else { slice(self.b)? };
        // A block that the range cuts keeps its scale.
        let blocks = self.scale_blocks.unwrap_or(ScaleBlocks { m: 1, n: 1, k: 1 });
        let slice_scales = |scales: Option<TensorSpec>, block: u64| {
            let block = if axis + 2 > last { block } else { 1 };
            let range = range.start / block..range.end.div_ceil(block);
            scales.map_or(Some(None), |scales| scales.range(axis, range).map(Some))
        };
        let scale_a = if axis == last { self.scale_a } else { slice_scales(self.scale_a, blocks.m)? };
        let scale_b = if axis + 1 == last { self.scale_b } else { slice_scales(self.scale_b, blocks.n)? };
        let bias = match self.bias {
            Some(bias) if axis == last => Some(bias.range(0, range.clone())?),
            bias => bias,
        };
        let output = self.output.dense_first(axis, range.end - range.start)?;
        Some(Matmul { a, b, c: slice_option(self.c)?, bias, scale_a, scale_b, output, ..self.clone() })
    }

    /// Cuts the op into parts whose results have at most `most_elements` elements, where its shape allows. Each part
    /// writes its share of the output in place: some products of a batch, or of one product a number of rows or columns
    /// that is a multiple of `step`. A single part where the op is not cut.
    pub fn parts(&self, most_elements: u64, step: u64) -> Vec<Matmul> {
        let whole = || vec![self.clone()];
        let dims = self.output.layout.dims();
        // All axes before this one have one index, so a part of the output is dense.
        let Some(axis) = dims.iter().position(|&extent| extent > 1) else { return whole() };
        let each = self.output.layout.elements() / dims[axis];
        let step = match axis + 2 < dims.len() {
            true => aligned_step(each),
            false => step.next_multiple_of(ALIGNED).saturating_mul(self.scale_block_along(axis)),
        };
        let ranges = ranges(dims[axis], most_elements / each.max(1), step);
        if ranges.len() < 2 {
            return whole();
        }
        let part = |range: Range<u64>| {
            let output = self.output.range(axis, range.clone())?;
            Some(Matmul { output, ..self.part(axis, range)? })
        };
        ranges.into_iter().map(part).collect::<Option<Vec<_>>>().unwrap_or_else(whole)
    }

    /// The number of indices of the output's `axis` that share scales of blocks.
    pub(in crate::ops) fn scale_block_along(&self, axis: usize) -> u64 {
        let rank = self.output.layout.rank();
        self.scale_blocks.map_or(1, |blocks| match axis + 2 {
            end if end == rank => blocks.m,
            end if end > rank => blocks.n,
            _ => 1,
        })
    }
}

/// The size of a part is a multiple of this many elements: for every dtype, the next part then starts at an address
/// that outputs may have.
pub(in crate::ops) const ALIGNED: u64 = 16;

/// The least number of indices, of `each` elements, whose elements are a multiple of [`ALIGNED`].
pub(in crate::ops) fn aligned_step(each: u64) -> u64 {
    ALIGNED >> each.trailing_zeros().min(ALIGNED.ilog2())
}

/// Splits `0..extent` into ranges of at most `most` indices, but at least one step; all but the last are multiples of `step`.
pub(in crate::ops) fn ranges(extent: u64, most: u64, step: u64) -> Vec<Range<u64>> {
    let length = (most / step).max(1).saturating_mul(step);
    (0..extent.div_ceil(length)).map(|i| i * length..extent.min((i + 1).saturating_mul(length))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Values};
    use crate::harness::{ReferenceBackend, run_case};
    use crate::{DType, Device, Layout, Shape, UnaryFn};

    fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
    }

    /// A product with every part of an epilogue, whose output lies in the middle of its buffer.
    fn product(dims: &[u64], k: u64) -> Matmul {
        let (batch, [m, n]) = (&dims[..dims.len() - 2], [dims[dims.len() - 2], dims[dims.len() - 1]]);
        let with = |rows, columns| dense(DType::F32, &[batch, &[rows, columns]].concat());
        let output = TensorSpec::new(DType::F32, with(m, n).layout.with_offset(12));
        let op = Matmul {
            c: Some(with(m, n)),
            beta: 0.5,
            bias: Some(dense(DType::F32, &[n])),
            activation: Some(UnaryFn::Relu),
            ..Matmul::product(with(m, k), with(k, n), output)
        };
        op.check().unwrap()
    }

    #[test]
    fn parts_write_the_whole_output_once_and_are_as_small_as_asked() {
        for dims in [&[1000, 40][..], &[1, 1000], &[9, 5, 20], &[40, 3, 7], &[1, 300, 7], &[1, 1]] {
            let op = product(dims, 16);
            for (most, step) in [(0, 8), (2000, 8), (5000, 256), (u64::MAX, 8)] {
                let mut next = op.output.layout.offset();
                for part in op.parts(most, step) {
                    let part = part.check().unwrap();
                    assert_eq!(part.output.layout.offset(), next, "{dims:?} {most} {step}");
                    let extent = part.output.layout.dims().iter().find(|&&extent| extent > 1).copied().unwrap_or(1);
                    let least = step.next_multiple_of(ALIGNED);
                    assert!(
                        part.output.layout.elements() <= most || extent <= least,
                        "{dims:?} {most} {step}: {part:?}"
                    );
                    next += part.output.layout.elements();
                }
                assert_eq!(next, op.output.layout.offset() + op.output.layout.elements(), "{dims:?} {most} {step}");
            }
        }
        assert_eq!(product(&[1000, 40], 16).parts(u64::MAX, 8), [product(&[1000, 40], 16)]);
    }

    /// Computes products part by part.
    #[derive(Debug)]
    struct InParts(ReferenceBackend);

    impl crate::harness::Wrap for InParts {
        fn inner(&self) -> &dyn crate::Backend {
            &self.0
        }
        fn execute(&self, op: &crate::Op, inputs: &[&crate::Buffer], outputs: &[&crate::Buffer]) -> crate::Result<()> {
            let Some(op) = op.get::<Matmul>() else { return self.inner().execute(op, inputs, outputs) };
            op.parts(300, 4)
                .into_iter()
                .try_for_each(|part| self.inner().execute(&part.check()?.into(), inputs, outputs))
        }
    }

    #[test]
    fn products_in_parts_are_the_products() {
        let device = Device::new(crate::harness::Wrapped(InParts(ReferenceBackend::default())));
        for dims in [&[50, 30][..], &[1, 1000], &[7, 5, 20], &[40, 3, 7]] {
            let op = product(dims, 16);
            assert!(op.parts(300, 4).len() > 1);
            let case = Case::new("matmul", op, vec![Values::Integers(-5, 5); 4]);
            let outcome = run_case(&device, &case, 0);
            assert!(matches!(outcome, crate::harness::Outcome::Pass { .. }), "{outcome:?}");
        }
    }
}
