//! A graph as an operation of its own.

use crate::gradient::{Gradient, Needs};
use crate::graph::{Graph, Place};
use crate::operation::{Arithmetic, Operand, Operation};
use crate::oracle::{Expected, HostTensor};
use crate::{Result, Scalar, TensorSpec};

/// The operation that a graph is: gradients run as such.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphOp {
    name: &'static str,
    graph: Graph,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl GraphOp {
    /// `graph` over those of `inputs` that it reads, and their numbers.
    pub fn new(
        name: &'static str,
        mut graph: Graph,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
    ) -> (GraphOp, Vec<usize>) {
        let used: Vec<usize> = (0..inputs.len()).filter(|&number| graph.reads(Place::Input(number))).collect();
        for place in graph.steps.iter_mut().flat_map(|step| &mut step.inputs) {
            if let Place::Input(number) = place {
                *number = used.iter().position(|known| known == number).unwrap_or(*number);
            }
        }
        let inputs = used.iter().filter_map(|&number| inputs.get(number).copied()).collect();
        (GraphOp { name, graph, inputs, outputs }, used)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl Operation for GraphOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.inputs.iter().for_each(|&input| each(Operand::read(input)));
        self.outputs.iter().for_each(|&output| each(Operand::write(output)));
    }

    fn validate(&self) -> Result<()> {
        self.graph.check(self.name, &self.inputs, &self.outputs())
    }

    /// That of its steps.
    fn arithmetic(&self) -> Arithmetic {
        let flops = self.graph.steps.iter().map(|step| step.op.arithmetic().flops);
        Arithmetic::flops(flops.fold(0, u64::saturating_add))
    }

    /// What its steps mean, one after the other, in float64. Bounds are those of the steps, which are held to them one by one: none is
    /// carried through, and the result is no reference for a device.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let memory = self.inputs.iter().zip(before).map(|(spec, host)| {
            let mut memory = vec![Scalar::F(f64::NAN); spec.layout.required_elements() as usize];
            for (i, &value) in host.values.iter().enumerate() {
                memory[spec.layout.index_of(i as u64) as usize] = value;
            }
            memory
        });
        let results = self.graph.evaluate(&memory.collect::<Vec<_>>(), &self.outputs);
        let of_output = |(memory, spec): (Vec<Scalar>, &TensorSpec)| {
            let at = |i: u64| Expected::within(memory[spec.layout.index_of(i) as usize], f64::INFINITY);
            (0..spec.layout.elements()).map(at).collect()
        };
        results.into_iter().zip(&self.outputs).map(of_output).collect()
    }

    /// By the rules of its steps.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        self.graph.gradient(self, needs)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        Ok(Some(self.graph.clone()))
    }
}
