//! The gradient of a graph: the rules of its steps, the last one first.
//!
//! What a rule reads of an intermediate is computed again, since an operation keeps its inputs and outputs alone. Steps that no wanted
//! input reaches, and intermediates that no rule reads, are left out.

use std::collections::HashMap;

use super::{Builder, Value};
use crate::gradient::{Gradient, Needs, Rest, WayBack};
use crate::graph::{Graph, GraphStep, Place};
use crate::operation::Operation;
use crate::ops::RuleBuilder;
use crate::ops::{Copy, ReduceFn};
use crate::{Expr, KeepDims, Layout, Result, TensorSpec};

impl Graph {
    /// The rule of `op`, which is this graph.
    ///
    /// # Errors
    /// As [`Operation::gradient`].
    pub fn gradient(&self, op: &dyn Operation, needs: &Needs<'_>) -> Result<Gradient> {
        let rule = RuleBuilder::new(op, needs)?;
        let outputs: Vec<TensorSpec> = op.outputs().iter().map(|output| output.spec).collect();
        if op.updates() {
            return Ok(Gradient::Refused("it updates an operand in place, whose value before is gone"));
        }
        if outputs.iter().any(|output| output.layout.offset() > 0 || !output.layout.is_contiguous()) {
            return Ok(Gradient::Refused("its outputs do not start their buffers, and steps may read them"));
        }
        let reached = self.reached(needs.inputs);
        let mut backward = Backward { graph: self, rule, bases: [op.inputs(), outputs], again: HashMap::new() };
        let mut gradients: HashMap<Place, Value> = HashMap::new();
        for (number, _) in needs.outputs.iter().enumerate().filter(|(_, given)| **given) {
            gradients.insert(Place::Output(number), backward.rule.gradient(number)?);
        }
        for (number, step) in self.steps.iter().enumerate().rev() {
            if let Some(refused) = backward.through(number, step, &reached, &mut gradients)? {
                return Ok(Gradient::Refused(refused));
            }
        }
        let wanted = needs.inputs.iter().enumerate().filter(|(_, wanted)| **wanted);
        let found = wanted.map(|(input, _)| gradients.get(&Place::Input(input)).copied()).collect();
        backward.rule.finish(found)
    }

    /// The places that depend on a wanted input through floats.
    fn reached(&self, wanted: &[bool]) -> Vec<Place> {
        let inputs = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
        let mut reached: Vec<Place> = inputs.map(|(input, _)| Place::Input(input)).collect();
        for step in &self.steps {
            if step.inputs.iter().any(|place| reached.contains(place)) {
                let outputs = step.op.outputs();
                let floats = step.outputs.iter().zip(&outputs).filter(|(_, output)| output.spec.dtype.is_float());
                reached.extend(floats.map(|(place, _)| *place));
            }
        }
        reached
    }
}

struct Backward<'a> {
    graph: &'a Graph,
    rule: RuleBuilder,
    /// Inputs and outputs of the whole.
    bases: [Vec<TensorSpec>; 2],
    /// Where intermediates were computed again.
    again: HashMap<usize, Place>,
}

