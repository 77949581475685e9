//! Gradients: the rule of an operation, as a graph of others.
//!
//! A rule stands in the operation's file, beside its meaning. It is a pure function from the operation to a [`Graph`] that computes
//! what becomes of the gradients of its outputs: for each input asked for, the sum over all outputs of gradient times derivative. Nothing
//! runs, no buffer is named; what the graph reads of inputs and outputs is what must be kept for it ([`Rule::saves_input`]). An
//! operation without a rule says why, by name: no gradient is ever dropped in silence.
//!
//! An input is what the operation reads, a view: of an operand that was broadcast the gradient has the broadcast shape, and who
//! follows gradients brings it back to the tensor below the view, by one recipe (`WayBack`).

use crate::graph::{Graph, Place};
use crate::{Layout, Result, TensorSpec};

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

/// How the gradient of a view becomes that of the dense tensor below it: the one place where broadcasting is undone. A tape does it with tensors,
/// the gradient of a graph with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WayBack {
    /// Axes along which the view repeats, summed first; one index of each stays.
    pub summed: Vec<usize>,
    /// What is left then.
    pub rest: Rest,
}

/// The second half of a [`WayBack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// All of the tensor: the axes are brought into this order, in which they are dense, and take the tensor's shape.
    Whole(Vec<usize>),
    /// A part of it, which is laid into zeros: where, counted from the tensor's first element.
    Part(Layout),
}

impl WayBack {
    /// From `view` to `base`, which is dense.
    ///
    /// # Errors
    /// None: the view's axes are there.
    pub fn new(base: &Layout, view: &Layout) -> Result<WayBack> {
        let (summed, layout) = view.without_repeats()?;
        let layout = layout.with_offset(layout.offset() - base.offset());
        let order = if layout.elements() == base.elements() { layout.dense_order() } else { None };
        Ok(WayBack { summed, rest: order.map_or(Rest::Part(layout), Rest::Whole) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn dense(dims: &[u64]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap()).with_offset(8)
    }

    #[test]
    fn way_back_sums_repeats_and_tells_wholes_from_parts() {
        let way = |base: &Layout, view: &Layout| WayBack::new(base, view).unwrap();
        let base = dense(&[3, 4]);
        let whole =
            |summed: &[usize], order: &[usize]| WayBack { summed: summed.into(), rest: Rest::Whole(order.into()) };
        assert_eq!(way(&base, &base), whole(&[], &[0, 1]));
        assert_eq!(way(&base, &base.transpose(0, 1).unwrap()), whole(&[], &[1, 0]));
        let repeated = dense(&[4]).broadcast_to(Shape::new(&[5, 4]).unwrap()).unwrap();
        assert_eq!(way(&dense(&[4]), &repeated), whole(&[0], &[0, 1]));
        let part = base.slice(1, 1, 3, 1).unwrap();
        assert_eq!(way(&base, &part), WayBack { summed: Vec::new(), rest: Rest::Part(part.with_offset(1)) });
        // As many elements as the whole, but backwards.
        let flipped = base.slice(0, 0, 3, -1).unwrap();
        assert!(matches!(way(&base, &flipped).rest, Rest::Part(layout) if layout.offset() == 8));
    }
}
