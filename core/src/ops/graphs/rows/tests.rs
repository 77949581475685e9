//! Which steps are gathered, that the graph means the same, and that what depends on others stays behind them.

use super::*;
use crate::ops::{Builder, CrossEntropy, LayerNorm};
use crate::{DType, Expr, KeepDims, Scalar};

fn spec(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// What the outputs hold for inputs of small different numbers.
fn values(graph: &Graph, op: &dyn Operation) -> Vec<Vec<Scalar>> {
    let memory = |(number, spec): (usize, &TensorSpec)| {
        let value = |i: u64| match spec.dtype {
            DType::I32 | DType::U32 => Scalar::I((i % 3) as i64),
            _ => Scalar::F(((i * 7 + number as u64 * 5) % 11) as f64 / 4.0 - 1.0),
        };
        (0..spec.layout.required_elements()).map(value).collect::<Vec<_>>()
    };
    let inputs: Vec<Vec<Scalar>> = op.inputs().iter().enumerate().map(memory).collect();
    let outputs: Vec<TensorSpec> = op.outputs().iter().map(|output| output.spec).collect();
    graph.evaluate(&inputs, &outputs)
}

fn programs(graph: &Graph) -> Vec<&RowProgram> {
    graph.steps.iter().filter_map(|step| step.op.get::<RowProgram>()).collect()
}

/// Gathered graphs are valid and mean the same.
fn gathered(op: &dyn Operation) -> Graph {
    let graph = op.decompose().unwrap().unwrap();
    let rows = graph.by_rows(op.name());
    rows.check(op.name(), &op.inputs(), &op.outputs()).unwrap();
    assert_eq!(values(&rows, op), values(&graph, op), "{}", op.name());
    rows
}

#[test]
fn layer_norm_is_one_program() {
    let op =
        LayerNorm::new(spec(DType::F16, &[2, 3, 8]), spec(DType::F16, &[8]), spec(DType::F16, &[8]), 1e-5).unwrap();
    let rows = gathered(&op);
    assert_eq!((rows.steps.len(), programs(&rows).len()), (1, 1), "{rows:?}");
    assert_eq!(programs(&rows)[0].outputs().len(), 3);
}

#[test]
fn cross_entropy_is_one_program() {
    let (x, t) = (spec(DType::F32, &[4, 6]), spec(DType::I32, &[4]));
    for (weights, smoothing) in [(None, 0.0), (Some(spec(DType::F32, &[6])), 0.1)] {
        let rows = gathered(&CrossEntropy::new(x, t, weights, smoothing, Some(-100)).unwrap());
        assert_eq!(programs(&rows).len(), 1, "{rows:?}");
        // The sum of weights is over no row.
        assert!(rows.steps.len() <= if weights.is_some() { 2 } else { 1 }, "{rows:?}");
    }
}

/// The gradient by all of its inputs: one walk over the rows, which also sums down the columns.
#[test]
fn gradient_of_layer_norm_is_one_program() {
    let op = LayerNorm::new(spec(DType::F32, &[5, 8]), spec(DType::F32, &[8]), spec(DType::F32, &[8]), 1e-5).unwrap();
    let needs = Needs { inputs: &[true; 3], outputs: &[true, false, false] };
    let Gradient::Rule(rule) = op.gradient(&needs).unwrap() else { panic!("no rule") };
    let rows = rule.graph.by_rows("gradient");
    let of = programs(&rows);
    assert_eq!(of.len(), 1, "{rows:?}");
    assert_eq!(of[0].outputs().len(), 3, "{rows:?}");
}

/// A step between two others that is no member keeps its place, and what follows it stays behind.
#[test]
fn steps_that_depend_on_others_stay_behind_them() {
    let mut graph = Builder::new(vec![spec(DType::F32, &[3, 4]), spec(DType::F32, &[4, 4])]);
    let (x, w) = (graph.input(0).unwrap(), graph.input(1).unwrap());
    let centred = |graph: &mut Builder, x| {
        let mean = graph.reduce(ReduceFn::Mean, x, &[1], KeepDims::Yes).unwrap();
        graph.map(&(Expr::input(0) - Expr::input(1)), &[x, mean]).unwrap()
    };
    let first = centred(&mut graph, x);
    let product = graph.matmul(first, w, crate::Precision::Highest, DType::F32).unwrap();
    let last = centred(&mut graph, product);
    let both = graph.map(&(Expr::input(0) * Expr::input(1)), &[last, first]).unwrap();
    let outputs = [spec(DType::F32, &[3, 4])];
    let graph = graph.finish("centred", &[both], &outputs).unwrap();
    let rows = graph.by_rows("rows");
    rows.check("centred", &[spec(DType::F32, &[3, 4]), spec(DType::F32, &[4, 4])], &[Operand::write(outputs[0])])
        .unwrap();
    assert_eq!(rows.steps.iter().map(|step| step.op.name()).collect::<Vec<_>>(), ["rows", "matmul", "rows"]);
}

/// A view that is not how a value was made is no part of the walk.
#[test]
fn transposed_values_do_not_join() {
    let mut graph = Builder::new(vec![spec(DType::F32, &[4, 4])]);
    let x = graph.input(0).unwrap();
    let y = graph.map(&(Expr::input(0) * 2.0), &[x]).unwrap();
    let sum = graph.reduce(ReduceFn::Sum, y.t().unwrap(), &[1], KeepDims::No).unwrap();
    let graph = graph.finish("sum", &[sum], &[spec(DType::F32, &[4])]).unwrap();
    assert_eq!(programs(&graph.by_rows("rows")).len(), 0);
}