impl Backward<'_> {
    /// Takes the gradients of the step's outputs, and adds to those of its inputs; or says why there is no rule.
    fn through(
        &mut self,
        number: usize,
        step: &GraphStep,
        reached: &[Place],
        gradients: &mut HashMap<Place, Value>,
    ) -> Result<Option<&'static str>> {
        let (specs, results) = (step.op.inputs(), step.op.outputs());
        let mut of_outputs: Vec<Option<Value>> = step.outputs.iter().map(|place| gradients.remove(place)).collect();
        let given: Vec<bool> = of_outputs.iter().map(Option::is_some).collect();
        let wants = |(place, spec): (&Place, &TensorSpec)| spec.dtype.is_float() && reached.contains(place);
        let wanted: Vec<bool> = step.inputs.iter().zip(&specs).map(wants).collect();
        if !given.contains(&true) || !wanted.contains(&true) {
            return Ok(None);
        }
        let rule = match step.op.gradient(&Needs { inputs: &wanted, outputs: &given })? {
            Gradient::Rule(rule) => rule,
            Gradient::Refused(reason) => return Ok(Some(reason)),
        };
        for ((place, result), gradient) in step.outputs.iter().zip(&results).zip(&mut of_outputs) {
            if self.base(*place).layout.elements() == result.spec.layout.elements() {
                continue;
            }
            // A copy into a part: what was there before must not depend on anything.
            let earlier = self.graph.steps[..number].iter().filter(|step| step.outputs.contains(place));
            if !step.op.is::<Copy>() || earlier.flat_map(|step| &step.inputs).any(|input| reached.contains(input)) {
                return Ok(Some("a step writes a part of an intermediate"));
            }
            *gradient = gradient.map(|whole| whole.viewed(result.spec.layout));
        }
        let count = rule.inputs.len();
        let mut held: Vec<Option<Place>> = vec![None; count];
        for number in (0..count).filter(|&number| rule.graph.reads(Place::Input(number))) {
            let (reads, writes) = (specs.len(), results.len());
            held[number] = Some(match number {
                input if input < reads => self.place(step.inputs[input])?,
                output if output < reads + writes => self.place(step.outputs[output - reads])?,
                gradient => match of_outputs[gradient - reads - writes] {
                    Some(value) => self.rule.graph.contiguous(value)?.place,
                    None => return Ok(Some("a rule reads a gradient that there is not")),
                },
            });
        }
        let found = self.rule.graph.inline(&rule.graph, &held, &rule.outputs);
        let inputs = step.inputs.iter().zip(&specs).zip(&wanted).filter(|(_, wanted)| **wanted);
        for (((place, spec), _), gradient) in inputs.zip(found) {
            let base = self.base(*place);
            let Some(whole) = into_base(&mut self.rule.graph, &base, spec, gradient)? else {
                return Ok(Some("a step reads another view of an input that is a view itself"));
            };
            let sum = match gradients.remove(place) {
                Some(sum) => self.rule.graph.map(&(Expr::input(0) + Expr::input(1)), &[sum, whole])?,
                None => whole,
            };
            gradients.insert(*place, sum);
        }
        Ok(None)
    }

    /// What a place of the graph has room for.
    fn base(&self, place: Place) -> TensorSpec {
        match place {
            Place::Input(number) => self.bases[0][number],
            Place::Output(number) => self.bases[1][number],
            Place::Temp(number) => self.graph.temps[number],
        }
    }

    /// Where the rule finds what lies at a place of the graph; an intermediate is computed again at its first use.
    fn place(&mut self, place: Place) -> Result<Place> {
        let temp = match place {
            Place::Input(_) => return Ok(place),
            Place::Output(number) => return Ok(self.rule.output(number)?.place),
            Place::Temp(number) => number,
        };
        if let Some(&again) = self.again.get(&temp) {
            return Ok(again);
        }
        let graph = self.graph;
        // Written before it is read: `Graph::check`. Where several steps write it, all do again, in order.
        for step in graph.steps.iter().filter(|step| step.outputs.contains(&place)) {
            let inputs = step.inputs.iter().map(|&input| self.place(input)).collect::<Result<Vec<_>>>()?;
            let mut outputs = Vec::new();
            for output in &step.outputs {
                let known = if let Place::Temp(number) = output { self.again.get(number).copied() } else { None };
                let spec = self.base(*output);
                let at = known.unwrap_or_else(|| self.rule.graph.temp(spec));
                if let Place::Temp(number) = output {
                    self.again.insert(*number, at);
                }
                outputs.push(at);
            }
            self.rule.graph.push(step.op.clone(), inputs, outputs);
        }
        Ok(self.again.get(&temp).copied().unwrap_or(place))
    }
}

/// A gradient of a view of `base`, laid back into the shape of `base`: summed where the view repeats, zero where it does not reach. `None`
/// where `base` is a view itself and the other is none of its axes in another order.
fn into_base(graph: &mut Builder, base: &TensorSpec, view: &TensorSpec, gradient: Value) -> Result<Option<Value>> {
    if view.layout == base.layout {
        return Ok(Some(gradient));
    }
    if !base.layout.is_contiguous() {
        // A view with its axes in another order, as products read their factors: the order is undone.
        let Some(order) = order_of(&base.layout, &view.layout) else { return Ok(None) };
        return Ok(Some(gradient.viewed(gradient.spec.layout.permute(&order)?)));
    }
    let WayBack { summed, rest } = WayBack::new(&base.layout, &view.layout)?;
    let gradient = graph.reduce(ReduceFn::Sum, gradient, &summed, KeepDims::Yes)?;
    let shape = *base.layout.shape();
    match rest {
        Rest::Whole(order) => {
            let ordered = gradient.viewed(gradient.spec.layout.permute(&order)?);
            Ok(Some(graph.contiguous(ordered)?.reshape(shape)?))
        }
        Rest::Part(layout) => graph.laid(gradient, TensorSpec::new(base.dtype, layout), shape).map(Some),
    }
}

/// For each axis of `base` the one of `view` that it is, if these are its axes in another order.
fn order_of(base: &Layout, view: &Layout) -> Option<Vec<usize>> {
    if base.offset() != view.offset() || base.rank() != view.rank() {
        return None;
    }
    let mut order: Vec<usize> = Vec::new();
    for (dim, stride) in base.dims().iter().zip(base.strides()) {
        let is_it =
            |&axis: &usize| !order.contains(&axis) && (&view.dims()[axis], &view.strides()[axis]) == (dim, stride);
        let found = (0..view.rank()).find(is_it)?;
        order.push(found);
    }
    Some(order)
}
