//! Writing graphs with the words of tensors.

use crate::graph::{Graph, GraphStep, Place};
use crate::operation::{Op, Operation, Role};
use crate::ops::Copy;
use crate::{DType, Error, IntoShape, Layout, Result, Shape, TensorSpec};

/// A view of a place of a graph under construction. What changes the view alone costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub(crate) place: Place,
    pub(crate) spec: TensorSpec,
}

impl Value {
    /// Dtype and layout.
    pub fn spec(&self) -> TensorSpec {
        self.spec
    }

    /// The extents.
    pub fn dims(&self) -> &[u64] {
        self.spec.layout.dims()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    pub(crate) fn viewed(&self, layout: Layout) -> Value {
        Value { spec: TensorSpec { layout, ..self.spec }, ..*self }
    }

    /// Repeated to a larger shape.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when it does not broadcast to it.
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Value> {
        Ok(self.viewed(self.spec.layout.broadcast_to(shape.into_shape()?)?))
    }

    /// With two axes exchanged.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn transpose(&self, a: usize, b: usize) -> Result<Value> {
        Ok(self.viewed(self.spec.layout.transpose(a, b)?))
    }

    /// The last two axes exchanged.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] below rank 2.
    pub fn t(&self) -> Result<Value> {
        let rank = self.dims().len();
        self.transpose(rank.wrapping_sub(2), rank.wrapping_sub(1))
    }

    /// In another shape of as many elements.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for another number of elements; [`Error::InvalidArgument`] where only a copy could have that shape.
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Value> {
        let shape = shape.into_shape()?;
        let layout = self.spec.layout.reshape(shape)?;
        let reason =
            || format!("{:?} has no view of shape {:?}; make it contiguous first", self.spec.layout, shape.dims());
        layout
            .map(|layout| self.viewed(layout))
            .ok_or_else(|| Error::InvalidArgument { what: "reshape", reason: reason() })
    }

    /// The indices `start..end` of `axis`.
    ///
    /// # Errors
    /// As [`Layout::slice`].
    pub fn slice(&self, axis: usize, start: u64, end: u64) -> Result<Value> {
        Ok(self.viewed(self.spec.layout.slice(axis, start, end, 1)?))
    }

    /// What was reduced over `axes`, with these axes back as extents of 1.
    pub(crate) fn with_ones(&self, axes: &[usize]) -> Result<Value> {
        let mut dims: Vec<u64> = self.dims().to_vec();
        for &axis in axes {
            dims.insert(axis, 1);
        }
        self.reshape(Shape::new(&dims)?)
    }
}

/// A graph under construction: each method adds a step and gives its result.
#[derive(Debug)]
pub struct Builder {
    inputs: Vec<TensorSpec>,
    graph: Graph,
}

impl Builder {
    /// A graph over these inputs.
    pub fn new(inputs: Vec<TensorSpec>) -> Builder {
        Builder { inputs, graph: Graph::default() }
    }

    /// The graph of `op`, which is what [`Operation::decompose`] gives: `results` writes the values of its outputs from those of its inputs, each
    /// as many elements in any shape.
    ///
    /// # Errors
    /// As [`Builder::finish`]; [`Error::InvalidArgument`] for another number of inputs; those of `results`.
    pub fn whole<const INPUTS: usize, const OUTPUTS: usize>(
        op: &dyn Operation,
        results: impl FnOnce(&mut Builder, [Value; INPUTS]) -> Result<[Value; OUTPUTS]>,
    ) -> Result<Option<Graph>> {
        let mut graph = Builder::new(op.inputs());
        let inputs: Vec<Value> = (0..graph.inputs.len()).map(|number| graph.input(number)).collect::<Result<_>>()?;
        let reason = |inputs: Vec<Value>| format!("{} has {} inputs, not {INPUTS}", op.name(), inputs.len());
        let invalid = |inputs| Error::InvalidArgument { what: "graph", reason: reason(inputs) };
        let results = results(&mut graph, inputs.try_into().map_err(invalid)?)?;
        let outputs: Vec<TensorSpec> = op.outputs().iter().map(|output| output.spec).collect();
        let shaped = results.iter().zip(&outputs).map(|(value, output)| value.reshape(*output.layout.shape()));
        let shaped = shaped.collect::<Result<Vec<Value>>>()?;
        Ok(Some(graph.finish(op.name(), &shaped, &outputs)?))
    }

