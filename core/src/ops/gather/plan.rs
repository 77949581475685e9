//! Elements along an axis by position: each element of the result reads its position, then its element (`elements.rs`).

use crate::ops::Gather;
use crate::{Operation, Result};

use crate::ops::elements::{
    self, ElementRule, TEXT, coordinates, extents, named, place, view, view_words, words, words_of,
};
use crate::plan::{Caps, Plan};
use crate::wgsl::element::Element;
use crate::wgsl::pieces::holes;

/// What an element is: that at its position, or the number that stands for one that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    rank: usize,
    element: Element,
    /// Words of an element of the operands.
    words: u64,
}

pub(crate) fn plan(op: &Gather, caps: &Caps) -> Result<Plan> {
    let (dtype, words) = (op.output.dtype, words(op.output.dtype));
    let (dims, [of_input, of_indices]) = op.walk();
    let element = Element::raw(dtype.size_bytes());
    let rule = Rule { rank: dims.len().max(1), element, words };
    let scaled = |stride: i64| stride * words as i64;
    // A single element has one dimension.
    let [of_input, of_indices] = [of_input.into_iter().map(scaled).collect(), of_indices]
        .map(|strides: Vec<i64>| if strides.is_empty() { vec![0] } else { strides });
    let dims = if dims.is_empty() { vec![1] } else { dims };
    let mut params: Vec<u32> = dims.iter().map(|&dim| dim as u32).collect();
    params.extend(view_words(op.input.layout.offset() * words, &of_input));
    params.extend(view_words(op.indices.layout.offset(), &of_indices));
    params.push(named(op.indices.dtype, op.input.layout.dims()[op.axis]) as u32);
    params.push(scaled(op.input.layout.strides()[op.axis]) as u32);
    let missing: Vec<u32> = words_of(&op.missing.scalar(dtype).to_le_bytes(dtype)).collect();
    params.extend([missing[0], missing[missing.len() - 1]]);
    let reached = op.input.layout.required_elements().saturating_mul(words).max(op.indices.layout.required_elements());
    elements::plan(op.name(), rule, (&op.output, element), &params, reached, caps)
}

impl ElementRule for Rule {
    fn name(&self) -> String {
        format!("gather_{}d{}", self.rank, if self.words == 2 { "_pairs" } else { "" })
    }

    fn members(&self) -> Vec<String> {
        let own = ["n", "x_step", "fill_low", "fill_high"].map(str::to_owned);
        extents(self.rank).chain(view("x", self.rank)).chain(view("at", self.rank)).chain(own).collect()
    }

    fn reads(&self) -> Vec<(String, Element)> {
        vec![("x".to_owned(), self.element), ("at".to_owned(), Element::raw(4))]
    }

    fn text(&self) -> String {
        let (element, half, outside) = match self.words {
            2 => ("i / 2u", " + i % 2u", "select(params.fill_low, params.fill_high, i % 2u == 1u)"),
            _ => ("i", "", "params.fill_low"),
        };
        let [at, x] = ["at", "x"].map(|view| place(view, "e", self.rank));
        TEXT.fill("gather", holes!(element, coordinates = coordinates("e", self.rank), at, outside, x, half))
    }

    fn rounds(&self, _: &dyn Fn(&str) -> u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Missing;
    use crate::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_dtype_and_axis_validates() {
        let mut validated = Validated::default();
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL {
                for (axis, at) in [(0, [9, 3, 4]), (1, [2, 9, 4]), (2, [2, 3, 9])] {
                    let indices = dense(DType::I32, &at);
                    let op = Gather::new(dense(dtype, &[2, 3, 4]), indices, axis, Missing::Nan).unwrap();
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
