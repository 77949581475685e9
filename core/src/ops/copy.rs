//! Copies: the same bits in another layout.
//!
//! Contiguous, transposed and sliced copies, on either side. Bits move unchanged, NaN payloads and subnormals included;
//! conversion between dtypes is a cast ([`super::Map`]). The only op whose output may be a strided view.

use super::TensorSpec;
use crate::oracle::{Expected, HostTensor};
use crate::{Error, Result};

/// A copy of every element of one view into another of the same shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What is read.
    pub input: TensorSpec,
    /// Where it goes: any view that reaches no element twice.
    pub output: TensorSpec,
}

impl Copy {
    /// A checked copy.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::OverlappingOutput`].
    pub fn new(input: TensorSpec, output: TensorSpec) -> Result<Copy> {
        if input.layout.shape() != output.layout.shape() {
            return Err(Error::shape_mismatch("copy", input.layout.shape(), output.layout.shape(), None));
        }
        if input.dtype != output.dtype {
            return Err(Error::DTypeMismatch { op: "copy", expected: output.dtype, got: input.dtype });
        }
        if output.layout.may_overlap() {
            return Err(Error::OverlappingOutput {
                op: "copy",
                shape: output.layout.dims().to_vec(),
                strides: output.layout.strides().to_vec(),
            });
        }
        Ok(Copy { input, output })
    }

    /// `copy`.
    pub fn name(&self) -> &'static str {
        "copy"
    }

    /// The operand read.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        vec![self.input]
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    pub(crate) fn piece(&self, axis: usize, extent: u64) -> Option<Copy> {
        Some(Copy { input: self.input.first(axis, extent)?, output: self.output.first(axis, extent)? })
    }

    /// None: bits only move.
    pub fn flops(&self) -> u64 {
        0
    }

    /// The input, exactly.
    pub fn oracle(&self, inputs: &[HostTensor]) -> Vec<Expected> {
        inputs[0].values.iter().map(|&value| Expected::exact(value)).collect()
    }
}