    /// Input number `number`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are fewer.
    pub fn input(&self, number: usize) -> Result<Value> {
        let spec = self.inputs.get(number).copied();
        let reason = || format!("input {number} of {}", self.inputs.len());
        let spec = spec.ok_or_else(|| Error::InvalidArgument { what: "graph", reason: reason() })?;
        Ok(Value { place: Place::Input(number), spec })
    }

    /// Adds `op` on `inputs`; a value for each operand that it writes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for values that are not the op's inputs, and for an op that updates an operand.
    pub fn apply(&mut self, op: impl Into<Op>, inputs: &[Value]) -> Result<Vec<Value>> {
        let op = op.into();
        let specs = op.inputs();
        let is_given = specs.len() == inputs.len() && specs.iter().zip(inputs).all(|(spec, value)| *spec == value.spec);
        if !is_given || op.updates() {
            let given: Vec<TensorSpec> = inputs.iter().map(|value| value.spec).collect();
            let reason = format!("{} reads {specs:?} and updates nothing, not {given:?}", op.name());
            return Err(Error::InvalidArgument { what: "graph", reason });
        }
        let mut results = Vec::new();
        for output in op.outputs() {
            debug_assert!(output.role == Role::Write);
            results.push(Value { place: Place::Temp(self.graph.temps.len()), spec: output.spec });
            self.graph.temps.push(output.spec);
        }
        let outputs = results.iter().map(|value| value.place).collect();
        self.graph.steps.push(GraphStep { op, inputs: inputs.iter().map(|value| value.place).collect(), outputs });
        Ok(results)
    }

    /// Room for a temporary that [`Builder::push`] writes.
    pub(super) fn temp(&mut self, spec: TensorSpec) -> Place {
        self.graph.temps.push(spec);
        Place::Temp(self.graph.temps.len() - 1)
    }

    /// A step as it is.
    pub(super) fn push(&mut self, op: Op, inputs: Vec<Place>, outputs: Vec<Place>) {
        self.graph.steps.push(GraphStep { op, inputs, outputs });
    }

    /// The steps of `graph`, whose inputs lie at `inputs`; those it does not read need no place. A value for each of its `outputs`.
    pub(super) fn inline(&mut self, graph: &Graph, inputs: &[Option<Place>], outputs: &[TensorSpec]) -> Vec<Value> {
        let results: Vec<Value> = outputs.iter().map(|&spec| Value { place: self.temp(spec), spec }).collect();
        let temps: Vec<Place> = graph.temps.iter().map(|&spec| self.temp(spec)).collect();
        let at = |place: &Place| match *place {
            Place::Input(number) => inputs.get(number).copied().flatten().unwrap_or(*place),
            Place::Output(number) => results[number].place,
            Place::Temp(number) => temps[number],
        };
        for step in &graph.steps {
            let [read, written] = [&step.inputs, &step.outputs].map(|places| places.iter().map(at).collect());
            self.graph.steps.push(GraphStep { op: step.op.clone(), inputs: read, outputs: written });
        }
        results
    }

    /// The first result of `op` on `inputs`.
    pub(crate) fn one(&mut self, op: impl Into<Op>, inputs: &[Value]) -> Result<Value> {
        let first = self.apply(op, inputs)?.into_iter().next();
        first.ok_or_else(|| Error::InvalidArgument { what: "graph", reason: "a step without a result".to_owned() })
    }

    /// Zeros of `shape`, with `x` where the view `place` of them is.
    ///
    /// # Errors
    /// As [`Copy::new`].
    pub(crate) fn laid(&mut self, x: Value, place: TensorSpec, shape: Shape) -> Result<Value> {
        let zeros = self.full(place.dtype, shape, 0)?;
        self.lay(x, zeros, place)?;
        Ok(zeros)
    }

    /// Room for `spec`, for [`Builder::lay`] to fill.
    pub(crate) fn place(&mut self, spec: TensorSpec) -> Value {
        Value { place: self.temp(spec), spec }
    }

