//! The backward pass of an operation as benchmarks time it: its rule for every input of floats, given the gradient of its first output.
//!
//! What a sample holds is the gradients that lie row by row. Gradients that are sums over rows take all of them, for which there is no time beside
//! a benchmark: the conformance of the rule's steps holds them. The decision to know: the rule's own oracle carries no bounds, so a sample is
//! held to the largest gradient, times what a long sum errs by.

use crate::gradient::{Gradient, Needs};
use crate::graph::Graph;
use crate::operation::{Arithmetic, Content, Op, Operand, Operation, Sample};
use crate::ops::GraphOp;
use crate::oracle::{Expected, HostTensor};
use crate::{Error, Layout, Result, Shape, TensorSpec};

/// Errors allowed of the largest gradient, in units of the roundoff that sums have.
const ROUNDOFFS: f64 = 256.0;

/// The rule of `of`, as one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backward {
    of: Op,
    rule: GraphOp,
    /// Which inputs, outputs and gradients of outputs the rule reads, counted in that order.
    used: Vec<usize>,
    /// How they lie, where they are rows of larger ones.
    rows: Option<Vec<TensorSpec>>,
}

impl Backward {
    /// The backward pass of `of`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an operation without a rule.
    pub(crate) fn new(of: impl Into<Op>) -> Result<Backward> {
        let of = of.into();
        let inputs: Vec<bool> = of.inputs().iter().map(|input| input.dtype.is_float()).collect();
        let outputs: Vec<bool> = (0..of.outputs().len()).map(|number| number == 0).collect();
        match of.gradient(&Needs { inputs: &inputs, outputs: &outputs })? {
            Gradient::Rule(rule) => {
                let (rule, used) = GraphOp::new("gradient", rule.graph, rule.inputs, rule.outputs);
                Ok(Backward { of, rule, used, rows: None })
            }
            Gradient::Refused(why) => Err(Error::InvalidArgument { what: "operation", reason: why.to_owned() }),
        }
    }
}

impl Operation for Backward {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        match &self.rows {
            Some(rows) => rows.iter().map(|&spec| Operand::read(spec)).chain(self.rule.outputs()).for_each(each),
            None => self.rule.operands(each),
        }
    }

    fn validate(&self) -> Result<()> {
        self.rule.validate()
    }

    fn arithmetic(&self) -> Arithmetic {
        self.rule.arithmetic()
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let mut results = self.rule.oracle(before);
        for (result, output) in results.iter_mut().zip(self.rule.outputs()) {
            let dtype = output.spec.dtype;
            let sizes = result.iter().map(|expected| expected.value.as_f64().abs());
            let error = ROUNDOFFS * dtype.compute().unit_roundoff() * sizes.fold(0.0, f64::max);
            for expected in result {
                *expected = Expected::within(expected.value, error).round_to(dtype);
            }
        }
        results
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        self.rule.gradient(needs)
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        self.rule.decompose()
    }

    fn content(&self, input: usize) -> Content {
        let (inputs, outputs) = (self.of.inputs().len(), self.of.outputs().len());
        match self.used.get(input) {
            // What stands beside the first result is positive where it is a variance, a deviation, a norm; means may be.
            Some(&number) if (inputs + 1..inputs + outputs).contains(&number) => Content::Scales,
            Some(&number) => self.of.content(number),
            None => Content::Any,
        }
    }

    /// The rows that a sample of the operation has.
    fn sample(&self) -> Result<Option<Sample>> {
        let Some(Sample { op, positions: of_outputs }) = self.of.sample()? else { return Ok(None) };
        let (mut sample, inputs) = (Backward::new(op)?, self.of.inputs());
        let (sampled, outputs) = (sample.of.inputs(), self.of.outputs());
        let views = sample.used.iter().map(|&number| match sampled.get(number) {
            Some(input) => *input,
            None => {
                let number = (number - sampled.len()) % outputs.len();
                TensorSpec::new(outputs[number].spec.dtype, of_outputs[number])
            }
        });
        let views = views.collect();
        let is_thinned = sampled != inputs;
        let none = Layout::contiguous(Shape::new(&[0])?);
        let floats = sampled.iter().zip(&inputs).filter(|(input, _)| input.dtype.is_float());
        let positions = floats.map(|(input, whole)| match is_thinned && input.layout == whole.layout {
            true => none,
            false => input.layout,
        });
        let positions = positions.collect();
        sample.rows = Some(views);
        Ok(Some(Sample { op: sample.into(), positions }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::LayoutKind;
    use crate::ops::{CrossEntropy, LayerNorm};
    use crate::{DType, Scalar};

    fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
        LayoutKind::Dense.spec(dtype, dims).unwrap()
    }

    /// Small different numbers, as the operand of all rows has them.
    fn host(spec: &TensorSpec, number: usize) -> HostTensor {
        let value = |i: u64| {
            let at = spec.layout.index_of(i);
            match spec.dtype {
                DType::I32 => Scalar::I((at % 7) as i64),
                _ => Scalar::F(((at * 7 + number as u64 * 5) % 11) as f64 / 4.0 - 1.0),
            }
        };
        let values = (0..spec.layout.elements()).map(value).collect();
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    }

    /// A sample's gradients are those that the whole has there.
    #[test]
    fn sample_of_a_backward_pass_is_part_of_the_whole() {
        let row = dense(DType::F32, &[8]);
        let norm = LayerNorm::new(dense(DType::F32, &[5000, 8]), row, row, 1e-5).unwrap();
        let entropy =
            CrossEntropy::new(dense(DType::F32, &[5000, 8]), dense(DType::I32, &[5000]), None, 0.0, Some(-1)).unwrap();
        for (op, sums) in [(Op::from(norm), 2), (Op::from(entropy), 0)] {
            let whole = Backward::new(op).unwrap();
            let hosts = |op: &dyn Operation| op.inputs().iter().enumerate().map(|(n, spec)| host(spec, n)).collect();
            let hosts: [Vec<HostTensor>; 2] = {
                let Sample { op, .. } = whole.sample().unwrap().unwrap();
                [hosts(&whole), op.held().iter().enumerate().map(|(n, spec)| host(spec, n)).collect()]
            };
            let Sample { op: sample, positions } = whole.sample().unwrap().unwrap();
            let (all, some) = (whole.oracle(&hosts[0]), sample.oracle(&hosts[1]));
            assert_eq!(positions.iter().filter(|positions| positions.elements() == 0).count(), sums);
            assert!(positions[0].elements() > 1000 && positions[0].elements() < 40_000);
            for i in 0..positions[0].elements() {
                let want = all[0][positions[0].index_of(i) as usize].value;
                assert_eq!(some[0][i as usize].value, want, "{} {i}", whole.of.name());
            }
            assert!(some[0].iter().all(|expected| expected.error.is_finite() && expected.error < 0.01));
        }
    }
}
