//! Derivatives of programs, symbolically: for each input the sum over all results of gradient times derivative, as expressions.
//!
//! Steps in floats of 8 and 16 bits are differentiated as they are computed, in f32. Where a function has a kink the value is
//! PyTorch's: relu and abs have 0 at 0, the larger and the smaller of two equal tensors get half each, one of a number beside a
//! tensor passes the whole gradient where both are equal, rounding, quotients rounded down and sign have 0 everywhere. As there, a branch that `where` does not
//! take gets a gradient of 0, which an infinite derivative makes NaN: keep its operand away from poles before.

use super::{Expr, Program, Step};
use crate::{BinaryFn, CompareFn, DType, Error, Result, UnaryFn};

impl Program {
    /// For each of `wanted`, which number inputs, the gradient in the input's dtype; `None` where no result depends on it.
    /// `Expr::input(i)` is input i of `inputs`, behind these stand the results and behind them their gradients; of those that are not
    /// `given` nothing is read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a function without a derivative.
    pub fn derivative(&self, inputs: usize, wanted: &[usize], given: &[bool]) -> Result<Vec<Option<Expr>>> {
        let results = self.result_count();
        let mut values: Vec<Expr> = Vec::with_capacity(self.steps().len());
        for (id, &(step, dtype)) in self.steps().iter().enumerate() {
            let result = (0..results).find(|&number| usize::from(self.result(number)) == id);
            let value = match (step, result) {
                // What was computed need not be computed again where its derivative is made of it.
                (Step::Unary(f, _), Some(number)) if by_result(f) => Expr::input(inputs + number).cast(dtype.compute()),
                _ => self.value(step, dtype, &values),
            };
            values.push(value);
        }
        let mut adjoints: Vec<Option<Expr>> = vec![None; self.steps().len()];
        for (number, _) in given.iter().enumerate().filter(|(_, given)| **given) {
            let id = usize::from(self.result(number));
            let dtype = self.steps()[id].1;
            if dtype.is_float() {
                add(&mut adjoints[id], Expr::input(inputs + results + number).cast(dtype.compute()));
            }
        }
        for (id, &(step, dtype)) in self.steps().iter().enumerate().rev() {
            let Some(dy) = adjoints[id].clone() else { continue };
            let (of, y) = (|x: u16| values[usize::from(x)].clone(), values[id].clone());
            let is_number = |x: u16| matches!(self.steps()[usize::from(x)].0, Step::Constant(_));
            match step {
                Step::Input(_) | Step::Constant(_) | Step::Index | Step::Random(_) => {}
                Step::Unary(f, x) => {
                    if let Some(dx) = unary(f, dy, of(x), y)? {
                        add(&mut adjoints[usize::from(x)], dx);
                    }
                }
                Step::Binary(f, a, b) => {
                    let [da, db] = binary(f, dy, [of(a), of(b)], y, [is_number(a), is_number(b)])?;
                    da.into_iter().for_each(|da| add(&mut adjoints[usize::from(a)], da));
                    db.into_iter().for_each(|db| add(&mut adjoints[usize::from(b)], db));
                }
                Step::Compare(..) => {}
                Step::Select(condition, yes, no) => {
                    add(&mut adjoints[usize::from(yes)], of(condition).select(dy.clone(), zero(dtype)));
                    add(&mut adjoints[usize::from(no)], of(condition).select(zero(dtype), dy));
                }
                Step::Cast(x) => {
                    let from = self.steps()[usize::from(x)].1;
                    if from.is_float() {
                        add(&mut adjoints[usize::from(x)], dy.cast(from.compute()));
                    }
                }
            }
        }
        // Every mention of an input is a step of its own.
        let gradient = |&input: &usize| {
            let mentions = self.steps().iter().enumerate();
            let mentions = mentions.filter(|(_, (step, _))| matches!(step, Step::Input(n) if usize::from(*n) == input));
            let (mut sum, mut into) = (None, DType::F32);
            for (id, &(_, dtype)) in mentions {
                into = dtype;
                adjoints[id].iter().for_each(|adjoint| add(&mut sum, adjoint.clone()));
            }
            sum.map(|sum: Expr| sum.cast(into))
        };
        Ok(wanted.iter().map(gradient).collect())
    }

