//! Where a mask is true: the row-major positions of its first true elements, in order. What `nonzero` and a choice by mask are made of.
//!
//! The number of results is the caller's, so that shapes do not depend on data and a recording can have it; where fewer are true, the
//! rest is `u32::MAX`, which is no position. No atomics reach the result: places are prefix sums, the same at each run.

use crate::gradient::{Gradient, Needs};
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::ops::prelude::{Checked, operands};
use crate::ops::{Arithmetic, Operation, TensorSpec, check_dense_output};
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Caps, Plan};
use crate::{DType, Error, Layout, Result, Scalar, Shape};

const OP: &str = "nonzero";

/// Positions of the true elements of `mask`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nonzero {
    /// Dense bool.
    pub mask: TensorSpec,
    /// Dense u32 vector.
    pub output: TensorSpec,
}

impl Nonzero {
    /// A checked search for `count` positions whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for a mask that is not bool, [`Error::InvalidArgument`] for one that is not dense, [`Error::IndexWidth`]
    /// for more than 2^32 - 1 elements.
    pub fn new(mask: TensorSpec, count: u64) -> Result<Nonzero> {
        let output = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[count])?));
        Nonzero { mask, output }.check()
    }
}

impl Operation for Nonzero {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read mask; write output }

    fn validate(&self) -> Result<()> {
        for (spec, expected) in [(&self.mask, DType::Bool), (&self.output, DType::U32)] {
            if spec.dtype != expected {
                return Err(Error::DTypeMismatch { op: OP, expected, got: spec.dtype });
            }
        }
        if !self.mask.layout.is_contiguous() || self.output.layout.rank() != 1 {
            let (mask, output) = (self.mask.layout, self.output.layout);
            let reason = format!("{OP} reads a dense mask and writes a vector, not {mask:?} and {output:?}");
            return Err(Error::InvalidArgument { what: "mask", reason });
        }
        let elements = self.mask.layout.elements();
        if elements > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements, max: u32::MAX.into() });
        }
        check_dense_output(OP, &self.output)
    }

    /// An addition for each element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.mask.layout.elements())
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let found = before[0].values.iter().enumerate().filter(|(_, x)| x.as_i64() != 0).map(|(at, _)| at as i64);
        let all = found.chain(std::iter::repeat(i64::from(u32::MAX))).map(|at| Expected::exact(Scalar::I(at)));
        vec![all.take(self.output.layout.elements() as usize).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("positions of true elements are whole numbers, which have no gradient"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::nonzero(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        super::host::nonzero(self, inputs[0], outputs[0]);
        Ok(())
    }
}
