//! Padding, cropping, rolling and tiling: each element of the result finds its own place in the input (`elements.rs`).

use crate::ops::{Pad, PadAxis, PadMode};
use crate::{Error, Operation, Result};

use crate::ops::elements::{self, ElementRule, TEXT, coordinates, extents, words, words_of};
use crate::plan::{Caps, Plan};
use crate::wgsl::element::Element;
use crate::wgsl::pieces::holes;

/// What an element is: that of the input at its place, or the number outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    mode: PadMode,
    rank: usize,
    element: Element,
    /// Words of an element of the operands.
    words: u64,
}

pub(crate) fn plan(op: &Pad, caps: &Caps) -> Result<Plan> {
    let words = words(op.output.dtype);
    let mut axes = op.axes();
    if axes.is_empty() {
        axes.push(PadAxis { output: 1, input: 1, before: 0, stride: 0 });
    }
    let element = Element::raw(op.output.dtype.size_bytes());
    let rule = Rule { mode: op.mode, rank: axes.len(), element, words };
    let mut params = vec![(op.input.layout.offset() * words) as u32];
    params.extend(words_of(&op.fill).take(2));
    for axis in &axes {
        let period = op.mode.period(axis.input);
        let most = axis.output.max(period).max(axis.before.unsigned_abs());
        if most > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: op.name(), elements: most, max: u32::MAX.into() });
        }
        let own = match op.mode {
            // Positions of the result before the first that lies inside; elements of the input left out; those that are there.
            PadMode::Constant => {
                let (first, left_out) = (axis.before.max(0), (-axis.before).clamp(0, axis.input as i64));
                [first, left_out, (axis.input as i64 - left_out).min(axis.output as i64 - first).max(0)]
            }
            // The same of the whole input, of which one element is always there.
            PadMode::Edge => {
                let left_out = (-axis.before).clamp(0, axis.input.max(1) as i64 - 1);
                [axis.before.max(0), left_out, axis.input as i64 - left_out]
            }
            // Positions of the result before the period's first; of a period those behind them; the period.
            PadMode::Reflect | PadMode::Wrap => {
                let first = axis.before.rem_euclid(period as i64);
                [first, period as i64 - first, period as i64]
            }
        };
        params.push(axis.output as u32);
        params.extend(own.map(|word| word as u32));
        params.push((axis.stride * words as i64) as u32);
    }
    let reached = op.input.layout.required_elements().saturating_mul(words);
    elements::plan(op.name(), rule, (&op.output, element), &params, reached, caps)
}

impl ElementRule for Rule {
    fn name(&self) -> String {
        format!("pad_{}_{}d{}", self.mode.name(), self.rank, if self.words == 2 { "_pairs" } else { "" })
    }

    fn members(&self) -> Vec<String> {
        let own = ["x_offset", "fill_low", "fill_high"].map(str::to_owned);
        let axis = |dim: String| {
            let number = dim.trim_start_matches('d').to_owned();
            [dim, format!("first{number}"), format!("skip{number}"), format!("n{number}"), format!("x_s{number}")]
        };
        own.into_iter().chain(extents(self.rank).flat_map(axis)).collect()
    }

    fn reads(&self) -> Vec<(String, Element)> {
        vec![("x".to_owned(), self.element)]
    }

    fn text(&self) -> String {
        let place = |dim: usize| match self.mode {
            PadMode::Constant => TEXT.fill("constant place", holes!(dim)),
            PadMode::Edge => TEXT.fill("edge place", holes!(dim)),
            PadMode::Wrap => TEXT.fill("periodic place", holes!(dim, place = format!("t{dim}"))),
            PadMode::Reflect => {
                let place = format!("min(t{dim}, params.n{dim} - t{dim})");
                TEXT.fill("periodic place", holes!(dim, place))
            }
        };
        let (element, value, outside) = match self.words {
            2 => ("i / 2u", "load_x(x + i % 2u)", "select(params.fill_low, params.fill_high, i % 2u == 1u)"),
            _ => ("i", "load_x(x)", "params.fill_low"),
        };
        let value = if self.mode == PadMode::Constant {
            let inside: Vec<String> = (0..self.rank).map(|dim| format!("(t{dim} < params.n{dim})")).collect();
            TEXT.fill("value or number", holes!(outside, is_inside = inside.join(" & "), value))
        } else {
            TEXT.fill("value", holes!(value))
        };
        let (coordinates, places) = (coordinates("e", self.rank), (0..self.rank).map(place).collect::<String>());
        TEXT.fill("pad", holes!(element, coordinates, places, value))
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

    #[test]
    fn every_mode_and_size_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL {
                for mode in PadMode::ALL {
                    let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[2, 3, 5]).unwrap()));
                    let op = Pad::new(input, mode, vec![1, -1, 4], &[4, 3, 9], 0).unwrap();
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
