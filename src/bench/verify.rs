//! Right before fast: a sample of each result is held to the op's own oracle and bound.
//!
//! A sub-problem is cut out of the op by striding its operands (every so-many-th row, column or line, counted from the end
//! so that tails are seen), the oracle solves it, and the same positions of the device's result are compared. Reductions
//! of everything to one element are held whole.

use polywarp_core::ops::{ArgReduce, Copy, Map, Matmul, Random, Reduce, Softmax};
use polywarp_core::oracle::{Expected, HostTensor, Subnormals};
use polywarp_core::{Layout, Op, Result, Scalar, Shape, TensorSpec};

use super::Prepared;

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
    let (sample, positions) = sample_of(prepared.op())?;
    let inputs: Vec<Vec<u8>> = prepared.input_bytes()?;
    let operands: Vec<HostTensor> =
        sample.inputs().iter().zip(&inputs).map(|(spec, bytes)| host_tensor(spec, bytes)).collect();
    Ok(Reference { expected: sample.oracle(&operands), positions })
}

/// Executes the op once and compares the sampled elements of its result.
pub(super) fn verify(prepared: &Prepared, reference: &Reference) -> Result<Verdict> {
    prepared.execute_once()?;
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

/// About `keep` indices along `axis`, the last one included, spread evenly.
fn thin(layout: &Layout, axis: usize, keep: u64) -> Result<Layout> {
    let len = layout.dims()[axis];
    let step = (len / keep.max(1)).max(1);
    layout.slice(axis, 0, len, -(step as i64))
}

/// Thins every axis that `free` allows, outermost first, until about 4096 elements are left.
fn thin_all(layout: &Layout, free: impl Fn(usize) -> bool) -> Result<Layout> {
    const SAMPLE: u64 = 4096;
    let mut out = *layout;
    for axis in (0..layout.rank()).filter(|&axis| free(axis)) {
        let others = out.elements() / out.dims()[axis].max(1);
        let keep = (SAMPLE / others.max(1)).max(3);
        out = thin(&out, axis, keep)?;
    }
    Ok(out)
}

fn dense(dtype: polywarp_core::DType, shape: Shape) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(shape))
}

/// A small op over strided parts of the operands of `op`, and where its results lie in the output of `op`.
fn sample_of(op: &Op) -> Result<(Op, Layout)> {
    let out = op.output();
    match op {
        Op::Map(map) => {
            let positions = thin_all(&out.layout, |_| true)?;
            let inputs =
                map.inputs.iter().map(|spec| Ok(TensorSpec::new(spec.dtype, thin_all(&spec.layout, |_| true)?)));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let sample = Map::new(map.label, map.program.clone(), inputs, dense(out.dtype, *positions.shape()))?;
            Ok((sample.into(), positions))
        }
        Op::Copy(copy) => {
            let positions = thin_all(&out.layout, |_| true)?;
            let input = TensorSpec::new(copy.input.dtype, thin_all(&copy.input.layout, |_| true)?);
            Ok((Copy::new(input, dense(out.dtype, *positions.shape()))?.into(), positions))
        }
        Op::Softmax(softmax) => {
            let keep = |axis| axis != softmax.axis;
            let positions = thin_all(&out.layout, keep)?;
            let input = TensorSpec::new(softmax.input.dtype, thin_all(&softmax.input.layout, keep)?);
            let sample = Softmax::new(softmax.function, input, softmax.axis, dense(out.dtype, *positions.shape()))?;
            Ok((sample.into(), positions))
        }
        Op::Reduce(reduce) => {
            let input =
                TensorSpec::new(reduce.input.dtype, thin_all(&reduce.input.layout, |a| !reduce.axes.contains(&a))?);
            let positions = kept_positions(&reduce.input.layout, &reduce.axes, &out.layout)?;
            let output = dense(out.dtype, *positions.shape());
            Ok((Reduce::new(reduce.function, input, &reduce.axes, output)?.into(), positions))
        }
        Op::ArgReduce(arg) => {
            let input = TensorSpec::new(arg.input.dtype, thin_all(&arg.input.layout, |a| !arg.axes.contains(&a))?);
            let positions = kept_positions(&arg.input.layout, &arg.axes, &out.layout)?;
            let output = dense(out.dtype, *positions.shape());
            Ok((ArgReduce::new(arg.function, input, &arg.axes, output)?.into(), positions))
        }
        Op::Matmul(matmul) => sample_matmul(matmul),
        // Element i depends on i alone: the first elements are a sample without stride.
        Op::Random(random) => {
            let first = Shape::new(&[out.layout.elements().min(4096)])?;
            let sample = Random::new(random.distribution, random.seed, random.stream, dense(out.dtype, first))?;
            Ok((sample.into(), Layout::contiguous(first).with_offset(out.layout.offset())))
        }
        _ => Ok((op.clone(), out.layout)),
    }
}

/// The output positions that a reduction of the thinned input fills: the kept axes thinned in the same way.
fn kept_positions(input: &Layout, axes: &[usize], output: &Layout) -> Result<Layout> {
    let thinned = thin_all(input, |axis| !axes.contains(&axis))?;
    let kept: Vec<usize> = (0..input.rank()).filter(|axis| !axes.contains(axis)).collect();
    let mut positions = *output;
    for (to, &from) in kept.iter().enumerate() {
        let (len, left) = (input.dims()[from], thinned.dims()[from]);
        if left < len {
            // The same step as `thin` chose.
            let step = (1..=len).find(|&step| len.div_ceil(step) == left).unwrap_or(1);
            positions = positions.slice(to, 0, len, -(step as i64))?;
        } else {
            positions = positions.slice(to, 0, len, -1)?;
        }
    }
    Ok(positions)
}

fn sample_matmul(op: &Matmul) -> Result<(Op, Layout)> {
    /// Rows, columns and products of the batch that are kept.
    const KEEP: u64 = 12;
    let rank = op.output.layout.rank();
    let cut = |layout: &Layout, rows: bool, cols: bool| -> Result<Layout> {
        let mut out = *layout;
        for axis in 0..rank - 2 {
            out = thin(&out, axis, 2)?;
        }
        out = if rows { thin(&out, rank - 2, KEEP)? } else { out };
        if cols { thin(&out, rank - 1, KEEP) } else { Ok(out) }
    };
    let positions = cut(&op.output.layout, true, true)?;
    let c = match &op.c {
        Some(c) => Some(TensorSpec::new(c.dtype, cut(&c.layout, true, true)?)),
        None => None,
    };
    let bias = match &op.bias {
        Some(bias) => Some(TensorSpec::new(bias.dtype, thin(&bias.layout, 0, KEEP)?)),
        None => None,
    };
    let sample = Matmul {
        a: TensorSpec::new(op.a.dtype, cut(&op.a.layout, true, false)?),
        b: TensorSpec::new(op.b.dtype, cut(&op.b.layout, false, true)?),
        c,
        bias,
        output: dense(op.output.dtype, *positions.shape()),
        ..op.clone()
    };
    Ok((sample.check()?.into(), positions))
}
