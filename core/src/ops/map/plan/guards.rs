//! Which operands of a fused program are hidden from the compiler, so that floats stay floats.
//!
//! WGSL lets a compiler treat floats as real numbers without NaN and infinities: Mesa's optimiser, on its hardware drivers too,
//! turns `x - x` into 0, `(x + y) - x` into `y` and `x * (y - y)` into 0, and a product that is contracted with a sum overflows
//! where the sum does instead of before it. All such rules need to see two steps at once, or one value used twice. So an
//! arithmetic step takes every operand that is itself computed, and an input or constant from its second use on, through
//! `opaque_f32` or `opaque_f64` (`text.rs`), which change nothing by a parameter that is 0: one instruction. The second operand of a
//! step has a parameter of its own, or both would be one value again where they were computed alike. Programs of one step over
//! different operands are as they were.

use crate::{DType, Step};

use crate::wgsl::element::Element;

/// The operands of an arithmetic step.
fn operands(step: Step) -> [Option<u16>; 2] {
    match step {
        Step::Unary(_, x) => [Some(x), None],
        Step::Binary(_, a, b) | Step::Compare(_, a, b) => [Some(a), Some(b)],
        Step::Input(_) | Step::Constant(_) | Step::Index | Step::Select(..) | Step::Cast(_) | Step::Random(_) => {
            [None, None]
        }
    }
}

/// Whether operand `place` of step `id` is hidden. Nothing is allocated: every elementwise call asks.
fn is_hidden(steps: &[(Step, Element)], id: usize, place: usize) -> bool {
    let Some(x) = operands(steps[id].0)[place] else { return false };
    let (leaf, element) = steps[usize::from(x)];
    if !element.dtype().is_float() {
        return false;
    }
    // By what is read, since every mention of an input is a step of its own.
    let is_leaf = |y: u16| steps[usize::from(y)].0 == leaf;
    match leaf {
        Step::Input(_) | Step::Constant(_) => {
            let before = steps[..id].iter().flat_map(|&(step, _)| operands(step));
            before.chain(operands(steps[id].0).into_iter().take(place)).flatten().any(is_leaf)
        }
        _ => true,
    }
}

/// Whether any operand is hidden, of those that are computed in `compute` where that is named.
pub(crate) fn any(steps: &[(Step, Element)], compute: Option<DType>) -> bool {
    let of = |x: u16| compute.is_none_or(|compute| steps[usize::from(x)].1.dtype().compute() == compute);
    (0..steps.len()).any(|id| {
        let operands = operands(steps[id].0);
        (0..2).any(|place| operands[place].is_some_and(of) && is_hidden(steps, id, place))
    })
}

/// The text of operand `x`, which is at `place` of step `id`.
pub(crate) fn operand(steps: &[(Step, Element)], id: usize, place: usize, x: u16) -> String {
    let hidden = || format!("opaque_{}(s{x}, params.zero{place})", steps[usize::from(x)].1.scalar());
    if is_hidden(steps, id, place) { hidden() } else { format!("s{x}") }
}

#[cfg(test)]
mod tests {
    use crate::{Expr, Program};

    use super::*;
    use crate::wgsl::validate::full_caps;

    fn hidden(expr: &Expr, inputs: &[DType]) -> usize {
        let program = Program::compile(expr, inputs).unwrap();
        let element = |&(step, dtype): &(Step, DType)| (step, Element::new(dtype, &full_caps()).unwrap());
        let steps: Vec<_> = program.steps().iter().map(element).collect();
        (0..2 * steps.len()).filter(|i| is_hidden(&steps, i / 2, i % 2)).count()
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
