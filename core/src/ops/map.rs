//! Elementwise expressions: out[i] = program(in0[i], in1[i], ...).
//!
//! Unary and binary functions, comparisons, where, clamp, cast, fill and arange are all this one op with short
//! programs, so each backend has one elementwise kernel (generator) and fusion comes for free. Inputs are broadcast to
//! the output's shape before the op exists: their layouts carry stride 0.
//!
//! A program may have several results, and results may be updates: the operand is read, and the result takes its place. So an
//! optimiser's step is one pass over parameters, gradients and moments.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;
use super::random::random_word;
use crate::oracle::Span;
use crate::{Program, Step};

/// An elementwise expression, or several, over broadcast inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// What the caller asked for (`add`, `cast`, `expr`): for errors and names.
    pub label: &'static str,
    /// The computation of one element.
    pub program: Program,
    /// Inputs; each layout has the output's shape.
    pub inputs: Vec<TensorSpec>,
    /// Dense first output; its dtype is that of the program's first result.
    pub output: TensorSpec,
    /// The outputs after it: dense, of its shape and of their result's dtype.
    pub others: Vec<TensorSpec>,
    /// The number of outputs that are updated: the first ones. The program reads what they hold as inputs after [`Map::inputs`].
    pub updates: usize,
}

impl Map {
    /// A checked elementwise op of one result.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when an input has not the output's shape, [`Error::DTypeMismatch`] when the output
    /// is not of the program's dtype, [`Error::InvalidArgument`] for an output that is not dense and aligned, and for a program of
    /// other inputs or several results.
    pub fn new(label: &'static str, program: Program, inputs: Vec<TensorSpec>, output: TensorSpec) -> Result<Map> {
        Map { label, program, inputs, output, others: Vec::new(), updates: 0 }.check()
    }

    /// A checked elementwise op of several outputs. It updates the first `updates` of them and writes the others.
    ///
    /// # Errors
    /// As [`Map::new`]; [`Error::InvalidArgument`] for more updates than outputs and for outputs that the program has no results for.
    pub fn several(
        label: &'static str,
        program: Program,
        inputs: Vec<TensorSpec>,
        outputs: &[TensorSpec],
        updates: usize,
    ) -> Result<Map> {
        let Some((&output, others)) = outputs.split_first() else {
            return Err(Error::InvalidArgument { what: "outputs", reason: format!("{label} has none") });
        };
        Map { label, program, inputs, output, others: others.to_vec(), updates }.check()
    }

    fn check(self) -> Result<Map> {
        let label = self.label;
        for spec in self.inputs.iter().chain(&self.others) {
            if spec.layout.shape() != self.output.layout.shape() {
                return Err(Error::shape_mismatch(label, spec.layout.shape(), self.output.layout.shape(), None));
            }
        }
        let (outputs, results) = (1 + self.others.len(), self.program.result_count());
        if outputs != results || self.updates > outputs {
            let reason =
                format!("{label} has {outputs} outputs, {} of them updated, for {results} results", self.updates);
            return Err(Error::InvalidArgument { what: "outputs", reason });
        }
        for (number, output) in self.results().enumerate() {
            let expected = self.program.result_dtype(number);
            if expected != output.dtype {
                return Err(Error::DTypeMismatch { op: label, expected, got: output.dtype });
            }
            check_dense_output(label, output)?;
        }
        // The compiler of programs knows dtypes, not operands.
        for &(step, dtype) in self.program.steps() {
            if let Step::Input(number) = step {
                match self.operand(usize::from(number)) {
                    Some(spec) if spec.dtype == dtype => {}
                    Some(spec) => return Err(Error::DTypeMismatch { op: label, expected: dtype, got: spec.dtype }),
                    None => {
                        let reason =
                            format!("{label} reads input {number}, and has {}", self.inputs.len() + self.updates);
                        return Err(Error::InvalidArgument { what: "inputs", reason });
                    }
                }
            }
        }
        Ok(self)
    }

