//! What many operations demand of their operands, and how they refuse.

use super::{OUTPUT_ALIGNMENT_BYTES, Operation, TensorSpec, extent_of};
use crate::{DType, Error, Result, Shape};

/// Operations whose constructors check what they made.
pub(crate) trait Checked: Operation + Sized {
    /// Itself, if [`Operation::validate`] finds nothing wrong.
    ///
    /// # Errors
    /// Those of [`Operation::validate`].
    fn check(self) -> Result<Self> {
        self.validate()?;
        Ok(self)
    }
}

impl<T: Operation> Checked for T {}

/// Refuses an operand that is no float.
pub(crate) fn check_float(op: &'static str, operand: &TensorSpec) -> Result<()> {
    if operand.dtype.is_float() { Ok(()) } else { Err(Error::UndefinedForDType { op, dtype: operand.dtype }) }
}

/// Refuses an operand of another dtype than `expected`.
pub(crate) fn check_dtype(op: &'static str, operand: &TensorSpec, expected: DType) -> Result<()> {
    if operand.dtype == expected { Ok(()) } else { Err(Error::DTypeMismatch { op, expected, got: operand.dtype }) }
}

/// Refuses axes that have no elements together.
pub(crate) fn check_not_empty(op: &'static str, input: &TensorSpec, axes: &[usize]) -> Result<()> {
    match extent_of(input, axes) {
        0 => Err(Error::EmptyReduction { op, shape: input.layout.dims().to_vec() }),
        _ => Ok(()),
    }
}

/// Refuses an output of another dtype or shape, and one that breaks the output contract.
pub(crate) fn check_output(op: &'static str, output: &TensorSpec, dtype: DType, shape: &Shape) -> Result<()> {
    check_dtype(op, output, dtype)?;
    if output.layout.shape() != shape {
        return Err(Error::shape_mismatch(op, shape, output.layout.shape(), None));
    }
    check_dense_output(op, output)
}

/// Checks the output contract of every op but `Copy`.
pub(crate) fn check_dense_output(op: &'static str, output: &TensorSpec) -> Result<()> {
    let offset_bytes = output.layout.offset().saturating_mul(output.dtype.size_bytes());
    if !output.layout.is_contiguous() {
        return Err(Error::InvalidArgument {
            what: "output",
            reason: format!("{op} writes dense row-major outputs only, not {:?}", output.layout),
        });
    }
    if !offset_bytes.is_multiple_of(OUTPUT_ALIGNMENT_BYTES) {
        return Err(Error::InvalidArgument {
            what: "output",
            reason: format!("{op} writes from 16-byte boundaries only, not from byte {offset_bytes}"),
        });
    }
    Ok(())
}
