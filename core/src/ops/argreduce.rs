//! argmax and argmin over any axes: the row-major position, within the reduced axes, of the winning element.
//!
//! The result is u32. Ties go to the lowest position; the first NaN wins over everything; +0 and -0 are equal.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};

use super::prelude::*;
use super::reduce::streamed;

/// Which element wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgReduceFn {
    /// The largest.
    ArgMax,
    /// The smallest.
    ArgMin,
}

impl ArgReduceFn {
    /// Both of them.
    pub const ALL: [ArgReduceFn; 2] = [ArgReduceFn::ArgMax, ArgReduceFn::ArgMin];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ArgReduceFn::ArgMax => "argmax",
            ArgReduceFn::ArgMin => "argmin",
        }
    }
}

/// Position of the extremum of `input` over `axes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArgReduce {
    /// Which element wins.
    pub function: ArgReduceFn,
    /// What is read.
    pub input: TensorSpec,
    /// The axes that disappear, ascending; positions count through them row-major.
    pub axes: Vec<usize>,
    /// Dense u32 output of the remaining axes.
    pub output: TensorSpec,
}

impl ArgReduce {
    /// A checked argmax or argmin; over no axes every position is 0.
    ///
    /// # Errors
    /// As [`super::Reduce::new`], and [`Error::IndexWidth`] when positions do not fit u32. Bool has no order
    /// ([`Error::UndefinedForDType`]): cast to u8 for the first true or false one.
    pub fn new(function: ArgReduceFn, input: TensorSpec, axes: &[usize], output: TensorSpec) -> Result<ArgReduce> {
        let axes = input.layout.shape().reduction_axes(axes)?;
        ArgReduce::over(function, input, axes, output)
    }

    /// The same over axes that ascend without repetition.
    fn over(function: ArgReduceFn, input: TensorSpec, axes: Vec<usize>, output: TensorSpec) -> Result<ArgReduce> {
        let op = function.name();
        if input.dtype == DType::Bool {
            return Err(Error::UndefinedForDType { op, dtype: input.dtype });
        }
        check_not_empty(op, &input, &axes)?;
        let count = extent_of(&input, &axes);
        if count > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op, elements: count, max: u32::MAX.into() });
        }
        check_output(op, &output, DType::U32, &input.layout.shape().without_axes(&axes, KeepDims::No))?;
        Ok(ArgReduce { function, input, axes, output })
    }

    /// Elements compared for each result.
    pub fn count(&self) -> u64 {
        extent_of(&self.input, &self.axes)
    }
}

impl Operation for ArgReduce {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        ArgReduce::over(self.function, self.input, self.axes.clone(), self.output).map(drop)
    }

    /// One comparison per element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements())
    }

    /// A linear search that keeps the first winner, exactly.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let wins = |x: Scalar, best: Scalar| match self.function {
            _ if x.is_nan() || best.is_nan() => x.is_nan() && !best.is_nan(),
            ArgReduceFn::ArgMax => CompareFn::Gt.eval(x, best),
            ArgReduceFn::ArgMin => CompareFn::Lt.eval(x, best),
        };
        let winner = |group: &Vec<Scalar>| {
            let first = (1..group.len()).fold(0, |best, i| if wins(group[i], group[best]) { i } else { best });
            Expected::exact(Scalar::I(first as i64))
        };
        vec![inputs[0].groups(&self.axes).iter().map(winner).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("positions are whole numbers, which do not change by small steps"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axes{:?}", self.axes));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let kept = (0..self.input.layout.rank()).filter(|axis| !self.axes.contains(axis)).nth(axis)?;
        let input = self.input.first(kept, extent)?;
        Some(ArgReduce { input, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let of = |input, output| ArgReduce { input, output, ..self.clone() };
        sample::of_lines(&self.input, &self.axes, &self.output, of)
    }

    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        Some(vec![streamed::place(self, inputs.first()?)?])
    }
}
