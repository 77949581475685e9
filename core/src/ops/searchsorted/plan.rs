//! Places among sorted numbers: a binary search an element (`elements.rs`).

use crate::ops::{SearchSide, SearchSorted};
use crate::plan::looped;
use crate::{CompareFn, DType, Operation, Result, collapse_together};

use crate::ops::elements::{self, ElementRule, TEXT, coordinates, extents, place, view, view_words};
use crate::plan::{Caps, Plan};
use crate::wgsl::element::Element;
use crate::wgsl::math;
use crate::wgsl::pieces::holes;

/// What an element is: the number of sorted elements that its value lies behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    side: SearchSide,
    rank: usize,
    element: Element,
}

pub(crate) fn plan(op: &SearchSorted, caps: &Caps) -> Result<Plan> {
    let element = Element::new(op.values.dtype, caps)?;
    let (starts, values) = op.lines();
    let views = collapse_together(&[starts, values]);
    let (n, step) = op.line();
    let rank = views[0].rank().max(1);
    let rule = Rule { side: op.side, rank, element };
    let mut params: Vec<u32> = views[0].dims().iter().map(|&dim| dim as u32).collect();
    // A single value has one dimension.
    params.resize(rank, 1);
    for layout in &views {
        let mut strides = layout.strides().to_vec();
        strides.resize(rank, 0);
        params.extend(view_words(layout.offset(), &strides));
    }
    params.extend([n as u32, step as u32]);
    let reached = op.sorted.layout.required_elements().max(op.values.layout.required_elements());
    let output = (&op.output, Element::raw(4));
    elements::plan(op.name(), rule, output, &params, reached, caps)
}

impl ElementRule for Rule {
    fn name(&self) -> String {
        let side = if self.side == SearchSide::Left { "left" } else { "right" };
        format!("searchsorted_{side}_{}_{}d", self.element.dtype(), self.rank)
    }

    fn members(&self) -> Vec<String> {
        let own = ["n", "x_step"].map(str::to_owned);
        extents(self.rank).chain(view("x", self.rank)).chain(view("v", self.rank)).chain(own).collect()
    }

    fn reads(&self) -> Vec<(String, Element)> {
        vec![("x".to_owned(), self.element), ("v".to_owned(), self.element)]
    }

    fn text(&self) -> String {
        let dtype: DType = self.element.dtype();
        let is = |f, a: &str, b: &str| math::compare(f, dtype, a, b);
        // NaN stands behind all numbers.
        let before = |a: &str, b: &str| {
            let less = is(CompareFn::Lt, a, b);
            if dtype.is_float() {
                format!("(({less}) | (!({}) & ({})))", is(CompareFn::Eq, b, b), is(CompareFn::Eq, a, a))
            } else {
                less
            }
        };
        let goes_on = match self.side {
            SearchSide::Left => before("m", "value"),
            SearchSide::Right => format!("!({})", before("value", "m")),
        };
        let [v, x] = ["v", "x"].map(|view| place(view, "e", self.rank));
        TEXT.fill("search", holes!(coordinates = coordinates("e", self.rank), v, x, goes_on))
    }

    /// Each halves a line of fewer than 2^32.
    fn rounds(&self, word: &dyn Fn(&str) -> u64) -> u64 {
        looped(u64::from(64 - word("n").leading_zeros()), 0)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_dtype_and_side_validates() {
        let mut validated = Validated::default();
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            let usable = |dtype: &DType| *dtype != DType::Bool && caps.require(*dtype).is_ok();
            for dtype in DType::ALL.into_iter().filter(usable) {
                for side in [SearchSide::Left, SearchSide::Right] {
                    let op = SearchSorted::new(dense(dtype, &[3, 9]), dense(dtype, &[3, 5]), side).unwrap();
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
