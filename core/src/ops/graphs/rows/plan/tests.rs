//! Which graphs become one kernel, how rows are cut, and that the texts validate.

use crate::gradient::{Gradient, Needs};
use crate::ops::{CrossEntropy, LayerNorm, Softmax, SoftmaxFn};
use crate::{Op, TensorSpec};

use super::*;
use crate::ops::candidates;
use crate::wgsl::validate::{Validated, full_caps};

fn spec(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn layer_norm(dtype: DType, dims: &[u64]) -> LayerNorm {
    let row = spec(dtype, &dims[dims.len() - 1..]);
    LayerNorm::new(spec(dtype, dims), row, row, 1e-5).unwrap()
}

/// The row programs of the gradient of `op` by all inputs, for its first output.
fn of_gradient(op: &dyn Operation, inputs: &[bool]) -> Vec<RowProgram> {
    let outputs: Vec<bool> = (0..op.outputs().len()).map(|number| number == 0).collect();
    let Gradient::Rule(rule) = op.gradient(&Needs { inputs, outputs: &outputs }).unwrap() else { panic!("no rule") };
    programs(&rule.graph.by_rows("rows"))
}

fn programs(graph: &crate::graph::Graph) -> Vec<RowProgram> {
    graph.steps.iter().filter_map(|step| step.op.get::<RowProgram>().cloned()).collect()
}

fn of(op: &dyn Operation) -> Vec<RowProgram> {
    programs(&op.decompose().unwrap().unwrap().by_rows("rows"))
}

fn kernel(plan: &Plan) -> Kernel {
    plan.launches[0].kernel.get::<Kernel>().unwrap().clone()
}

#[test]
fn every_dtype_and_width_validates() {
    let mut validated = Validated::default();
    let nearest = Caps { nearest_conversions: true, ..full_caps() };
    for caps in [full_caps(), nearest, Caps::webgpu_defaults("test")] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            // Quads, pairs and single elements; several workgroups' rows; rows that no registers hold.
            for dims in [&[3, 768][..], &[2, 5, 30], &[7, 33], &[40, 40_000], &[129]] {
                let norm = layer_norm(dtype, dims);
                let rows = &dims[..dims.len() - 1];
                let entropy =
                    CrossEntropy::new(spec(dtype, dims), spec(DType::I32, rows), None, 0.1, Some(-100)).unwrap();
                let softmax =
                    Softmax::new(SoftmaxFn::Softmax, spec(dtype, dims), dims.len() - 1, spec(dtype, dims)).unwrap();
                let all = [of(&norm), of(&entropy), of_gradient(&softmax, &[true]), of_gradient(&norm, &[true; 3])];
                for program in all.concat() {
                    // f64 extrema, and rows too long to be held where columns are summed up, are no work for it.
                    if let Some(plan) = plan(&program, &caps) {
                        match plan {
                            Ok(plan) => validated.check(&plan.launches, &caps),
                            Err(error) => assert!(dtype == DType::F64 && !caps.f64, "{error}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn layer_norm_and_its_gradient_are_one_walk() {
    let caps = full_caps();
    let op = Op::from(layer_norm(DType::BF16, &[4096, 768]));
    let ways = candidates(&op, &caps).unwrap();
    assert_eq!(ways.iter().map(|way| way.name.as_str()).collect::<Vec<_>>(), ["rows", "composed"]);
    assert_eq!(ways[0].plan.launches.len(), 1);
    let forward = kernel(&ways[0].plan);
    // Three times eight neighbours.
    assert_eq!((forward.width, forward.paired, forward.lanes, forward.items), (4, true, 32, 6));
    let programs = of_gradient(&layer_norm(DType::BF16, &[4096, 768]), &[true; 3]);
    let plan = plan(&programs[0], &caps).unwrap().unwrap();
    // Two sums down the columns, of 256 workgroups each, which one launch adds up.
    assert_eq!(plan.scratch_bytes, [256 * 768 * 4; 2]);
    assert_eq!(plan.launches[0].grid, [256, 1, 1]);
    assert_eq!((plan.launches.len(), plan.launches[1].grid), (2, [12, 1, 2]));
    // With the fewest buffers each is a reduction by itself.
    let few = Caps { max_workgroups: [65_535, 65_535, 1], ..full_caps() };
    assert_eq!(super::plan(&programs[0], &few).unwrap().unwrap().launches.len(), 3);
}

#[test]
fn rows_are_cut_by_their_length() {
    let caps = full_caps();
    let of = |columns: u64| {
        let op = Op::from(layer_norm(DType::F32, &[64, columns]));
        let kernel = kernel(&candidates(&op, &caps).unwrap()[0].plan);
        (kernel.width, kernel.lanes, if kernel.held { kernel.items } else { 0 })
    };
    assert_eq!(of(4), (4, 1, 1));
    assert_eq!(of(30), (2, 4, 4));
    assert_eq!(of(33), (1, 16, 3));
    assert_eq!(of(16_384), (4, 256, 16));
    // As many registers are not there: read again for each fold.
    assert_eq!(of(40_000), (4, 256, 0));
}

/// A few very long rows keep too few workgroups busy.
#[test]
fn few_long_rows_are_left_to_reductions() {
    let op = Op::from(layer_norm(DType::F32, &[2, 1 << 20]));
    let ways = candidates(&op, &full_caps()).unwrap();
    assert!(ways[0].plan.launches.iter().all(|launch| launch.kernel.get::<Kernel>().is_none()));
}

/// With the buffers that WebGPU guarantees a program of more operands is the graph that it was made of.
#[test]
fn too_many_buffers_are_left_to_the_graph() {
    let caps = Caps { max_storage_buffers: 3, ..full_caps() };
    let program = of(&layer_norm(DType::F32, &[8, 64])).remove(0);
    assert!(plan(&program, &caps).is_none());
}