    /// The outputs in order.
    pub fn results(&self) -> impl Iterator<Item = &TensorSpec> {
        [&self.output].into_iter().chain(&self.others)
    }

    /// What the program reads as input `number`: an input, or an output that is updated.
    fn operand(&self, number: usize) -> Option<&TensorSpec> {
        match number.checked_sub(self.inputs.len()) {
            None => self.inputs.get(number),
            Some(updated) => self.results().take(self.updates).nth(updated),
        }
    }

    /// The same with each operand replaced by what `replace` makes of it; outputs by what `output` makes of their number and
    /// them.
    fn with_operands(
        &self,
        replace: impl Fn(&TensorSpec) -> Option<TensorSpec>,
        output: impl Fn(usize, &TensorSpec) -> Option<TensorSpec>,
    ) -> Option<Map> {
        let inputs = self.inputs.iter().map(replace).collect::<Option<_>>()?;
        let others = self.others.iter().enumerate().map(|(at, other)| output(1 + at, other)).collect::<Option<_>>()?;
        Some(Map { inputs, output: output(0, &self.output)?, others, ..self.clone() })
    }

    /// What is exactly a number of `dtype` stays as it is: an infinite f8e5m2 would become the largest number.
    fn rounded(&self, x: Span, is_rounded: bool, dtype: DType) -> Span {
        if is_rounded && dtype.is_narrow_float() && x.is_exact() { x } else { x.round_to(dtype) }
    }

    /// What each step gives for element `i`, and in `results` what is stored of it.
    fn evaluate(&self, i: usize, held: &[HostTensor], values: &mut Vec<Span>, results: &mut Vec<Span>) {
        let steps = self.program.steps();
        values.clear();
        results.clear();
        results.resize(self.program.result_count(), Span::exact(Scalar::F(0.0)));
        // A single step on numbers as they are read is held to its value, though a device might flush them.
        let is_fused = steps.iter().filter(|(step, _)| is_computed(*step)).count() > 1;
        for (id, &(step, dtype)) in steps.iter().enumerate() {
            let at = |id: u16| values[usize::from(id)];
            let value = match step {
                Step::Input(n) => Span::exact(held[usize::from(n)].values[i]),
                Step::Constant(n) => Span::exact(self.program.constants()[usize::from(n)]),
                Step::Index => Span::exact(Scalar::I(i as i64).cast(dtype.compute())),
                Step::Unary(f, x) => at(x).unary(f, dtype),
                Step::Binary(f, a, b) => at(a).binary(f, at(b), dtype),
                Step::Compare(f, a, b) => at(a).compare(f, at(b)),
                Step::Select(c, yes, no) => at(c).select(at(yes), at(no)),
                Step::Random(key) => Span::of_words(key.map(at), |key| random_word(key, i as u64)),
                Step::Cast(x) => match steps[usize::from(x)] {
                    (Step::Input(_) | Step::Constant(_) | Step::Cast(_), _) if self.program.is_rounded(x) => {
                        at(x).cast(dtype)
                    }
                    (_, from) => self.rounded(at(x), self.program.is_rounded(x), from).cast(dtype),
                },
            };
            for (number, result) in results.iter_mut().enumerate() {
                if usize::from(self.program.result(number)) == id {
                    *result = self.rounded(value, self.program.is_rounded(id as u16), dtype);
                }
            }
            values.push(if is_fused { value.flushable(dtype.compute()) } else { value });
        }
    }
}

