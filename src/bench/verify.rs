//! Right before fast: a sample of each result is held to the op's own oracle and bound.
//!
//! A sub-problem is cut out of the op by striding its operands (every so-many-th row, column or line, counted from the end
//! so that tails are seen), the oracle solves it, and the same positions of the device's result are compared. Reductions
//! of everything to one element are held whole.

use polywarp_core::ops::{
    ArgReduce, Copy, GroupedMatmul, Map, Matmul, Random, Reduce, ReducedMatmul, ScaleBlocks, Softmax, SparseMatmul,
};
use polywarp_core::oracle::{Expected, HostTensor, Subnormals};
use polywarp_core::{Error, Layout, Op, Result, Scalar, Shape, Step, TensorSpec};

use super::{Prepared, streamed};

/// How far a result was from its reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Largest error as a share of the allowed one; up to 1 is right.
    pub error_of_bound: f64,
    /// Largest relative error, where the reference is not tiny.
    pub max_relative_error: f64,
}

impl Verdict {
    /// Whether every element compared is within its bound.
    pub fn is_right(&self) -> bool {
        self.error_of_bound <= 1.0
    }
}

/// What a sample of an op's result must be, for the operands every device makes alike.
#[derive(Clone, Debug)]
pub struct Reference {
    expected: Vec<Expected>,
    /// Where the sampled elements lie in the output.
    positions: Layout,
}

/// Solves a sample of the op by its oracle, from the operands on the device.
pub(super) fn reference(prepared: &Prepared) -> Result<Reference> {
    let inputs: Vec<Vec<u8>> = prepared.input_bytes()?;
    if let Some(expected) = inputs.first().and_then(|bytes| streamed::whole(prepared.op(), bytes)) {
        return Ok(Reference { expected: vec![expected], positions: prepared.op().output().layout });
    }
    let (sample, positions) = sample_of(prepared.op())?;
    let operands: Vec<HostTensor> =
        sample.inputs().iter().zip(&inputs).map(|(spec, bytes)| host_tensor(spec, bytes)).collect();
    Ok(Reference { expected: sample.oracle(&operands), positions })
}

/// Executes the op once, into an output that holds nothing right, and compares the sampled elements of its result.
pub(super) fn verify(prepared: &Prepared, reference: &Reference) -> Result<Verdict> {
    // Executions before, such as the cold one, left the right result there, which would speak for a kernel that skips it.
    prepared.spoil_output()?;
    prepared.execute_once()?;
    judge_output(prepared, reference)
}

/// Compares the sampled elements of what lies in the first output now.
pub(super) fn judge_output(prepared: &Prepared, reference: &Reference) -> Result<Verdict> {
    let output = prepared.output_bytes()?;
    let dtype = prepared.op().output().dtype;
    let positions = &reference.positions;
    let got = (0..positions.elements()).map(|i| element(&output, positions, i, dtype));
    Ok(judge(&reference.expected, got, dtype, prepared.device().info().subnormals))
}

fn judge(
    expected: &[Expected],
    got: impl Iterator<Item = Scalar>,
    dtype: polywarp_core::DType,
    subnormals: Subnormals,
) -> Verdict {
    let mut verdict = Verdict::default();
    for (want, got) in expected.iter().zip(got) {
        let off = (want.value.as_f64() - got.as_f64()).abs();
        let accepted = want.accepts(got, dtype, subnormals);
        let share = if want.error > 0.0 && off.is_finite() { off / want.error } else { 0.0 };
        let share = if accepted { share.min(1.0) } else { share.max(1.001) };
        verdict.error_of_bound = verdict.error_of_bound.max(share);
        let size = want.value.as_f64().abs();
        if size > 1e-3 && off.is_finite() {
            verdict.max_relative_error = verdict.max_relative_error.max(off / size);
        }
    }
    verdict
}

