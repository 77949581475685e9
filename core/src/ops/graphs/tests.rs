//! Graphs: what is refused, what shares memory, and that host and oracle agree.

use super::*;
use crate::case::{Case, Values, output};
use crate::gradient::{Gradient, Needs};
use crate::graph::{Graph, Place};
use crate::harness::{Outcome, ReferenceBackend, run_case};
use crate::operation::Operand;
use crate::operation::{Arithmetic, Operation};
use crate::ops::ReduceFn;
use crate::oracle::{Expected, HostTensor};
use crate::{DType, Device, Expr, KeepDims, Layout, Scalar, Shape};
use crate::{Error, Result, TensorSpec};

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// Each row less its mean, and the means: two results, of two shapes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Center {
    input: TensorSpec,
    output: TensorSpec,
    means: TensorSpec,
}

impl Center {
    fn new(dims: &[u64]) -> Center {
        let means = output(DType::F32, &dims[..dims.len() - 1]).unwrap();
        Center { input: spec(dims), output: output(DType::F32, dims).unwrap(), means }
    }
}

impl Operation for Center {
    fn name(&self) -> &'static str {
        "center"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.input));
        each(Operand::write(self.output));
        each(Operand::write(self.means));
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(2 * self.input.layout.elements())
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("a test"))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let columns = *self.input.layout.dims().last().unwrap() as usize;
        let (mut centered, mut means) = (Vec::new(), Vec::new());
        for row in before[0].values.chunks(columns.max(1)) {
            let sum: f64 = row.iter().map(|x| x.as_f64()).sum();
            let mean = sum / columns as f64;
            means.push(Expected::within(Scalar::F(mean), 1e-4));
            centered.extend(row.iter().map(|x| Expected::within(Scalar::F(x.as_f64() - mean), 1e-4)));
        }
        vec![centered, means]
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let mut graph = Builder::new(vec![self.input]);
        let x = graph.input(0)?;
        let axis = x.dims().len() - 1;
        let means = graph.reduce(ReduceFn::Mean, x, &[axis], KeepDims::Yes)?;
        let centered = graph.map(&(Expr::input(0) - Expr::input(1)), &[x, means])?;
        let means = means.reshape(*self.means.layout.shape())?;
        Ok(Some(graph.finish("center", &[centered, means], &[self.output, self.means])?))
    }
}

#[test]
fn an_operation_of_others_runs_on_the_host_and_its_result_goes_where_it_belongs() {
    let reference = Device::new(ReferenceBackend::default());
    let mut devices = vec![reference];
    #[cfg(feature = "cpu")]
    devices.push(Device::cpu());
    devices.iter_mut().for_each(|device| {
        for dims in [&[3, 5][..], &[1, 1], &[70, 257], &[2, 3, 9]] {
            let case = Case::new("center", Center::new(dims), vec![Values::Normal]);
            let outcome = run_case(device, &case, 0);
            assert!(matches!(outcome, Outcome::Pass { .. }), "{outcome:?}");
        }
    });
    // The difference is made in its place; the means are read as well and so are copied.
    let graph = Center::new(&[3, 5]).decompose().unwrap().unwrap();
    assert_eq!(graph.steps.iter().map(|step| step.op.name()).collect::<Vec<_>>(), ["mean", "map", "copy"]);
    assert_eq!(graph.steps[1].outputs, [Place::Output(0)]);
}

#[test]
fn temporaries_that_are_never_needed_together_share_a_buffer() {
    let mut graph = Builder::new(vec![spec(&[100])]);
    let mut x = graph.input(0).unwrap();
    for _ in 0..6 {
        x = graph.map(&(Expr::input(0) * 2.0), &[x]).unwrap();
    }
    let graph = graph.finish("chain", &[x], &[spec(&[100])]).unwrap();
    let (of, sizes) = graph.buffers();
    // The last one is the output; each of the five before needs the one before it.
    assert_eq!((sizes, &of[..5]), (vec![400, 400], &[0, 1, 0, 1, 0][..]));
}

/// What can be wrong with a graph, and words of the refusal.
type Fault = (fn(&mut Graph), &'static str);

const FAULTS: [Fault; 8] = [
    (|graph| graph.steps[1].inputs[1] = Place::Temp(9), "input 1 of step 1 (map) is Temp(9), which there is not"),
    (|graph| graph.steps.swap(0, 1), "reads Temp(0), which no earlier step writes"),
    (|graph| graph.steps[1].outputs[0] = Place::Input(0), "to Input(0), which is"),
    (|graph| graph.steps[0].outputs[0] = Place::Input(0), "binds twice"),
    (|graph| drop(graph.steps.pop()), "no step writes output 1"),
    (|graph| graph.steps[1].inputs.truncate(1), "has places for 1 and 1 operands of 2 and 1"),
    (|graph| graph.temps[0] = spec(&[2]), "writes"),
    (|graph| graph.steps[2].outputs[0] = Place::Output(0), "no step writes output 1"),
];

/// [`Center`] as a graph with a fault.
#[cfg(feature = "cpu")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spoiled {
    of: Center,
    fault: usize,
}

#[cfg(feature = "cpu")]
impl Operation for Spoiled {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.of.operands(each);
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        self.of.arithmetic()
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        self.of.gradient(needs)
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        self.of.oracle(before)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let mut graph = self.of.decompose()?;
        graph.iter_mut().for_each(FAULTS[self.fault].0);
        Ok(graph)
    }
}

#[test]
fn graphs_that_compute_nothing_right_are_refused_with_their_place() {
    let op = Center::new(&[3, 5]);
    let right = || op.decompose().unwrap().unwrap();
    let check = |graph: &Graph| graph.check("center", &op.inputs(), &op.outputs()).map_err(|error| error.to_string());
    assert_eq!(check(&right()), Ok(()));
    for (spoil, words) in FAULTS {
        let mut graph = right();
        spoil(&mut graph);
        let refused = check(&graph).unwrap_err();
        assert!(refused.contains("center: ") && refused.contains(words), "{refused}");
    }
    // Values of another shape, and results of another one than the output.
    let mut graph = Builder::new(vec![spec(&[3]), spec(&[4])]);
    let [x, y] = [0, 1].map(|number| graph.input(number).unwrap());
    assert!(matches!(graph.map(&(Expr::input(0) + Expr::input(1)), &[x, y]), Err(Error::ShapeMismatch { .. })));
    assert!(matches!(graph.finish("g", &[x], &[spec(&[4])]), Err(Error::ShapeMismatch { op: "g", .. })));
}
#[cfg(feature = "cpu")]
#[test]
fn operations_whose_graph_computes_nothing_right_do_not_run() {
    // Results that are made start with their buffers: here the means are written where they belong, and temporaries are none.
    let of = Center { output: spec(&[3, 5]), means: spec(&[3]), ..Center::new(&[3, 5]) };
    let device = Device::cpu();
    let x = crate::Tensor::zeros(&device, DType::F32, [3, 5]).unwrap();
    for fault in [0, 5] {
        let refused = crate::Tensor::apply(&device, Spoiled { of: of.clone(), fault }, &[&x]).unwrap_err().to_string();
        assert!(refused.contains("center: ") && refused.contains(FAULTS[fault].1), "{refused}");
    }
}