    /// Adds `op`, whose one result is written where its view lies in `whole`.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub(crate) fn write(&mut self, op: impl Into<Op>, inputs: &[Value], whole: Value) -> Result<()> {
        let made = self.graph.temps.len();
        self.apply(op, inputs)?;
        self.graph.temps.truncate(made);
        if let Some(step) = self.graph.steps.last_mut() {
            step.outputs = vec![whole.place];
        }
        Ok(())
    }

    /// Puts `x` where the view `place` of `whole` is.
    ///
    /// # Errors
    /// As [`Copy::new`].
    pub(crate) fn lay(&mut self, x: Value, whole: Value, place: TensorSpec) -> Result<()> {
        self.push(Op::from(Copy::new(x.spec, place)?), vec![x.place], vec![whole.place]);
        Ok(())
    }

    /// The same elements, dense.
    ///
    /// # Errors
    /// As [`Copy::new`].
    pub fn contiguous(&mut self, x: Value) -> Result<Value> {
        if x.spec.layout.is_contiguous() {
            return Ok(x);
        }
        self.one(Copy::new(x.spec, TensorSpec::dense(x.dtype(), *x.spec.layout.shape()))?, &[x])
    }

    /// The graph whose outputs, laid out as `outputs` say, hold `results`.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] and [`Error::DTypeMismatch`] for results of another shape or dtype, [`Error::InvalidArgument`] for another
    /// number of them; what [`Graph::check`] refuses.
    pub fn finish(mut self, name: &'static str, results: &[Value], outputs: &[TensorSpec]) -> Result<Graph> {
        if results.len() != outputs.len() {
            let reason = format!("{name} has {} results for {} outputs", results.len(), outputs.len());
            return Err(Error::InvalidArgument { what: "graph", reason });
        }
        for (number, (result, output)) in results.iter().zip(outputs).enumerate() {
            if result.dtype() != output.dtype {
                return Err(Error::DTypeMismatch { op: name, expected: output.dtype, got: result.dtype() });
            }
            if result.spec.layout.shape() != output.layout.shape() {
                return Err(Error::shape_mismatch(name, output.layout.shape(), result.spec.layout.shape(), None));
            }
            let others =
                results.iter().enumerate().filter(|&(other, value)| other != number && value.place == result.place);
            if others.count() > 0 || !self.redirect(result, number, *output) {
                let op = Copy::new(result.spec, *output)?.into();
                let step = GraphStep { op, inputs: vec![result.place], outputs: vec![Place::Output(number)] };
                self.graph.steps.push(step);
            }
        }
        let operands: Vec<_> = outputs.iter().map(|&spec| crate::operation::Operand::write(spec)).collect();
        self.graph.check(name, &self.inputs, &operands)?;
        Ok(self.graph)
    }

    /// Has the steps that make all of `result` write output `number` instead. Where others read it, or several make it, they do so there:
    /// that takes an output that begins its buffer, as the temporary did.
    fn redirect(&mut self, result: &Value, number: usize, output: TensorSpec) -> bool {
        let Place::Temp(temp) = result.place else { return false };
        let is_whole = self.graph.temps[temp].layout.elements() == output.layout.elements()
            && result.spec.layout.is_contiguous()
            && result.spec.layout.offset() == 0;
        if !is_whole {
            return false;
        }
        let writers = self.graph.steps.iter().filter(|step| step.outputs.contains(&result.place)).count();
        if writers > 1 || self.graph.reads(result.place) {
            let is_same = output.layout.is_contiguous() && output.layout.offset() == 0;
            if is_same {
                let all = self.graph.steps.iter_mut().flat_map(|step| step.inputs.iter_mut().chain(&mut step.outputs));
                all.filter(|place| **place == result.place).for_each(|place| *place = Place::Output(number));
            }
            return is_same;
        }
        let Some(step) = self.graph.steps.iter_mut().find(|step| step.outputs.contains(&result.place)) else {
            return false;
        };
        let Some(at) = step.outputs.iter().position(|place| *place == result.place) else { return false };
        // The step has its own shape of the same elements.
        let shape = *self.graph.temps[temp].layout.shape();
        let layout = Layout::contiguous(shape).with_offset(output.layout.offset());
        let Some(moved) =
            step.op.with_output(at, TensorSpec { layout, ..output }).filter(|_| output.layout.is_contiguous())
        else {
            return false;
        };
        step.op = moved;
        step.outputs[at] = Place::Output(number);
        true
    }
}