    /// A step as an expression in its compute type.
    fn value(&self, step: Step, dtype: DType, values: &[Expr]) -> Expr {
        let of = |x: u16| values[usize::from(x)].clone();
        match step {
            Step::Input(n) => Expr::input(usize::from(n)).cast(dtype.compute()),
            Step::Constant(n) => Expr::constant(self.constants()[usize::from(n)]).cast(dtype.compute()),
            Step::Index => Expr::index().cast(dtype.compute()),
            Step::Unary(f, x) => of(x).unary(f),
            Step::Binary(f, a, b) => of(a).binary(f, of(b)),
            Step::Compare(f, a, b) => of(a).compare(f, of(b)),
            Step::Select(condition, yes, no) => of(condition).select(of(yes), of(no)),
            Step::Cast(x) => of(x).cast(dtype).cast(dtype.compute()),
            Step::Random(key) => Expr::random(key.map(of)),
        }
    }
}

/// Whether the derivative of `f` is best said by its result.
fn by_result(f: UnaryFn) -> bool {
    use UnaryFn::{Cbrt, Erfinv, Exp, Exp2, Reciprocal, Rsqrt, Sigmoid, Sqrt, Tan, Tanh};
    matches!(f, Cbrt | Erfinv | Exp | Exp2 | Reciprocal | Rsqrt | Sigmoid | Sqrt | Tan | Tanh)
}

fn add(sum: &mut Option<Expr>, term: Expr) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + term,
        None => term,
    });
}

fn zero(dtype: DType) -> Expr {
    Expr::constant(0).cast(dtype.compute())
}

/// dy times the derivative of `f` at `x`, where it gives `y`; `None` where that is 0 everywhere.
fn unary(f: UnaryFn, dy: Expr, x: Expr, y: Expr) -> Result<Option<Expr>> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2};
    /// 1 / sqrt(2 pi)
    const DENSITY: f64 = 0.398_942_280_401_432_7;
    Ok(Some(match f {
        UnaryFn::Abs => dy * x.sign(),
        // 1 - x^2 and x^2 - 1 as products, which keep their digits near 1; roots before products, which do not overflow.
        UnaryFn::Acos => -(dy * ((-x.clone() + 1.0) * (x + 1.0)).rsqrt()),
        UnaryFn::Acosh => dy / ((x.clone() - 1.0).sqrt() * (x + 1.0).sqrt()),
        UnaryFn::Asin => dy * ((-x.clone() + 1.0) * (x + 1.0)).rsqrt(),
        UnaryFn::Asinh => dy / x.hypot(1.0),
        UnaryFn::Atan => dy / (x.clone() * x + 1.0),
        UnaryFn::Atanh => dy / ((-x.clone() + 1.0) * (x + 1.0)),
        UnaryFn::Cbrt => dy / (y.clone() * y * 3.0),
        UnaryFn::Ceil | UnaryFn::Floor | UnaryFn::Round | UnaryFn::Sign => return Ok(None),
        UnaryFn::Cos => -(dy * x.sin()),
        UnaryFn::Cosh => dy * x.sinh(),
        UnaryFn::Erf => dy * (-(x.clone() * x)).exp() * FRAC_2_SQRT_PI,
        UnaryFn::Erfc => -(dy * (-(x.clone() * x)).exp() * FRAC_2_SQRT_PI),
        UnaryFn::Erfinv => dy * (y.clone() * y).exp() * (1.0 / FRAC_2_SQRT_PI),
        UnaryFn::Exp => dy * y,
        UnaryFn::Exp2 => dy * y * LN_2,
        // The density and the distribution of the normal law.
        UnaryFn::Gelu => {
            let below = (x.clone() * FRAC_1_SQRT_2).erf() * 0.5 + 0.5;
            let density = (x.clone() * &x * -0.5).exp() * DENSITY;
            dy * (below + x * density)
        }
        UnaryFn::Lgamma => dy * x.digamma(),
        UnaryFn::Log => dy / x,
        UnaryFn::Log2 => dy / (x * LN_2),
        UnaryFn::Neg => -dy,
        UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::Not | UnaryFn::TrailingZeros => {
            let reason = format!("{} has no derivative", f.name());
            return Err(Error::InvalidArgument { what: "gradient", reason });
        }
        UnaryFn::Reciprocal => -(dy * y.clone() * y),
        UnaryFn::Relu => x.compare(CompareFn::Gt, 0.0).select(dy, 0.0),
        UnaryFn::Rsqrt => dy * (y.clone() * &y * y) * -0.5,
        UnaryFn::Sigmoid => dy * (y.clone() * (-y + 1.0)),
        UnaryFn::Silu => {
            let s = x.sigmoid();
            dy * (s.clone() + x * &s * (-s + 1.0))
        }
        UnaryFn::Sin => dy * x.cos(),
        UnaryFn::Sinh => dy * x.cosh(),
        UnaryFn::Sqrt => dy / (y * 2.0),
        UnaryFn::Tan => dy * (y.clone() * y + 1.0),
        UnaryFn::Tanh => dy * (-(y.clone() * y) + 1.0),
    }))
}

