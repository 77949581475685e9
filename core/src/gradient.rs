//! Gradients: the rule of an operation, as a graph of others.
//!
//! A rule stands in the operation's file, beside its meaning. It is a pure function from the operation to a [`Graph`] that computes
//! what becomes of the gradients of its outputs: for each input asked for, the sum over all outputs of gradient times derivative. Nothing
//! runs, no buffer is named; what the graph reads of inputs and outputs is what must be kept for it ([`Rule::saves_input`]). An
//! operation without a rule says why, by name: no gradient is ever dropped in silence.
//!
//! An input is what the operation reads, a view: of an operand that was broadcast the gradient has the broadcast shape, and who
//! broadcast it sums it up ([`Builder::sum_to`](crate::ops::Builder::sum_to)).

use crate::TensorSpec;
use crate::graph::{Graph, Place};

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
    pub(crate) operands: [usize; 2],
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
