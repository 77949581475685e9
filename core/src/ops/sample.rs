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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::case::{BenchSize, Level, operand};
    use crate::ops::REGISTRY;

    /// The most elements, of operands and results together, that the oracle may be given before a benchmark is timed. Each costs it tens of
    /// bytes and tens of nanoseconds.
    const MOST_VERIFIED: u64 = 20_000_000;

    /// The most elements of the operations below.
    const MOST_WHOLE: u64 = 1 << 29;

    /// Operations whose benchmarks are verified with more elements than that: the name of each, and why no small sample will do.
    const VERIFIED_WHOLE: [(&str, &str); 6] = [
        ("cumsum", "an element is the sum of all before it in its line, which may be all there are"),
        ("masked_scatter", "which element goes where depends on all of the mask before it"),
        ("masked_select", "which element goes where depends on all of the mask before it"),
        ("nonzero", "which position goes where depends on all of the mask before it"),
        ("pad", "few results are compared, but modes reach to the other end of the operand"),
        ("sort", "where an element goes depends on all of its line, of which three at least are compared"),
    ];

    fn elements(op: &Op) -> u64 {
        let results = op.outputs().into_iter().map(|output| output.spec);
        op.held().into_iter().chain(results).map(|spec| spec.layout.elements()).sum()
    }

    /// Before it is timed each benchmark is verified: by a sample that the oracle solves at once, or element by element from bytes.
    #[test]
    fn large_benchmarks_are_verified_by_a_sample_or_from_bytes() {
        let benches = |size| REGISTRY.iter().flat_map(move |family| (family.benches)(size));
        // What an operation gives from bytes does not depend on how many there are: asked of the small one of the name.
        let small: HashMap<String, Op> = benches(BenchSize::Small).map(|bench| (bench.name, bench.op)).collect();
        let is_streamed = |name: &str| {
            small.get(name).is_some_and(|op| {
                let bytes: Vec<Vec<u8>> =
                    op.held().iter().map(|spec| vec![0; spec.required_bytes() as usize]).collect();
                op.oracle_of_bytes(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>()).is_some()
            })
        };
        let (mut slow, mut sampled) = (BTreeMap::new(), 0);
        for bench in [BenchSize::Small, BenchSize::Normal, BenchSize::Large].into_iter().flat_map(benches) {
            if elements(&bench.op) <= MOST_VERIFIED {
                continue;
            }
            let sample = bench.op.sample().unwrap();
            let verified = elements(&sample.map_or(bench.op.clone(), |sample| sample.op));
            let is_quick = verified <= MOST_VERIFIED;
            sampled += u64::from(is_quick);
            if !is_quick && !is_streamed(&bench.name) {
                let most = slow.entry(bench.op.name()).or_default();
                *most = verified.max(*most);
            }
        }
        println!("{sampled} sampled; elements of those compared whole: {slow:?}");
        assert!(slow.keys().eq(&VERIFIED_WHOLE.map(|(name, _)| name)), "neither sampled nor streamed: {slow:?}");
        assert!(slow.values().all(|&most| most <= MOST_WHOLE) && sampled > 50, "{sampled} sampled; {slow:?}");
        assert!(VERIFIED_WHOLE.iter().all(|(_, why)| why.len() > 10));
    }

    #[test]
    fn answers_from_bytes_are_the_oracles() {
        let mut compared = BTreeMap::<&str, u32>::new();
        for case in REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)) {
            if elements(&case.op) > 10_000 {
                continue;
            }
            let held = case.op.held().into_iter().zip(&case.values);
            let operands: Vec<_> = held.map(|(spec, values)| operand(&spec, values, 3)).collect();
            let bytes: Vec<&[u8]> = operands.iter().map(|operand| operand.storage.as_slice()).collect();
            let Some(streamed) = case.op.oracle_of_bytes(&bytes) else { continue };
            let hosts: Vec<_> = operands.into_iter().map(|operand| operand.host).collect();
            // As text, in which NaN is NaN.
            assert_eq!(format!("{:?}", case.op.oracle(&hosts)), format!("{:?}", [streamed]), "{}", case.name);
            *compared.entry(case.op.name()).or_default() += 1;
        }
        println!("{compared:?}");
        assert!(compared.len() > 5, "{compared:?}");
    }
}
