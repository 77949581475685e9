//! Joining: each element of the result finds the operand that it is in (`elements.rs`). Operands beyond a device's buffers are joined
//! in groups.

use crate::ops::{Cat, CatWalk};
use crate::{Operation, Result};

use crate::ops::elements::{self, ElementRule, TEXT, coordinates, extents, place, view, view_words, words};
use crate::plan::{Caps, Plan};
use crate::wgsl::element::Element;
use crate::wgsl::pieces::holes;

/// What an element is: that of the operand within whose indices it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    operands: usize,
    rank: usize,
    axis: usize,
    element: Element,
    /// Words of an element of the operands.
    words: u64,
}

/// Operands of one kernel: each takes an offset and strides of its own, and a comparison.
const MOST: usize = 15;

pub(crate) fn plan(op: &Cat, caps: &Caps) -> Result<Plan> {
    let most = MOST.min(caps.max_storage_buffers as usize - 1);
    if op.inputs.len() > most
        && let Some(graph) = op.decompose()?
    {
        return graph.plan(|step| crate::ops::plan(step, caps));
    }
    let words = words(op.output.dtype);
    let CatWalk { walk, extents } = op.walk();
    let element = Element::raw(op.output.dtype.size_bytes());
    let rank = walk.dims.len();
    let rule = Rule { operands: op.inputs.len(), rank, axis: walk.axis, element, words };
    let mut params: Vec<u32> = walk.dims.iter().map(|&dim| dim as u32).collect();
    let mut end = 0;
    for ((input, strides), extent) in op.inputs.iter().zip(&walk.strides).zip(extents) {
        let step = |stride: i64| stride * words as i64;
        // Indices along the axis are counted from the start of the result.
        let back = (step(strides[walk.axis]) as u32).wrapping_mul(end as u32);
        let strides: Vec<i64> = strides.iter().map(|&stride| step(stride)).collect();
        let first = params.len();
        params.extend(view_words(input.layout.offset() * words, &strides));
        params[first] = params[first].wrapping_sub(back);
        end += extent;
        params.push(end as u32);
    }
    let reached = op.inputs.iter().map(|input| input.layout.required_elements().saturating_mul(words));
    let reached = reached.max().unwrap_or(0);
    elements::plan(op.name(), rule, (&op.output, element), &params, reached, caps)
}

impl ElementRule for Rule {
    fn name(&self) -> String {
        let pairs = if self.words == 2 { "_pairs" } else { "" };
        format!("cat_{}_of_{}d{pairs}", self.operands, self.rank)
    }

    fn members(&self) -> Vec<String> {
        let of = |operand: usize| [view(&format!("x{operand}"), self.rank), vec![format!("end{operand}")]].concat();
        extents(self.rank).chain((0..self.operands).flat_map(of)).collect()
    }

    fn reads(&self) -> Vec<(String, Element)> {
        (0..self.operands).map(|operand| (format!("x{operand}"), self.element)).collect()
    }

    fn text(&self) -> String {
        let (element, half) = if self.words == 2 { ("i / 2u", " + i % 2u") } else { ("i", "") };
        let load = |operand: usize| format!("load_x{operand}({}{half})", place(&format!("x{operand}"), "e", self.rank));
        let last = self.operands - 1;
        let choice = |operand| TEXT.fill("choice", holes!(axis = self.axis, operand, value = load(operand)));
        let (coordinates, choices) = (coordinates("e", self.rank), (0..last).map(choice).collect::<String>());
        TEXT.fill("join", holes!(element, coordinates, choices, last = load(last)))
    }

    fn rounds(&self, _: &dyn Fn(&str) -> u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    fn cat(dtype: DType, count: usize) -> Cat {
        let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[3, 5]).unwrap()).transpose(0, 1).unwrap());
        Cat::new(vec![input; count], 0).unwrap()
    }

    #[test]
    fn every_dtype_and_count_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL {
                for count in [1, 2, 7, 9] {
                    validated.check(&plan(&cat(dtype, count), &caps).unwrap().launches, &caps);
                }
            }
        }
    }

    #[test]
    fn operands_beyond_the_buffers_are_joined_in_groups() {
        let launches = |count, buffers| {
            let caps = Caps { max_storage_buffers: buffers, ..Caps::webgpu_defaults("test") };
            plan(&cat(DType::F32, count), &caps).unwrap().launches.len()
        };
        assert_eq!([launches(7, 8), launches(8, 8), launches(15, 16), launches(16, 16)], [1, 2, 1, 4]);
    }
}
