//! Fused programs over NaN, infinities and numbers near overflow, in which operands are used more than once.
//!
//! A compiler that takes floats for real numbers turns `x - x` into 0, `(x + y) - x` into `y` and `x * (y - y)` into 0. All are
//! wrong where something is NaN, infinite or overflows on the way; so is a product that is contracted with a sum where rounding
//! it overflows. [`IDENTITIES`] names what such a compiler would simplify; [`random`] makes programs of the same kind from a seed.

use super::super::dense_map;
use crate::case::values::mix;
use crate::case::values::special;
use crate::case::{Case, Level, Values};
use crate::{BinaryFn, CompareFn, DType, Expr, UnaryFn};

const FAMILY: &str = super::FAMILY;

/// A word for the case's name, how many inputs are read, and the program of `x`, `y` and `z`.
type Identity = (&'static str, usize, fn(Expr, Expr, Expr) -> Expr);

/// Equal to something simpler for real numbers, and for those alone.
const IDENTITIES: [Identity; 24] = [
    ("x-x", 1, |x, _, _| x.clone() - x),
    ("x/x", 1, |x, _, _| x.clone() / x),
    ("x+(-x)", 1, |x, _, _| x.clone() + -x),
    ("(x+y)-x", 2, |x, y, _| (x.clone() + y) - x),
    ("(x-y)+y", 2, |x, y, _| (x - &y) + y),
    ("x-(x-y)", 2, |x, y, _| x.clone() - (x - y)),
    ("x*(y-y)", 2, |x, y, _| x * (y.clone() - y)),
    ("(x*y)/y", 2, |x, y, _| (x * &y) / y),
    ("(x/y)*y", 2, |x, y, _| (x / &y) * y),
    ("x*y-x*y", 2, |x, y, _| x.clone() * &y - x * y),
    ("x*y-y*x", 2, |x, y, _| x.clone() * &y - y * x),
    ("x*y-x*z", 3, |x, y, z| x.clone() * y - x * z),
    ("x*y+z", 3, |x, y, z| x * y + z),
    ("(x+y)+z", 3, |x, y, z| (x + y) + z),
    ("(x*y)*z", 3, |x, y, z| (x * y) * z),
    ("(x+1)-x", 1, |x, _, _| (x.clone() + 1.0) - x),
    ("x*0", 1, |x, _, _| (x * 0.0).abs()),
    ("0.5x+0.5x", 1, |x, _, _| x.clone() * 0.5 + x * 0.5),
    ("(x+x)*0.5", 1, |x, _, _| (x.clone() + x) * 0.5),
    ("1/(1/x)", 1, |x, _, _| x.reciprocal().reciprocal()),
    ("sqrt(x)*sqrt(x)", 1, |x, _, _| x.sqrt() * x.sqrt()),
    ("log(exp(x))", 1, |x, _, _| x.exp().log()),
    ("max(x,y)-max(y,x)", 2, |x, y, _| x.binary(BinaryFn::Max, &y) - y.binary(BinaryFn::Max, x)),
    ("(x-x<y)?x-x:y", 2, |x, y, _| {
        let nothing = x.clone() - x;
        nothing.compare(CompareFn::Lt, &y).select(nothing, y)
    }),
];

pub(super) fn cases(level: Level, cases: &mut Vec<Case>) {
    for (word, inputs, program) in IDENTITIES {
        let expr = program(Expr::input(0), Expr::input(1), Expr::input(2));
        for dtype in DType::FLOATS {
            push(cases, &expr, dtype, inputs, word);
        }
    }
    for seed in 0..if level == Level::Full { 400 } else { 40 } {
        cases.extend(random(seed));
    }
}

/// `expr` on all pairs of special values, and a third input of any.
fn push(cases: &mut Vec<Case>, expr: &Expr, dtype: DType, inputs: usize, word: &str) {
    let count = special(dtype).len() as u64;
    let values = [Values::PairsLeft, Values::PairsRight, Values::Special];
    let op = dense_map(FAMILY, expr, &vec![dtype; inputs], &[count * count]);
    let mut made = Vec::new();
    Case::push(&mut made, FAMILY, op, values[..inputs].to_vec());
    cases.extend(made.into_iter().map(|case| case.tagged(word)));
}

/// A random program of two or three inputs that uses what it has made again and again.
pub(crate) fn random(seed: u64) -> Option<Case> {
    let mut drawn = 0;
    let mut below = |n: usize| {
        drawn += 1;
        (mix(mix(0xFEED, seed), drawn) % n as u64) as usize
    };
    let dtype = [DType::F32, DType::F32, DType::F32, DType::F16, DType::BF16, DType::F64][below(6)];
    let inputs = 2 + below(2);
    // Each value with a bit for every input that it reads.
    let mut values: Vec<(Expr, u32)> = (0..inputs).map(|i| (Expr::input(i), 1 << i)).collect();
    for _ in 0..2 + below(7) {
        // One of the last two half of the time, so that programs are deep as well as wide.
        let recent = [below(2), below(2)].map(|half| if half == 0 { values.len() - 2 } else { 0 });
        let [(a, read_a), (b, read_b)] = recent.map(|from| values[from + below(values.len() - from)].clone());
        let (made, both) = match below(16) {
            0..4 => (a + b, true),
            4..8 => (a - b, true),
            8..11 => (a * b, true),
            11 => (a / b, true),
            12 => (a.binary([BinaryFn::Max, BinaryFn::Min][below(2)], b), true),
            13 => (a.compare(CompareFn::ALL[below(CompareFn::ALL.len())], &b).select(b, a), true),
            14 => (a * [0.0, 0.5, 2.0, -1.0][below(4)], false),
            _ => (a.unary(UNARY[below(UNARY.len())]), false),
        };
        values.push((made, read_a | if both { read_b } else { 0 }));
    }
    let (mut result, read) = values[values.len() - 1].clone();
    for i in (0..inputs).filter(|i| read >> i & 1 == 0) {
        result = result.binary(BinaryFn::Max, Expr::input(i));
    }
    let mut cases = Vec::new();
    push(&mut cases, &result, dtype, inputs, &format!("shared{seed}"));
    cases.pop()
}

/// What [`random`] takes of one value: exact, bounded, or with poles at 0 only.
const UNARY: [UnaryFn; 10] = [
    UnaryFn::Neg,
    UnaryFn::Abs,
    UnaryFn::Sqrt,
    UnaryFn::Reciprocal,
    UnaryFn::Relu,
    UnaryFn::Sign,
    UnaryFn::Atan,
    UnaryFn::Erf,
    UnaryFn::Sigmoid,
    UnaryFn::Tanh,
];

#[cfg(test)]
mod tests {
    use super::super::tests::expected;
    use super::*;
    use crate::Scalar;
    use crate::oracle::Expected;

    /// A bound that allows anything proves nothing: most infinities and NaN of these programs must be demanded.
    #[test]
    fn random_programs_demand_most_values() {
        let (mut demanded, mut special, mut all) = (0u64, 0u64, 0u64);
        for case in (0..60).filter_map(random) {
            for Expected { value, error, .. } in expected(&case) {
                all += 1;
                demanded += u64::from(error.is_finite());
                let Scalar::F(x) = value else { continue };
                special += u64::from(!x.is_finite() && error == 0.0);
            }
        }
        assert!(demanded * 10 > all * 8, "{demanded} of {all} demanded");
        assert!(special * 10 > all, "{special} of {all} are NaN or infinite");
    }
}
