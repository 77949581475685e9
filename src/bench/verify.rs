//! Right before fast: a sample of each result is compared with the op's own oracle and bound.
//!
//! The op names a part of itself that is small enough ([`polywarp_core::Operation::sample`]), the oracle solves it, and
//! the same positions of the device's result are compared. Reductions of everything to one element are compared whole.

use polywarp_core::ops::Sample;
use polywarp_core::oracle::{Expected, HostTensor, Subnormals};
use polywarp_core::{Layout, Result, Scalar, TensorSpec};

use super::Prepared;

/// The difference of a result from its reference.
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

/// The expected values of a sample of an op's results, for the operands that every device makes alike: for each output
/// the elements, and their places in it.
#[derive(Clone, Debug)]
pub struct Reference {
    outputs: Vec<(Vec<Expected>, Layout)>,
}

/// Solves a sample of the op by its oracle, from the operands' first contents.
pub(super) fn reference(prepared: &Prepared) -> Result<Reference> {
    let held: Vec<Vec<u8>> = prepared.held_bytes()?;
    let op = prepared.op();
    let bytes: Vec<&[u8]> = held.iter().map(Vec::as_slice).collect();
    if let Some(expected) = op.oracle_of_bytes(&bytes) {
        return Ok(Reference { outputs: vec![(expected, op.output().layout)] });
    }
    let layouts = || op.outputs().into_iter().map(|output| output.spec.layout).collect();
    let whole = || Sample { op: op.clone(), positions: layouts() };
    let Sample { op: sample, positions } = op.sample()?.unwrap_or_else(whole);
    let operands: Vec<HostTensor> =
        sample.held().iter().zip(&held).map(|(spec, bytes)| host_tensor(spec, bytes)).collect();
    Ok(Reference { outputs: sample.oracle(&operands).into_iter().zip(positions).collect() })
}

/// Executes the op once, into outputs that were overwritten with wrong values, and compares the sampled elements of its results.
pub(super) fn verify(prepared: &Prepared, reference: &Reference) -> Result<Verdict> {
    // Earlier executions, such as the cold one, left the right result there, so a kernel that does nothing would seem right.
    prepared.spoil_outputs()?;
    prepared.execute_once()?;
    judge_outputs(prepared, reference)
}

/// Compares the sampled elements of the current contents of the first copy of the outputs.
pub(super) fn judge_outputs(prepared: &Prepared, reference: &Reference) -> Result<Verdict> {
    let subnormals = prepared.device().info().subnormals;
    let mut worst = Verdict::default();
    let outputs = prepared.output_bytes()?;
    for ((output, bytes), (expected, positions)) in prepared.op().outputs().iter().zip(&outputs).zip(&reference.outputs)
    {
        let dtype = output.spec.dtype;
        let got = (0..positions.elements()).map(|i| element(bytes, positions, i, dtype));
        let verdict = judge(expected, got, dtype, subnormals);
        worst.error_of_bound = worst.error_of_bound.max(verdict.error_of_bound);
        worst.max_relative_error = worst.max_relative_error.max(verdict.max_relative_error);
    }
    Ok(worst)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use polywarp_core::harness::{Wrap, Wrapped};
    use polywarp_core::ops::{Copy, GroupedMatmul, Map, Matmul, Reduce, ReduceFn, ReducedMatmul, ScaleBlocks, Softmax};
    use polywarp_core::{Backend, Buffer, DType, Device, Op, Shape};

    use super::*;

    fn dense(dtype: DType, shape: Shape) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(shape))
    }

    fn spec(dims: &[u64]) -> TensorSpec {
        dense(DType::F32, Shape::new(dims).unwrap())
    }

    /// Every kind of op, on the CPU, at sizes large enough to be sampled.
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

    /// A device that computes the first product like the CPU, and nothing from then on.
    #[derive(Debug)]
    struct OnceOnly {
        cpu: Device,
        computed: AtomicBool,
    }

    impl Wrap for OnceOnly {
        fn inner(&self) -> &dyn Backend {
            self.cpu.backend()
        }

        fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
            // The operands are made by ops too.
            if op.is::<Matmul>() && self.computed.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            self.inner().execute(op, inputs, outputs)
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

    /// An op that adds in place, and gives a copy of the sum as a second result.
    fn update() -> Op {
        let flat = spec(&[70_000]);
        let sum = polywarp_core::Expr::input(1) + polywarp_core::Expr::input(0);
        let program = polywarp_core::Program::compile_all(&[sum.clone(), sum], &[DType::F32; 2]).unwrap();
        Map::several("update", program, vec![flat], &[flat; 2], 1).unwrap().into()
    }

    #[test]
    fn updates_are_judged_by_what_was_there_before_the_first_execution() {
        let device = Device::cpu();
        let prepared = Prepared::new(&update(), &device).unwrap();
        let reference = prepared.reference().unwrap();
        // The verdict does not depend on the number of executions before.
        prepared.batch(3).unwrap();
        for _ in 0..2 {
            assert!(prepared.verify(&reference).unwrap().is_right());
        }
        prepared.execute_once().unwrap();
        assert!(!prepared.judge(&reference).unwrap().is_right(), "a sum that was made twice");
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
            let mut bytes = prepared.output_bytes().unwrap().swap_remove(0);
            let end = bytes.len();
            bytes[end - 2..].copy_from_slice(&[0xff, 0x42]);
            let (expected, positions) = &reference.outputs[0];
            let got = (0..positions.elements()).map(|i| element(&bytes, positions, i, DType::F32));
            assert!(!judge(expected, got, DType::F32, Subnormals::Kept).is_right(), "{}", op.name());
        }
    }
}