impl Operation for Map {
    fn name(&self) -> &'static str {
        self.label
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.inputs.iter().for_each(|&input| each(Operand::read(input)));
        for (number, &output) in self.results().enumerate() {
            each(if number < self.updates { Operand::update(output) } else { Operand::write(output) });
        }
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// One operation per arithmetic step and element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.program.operations().saturating_mul(self.output.layout.elements()))
    }

    /// Every step in float64, with what each may make of the results so far ([`Span`]).
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (mut values, mut results) = (Vec::with_capacity(self.program.steps().len()), Vec::new());
        let elements = self.output.layout.elements() as usize;
        let dtypes: Vec<DType> = self.results().map(|output| output.dtype).collect();
        let mut expected: Vec<Vec<Expected>> = dtypes.iter().map(|_| Vec::with_capacity(elements)).collect();
        for i in 0..elements {
            self.evaluate(i, before, &mut values, &mut results);
            for ((expected, &result), &dtype) in expected.iter_mut().zip(&results).zip(&dtypes) {
                expected.push(result.into_expected(dtype));
            }
        }
        expected
    }

    /// The program's derivative, in one pass ([`Program::derivative`]).
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        if self.updates > 0 {
            return Ok(Gradient::Refused("it updates an operand in place, whose value before is gone"));
        }
        let mut rule = RuleBuilder::new(self, needs)?;
        let wanted: Vec<usize> = (0..self.inputs.len()).filter(|&input| rule.wants(input)).collect();
        let exprs = self.program.derivative(self.inputs.len(), &wanted, needs.outputs)?;
        let results = self.results().count();
        let values = (0..self.inputs.len()).map(|n| rule.input(n)).collect::<Result<Vec<_>>>()?;
        let written = (0..results).map(|n| rule.output(n)).chain((0..results).map(|n| rule.gradient(n)));
        let values = [values, written.collect::<Result<Vec<_>>>()?].concat();
        let known: Vec<Expr> = exprs.iter().flatten().cloned().collect();
        let mut made = rule.graph.map_used(&known, &values)?.into_iter();
        let gradients = exprs.iter().map(|expr| expr.as_ref().and_then(|_| made.next())).collect();
        rule.finish(gradients)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        if !self.others.is_empty() {
            name.push_str(&format!(" results{}", 1 + self.others.len()));
        }
        if self.updates > 0 {
            name.push_str(&format!(" updates{}", self.updates));
        }
    }

    /// The op on the first `extent` indices of the output's `axis` alone; `None` where elements depend on their position, and where
    /// an operand is updated: its parts are no buffers of their own.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if self.updates > 0 || self.program.depends_on_position() {
            return None;
        }
        let piece = self.with_operands(|input| input.first(axis, extent), |_, output| output.dense_first(axis, extent));
        piece.map(Op::from)
    }

    fn with_output(&self, number: usize, output: TensorSpec) -> Option<Op> {
        let mut op = self.clone();
        match number.checked_sub(1) {
            None => op.output = output,
            Some(other) => *op.others.get_mut(other)? = output,
        }
        Some(op.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        // What a position makes depends on the position alone: the first elements are a sample without stride.
        if self.program.depends_on_position() {
            if !self.inputs.is_empty() || self.updates > 0 {
                return Ok(None);
            }
            let positions = self.results().map(sample::first_elements).collect::<Result<Vec<_>>>()?;
            let dense =
                |_, output: &TensorSpec| Some(sample::dense(output.dtype, &sample::first_elements(output).ok()?));
            let part = self.with_operands(|input| Some(*input), dense);
            return Ok(part.map(|part| Sample { op: part.into(), positions }));
        }
        let thinning = Thinning::new(self.output.layout.dims(), |_| true);
        let positions = self.results().map(|output| thinning.of(&output.layout)).collect::<Result<Vec<_>>>()?;
        let thin = |spec: &TensorSpec| thinning.of_spec(spec).ok();
        // What is updated is read where it lies.
        let output = |number, output: &TensorSpec| {
            let thinned = thin(output)?;
            Some(if number < self.updates { thinned } else { sample::dense(output.dtype, &thinned.layout) })
        };
        let part = self.with_operands(thin, output);
        Ok(part.map(|part| Sample { op: part.into(), positions }))
    }
}

