//! Writing the rule of an operation's gradient: see [`crate::gradient`].

use super::{Builder, Value};
use crate::gradient::{Gradient, Needs, Rule};
use crate::operation::Operation;
use crate::{Error, Layout, Result, TensorSpec};

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

    /// The rule of `op`, of whose inputs the first alone has a gradient, which `gradient` writes where it is wanted.
    ///
    /// # Errors
    /// As [`RuleBuilder::new`] and [`RuleBuilder::finish`]; those of `gradient`.
    pub fn of_first(
        op: &dyn Operation,
        needs: &Needs<'_>,
        gradient: impl FnOnce(&mut RuleBuilder) -> Result<Value>,
    ) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(op, needs)?;
        let gradients = if rule.wants(0) { vec![Some(gradient(&mut rule)?)] } else { Vec::new() };
        rule.finish(gradients)
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
