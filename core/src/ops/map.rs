//! Elementwise expressions: out[i] = program(in0[i], in1[i], ...).
//!
//! Unary and binary functions, comparisons, where, clamp, cast, fill and arange are all this one op with short
//! programs, so each backend has one elementwise kernel (generator) and fusion comes for free. Inputs are broadcast to
//! the output's shape before the op exists: their layouts carry stride 0.

use super::sample::{self, Thinning};
use super::{Arithmetic, Op, Operand, Operation, Sample, TensorSpec, check_dense_output};
use crate::oracle::{Expected, HostTensor, Span};
use crate::{DType, Error, Layout, Program, Result, Scalar, Step};
#[cfg(feature = "cpu")]
use crate::{cpu, operation::HostResult};

/// An elementwise expression over broadcast inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// What the caller asked for (`add`, `cast`, `expr`): for errors and names.
    pub label: &'static str,
    /// The computation of one element.
    pub program: Program,
    /// Inputs; each layout has the output's shape.
    pub inputs: Vec<TensorSpec>,
    /// Dense output; its dtype is the program's.
    pub output: TensorSpec,
}

impl Map {
    /// A checked elementwise op.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when an input has not the output's shape, [`Error::DTypeMismatch`] when the output
    /// is not of the program's dtype, [`Error::InvalidArgument`] for an output that is not dense and aligned.
    pub fn new(label: &'static str, program: Program, inputs: Vec<TensorSpec>, output: TensorSpec) -> Result<Map> {
        for input in &inputs {
            if input.layout.shape() != output.layout.shape() {
                return Err(Error::shape_mismatch(label, input.layout.shape(), output.layout.shape(), None));
            }
        }
        if program.dtype() != output.dtype {
            return Err(Error::DTypeMismatch { op: label, expected: program.dtype(), got: output.dtype });
        }
        check_dense_output(label, &output)?;
        Ok(Map { label, program, inputs, output })
    }

    /// What is exactly a number of `dtype` stays as it is: an infinite f8e5m2 would become the largest number.
    fn rounded(&self, x: Span, is_rounded: bool, dtype: DType) -> Span {
        if is_rounded && dtype.is_narrow_float() && x.is_exact() { x } else { x.round_to(dtype) }
    }

    fn evaluate(&self, i: usize, inputs: &[HostTensor], values: &mut Vec<Span>) -> Span {
        let steps = self.program.steps();
        values.clear();
        // A single step on numbers as they are read is held to its value, though a device might flush them.
        let is_fused = steps.iter().filter(|(step, _)| is_computed(*step)).count() > 1;
        for (id, &(step, dtype)) in steps.iter().enumerate() {
            let at = |id: u16| values[usize::from(id)];
            let value = match step {
                Step::Input(n) => Span::exact(inputs[usize::from(n)].values[i]),
                Step::Constant(n) => Span::exact(self.program.constants()[usize::from(n)]),
                Step::Index => Span::exact(Scalar::I(i as i64).cast(dtype.compute())),
                Step::Unary(f, x) => at(x).unary(f, dtype),
                Step::Binary(f, a, b) => at(a).binary(f, at(b), dtype),
                Step::Compare(f, a, b) => at(a).compare(f, at(b)),
                Step::Select(c, yes, no) => at(c).select(at(yes), at(no)),
                Step::Cast(x) => match steps[usize::from(x)] {
                    (Step::Input(_) | Step::Constant(_) | Step::Cast(_), _) if self.program.is_rounded(x) => {
                        at(x).cast(dtype)
                    }
                    (_, from) => self.rounded(at(x), self.program.is_rounded(x), from).cast(dtype),
                },
            };
            let intermediate = is_fused && id + 1 < steps.len();
            values.push(if intermediate { value.flushable(dtype.compute()) } else { value });
        }
        values.last().copied().unwrap_or(Span::exact(Scalar::F(0.0)))
    }
}

impl Operation for Map {
    fn name(&self) -> &'static str {
        self.label
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.inputs.iter().for_each(|&input| each(Operand::read(input)));
        each(Operand::write(self.output));
    }

    fn validate(&self) -> Result<()> {
        Map::new(self.label, self.program.clone(), self.inputs.clone(), self.output).map(drop)
    }

    /// One operation per arithmetic step and element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.program.operations().saturating_mul(self.output.layout.elements()))
    }

    /// Every step in float64, with what each may make of the results so far ([`Span`]).
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let mut values = Vec::with_capacity(self.program.steps().len());
        let dtype = self.output.dtype;
        let mut element = |i| {
            let value = self.evaluate(i, inputs, &mut values);
            self.rounded(value, self.program.is_result_rounded(), dtype).into_expected(dtype)
        };
        vec![(0..self.output.layout.elements() as usize).map(&mut element).collect()]
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], output: &mut [u8]) -> HostResult {
        cpu::exec::map::execute(self, inputs, output);
        Ok(())
    }

    /// The op on the first `extent` indices of the output's `axis` alone; `None` where elements depend on their position.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if self.program.steps().iter().any(|(step, _)| *step == Step::Index) {
            return None;
        }
        let inputs = self.inputs.iter().map(|input| input.first(axis, extent)).collect::<Option<_>>()?;
        Some(Map { inputs, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    fn with_output(&self, output: TensorSpec) -> Option<Op> {
        Some(Map { output, ..self.clone() }.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let output = |positions: &Layout| sample::dense(self.output.dtype, positions);
        // What a position makes depends on the position alone: the first elements are a sample without stride.
        if self.program.steps().iter().any(|(step, _)| matches!(step, Step::Index)) {
            let positions = sample::first_elements(&self.output)?;
            let op = Map::new(self.label, self.program.clone(), Vec::new(), output(&positions))?.into();
            return Ok(Some(Sample { op, positions }));
        }
        let thinning = Thinning::new(self.output.layout.dims(), |_| true);
        let positions = thinning.of(&self.output.layout)?;
        let inputs = self.inputs.iter().map(|input| thinning.of_spec(input)).collect::<Result<Vec<_>>>()?;
        let op = Map::new(self.label, self.program.clone(), inputs, output(&positions))?.into();
        Ok(Some(Sample { op, positions }))
    }
}

/// Whether the step is not a mere operand.
fn is_computed(step: Step) -> bool {
    !matches!(step, Step::Input(_) | Step::Constant(_) | Step::Index)
}