/// Whether the step is not a mere operand.
fn is_computed(step: Step) -> bool {
    !matches!(step, Step::Input(_) | Step::Constant(_) | Step::Index)
}

impl Builder {
    /// Elementwise expressions over `values`, which are broadcast to one shape: a result of each.
    ///
    /// # Errors
    /// As [`crate::Tensor::map_all`].
    pub fn map_all(&mut self, exprs: &[Expr], values: &[Value]) -> Result<Vec<Value>> {
        let Some((first, others)) = values.split_first() else {
            return Err(Error::InvalidArgument { what: "graph", reason: "an expression of no value".to_owned() });
        };
        let shape = others.iter().try_fold(*first.spec.layout.shape(), |shape, value| {
            Shape::broadcast("map", &shape, value.spec.layout.shape())
        })?;
        let dtypes: Vec<DType> = values.iter().map(Value::dtype).collect();
        let program = Program::compile_all(exprs, &dtypes)?;
        let values = values.iter().map(|value| value.broadcast_to(shape)).collect::<Result<Vec<_>>>()?;
        let outputs: Vec<TensorSpec> =
            (0..exprs.len()).map(|result| TensorSpec::dense(program.result_dtype(result), shape)).collect();
        let inputs = values.iter().map(|value| value.spec).collect();
        self.apply(Map::several("map", program, inputs, &outputs, 0)?, &values)
    }

    /// [`Builder::map_all`] over those of `values` alone that the expressions read; all are of one shape.
    ///
    /// # Errors
    /// As [`crate::Tensor::map_all`].
    pub fn map_used(&mut self, exprs: &[Expr], values: &[Value]) -> Result<Vec<Value>> {
        let Some(first) = values.first().filter(|_| !exprs.is_empty()) else { return Ok(Vec::new()) };
        let shape = *first.spec.layout.shape();
        let dtypes: Vec<DType> = values.iter().map(Value::dtype).collect();
        let (program, used) = Program::compile_all(exprs, &dtypes)?.compact();
        let used: Vec<Value> = used.into_iter().filter_map(|number| values.get(number).copied()).collect();
        let outputs: Vec<TensorSpec> =
            (0..exprs.len()).map(|result| TensorSpec::dense(program.result_dtype(result), shape)).collect();
        let inputs = used.iter().map(|value| value.spec).collect();
        self.apply(Map::several("map", program, inputs, &outputs, 0)?, &used)
    }

    /// One elementwise expression over `values`, which are broadcast to one shape.
    ///
    /// # Errors
    /// As [`crate::Tensor::map`].
    pub fn map(&mut self, expr: &Expr, values: &[Value]) -> Result<Value> {
        Ok(self.map_all(std::slice::from_ref(expr), values)?.swap_remove(0))
    }

    /// One number everywhere.
    ///
    /// # Errors
    /// As [`crate::Tensor::full`].
    pub fn full(&mut self, dtype: DType, shape: Shape, value: impl Into<Scalar>) -> Result<Value> {
        let program = Program::compile(&Expr::constant(value).cast(dtype), &[])?;
        self.one(Map::new("fill", program, Vec::new(), TensorSpec::dense(dtype, shape))?, &[])
    }

    /// An expression of the position alone, of `dtype`, which is its own.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an expression that reads an input; as [`crate::Tensor::map`].
    pub fn generate(&mut self, expr: &Expr, dtype: DType, shape: Shape) -> Result<Value> {
        let program = Program::compile(expr, &[])?;
        self.one(Map::new("generate", program, Vec::new(), TensorSpec::dense(dtype, shape))?, &[])
    }

    /// Converted to `dtype`.
    ///
    /// # Errors
    /// As [`crate::Tensor::cast`].
    pub fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        if x.dtype() == dtype { Ok(x) } else { self.map(&Expr::input(0).cast(dtype), &[x]) }
    }
}
