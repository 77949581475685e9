//! Indices of kernels: how many elements they reach, and where the elements of strided operands lie.

use crate::{Error, Result, TensorSpec};

use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("index.wgsl");

/// Largest element count and index that kernels handle: u32 less what the last slab of a fold, rounded up, may reach beyond the end (some 4
/// million), and the longest stride of a workgroup's loop.
const MAX_INDEX: u64 = u32::MAX as u64 - (1 << 24);

/// Refuses operands that 32-bit indices do not reach.
pub(crate) fn check_index(op: &'static str, spec: &TensorSpec) -> Result<()> {
    let elements = spec.layout.elements().max(spec.layout.required_elements());
    if elements > MAX_INDEX { Err(Error::IndexWidth { op, elements, max: MAX_INDEX }) } else { Ok(()) }
}

/// A function from the row-major index over `axes` axes (extents `e0` innermost, ...) to `from` + the sum of index * stride.
pub(crate) fn decode(name: &str, from: &str, strides: char, axes: usize) -> String {
    let mut steps = String::new();
    if axes > 1 {
        steps += "    var rest = index;\n";
    }
    let rest = if axes == 1 { "index" } else { "rest" };
    for i in 0..axes {
        steps += &match i + 1 == axes {
            true => format!("    at += {rest} * params.{strides}{i};\n"),
            false => format!("    at += rest % params.e{i} * params.{strides}{i};\n    rest /= params.e{i};\n"),
        };
    }
    TEXT.fill("place", holes!(name, from, steps))
}
