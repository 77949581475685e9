//! Results that end transposed, wider, elsewhere: the same numbers by fewer steps.

use super::*;
use crate::operation::Operand;
use crate::ops::Builder;
use crate::{KeepDims, Precision, ReduceFn, Scalar, Shape};

fn spec(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn numbers(count: u64, step: u64) -> Vec<Scalar> {
    (0..count).map(|i| Scalar::F((i * step % 7) as f64 - 3.0)).collect()
}

/// The graph ended so gives the same numbers in another place; its steps by name.
fn ended(graph: &Graph, inputs: &[TensorSpec], is: TensorSpec, end: &End) -> Vec<&'static str> {
    let mut other = graph.clone();
    other.end_at(0, &is, end).unwrap();
    other.check("ended", inputs, &[Operand::write(end.spec)]).unwrap();
    let memory: Vec<_> = inputs.iter().zip([3, 5]).map(|(spec, step)| numbers(spec.layout.elements(), step)).collect();
    let (before, after) = (graph.evaluate(&memory, &[is]).remove(0), other.evaluate(&memory, &[end.spec]).remove(0));
    let view = Layout::contiguous(*is.layout.shape()).permute(&end.order).unwrap();
    for i in 0..view.elements() {
        assert_eq!(after[end.spec.layout.index_of(i) as usize], before[view.index_of(i) as usize], "element {i}");
    }
    other.steps.iter().map(|step| step.op.name()).collect()
}

#[test]
fn a_product_is_transposed_and_widened_by_itself() {
    let inputs = [spec(DType::BF16, &[3, 4]), spec(DType::BF16, &[4, 5])];
    let mut graph = Builder::new(inputs.to_vec());
    let (a, b) = (graph.input(0).unwrap(), graph.input(1).unwrap());
    let product = graph.matmul(a, b, Precision::Highest, DType::BF16).unwrap();
    let is = spec(DType::BF16, &[3, 5]);
    let graph = graph.finish("product", &[product], &[is]).unwrap();
    let wide = spec(DType::F32, &[5, 3]);
    let end = |order: &[usize], spec| End { order: order.to_vec(), spec };
    let moved = TensorSpec { layout: wide.layout.with_offset(64), ..wide };
    assert_eq!(ended(&graph, &inputs, is, &end(&[1, 0], moved)), ["matmul"]);
    assert_eq!(ended(&graph, &inputs, is, &end(&[0, 1], spec(DType::F32, &[3, 5]))), ["matmul"]);
    // What a product does not give is converted.
    assert_eq!(ended(&graph, &inputs, is, &end(&[1, 0], spec(DType::F16, &[5, 3]))), ["matmul", "cast"]);
}

#[test]
fn what_was_rounded_to_be_stored_need_not_be() {
    let inputs = [spec(DType::F32, &[6, 4])];
    let mut graph = Builder::new(inputs.to_vec());
    let x = graph.input(0).unwrap();
    let sum = graph.reduce(ReduceFn::Sum, x, &[0], KeepDims::No).unwrap();
    let half = graph.cast(sum, DType::F16).unwrap();
    let is = spec(DType::F16, &[4]);
    let graph = graph.finish("sum", &[half], &[is]).unwrap();
    let end = |dtype, offset| {
        let spec = spec(dtype, &[4]);
        End { order: vec![0], spec: TensorSpec { layout: spec.layout.with_offset(offset), ..spec } }
    };
    assert_eq!(ended(&graph, &inputs, is, &end(DType::F32, 128)), ["sum"]);
    assert_eq!(ended(&graph, &inputs, is, &end(DType::F16, 64)), ["sum", "map"]);
}

#[test]
fn a_sum_of_halves_is_written_wider_by_itself() {
    let inputs = [spec(DType::BF16, &[6, 4])];
    let mut graph = Builder::new(inputs.to_vec());
    let x = graph.input(0).unwrap();
    let sum = graph.reduce(ReduceFn::Sum, x, &[0], KeepDims::No).unwrap();
    let is = spec(DType::BF16, &[4]);
    let graph = graph.finish("sum", &[sum], &[is]).unwrap();
    let end = |dtype| End { order: vec![0], spec: spec(dtype, &[4]) };
    assert_eq!(ended(&graph, &inputs, is, &end(DType::F32)), ["sum"]);
    // f64 is not what halves add up in.
    assert_eq!(ended(&graph, &inputs, is, &end(DType::F64)), ["sum", "cast"]);
}

/// A result that the graph reads itself, or that two steps write, is copied.
#[test]
fn what_others_read_is_copied() {
    let inputs = [spec(DType::F32, &[2, 3])];
    let mut graph = Builder::new(inputs.to_vec());
    let x = graph.input(0).unwrap();
    let place = spec(DType::F32, &[4, 3]);
    let view = TensorSpec { layout: place.layout.slice(0, 1, 3, 1).unwrap(), ..place };
    let laid = graph.laid(x, view, *place.layout.shape()).unwrap();
    let graph = graph.finish("laid", &[laid], &[place]).unwrap();
    let end = End { order: vec![0, 1], spec: TensorSpec { layout: place.layout.with_offset(8), ..place } };
    assert_eq!(ended(&graph, &inputs, place, &end), ["fill", "copy", "copy"]);
}