fn element(bytes: &[u8], layout: &Layout, i: u64, dtype: polywarp_core::DType) -> Scalar {
    let size = dtype.size_bytes();
    let at = (layout.index_of(i) * size) as usize;
    Scalar::from_le_bytes(bytes.get(at..at + size as usize).unwrap_or(&[]), dtype)
}

fn host_tensor(spec: &TensorSpec, bytes: &[u8]) -> HostTensor {
    let layout = &spec.layout;
    let size = spec.dtype.size_bytes() as usize;
    let values = if layout.is_contiguous() {
        let elements = bytes[layout.offset() as usize * size..].chunks_exact(size);
        elements.take(layout.elements() as usize).map(|x| Scalar::from_le_bytes(x, spec.dtype)).collect()
    } else {
        (0..layout.elements()).map(|i| element(bytes, layout, i, spec.dtype)).collect()
    };
    HostTensor { dtype: spec.dtype, shape: *layout.shape(), values }
}

/// Every so-many-th index along each axis, counted from the last one: which part of a shape a sample keeps.
struct Thinning {
    /// One step per axis; 1 keeps them all.
    steps: Vec<u64>,
}

impl Thinning {
    /// Thins the axes that `free` allows, outermost first, until about 4096 elements are left (three indices of each
    /// axis at least).
    fn new(dims: &[u64], free: impl Fn(usize) -> bool) -> Thinning {
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
    fn of(&self, layout: &Layout) -> Result<Layout> {
        Thinning::along(layout, self.steps.iter().copied().enumerate())
    }

    /// The sample of the output of a reduction over `axes`, which has the other axes only.
    fn of_kept(&self, axes: &[usize], output: &Layout) -> Result<Layout> {
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

/// About `keep` indices along `axis`, the last one included.
fn thin(layout: &Layout, axis: usize, keep: u64) -> Result<Layout> {
    every(layout, axis, (layout.dims()[axis] / keep).max(1))
}

/// Every `step`-th index along `axis`, counted from the last one.
fn every(layout: &Layout, axis: usize, step: u64) -> Result<Layout> {
    layout.slice(axis, 0, layout.dims()[axis], -(step as i64))
}

fn dense(dtype: polywarp_core::DType, shape: Shape) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(shape))
}

/// A small op over strided parts of the operands of `op`, and where its results lie in the output of `op`.
fn sample_of(op: &Op) -> Result<(Op, Layout)> {
    let out = op.output();
    match op {
        // What a position makes depends on the position alone: the first elements are a sample without stride.
        Op::Map(map) if map.program.steps().iter().any(|(step, _)| matches!(step, Step::Index)) => {
            let first = first_elements(&out)?;
            let sample = Map::new(map.label, map.program.clone(), Vec::new(), dense(out.dtype, *first.shape()))?;
            Ok((sample.into(), first))
        }
        Op::Map(map) => {
            let thinning = Thinning::new(out.layout.dims(), |_| true);
            let positions = thinning.of(&out.layout)?;
            let inputs = map.inputs.iter().map(|spec| Ok(TensorSpec::new(spec.dtype, thinning.of(&spec.layout)?)));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let sample = Map::new(map.label, map.program.clone(), inputs, dense(out.dtype, *positions.shape()))?;
            Ok((sample.into(), positions))
        }
        Op::Copy(copy) => {
            let thinning = Thinning::new(out.layout.dims(), |_| true);
            let positions = thinning.of(&out.layout)?;
            let input = TensorSpec::new(copy.input.dtype, thinning.of(&copy.input.layout)?);
            Ok((Copy::new(input, dense(out.dtype, *positions.shape()))?.into(), positions))
        }
        Op::Softmax(softmax) => {
            let thinning = Thinning::new(out.layout.dims(), |axis| axis != softmax.axis);
            let positions = thinning.of(&out.layout)?;
            let input = TensorSpec::new(softmax.input.dtype, thinning.of(&softmax.input.layout)?);
            let sample = Softmax::new(softmax.function, input, softmax.axis, dense(out.dtype, *positions.shape()))?;
            Ok((sample.into(), positions))
        }
        Op::Reduce(reduce) => {
            let thinning = Thinning::new(reduce.input.layout.dims(), |axis| !reduce.axes.contains(&axis));
            let positions = thinning.of_kept(&reduce.axes, &out.layout)?;
            let input = TensorSpec::new(reduce.input.dtype, thinning.of(&reduce.input.layout)?);
            let output = dense(out.dtype, *positions.shape());
            Ok((Reduce::new(reduce.function, input, &reduce.axes, output)?.into(), positions))
        }
        Op::ArgReduce(arg) => {
            let thinning = Thinning::new(arg.input.layout.dims(), |axis| !arg.axes.contains(&axis));
            let positions = thinning.of_kept(&arg.axes, &out.layout)?;
            let input = TensorSpec::new(arg.input.dtype, thinning.of(&arg.input.layout)?);
            let output = dense(out.dtype, *positions.shape());
            Ok((ArgReduce::new(arg.function, input, &arg.axes, output)?.into(), positions))
        }
        Op::GroupedMatmul(grouped) => sample_grouped(grouped),
        Op::Matmul(matmul) => sample_matmul(matmul),
        Op::ReducedMatmul(reduced) => sample_reduced(reduced),
        Op::SparseMatmul(sparse) => sample_sparse(sparse),
        Op::Random(random) => {
            let first = first_elements(&out)?;
            let output = dense(out.dtype, *first.shape());
            Ok((Random::new(random.distribution, random.seed, random.stream, output)?.into(), first))
        }
        _ => Ok((op.clone(), out.layout)),
    }
}

/// The first 4096 elements of a dense output, in order.
fn first_elements(output: &TensorSpec) -> Result<Layout> {
    let shape = Shape::new(&[output.layout.elements().min(4096)])?;
    Ok(Layout::contiguous(shape).with_offset(output.layout.offset()))
}

/// Whole columns: which group owns a row is for the ends of all of them to say.
fn sample_grouped(op: &GroupedMatmul) -> Result<(Op, Layout)> {
    const KEEP: u64 = 3;
    let positions = thin(&op.output.layout, 1, KEEP)?;
    let cut = |spec: &TensorSpec, axis| Ok::<_, Error>(TensorSpec::new(spec.dtype, thin(&spec.layout, axis, KEEP)?));
    let sample = GroupedMatmul {
        b: cut(&op.b, 2)?,
        bias: op.bias.as_ref().map(|bias| cut(bias, 1)).transpose()?,
        output: dense(op.output.dtype, *positions.shape()),
        ..op.clone()
    };
    Ok((sample.check()?.into(), positions))
}

fn sample_matmul(op: &Matmul) -> Result<(Op, Layout)> {
    /// Rows, columns and products of the batch that are kept.
    const KEEP: u64 = 12;
    let (rank, dims) = (op.output.layout.rank(), op.dims());
    let blocks = op.scale_blocks.unwrap_or(ScaleBlocks { m: 1, n: 1, k: dims.k });
    // Whole blocks apart, so that the sample's scales lie evenly too: each row and column of it has its own.
    let step = |len: u64, block: u64| (len / KEEP / block * block).max(block.min(len)).max(1);
    let (rows, cols) = (step(dims.m, blocks.m), step(dims.n, blocks.n));
    let cut = |spec: &TensorSpec, steps: [Option<u64>; 2]| -> Result<TensorSpec> {
        let mut out = spec.layout;
        for axis in 0..rank - 2 {
            out = thin(&out, axis, 2)?;
        }
        for (axis, step) in (rank - 2..rank).zip(steps) {
            out = step.map_or(Ok(out), |step| every(&out, axis, step))?;
        }
        Ok(TensorSpec::new(spec.dtype, out))
    };
    let cut_option = |spec: &Option<TensorSpec>, steps| spec.as_ref().map(|spec| cut(spec, steps)).transpose();
    let bias = |bias: &TensorSpec| Ok::<_, Error>(TensorSpec::new(bias.dtype, every(&bias.layout, 0, cols)?));
    let positions = cut(&op.output, [Some(rows), Some(cols)])?.layout;
    let sample = Matmul {
        a: cut(&op.a, [Some(rows), None])?,
        b: cut(&op.b, [None, Some(cols)])?,
        c: cut_option(&op.c, [Some(rows), Some(cols)])?,
        bias: op.bias.as_ref().map(bias).transpose()?,
        scale_a: cut_option(&op.scale_a, [Some(rows.div_ceil(blocks.m)), None])?,
        scale_b: cut_option(&op.scale_b, [None, Some(cols.div_ceil(blocks.n))])?,
        scale_blocks: op.scale_blocks.map(|blocks| ScaleBlocks { m: 1, n: 1, k: blocks.k }),
        output: dense(op.output.dtype, *positions.shape()),
        ..op.clone()
    };
    Ok((sample.check()?.into(), positions))
}

/// Some of the results, each of a whole row or column.
fn sample_reduced(op: &ReducedMatmul) -> Result<(Op, Layout)> {
    const KEEP: u64 = 12;
    let (product, rank) = (&op.product, op.product.output.layout.rank());
    let kept = if op.is_of_rows() { rank - 2 } else { rank - 1 };
    let step = (product.output.layout.dims()[kept] / KEEP).max(1);
    let cut =
        |spec: &TensorSpec, axis: usize| Ok::<_, Error>(TensorSpec::new(spec.dtype, every(&spec.layout, axis, step)?));
    let cut_option = |spec: &Option<TensorSpec>, axis| spec.as_ref().map(|spec| cut(spec, axis)).transpose();
    let positions = every(&op.output.layout, op.output.layout.rank() - 1, step)?;
    let output = dense(product.output.dtype, *cut(&product.output, kept)?.layout.shape());
    let c = cut_option(&product.c, kept)?;
    let sample = if op.is_of_rows() {
        let scale_a = cut_option(&product.scale_a, kept)?;
        Matmul { a: cut(&product.a, kept)?, scale_a, c, output, ..product.clone() }
    } else {
        let (bias, scale_b) = (cut_option(&product.bias, 0)?, cut_option(&product.scale_b, kept)?);
        Matmul { b: cut(&product.b, kept)?, bias, scale_b, c, output, ..product.clone() }
    };
    Ok((ReducedMatmul::new(op.function, op.axis, sample)?.into(), positions))
}

/// The last rows, which alone lie dense in a compressed operand, by some of the columns; of a single product.
fn sample_sparse(op: &SparseMatmul) -> Result<(Op, Layout)> {
    const KEEP: u64 = 12;
    let product = &op.product;
    let (rank, dims) = (product.output.layout.rank(), product.dims());
    let rows = |layout: &Layout| layout.slice(layout.rank() - 2, dims.m.saturating_sub(KEEP), dims.m, 1);
    let last = |spec: &TensorSpec| Ok::<_, Error>(TensorSpec::new(spec.dtype, rows(&spec.layout)?));
    let positions = thin(&rows(&product.output.layout)?, rank - 1, KEEP)?;
    let (values, metadata) = (last(&op.values)?, last(&op.metadata)?);
    let b = TensorSpec::new(product.b.dtype, thin(&product.b.layout, rank - 1, KEEP)?);
    let a = SparseMatmul::dense_a(&values, dims.k, &[])?;
    let product = Matmul { a, b, output: dense(product.output.dtype, *positions.shape()), ..product.clone() };
    Ok((SparseMatmul { values, metadata, product }.check()?.into(), positions))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use polywarp_core::harness::{Wrap, Wrapped};
    use polywarp_core::ops::ReduceFn;
    use polywarp_core::{Backend, Buffer, DType, Device};

    use super::*;

    fn spec(dims: &[u64]) -> TensorSpec {
        dense(DType::F32, Shape::new(dims).unwrap())
    }

    /// Every kind of op, at sizes that are thinned, on the CPU.
    fn ops() -> Vec<Op> {
        let square = spec(&[300, 300]);
        let ends = dense(DType::I32, Shape::new(&[5]).unwrap());
        let scaled = |scale_blocks: Option<ScaleBlocks>| -> Op {
            let eight = |layout| TensorSpec::new(DType::F8E4M3, layout);
            let weights = eight(square.layout.transpose(0, 1).unwrap());
            let blocks = scale_blocks.unwrap_or(ScaleBlocks { m: 1, n: 1, k: 300 });
            let [scale_a, scale_b] = blocks.extents([300; 3]).map(|extents| Some(spec(&extents)));
            let product = Matmul::product(eight(square.layout), weights, square);
            Matmul { scale_a, scale_b, scale_blocks, ..product }.check().unwrap().into()
        };
        let reduce = |axes: &[usize], out: &[u64]| Reduce::new(ReduceFn::Sum, square, axes, spec(out)).unwrap().into();
        vec![
            Copy::new(TensorSpec::new(DType::F32, square.layout.transpose(0, 1).unwrap()), square).unwrap().into(),
            reduce(&[0], &[300]),
            reduce(&[1], &[300]),
            reduce(&[0, 1], &[]),
            Softmax::new(polywarp_core::ops::SoftmaxFn::Softmax, square, 0, square).unwrap().into(),
            Matmul::product(square, square, square).check().unwrap().into(),
            scaled(None),
            scaled(Some(ScaleBlocks { m: 1, n: 128, k: 128 })),
            scaled(Some(ScaleBlocks { m: 7, n: 16, k: 64 })),
            scaled(Some(ScaleBlocks { m: 299, n: 1000, k: 1000 })),
            ReducedMatmul::new(ReduceFn::Sum, 1, Matmul::product(square, square, square)).unwrap().into(),
            ReducedMatmul::new(ReduceFn::Max, 0, Matmul::product(square, square, square)).unwrap().into(),
            GroupedMatmul::product(square, spec(&[5, 300, 200]), ends, spec(&[300, 200])).check().unwrap().into(),
        ]
    }

    /// Computes as the CPU does for the first time, and nothing from then on.
    #[derive(Debug)]
    struct OnceOnly {
        cpu: Device,
        computed: AtomicBool,
    }

    impl Wrap for OnceOnly {
        fn inner(&self) -> &dyn Backend {
            self.cpu.backend()
        }

        fn execute(&self, op: &Op, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
            // The operands are made by ops too.
            if matches!(op, Op::Matmul(_)) && self.computed.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            self.inner().execute(op, inputs, output)
        }
    }

    #[test]
    fn kernel_that_writes_nothing_over_a_right_result_is_wrong() {
        let device = Device::new(Wrapped(OnceOnly { cpu: Device::cpu(), computed: AtomicBool::new(false) }));
        let square = spec(&[64, 64]);
        let op: Op = Matmul::product(square, square, square).check().unwrap().into();
        let prepared = Prepared::new(&op, &device).unwrap();
        let reference = prepared.reference().unwrap();
        assert!(prepared.judge(&reference).unwrap().is_right());
        assert!(!prepared.verify(&reference).unwrap().is_right());
    }

    #[test]
    fn samples_of_right_results_are_accepted_and_wrong_elements_seen() {
        let device = Device::cpu();
        for op in ops() {
            let prepared = Prepared::new(&op, &device).unwrap();
            let reference = prepared.reference().unwrap();
            let verdict = prepared.verify(&reference).unwrap();
            assert!(verdict.is_right(), "{}: {verdict:?}", op.name());
            // The last element is always in the sample.
            let mut bytes = prepared.output_bytes().unwrap();
            let end = bytes.len();
            bytes[end - 2..].copy_from_slice(&[0xff, 0x42]);
            let positions = &reference.positions;
            let got = (0..positions.elements()).map(|i| element(&bytes, positions, i, DType::F32));
            assert!(!judge(&reference.expected, got, DType::F32, Subnormals::Kept).is_right(), "{}", op.name());
        }
    }
}
