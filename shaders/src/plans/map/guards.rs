//! Which operands of a fused program are hidden from the compiler, so that floats stay floats.
//!
//! WGSL lets a compiler treat floats as real numbers without NaN and infinities: Mesa's optimiser, on its hardware drivers too,
//! turns `x - x` into 0, `(x + y) - x` into `y` and `x * (y - y)` into 0, and a product that is contracted with a sum overflows
//! where the sum does instead of before it. All such rules need to see two steps at once, or one value used twice. So an
//! arithmetic step takes every operand that is itself computed, and an input or constant from its second use on, through
//! `opaque_f32` or `opaque_f64` (`text.rs`), which change nothing by a parameter that is 0: one instruction. The second operand of a
//! step has a parameter of its own, or both would be one value again where they were computed alike. Programs of one step over
//! different operands are as they were.

use polywarp_core::{DType, Step};

use crate::element::Element;

/// For every step the operands that are hidden.
pub(super) struct Guards(Vec<[bool; 2]>);

impl Guards {
    pub(super) fn of(steps: &[(Step, Element)]) -> Guards {
        let mut used = Vec::new();
        let mut hide = |x: u16| {
            let (step, element) = steps[usize::from(x)];
            if !element.dtype().is_float() {
                return false;
            }
            match step {
                // By what is read, since every mention of an input is a step of its own.
                Step::Input(_) | Step::Constant(_) => {
                    let again = used.contains(&step);
                    used.push(step);
                    again
                }
                _ => true,
            }
        };
        let of_step = |&(step, _): &(Step, Element)| match step {
            Step::Unary(_, x) => [hide(x), false],
            Step::Binary(_, a, b) | Step::Compare(_, a, b) => [hide(a), hide(b)],
            Step::Input(_) | Step::Constant(_) | Step::Index | Step::Select(..) | Step::Cast(_) => [false; 2],
        };
        Guards(steps.iter().map(of_step).collect())
    }

    /// Whether an operand that is computed in `compute` is hidden.
    pub(super) fn any(&self, steps: &[(Step, Element)], compute: DType) -> bool {
        let hidden = |(&(step, _), hide): (&(Step, Element), &[bool; 2])| {
            let operands = match step {
                Step::Unary(_, x) => [x, x],
                Step::Binary(_, a, b) | Step::Compare(_, a, b) => [a, b],
                _ => return false,
            };
            let of = |(x, &hide): (u16, &bool)| hide && steps[usize::from(x)].1.dtype().compute() == compute;
            operands.into_iter().zip(hide).any(of)
        };
        steps.iter().zip(&self.0).any(hidden)
    }

    /// The text of operand `x` at a place of step `id`.
    pub(super) fn operand(&self, id: usize, place: usize, x: u16, steps: &[(Step, Element)]) -> String {
        let hidden = || format!("opaque_{}(s{x}, params.zero{place})", steps[usize::from(x)].1.scalar());
        if self.0[id][place] { hidden() } else { format!("s{x}") }
    }
}

#[cfg(test)]
mod tests {
    use polywarp_core::{Expr, Program};

    use super::*;
    use crate::validate::full_caps;

    fn hidden(expr: &Expr, inputs: &[DType]) -> usize {
        let program = Program::compile(expr, inputs).unwrap();
        let element = |&(step, dtype): &(Step, DType)| (step, Element::new(dtype, &full_caps()).unwrap());
        let steps: Vec<_> = program.steps().iter().map(element).collect();
        Guards::of(&steps).0.iter().flatten().filter(|hide| **hide).count()
    }

    #[test]
    fn single_steps_hide_nothing_but_a_repeated_operand() {
        let (x, y) = (Expr::input(0), Expr::input(1));
        let two = [DType::F32; 2];
        assert_eq!(hidden(&(x.clone() + y), &two), 0);
        assert_eq!(hidden(&(x.clone() * 2.0), &two), 0);
        assert_eq!(hidden(&x.gelu(), &two), 0);
        assert_eq!(hidden(&(x.clone() - x.clone()), &two), 1);
        assert_eq!(hidden(&(x.clone() - Expr::input(0)), &two), 1, "another node of the same input");
    }

    #[test]
    fn computed_operands_are_hidden_and_integers_are_not() {
        let (x, y) = (Expr::input(0), Expr::input(1));
        let chain = (x.clone() + y.clone()) - x.clone();
        assert_eq!(hidden(&chain, &[DType::F32; 2]), 2);
        assert_eq!(hidden(&chain, &[DType::F64; 2]), 2);
        assert_eq!(hidden(&chain, &[DType::I32; 2]), 0);
        // Chosen and converted values are as they were computed.
        assert_eq!(hidden(&(x.clone() + y).cast(DType::F16), &[DType::F32; 2]), 0);
    }
}
