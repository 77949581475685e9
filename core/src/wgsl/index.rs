//! Indices of kernels: how many elements they reach, where the elements of strided operands lie, and whether four of them lie side by side.

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

/// Whether the elements of an axis lie in whole quads: neighbours, a multiple of four of them, from places that are multiples of four. These
/// are `bases`, and steps along other axes by `strides`.
pub(crate) fn in_quads(
    (extent, stride): (u64, i64),
    bases: impl IntoIterator<Item = u64>,
    strides: impl IntoIterator<Item = i64>,
) -> bool {
    stride == 1
        && extent.is_multiple_of(4)
        && bases.into_iter().all(|base| base.is_multiple_of(4))
        && strides.into_iter().all(|stride| stride % 4 == 0)
}

/// Extents and strides of axes, innermost first, counted in vectors of `width` neighbours along the innermost.
pub(crate) fn in_vectors<I>(width: u64, innermost_first: I) -> impl Iterator<Item = (u64, i64)> + Clone
where
    I: Iterator<Item = (u64, i64)> + Clone,
{
    innermost_first.enumerate().map(move |(i, (extent, stride))| match i {
        0 => (extent / width, stride),
        _ => (extent, stride / width as i64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quads_are_whole_and_start_at_multiples_of_four() {
        assert!(in_quads((8, 1), [4, 0], [12, -8, 0]));
        assert!(!in_quads((8, 2), [4], [12]), "no neighbours");
        assert!(!in_quads((6, 1), [4], [12]), "a part of a quad");
        assert!(!in_quads((8, 1), [4, 2], [12]), "a base between quads");
        assert!(!in_quads((8, 1), [4], [12, 6]), "a step that ends between quads");
    }

    #[test]
    fn vectors_lie_along_the_innermost_axis() {
        assert_eq!(Vec::from_iter(in_vectors(4, [(8, 1), (3, -12)].into_iter())), [(2, 1), (3, -3)]);
        assert_eq!(Vec::from_iter(in_vectors(1, [(8, 2), (3, -12)].into_iter())), [(8, 2), (3, -12)]);
    }
}