/// dy times the derivatives of `f`, which gives `y`, by both operands; `numbers` says which of them are constants.
fn binary(f: BinaryFn, dy: Expr, [a, b]: [Expr; 2], y: Expr, numbers: [bool; 2]) -> Result<[Option<Expr>; 2]> {
    Ok(match f {
        BinaryFn::Add => [Some(dy.clone()), Some(dy)],
        // x / (x^2 + y^2) and -y / (x^2 + y^2), by the distance, which does not overflow.
        BinaryFn::Atan2 => {
            let distance = a.hypot(&b);
            let share = dy / &distance;
            [Some(share.clone() * (b / &distance)), Some(-(share * (a / distance)))]
        }
        // The sign that it got, relative to the one it had; nothing depends on the size of b.
        BinaryFn::Copysign => [Some(dy * a.sign() * y.sign()), None],
        BinaryFn::Sub => [Some(dy.clone()), Some(-dy)],
        BinaryFn::Mul => [Some(dy.clone() * b), Some(dy * a)],
        BinaryFn::Div => [Some(dy.clone() / &b), Some(-(dy * y) / b)],
        BinaryFn::FloorDivide => [None, None],
        BinaryFn::Hypot => {
            // At 0, where there is a corner, 0 of both.
            let share = y.compare(CompareFn::Eq, 0.0).select(0.0, dy / y);
            [Some(share.clone() * a), Some(share * b)]
        }
        BinaryFn::Max | BinaryFn::Min => {
            let wins = if f == BinaryFn::Max { CompareFn::Gt } else { CompareFn::Lt };
            let share = if numbers.contains(&true) { dy.clone() } else { dy.clone() * 0.5 };
            let part = |own: &Expr, other: &Expr| {
                let tied = own.compare(CompareFn::Eq, other).select(share.clone(), 0.0);
                own.compare(wins, other).select(dy.clone(), tied)
            };
            [Some(part(&a, &b)), Some(part(&b, &a))]
        }
        BinaryFn::Pow => {
            // x^0 = 1 wherever x is, and 0^b does not depend on b for b > 0.
            let by_base = dy.clone() * &b * a.binary(BinaryFn::Pow, b.clone() - 1.0);
            let by_base = b.compare(CompareFn::Eq, 0.0).select(0.0, by_base);
            let flat = a.compare(CompareFn::Eq, 0.0);
            let by_exponent = flat.select(0.0, dy * y * a.log());
            [Some(by_base), (!numbers[1]).then_some(by_exponent)]
        }
        BinaryFn::Rem => [Some(dy.clone()), Some(-(dy * (a / b).trunc()))],
        BinaryFn::Remainder => [Some(dy.clone()), Some(-(dy * a.floor_divide(b)))],
        BinaryFn::And | BinaryFn::Nextafter | BinaryFn::Or | BinaryFn::Shl | BinaryFn::Shr | BinaryFn::Xor => {
            let reason = format!("{} has no derivative", f.name());
            return Err(Error::InvalidArgument { what: "gradient", reason });
        }
    })
}
