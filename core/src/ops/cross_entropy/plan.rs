//! Cross-entropy in one walk along the rows: an ending of the passes in `softmax/plan/stats.rs`.
//!
//! Not here: weights with smoothing, whose weighted sum of logits would be read class by class, and smoothing of rows that take several passes.
//! Those are the graph that the operation is.

use super::{CrossEntropy, OP};
use crate::ops::softmax::plan::stats::{self, Ending, LOSS_WORDS, Losses};
use crate::plan::{Caps, Plan, Slot};
use crate::wgsl::element::Element;
use crate::wgsl::index::check_index;
use crate::{DType, Layout, Result, Scalar, Shape, collapse_together};

pub(super) fn plan(op: &CrossEntropy, caps: &Caps) -> Result<Plan> {
    let smoothed = op.smoothing > 0.0;
    if smoothed && op.weights.is_some() {
        return Err(caps.unsupported(OP, "no kernel has weights and smoothing together"));
    }
    if op.classes() == 0 {
        return Err(caps.unsupported(OP, "there are no classes"));
    }
    for spec in [Some(op.targets), op.weights].into_iter().flatten().chain(op.outputs) {
        check_index(OP, &spec)?;
    }
    let (layout, axis) = (&op.logits.layout, op.axis());
    let rows = Layout::strided(Shape::new(&layout.dims()[..axis])?, &layout.strides()[..axis], layout.offset())?;
    let [logits, targets] = collapse_together(&[rows, op.targets.layout])[..] else {
        return Err(caps.unsupported(OP, "its rows have no common axes"));
    };
    let ignored = op.ignored.and_then(|ignored| match op.targets.dtype {
        DType::I32 => i32::try_from(ignored).ok().map(|ignored| ignored as u32),
        _ => u32::try_from(ignored).ok(),
    });
    let losses = Losses {
        target: Element::new(op.targets.dtype, caps)?,
        weighted: op.weights.is_some(),
        smoothed,
        ignores: ignored.is_some(),
        axes: logits.rank() as u8,
    };
    let mut plan = stats::plan(OP, &op.logits, axis, Ending::Losses(losses), op.outputs[0].layout.offset(), caps)?;
    let reads_states = plan.launches.len() > 1;
    let Some(last) = plan.launches.last_mut() else { return Ok(plan) };
    last.bindings.extend([Slot::Output(1), Slot::Output(2), Slot::Input(1)]);
    last.bindings.extend(op.weights.map(|_| Slot::Input(2)));
    last.bindings.extend(reads_states.then_some(Slot::Input(0)));
    if last.bindings.len() > caps.max_storage_buffers as usize {
        return Err(caps.unsupported(OP, format!("its kernel takes {} buffers", last.bindings.len())));
    }
    let number = |x: f64| {
        let words = Element::plain(op.outputs[0].dtype).param_words(Scalar::F(x));
        [words[0], words.get(1).copied().unwrap_or(0)]
    };
    let (kept, share) = (number(1.0 - op.smoothing), number(op.share()));
    let weights = op.weights.map_or((0, 0), |spec| (spec.layout.offset(), spec.layout.strides()[0]));
    // Strides wrap as two's complement.
    let words: [u32; LOSS_WORDS.len()] = [
        op.outputs[1].layout.offset() as u32,
        op.outputs[2].layout.offset() as u32,
        logits.offset() as u32,
        targets.offset() as u32,
        weights.0 as u32,
        weights.1 as u32,
        op.classes() as u32,
        layout.strides()[axis] as u32,
        ignored.unwrap_or(0),
        kept[0],
        kept[1],
        share[0],
        share[1],
    ];
    last.params.extend(words);
    for axis in (0..logits.rank()).rev() {
        last.params.extend([logits.dims()[axis] as u32, logits.strides()[axis] as u32, targets.strides()[axis] as u32]);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorSpec;
    use crate::ops::{LogSumExp, candidates};
    use crate::wgsl::validate::{Validated, full_caps};

    fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
        TensorSpec::dense(dtype, Shape::new(dims).unwrap())
    }

    fn loss(dtype: DType, dims: &[u64], weighted: bool, smoothing: f64) -> CrossEntropy {
        let (&classes, rows) = dims.split_last().unwrap();
        let weights = weighted.then(|| dense(dtype.compute(), &[classes]));
        CrossEntropy::new(dense(dtype, dims), dense(DType::I32, rows), weights, smoothing, Some(-100)).unwrap()
    }

    #[test]
    fn long_rows_are_one_launch_of_a_workgroup_each() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let plan = plan(&loss(dtype, &[8192, 30_522], false, 0.0), &full_caps()).unwrap();
            assert_eq!((plan.launches.len(), plan.launches[0].grid), (1, [8192, 1, 1]), "{dtype}");
        }
    }

    #[test]
    fn every_dtype_layout_and_ending_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::FLOATS.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                for dims in [&[6][..], &[33, 10], &[5, 30_522], &[1, 200_003], &[3, 4, 70]] {
                    for (weighted, smoothing) in [(false, 0.0), (true, 0.0), (false, 0.1), (true, 0.1)] {
                        let op = loss(dtype, dims, weighted, smoothing).into();
                        candidates(&op, &caps)
                            .unwrap()
                            .iter()
                            .for_each(|way| validated.check(&way.plan.launches, &caps));
                    }
                    for axis in 0..dims.len() {
                        let op = LogSumExp::new(dense(dtype, dims), axis).unwrap().into();
                        validated.check(&crate::ops::plan(&op, &caps).unwrap().launches, &caps);
                    }
                }
            }
        }
        assert!(validated.kernels() > 60, "{} kernels", validated.kernels());
    }

    #[test]
    fn weights_with_smoothing_are_left_to_the_graph() {
        let caps = full_caps();
        let names = |op: CrossEntropy| {
            candidates(&op.into(), &caps).unwrap().into_iter().map(|way| way.name).collect::<Vec<_>>()
        };
        assert_eq!(names(loss(DType::F32, &[64, 1000], true, 0.1)), ["rows", "composed"]);
        assert_eq!(names(loss(DType::F32, &[64, 1000], false, 0.1)), ["cross_entropy"]);
        assert_eq!(names(loss(DType::F32, &[64, 1000], true, 0.0)), ["cross_entropy"]);
    }
}
