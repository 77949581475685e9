//! Samples of large operations: the same operation on every so-many-th row, column or line of its operands, counted from the
//! end so that tails are seen. [`crate::Operation::sample`] says which; these cut.

use crate::operation::{Op, Sample};
use crate::{DType, Layout, Result, Shape, TensorSpec};

/// Every so-many-th index along each axis, counted from the last one: which part of a shape a sample keeps.
pub struct Thinning {
    /// One step per axis; 1 keeps them all.
    steps: Vec<u64>,
}

impl Thinning {
    /// Thins the axes that `free` allows, outermost first, until about 4096 elements are left (three indices of each
    /// axis at least).
    pub fn new(dims: &[u64], free: impl Fn(usize) -> bool) -> Thinning {
        const SAMPLE: u64 = 4096;
        let mut left = dims.to_vec();
        let steps = (0..dims.len()).map(|axis| {
            if !free(axis) {
                return 1;
            }
            let others: u64 = (0..dims.len()).filter(|&a| a != axis).map(|a| left[a]).product();
            let step = (dims[axis] / (SAMPLE / others.max(1)).max(3)).max(1);
            left[axis] = dims[axis].div_ceil(step);
            step
        });
        Thinning { steps: steps.collect() }
    }

    /// The sample of a view of that shape.
    ///
    /// # Errors
    /// Another rank.
    pub fn of(&self, layout: &Layout) -> Result<Layout> {
        Thinning::along(layout, self.steps.iter().copied().enumerate())
    }

    /// The sample of an operand of that shape.
    ///
    /// # Errors
    /// Another rank.
    pub fn of_spec(&self, spec: &TensorSpec) -> Result<TensorSpec> {
        Ok(TensorSpec::new(spec.dtype, self.of(&spec.layout)?))
    }

    /// The sample of the output of a reduction over `axes`, which has the other axes only.
    ///
    /// # Errors
    /// Another rank.
    pub fn of_kept(&self, axes: &[usize], output: &Layout) -> Result<Layout> {
        let kept = (0..self.steps.len()).filter(|axis| !axes.contains(axis));
        Thinning::along(output, kept.map(|axis| self.steps[axis]).enumerate())
    }

    fn along(layout: &Layout, steps: impl Iterator<Item = (usize, u64)>) -> Result<Layout> {
        let mut out = *layout;
        for (axis, step) in steps.filter(|&(_, step)| step > 1) {
            out = every(&out, axis, step)?;
        }
        Ok(out)
    }
}

/// The sample of an operation that computes along `axes` of its only input: some lines, each whole. Its output has the input's axes, or
/// those that are left; `op` makes the operation of the lines.
///
/// # Errors
/// Another rank of the output.
pub fn of_lines<O: Into<Op>>(
    input: &TensorSpec,
    axes: &[usize],
    output: &TensorSpec,
    op: impl FnOnce(TensorSpec, TensorSpec) -> O,
) -> Result<Option<Sample>> {
    let thinning = Thinning::new(input.layout.dims(), |axis| !axes.contains(&axis));
    let has_all = output.layout.rank() == input.layout.rank();
    let positions = if has_all { thinning.of(&output.layout)? } else { thinning.of_kept(axes, &output.layout)? };
    let op = op(thinning.of_spec(input)?, dense(output.dtype, &positions));
    Ok(Some(Sample { op: op.into(), positions: vec![positions] }))
}

/// About `keep` indices along `axis`, the last one included.
///
/// # Errors
/// No such axis.
pub fn thin(layout: &Layout, axis: usize, keep: u64) -> Result<Layout> {
    every(layout, axis, (layout.dims()[axis] / keep).max(1))
}

/// Every `step`-th index along `axis`, counted from the last one.
///
/// # Errors
/// No such axis.
pub fn every(layout: &Layout, axis: usize, step: u64) -> Result<Layout> {
    layout.slice(axis, 0, layout.dims()[axis], -(step as i64))
}

/// The first 4096 elements of a dense output, in order.
///
/// # Errors
/// None: no such shape is too large.
pub fn first_elements(output: &TensorSpec) -> Result<Layout> {
    let shape = Shape::new(&[output.layout.elements().min(4096)])?;
    Ok(Layout::contiguous(shape).with_offset(output.layout.offset()))
}

/// The last `keep` elements of a dense operand, in order.
///
/// # Errors
/// None: no such shape is too large.
pub fn last_elements(operand: &TensorSpec, keep: u64) -> Result<Layout> {
    let first = operand.layout.offset() + operand.layout.elements() - keep;
    Ok(Layout::contiguous(Shape::new(&[keep])?).with_offset(first))
}

/// A dense operand of the shape of `positions`.
pub fn dense(dtype: DType, positions: &Layout) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(*positions.shape()))
}
