//! Elements chosen by a mask, and elements put where a mask is true. Each of the two is the other's gradient. PyTorch's `masked_select` and `masked_scatter`.
//!
//! The true elements of a mask are numbered in row-major order. [`MaskedSelect`] moves element i to its number, [`MaskedScatter`] from its
//! number to i. As with [`super::Nonzero`] the length of the vector is the caller's. Bits are moved as they are; places are prefix sums, the
//! same at each run, and time grows with the elements alone.

#[cfg(feature = "cpu")]
pub(crate) mod host;
mod nonzero;
pub(crate) mod plan;

pub use nonzero::Nonzero;

use super::prelude::*;
use super::take::Missing;

const SELECT: &str = "masked_select";
const SCATTER: &str = "masked_scatter";

/// The elements of `input` where `mask` is true: the first of them, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaskedSelect {
    /// What is chosen from: dense.
    pub input: TensorSpec,
    /// Dense bool of its shape.
    pub mask: TensorSpec,
    /// What stands behind the last one chosen.
    pub missing: Missing,
    /// Dense vector of the input's dtype.
    pub output: TensorSpec,
}

/// `input`, but for the places where `mask` is true: these hold the elements of `source` in order, for as long as there are any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaskedScatter {
    /// What stands elsewhere: dense.
    pub input: TensorSpec,
    /// Dense bool of its shape.
    pub mask: TensorSpec,
    /// Dense vector of the input's dtype.
    pub source: TensorSpec,
    /// Dense output of the input's shape and dtype.
    pub output: TensorSpec,
}

/// Refuses operands that are not dense, of several dtypes or shapes, and longer than positions count.
fn check(op: &'static str, [input, mask, vector, output]: [&TensorSpec; 4]) -> Result<()> {
    if mask.dtype != DType::Bool {
        return Err(Error::DTypeMismatch { op, expected: DType::Bool, got: mask.dtype });
    }
    for got in [vector.dtype, output.dtype] {
        if got != input.dtype {
            return Err(Error::DTypeMismatch { op, expected: input.dtype, got });
        }
    }
    if mask.layout.shape() != input.layout.shape() {
        return Err(Error::shape_mismatch(op, input.layout.shape(), mask.layout.shape(), None));
    }
    if let Some(other) = [input, mask, vector].into_iter().find(|other| !other.layout.is_contiguous()) {
        let reason = format!("{op} reads dense operands, not {:?}; make them contiguous first", other.layout);
        return Err(Error::InvalidArgument { what: "operands", reason });
    }
    if vector.layout.rank() != 1 {
        let reason = format!("{op} takes a vector for what is chosen, not {:?}; reshape it", vector.layout);
        return Err(Error::InvalidArgument { what: "vector", reason });
    }
    let elements = input.layout.elements();
    if elements > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op, elements, max: u32::MAX.into() });
    }
    check_dense_output(op, output)
}

impl MaskedSelect {
    /// A checked choice of `count` elements whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for a mask that is not bool, [`Error::ShapeMismatch`] for one of another shape;
    /// [`Error::InvalidArgument`] for operands that are not dense, [`Error::IndexWidth`] for more than 2^32 - 1 elements.
    pub fn new(input: TensorSpec, mask: TensorSpec, missing: Missing, count: u64) -> Result<MaskedSelect> {
        let output = TensorSpec::new(input.dtype, Layout::contiguous(Shape::new(&[count])?));
        MaskedSelect { input, mask, missing, output }.check()
    }
}

impl MaskedScatter {
    /// A checked scatter whose output starts its buffer.
    ///
    /// # Errors
    /// As [`MaskedSelect::new`]; [`Error::DTypeMismatch`] for a source of another dtype, [`Error::InvalidArgument`] for one that is no
    /// vector.
    pub fn new(input: TensorSpec, mask: TensorSpec, source: TensorSpec) -> Result<MaskedScatter> {
        let output = TensorSpec::new(input.dtype, Layout::contiguous(*input.layout.shape()));
        MaskedScatter { input, mask, source, output }.check()
    }
}

impl Operation for MaskedSelect {
    fn name(&self) -> &'static str {
        SELECT
    }

    operands! { read input, mask; write output }

    fn validate(&self) -> Result<()> {
        check(SELECT, [&self.input, &self.mask, &self.output, &self.output])
    }

    /// An addition for each element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.mask.layout.elements())
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let pairs = before[0].values.iter().zip(&before[1].values);
        let chosen = pairs.filter(|(_, is_true)| is_true.as_i64() != 0).map(|(&x, _)| x);
        let all = chosen.chain(std::iter::repeat(self.missing.scalar(self.output.dtype))).map(Expected::exact);
        vec![all.take(self.output.layout.elements() as usize).collect()]
    }

    /// The elements go back to where they came from, zeros elsewhere.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (mask, dy) = (rule.input(1)?, rule.gradient(0)?);
        let zeros = rule.graph.full(self.input.dtype, *self.input.layout.shape(), 0)?;
        let op = MaskedScatter::new(zeros.spec(), mask.spec(), dy.spec())?;
        let gradient = rule.graph.apply(op, &[zeros, mask, dy])?.pop();
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::select(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::select(self, inputs, outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" first{}", self.output.layout.elements()));
        if self.missing == Missing::Zero {
            name.push_str(" or0");
        }
    }
}

impl Operation for MaskedScatter {
    fn name(&self) -> &'static str {
        SCATTER
    }

    operands! { read input, mask, source; write output }

    fn validate(&self) -> Result<()> {
        check(SCATTER, [&self.input, &self.mask, &self.source, &self.output])?;
        if self.output.layout.shape() != self.input.layout.shape() {
            return Err(Error::shape_mismatch(SCATTER, self.input.layout.shape(), self.output.layout.shape(), None));
        }
        Ok(())
    }

    /// An addition for each element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.mask.layout.elements())
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let mut source = before[2].values.iter();
        let element = |(&x, is_true): (_, &crate::Scalar)| {
            let put = if is_true.as_i64() == 0 { None } else { source.next().copied() };
            Expected::exact(put.unwrap_or(x))
        };
        vec![before[0].values.iter().zip(&before[1].values).map(element).collect()]
    }

    /// Of the input zeros where something was put; of the source the elements from there.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        let (mask, dy) = (rule.input(1)?, rule.gradient(0)?);
        let mut gradients = Vec::new();
        if rule.wants(0) {
            let zeros = rule.graph.full(self.source.dtype, *self.source.layout.shape(), 0)?;
            let op = MaskedScatter::new(dy.spec(), mask.spec(), zeros.spec())?;
            gradients.push(rule.graph.apply(op, &[dy, mask, zeros])?.pop());
        }
        if rule.wants(2) {
            let count = self.source.layout.elements();
            let op = MaskedSelect::new(dy.spec(), mask.spec(), Missing::Zero, count)?;
            gradients.push(rule.graph.apply(op, &[dy, mask])?.pop());
        }
        rule.finish(gradients)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::scatter(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::scatter(self, inputs, outputs[0]);
        Ok(())
    }
}
