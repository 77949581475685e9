//! Elements put into places along an axis: each place looks through the positions of its line, in order (`elements.rs`).
//!
//! So no two invocations write one place, the last of equal positions wins, and sums come in one order without atomics.

use polywarp_core::ops::{Scatter, ScatterFn};
use polywarp_core::plan::looped;
use polywarp_core::{Operation, Result};

use super::elements::{self, ElementRule, coordinates, extents, place, view, view_words, words};
use crate::element::Element;
use crate::{Caps, Plan, math};

/// What an element is: what the place held, and what its positions make of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    function: ScatterFn,
    rank: usize,
    axis: usize,
    element: Element,
    /// Words of an element of the operands.
    words: u64,
}

pub(crate) fn plan(op: &Scatter, caps: &Caps) -> Result<Plan> {
    let dtype = op.output.dtype;
    let (element, words) = match op.function.binary() {
        None => (Element::raw(dtype.size_bytes()), words(dtype)),
        Some(f) => {
            math::require_binary(f, dtype, caps)?;
            let element = Element::new(dtype, caps)?;
            (if op.function.chooses() { element.kept() } else { element }, 1)
        }
    };
    let walk = op.walk();
    let rule = Rule { function: op.function, rank: walk.dims.len(), axis: walk.axis, element, words };
    let mut params: Vec<u32> = walk.dims.iter().map(|&dim| dim as u32).collect();
    for (number, operand) in [op.input, op.indices, op.source].into_iter().enumerate() {
        let words = if number == 1 { 1 } else { words };
        let strides: Vec<i64> = walk.strides[number].iter().map(|&stride| stride * words as i64).collect();
        params.extend(view_words(operand.layout.offset() * words, &strides));
    }
    params.push(op.count() as u32);
    let reached = [op.input, op.source].map(|operand| operand.layout.required_elements().saturating_mul(words));
    let reached = reached[0].max(reached[1]).max(op.indices.layout.required_elements());
    elements::plan(op.name(), elements::Rule::Scatter(rule), (&op.output, element), &params, reached, caps)
}

impl ElementRule for Rule {
    fn name(&self) -> String {
        format!("{}_{}d{}", self.function.name(), self.rank, if self.words == 2 { "_pairs" } else { "" })
    }

    fn members(&self) -> Vec<String> {
        let views = ["x", "at", "s"].into_iter().flat_map(|name| view(name, self.rank));
        extents(self.rank).chain(views).chain(["count".to_owned()]).collect()
    }

    fn reads(&self) -> Vec<(String, Element)> {
        let [x, source] = ["x", "s"].map(|name| (name.to_owned(), self.element));
        vec![x, ("at".to_owned(), Element::raw(4)), source]
    }

    fn text(&self) -> String {
        let (e, half) = if self.words == 2 { ("i / 2u", " + i % 2u") } else { ("i", "") };
        let axis = self.axis;
        // The line's first position: that of coordinate 0 along the axis.
        let line = |name: &str| {
            let steps =
                (0..self.rank).filter(|&dim| dim != axis).map(|dim| format!(" + e{dim} * params.{name}_s{dim}"));
            format!("params.{name}_offset") + &steps.collect::<String>()
        };
        let body = match self.function.binary() {
            None => format!(
                "    for (var j = params.count; j > 0u; j--) {{
        if load_at(at + (j - 1u) * params.at_s{axis}) == e{axis} {{
            value = load_s(s + (j - 1u) * params.s_s{axis}{half});
            break;
        }}
    }}\n"
            ),
            Some(f) => format!(
                "    for (var j = 0u; j < params.count; j++) {{
        if load_at(at + j * params.at_s{axis}) == e{axis} {{
            let other = load_s(s + j * params.s_s{axis});
            value = {};
        }}
    }}\n",
                math::binary(f, self.element.dtype(), "value", "other")
            ),
        };
        format!(
            "fn element_at(i: u32) -> Value {{
    let e = {e};
{}    let at = {};
    let s = {};
    var value = load_x({}{half});
{body}    return value;
}}\n",
            coordinates("e", self.rank),
            line("at"),
            line("s"),
            place("x", "e", self.rank),
        )
    }

    fn rounds(&self, word: &dyn Fn(&str) -> u64) -> u64 {
        looped(word("count"), 0)
    }
}

#[cfg(test)]
mod tests {
    use polywarp_core::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::validate::{Validated, full_caps};

    #[test]
    fn every_function_dtype_and_axis_validates() {
        let mut validated = Validated::default();
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for (dtype, function) in DType::ALL.iter().flat_map(|&dtype| ScatterFn::ALL.map(|f| (dtype, f))) {
                for (axis, at) in [(0, [9, 3, 4]), (2, [2, 3, 9])] {
                    let (x, source) = (dense(dtype, &[2, 3, 4]), dense(dtype, &at));
                    let Ok(op) = Scatter::new(function, x, dense(DType::I32, &at), source, axis) else {
                        assert!(dtype == DType::Bool && function != ScatterFn::Set);
                        continue;
                    };
                    match plan(&op, &caps) {
                        Ok(plan) => validated.check(&plan.launches, &caps),
                        Err(error) => assert!(error.is_unsupported() && caps.require(dtype).is_err(), "{error}"),
                    }
                }
            }
        }
    }
}
