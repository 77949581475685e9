//! Where the results of a graph end: in another order of axes, in another dtype, at a place in a larger buffer.
//!
//! Gradients of parameters are wanted in the parameter's own order of memory, in f32, in their place among all gradients; rules give them as
//! the operation saw the parameter. [`Graph::end_at`] adds the step between both, and leaves it out where the step before can write so itself: a
//! product of the factors exchanged is the product transposed, products and sums give f32 as well as what they are of, and what was rounded
//! to be stored need not be.

use crate::graph::{Graph, GraphStep, Place};
use crate::operation::Op;
use crate::ops::{Copy, Map, Matmul, Reduce};
use crate::{DType, Expr, Layout, Program, Result, Step, TensorSpec};

/// How a result is wanted.
#[derive(Clone, Debug)]
pub struct End {
    /// The axes of the result in the order in which they are wanted.
    pub order: Vec<usize>,
    /// Dtype and dense layout, of the axes in that order.
    pub spec: TensorSpec,
}

impl Graph {
    /// Has result `number`, dense as `is` says, end as `end` says. The graph writes it once.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] and [`crate::Error::ShapeMismatch`] for an end of another shape, or one that is not dense.
    pub fn end_at(&mut self, number: usize, is: &TensorSpec, end: &End) -> Result<()> {
        let output = Place::Output(number);
        let view = Layout::contiguous(*is.layout.shape()).permute(&end.order)?;
        if self.writes_so(number, is, end) {
            return Ok(());
        }
        let temp = Place::Temp(self.temps.len());
        self.temps.push(TensorSpec { layout: Layout::contiguous(*is.layout.shape()), ..*is });
        for step in &mut self.steps {
            // It started its buffer, as a temporary does.
            let places = step.inputs.iter_mut().chain(&mut step.outputs);
            places.filter(|place| **place == output).for_each(|place| *place = temp);
        }
        let read = TensorSpec { layout: view, ..*is };
        let op: Op = if is.dtype == end.spec.dtype {
            Copy::new(read, end.spec)?.into()
        } else {
            let program = Program::compile(&Expr::input(0).cast(end.spec.dtype), &[is.dtype])?;
            Map::new("cast", program, vec![read], end.spec)?.into()
        };
        self.steps.push(GraphStep { op, inputs: vec![temp], outputs: vec![output] });
        Ok(())
    }

    /// Changes the step that writes result `number` to end it so, if it can.
    fn writes_so(&mut self, number: usize, is: &TensorSpec, end: &End) -> bool {
        let output = Place::Output(number);
        let writers: Vec<usize> =
            (0..self.steps.len()).filter(|&step| self.steps[step].outputs.contains(&output)).collect();
        let &[writer] = writers.as_slice() else { return false };
        if self.reads(output) {
            return false;
        }
        let is_in_order = end.order.iter().copied().eq(0..end.order.len());
        let step = &self.steps[writer];
        let product = step.op.get::<Matmul>().and_then(|product| ended(product, end));
        if let Some(product) = product {
            let inputs = if is_in_order { step.inputs.clone() } else { vec![step.inputs[1], step.inputs[0]] };
            self.steps[writer] = GraphStep { op: product.into(), inputs, outputs: vec![output] };
            return true;
        }
        if !is_in_order {
            return false;
        }
        if is.dtype == end.spec.dtype {
            let at = step.outputs.iter().position(|place| *place == output).unwrap_or(0);
            // The step has its own shape of the same elements.
            let shape = *step.op.outputs()[at].spec.layout.shape();
            let layout = Layout::contiguous(shape).with_offset(end.spec.layout.offset());
            let Some(moved) = step.op.with_output(at, TensorSpec { layout, ..end.spec }) else { return false };
            self.steps[writer].op = moved;
            return true;
        }
        if let Some(mut reduce) =
            step.op.get::<Reduce>().filter(|op| op.function.gives(op.input.dtype, end.spec.dtype)).cloned()
        {
            // Its own shape of the same elements.
            let layout = Layout::contiguous(*reduce.output.layout.shape()).with_offset(end.spec.layout.offset());
            reduce.output = TensorSpec { layout, ..end.spec };
            self.steps[writer].op = reduce.into();
            return true;
        }
        // What it converts is what is wanted.
        let Some(source) = converted(&step.op, end.spec.dtype).map(|_| step.inputs[0]) else { return false };
        let Place::Temp(_) = source else { return false };
        let reads = self.steps.iter().flat_map(|step| &step.inputs).filter(|place| **place == source).count();
        let makers: Vec<usize> =
            (0..self.steps.len()).filter(|&step| self.steps[step].outputs.contains(&source)).collect();
        let (&[maker], 1) = (makers.as_slice(), reads) else { return false };
        let op = &self.steps[maker].op;
        let at = self.steps[maker].outputs.iter().position(|place| *place == source).unwrap_or(0);
        let shape = *op.outputs()[at].spec.layout.shape();
        if shape.elements() != end.spec.layout.elements() {
            return false;
        }
        let layout = Layout::contiguous(shape).with_offset(end.spec.layout.offset());
        let Some(moved) = op.with_output(at, TensorSpec { layout, ..end.spec }) else { return false };
        self.steps[maker].op = moved;
        self.steps[maker].outputs[at] = output;
        self.steps.remove(writer);
        true
    }
}

/// The product that gives the same, ended so; `None` where there is none.
fn ended(product: &Matmul, end: &End) -> Option<Matmul> {
    let plain = Matmul { precision: product.precision, ..Matmul::product(product.a, product.b, product.output) };
    let rank = product.output.layout.rank();
    let is_swapped = end.order.iter().copied().eq((0..rank - 2).chain([rank - 1, rank - 2]));
    let is_in_order = end.order.iter().copied().eq(0..rank);
    if *product != plain || product.output.layout.shape().rank() != end.order.len() || !(is_swapped || is_in_order) {
        return None;
    }
    let turned =
        |spec: &TensorSpec| Some(TensorSpec { layout: spec.layout.transpose(rank - 2, rank - 1).ok()?, ..*spec });
    let (a, b) = if is_swapped { (turned(&product.b)?, turned(&product.a)?) } else { (product.a, product.b) };
    Matmul::gives(a.dtype, end.spec.dtype).then_some(())?;
    Matmul { a, b, output: end.spec, ..plain }.check().ok()
}

/// Whether `op` converts dense elements of dtype `from`, and does nothing else.
fn converted(op: &Op, from: DType) -> Option<()> {
    let map = op.get::<Map>()?;
    let is_cast = matches!(map.program.steps(), [(Step::Input(0), dtype), (Step::Cast(0), _)] if *dtype == from);
    let is_dense = map.inputs.len() == 1 && map.inputs[0].layout.is_contiguous() && map.inputs[0].layout.offset() == 0;
    (is_cast && is_dense && map.others.is_empty() && map.updates == 0).then_some(())
}

#[cfg(test)]
#[path = "ends/tests.rs"]
mod tests;
