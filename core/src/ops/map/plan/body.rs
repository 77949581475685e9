//! The steps of a program as WGSL expressions: what kernels over elements and kernels over rows have in common.

use crate::{DType, Step, StepSet};

use super::guards;
use crate::wgsl::element::Element;
use crate::wgsl::math;

/// A program whose steps are written as `let s0 = ...`, one after the other.
pub(crate) struct Body<'a> {
    pub steps: &'a [(Step, Element)],
    /// Of each step, whether its value is a number of its dtype as it is.
    pub rounded: StepSet,
    /// Whether the device's own conversion of integers to f32 will do.
    pub nearest_conversions: bool,
    /// What stands before the numbers of its constants in `Params`.
    pub constants: &'a str,
}

impl Body<'_> {
    /// Step `id` as an expression: of `s0`, `s1`, ... before it, of the inputs `x0`, `x1`, ..., of `index` and of `Params`.
    pub fn step(&self, id: usize, step: Step, element: Element) -> String {
        let dtype = element.dtype();
        let at = |id: u16| format!("s{id}");
        let operand = |place: usize, x: u16| guards::operand(self.steps, id, place, x);
        let dtype_of = |id: u16| self.steps[usize::from(id)].1.dtype();
        match step {
            Step::Input(n) => format!("x{n}"),
            Step::Constant(n) => element.param_value(&format!("params.{}{n}", self.constants)),
            // Not rounded to 8- or 16-bit floats: like arithmetic, that happens where the expression ends.
            Step::Index => self.cast(DType::U32, dtype.compute(), "index"),
            Step::Unary(f, x) => math::unary(f, dtype, &operand(0, x)),
            Step::Binary(f, a, b) => {
                debug_assert!(dtype_of(a) == dtype);
                math::binary(f, dtype, &operand(0, a), &operand(1, b))
            }
            Step::Compare(f, a, b) => math::compare(f, dtype_of(a), &operand(0, a), &operand(1, b)),
            Step::Random([a, b, c, d]) => format!("random_word(index, {}, {}, {}, {})", at(a), at(b), at(c), at(d)),
            Step::Select(condition, yes, no) => format!("select({}, {}, {})", at(no), at(yes), at(condition)),
            Step::Cast(x) => {
                let from = self.steps[usize::from(x)].1;
                // Arithmetic in floats of 8 and 16 bits is rounded where it ends: here. Inputs, casts and choices of them are
                // already exact.
                let value = if self.rounded.has(x) { at(x) } else { from.round(&at(x)) };
                self.cast(from.dtype(), dtype, &value)
            }
        }
    }

    fn cast(&self, from: DType, to: DType, value: &str) -> String {
        match (from, to) {
            (DType::I32 | DType::U32, DType::F32) if !self.nearest_conversions => format!("f32_from_{from}({value})"),
            _ => math::cast(from, to, value),
        }
    }
}
