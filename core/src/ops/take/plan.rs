//! Rows of a table by index: one launch of `wgsl/take.wgsl`.
//!
//! Elements move as unsigned words, halves or bytes, so that every bit survives; those of 8 bytes are two words.

use crate::ops::Take;
use crate::ops::elements::named;
use crate::{Error, Operation, Result};

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, pieces};

const TEXT: Pieces = pieces!("take.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    element: Element,
    /// Whether an item is four elements.
    quads: bool,
    threads: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let index = Element::raw(4);
        let form = if self.quads { Form::Quad } else { Form::Scalar };
        let mut text = element::prelude(&[self.element, index]);
        text += &format!("const THREADS = {}u;\n\n", self.threads);
        text += &uniform([
            "items",
            "row",
            "rows",
            "x_offset",
            "x_stride",
            "y_offset",
            "at_offset",
            "fill_low",
            "fill_high",
        ]);
        text += &self.element.storage(1, "x", form, Access::Read);
        text += &index.storage(2, "at", Form::Scalar, Access::Read);
        text += &self.element.storage(3, "y", form, Access::ReadWrite);
        text += &["\n", TEXT.get(if self.quads { "quads" } else { "elements" }), "\n"].concat();
        text += include_str!("../../../wgsl/take.wgsl");
        let shape = if self.quads { "quads" } else { "elements" };
        let bits = 8 * self.element.dtype().size_bytes();
        let bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        Source { name: format!("take_{bits}bit_{shape}"), wgsl: text, bindings }
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        0
    }
}

pub(crate) fn plan(op: &Take, caps: &Caps) -> Result<Plan> {
    // Words of an element that is moved as several.
    let size = op.output.dtype.size_bytes();
    let words = size.div_ceil(4);
    let (row, total) = (op.row() * words, op.output.layout.elements() * words);
    let reach = op.table.layout.required_elements().saturating_mul(words).max(op.output.layout.offset() + total);
    if reach > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op: op.name(), elements: reach, max: u32::MAX.into() });
    }
    let table = op.table.layout;
    let distance = table.strides()[0] * words as i64;
    let (from, to) = (table.offset() * words, op.output.layout.offset() * words);
    let quads = [row, from, to].iter().all(|n| n.is_multiple_of(4)) && distance % 4 == 0;
    let items = if quads { 4 } else { 1 };
    let kernel = Kernel { element: Element::raw(size), quads, threads: THREADS.min(caps.max_invocations) };
    let missing = op.missing.scalar(op.output.dtype).to_le_bytes(op.output.dtype);
    // The words of one element; NaN of 8 bytes has none in the lower word.
    let mut fill = missing.chunks(4).map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
    let (low, high) = (fill.next().unwrap_or(0), fill.next());
    let per_item = |n: u64| (n / items) as u32;
    let mut params =
        vec![per_item(total), per_item(row), named(op.indices.dtype, table.dims()[0]) as u32, per_item(from)];
    params.extend([(distance / items as i64) as u32, per_item(to), op.indices.layout.offset() as u32]);
    params.extend([low, high.unwrap_or(low)]);
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid((total / items).div_ceil(kernel.threads.into()))?;
    let bindings = vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)];
    let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params };
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use crate::ops::Missing;
    use crate::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_dtype_and_row_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL {
                for row in [7, 8] {
                    let dense =
                        |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
                    let op = Take::new(dense(dtype, &[9, row]), dense(DType::I32, &[5]), Missing::Nan, None).unwrap();
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
