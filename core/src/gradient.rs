//! Gradients: the rule of an operation, as a graph of others.
//!
//! A rule stands in the operation's file, beside its meaning. It is a pure function from the operation to a [`Graph`] that computes
//! what becomes of the gradients of its outputs: for each input asked for, the sum over all outputs of gradient times derivative. Nothing
//! runs, no buffer is named; what the graph reads of inputs and outputs is what must be kept for it ([`Rule::saves_input`]). An
//! operation without a rule says why, by name: no gradient is ever dropped in silence.
//!
//! An input is what the operation reads, a view: of an operand that was broadcast the gradient has the broadcast shape, and who
//! broadcast it sums it up ([`Builder::sum_to`]).

use crate::graph::{Builder, Graph, Place, Value};
use crate::operation::Operation;
use crate::{Error, Layout, Result, TensorSpec};

/// Which gradients are asked for, and which are given.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// For each operand read, whether its gradient is wanted.
    pub inputs: &'a [bool],
    /// For each operand written, whether its gradient is there; where it is not, nothing depends on that output.
    pub outputs: &'a [bool],
}

/// What an operation says of its gradient.
#[derive(Clone, Debug, PartialEq)]
pub enum Gradient {
    /// How it is computed.
    Rule(Rule),
    /// That there is none, and why.
    Refused(&'static str),
}

/// A graph over the operation's inputs, then its outputs, then the outputs' gradients; its outputs are the gradients wanted, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The graph.
    pub graph: Graph,
    /// What it reads: views of inputs as the operation has them, outputs and their gradients dense.
    pub inputs: Vec<TensorSpec>,
    /// The gradients: dense, of the shapes and dtypes of the inputs wanted.
    pub outputs: Vec<TensorSpec>,
    /// How many inputs and outputs the operation has.
    operands: [usize; 2],
}

impl Rule {
    /// Whether input `number` of the operation must be kept.
    pub fn saves_input(&self, number: usize) -> bool {
        self.graph.reads(Place::Input(number))
    }

    /// Whether output `number` of the operation must be kept.
    pub fn saves_output(&self, number: usize) -> bool {
        self.graph.reads(Place::Input(self.operands[0] + number))
    }

    /// Where the gradient of output `number` is expected among [`Rule::inputs`].
    pub fn gradient_of(&self, number: usize) -> usize {
        self.operands[0] + self.operands[1] + number
    }
}

/// A rule under construction.
#[derive(Debug)]
pub struct RuleBuilder {
    /// The graph: add steps here.
    pub graph: Builder,
    name: &'static str,
    inputs: Vec<TensorSpec>,
    specs: Vec<TensorSpec>,
    wanted: Vec<bool>,
    operands: [usize; 2],
}

impl RuleBuilder {
    /// The rule of `op` for `needs`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for needs of other operands, and of one that is no float.
    pub fn new(op: &dyn Operation, needs: &Needs<'_>) -> Result<RuleBuilder> {
        let (inputs, outputs) = (op.inputs(), op.outputs());
        let invalid =
            |reason: String| Error::InvalidArgument { what: "gradient", reason: format!("{}: {reason}", op.name()) };
        if needs.inputs.len() != inputs.len() || needs.outputs.len() != outputs.len() {
            let (reads, writes) = (inputs.len(), outputs.len());
            return Err(invalid(format!(
                "needs of {} and {} operands, of {reads} and {writes}",
                needs.inputs.len(),
                needs.outputs.len()
            )));
        }
        let is_whole = |(spec, &wanted): (&TensorSpec, &bool)| wanted && !spec.dtype.is_float();
        if let Some(number) = inputs.iter().zip(needs.inputs).position(is_whole) {
            return Err(invalid(format!("input {number} is {}, which has no gradient", inputs[number].dtype)));
        }
        let dense = |spec: &TensorSpec| TensorSpec { layout: Layout::contiguous(*spec.layout.shape()), ..*spec };
        let written: Vec<TensorSpec> = outputs.iter().map(|output| dense(&output.spec)).collect();
        let specs = [&inputs[..], &written, &written].concat();
        let operands = [inputs.len(), written.len()];
        let graph = Builder::new(specs.clone());
        Ok(RuleBuilder { graph, name: op.name(), inputs, specs, wanted: needs.inputs.to_vec(), operands })
    }

    /// Input `number` of the operation.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are fewer.
    pub fn input(&self, number: usize) -> Result<Value> {
        self.graph.input(number)
    }

    /// Output `number` of the operation.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are fewer.
    pub fn output(&self, number: usize) -> Result<Value> {
        self.graph.input(self.operands[0] + number)
    }

    /// The gradient of output `number`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are fewer.
    pub fn gradient(&self, number: usize) -> Result<Value> {
        self.graph.input(self.operands[0] + self.operands[1] + number)
    }

    /// Whether the gradient of input `number` is wanted.
    pub fn wants(&self, number: usize) -> bool {
        self.wanted.get(number).is_some_and(|&wanted| wanted)
    }

    /// The rule whose results are `gradients`: of each input that is wanted one, in order; `None` where it does not depend on it.
    ///
    /// # Errors
    /// What [`Builder::finish`] refuses.
    pub fn finish(mut self, gradients: Vec<Option<Value>>) -> Result<Gradient> {
        let wanted = self.inputs.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        let outputs: Vec<TensorSpec> =
            wanted.map(|(spec, _)| TensorSpec { layout: Layout::contiguous(*spec.layout.shape()), ..*spec }).collect();
        let mut results = Vec::with_capacity(gradients.len());
        for (gradient, output) in gradients.into_iter().zip(&outputs) {
            results.push(match gradient {
                Some(value) => value,
                None => self.graph.full(output.dtype, *output.layout.shape(), 0)?,
            });
        }
        let graph = self.graph.finish(self.name, &results, &outputs)?;
        Ok(Gradient::Rule(Rule { graph, inputs: self.specs, outputs, operands: self.operands }))
    }
}
