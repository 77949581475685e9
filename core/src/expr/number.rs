//! A number beside values of a dtype: what stands for it in a program.
//!
//! A number has no dtype of its own. Comparisons and extrema answer for it as it was given, whatever the dtype can hold: below 256
//! is every u8, equal to 2.5 no i32, and the larger of 2 and 2.5 among i32 is 3, the least that is below neither. Everything else
//! takes what the program computes in: of integers that very number, or the program is refused; of floats the nearest one (f32
//! for floats of 8 and 16 bits), refused where a finite number would become infinite, or a number other than 0 zero. All of it is
//! settled when a program is compiled: backends see constants that they can hold.

use std::cmp::Ordering;

use crate::{BinaryFn, CompareFn, DType, Error, Result, Scalar};

/// What a comparison of any value of a dtype with a number comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    /// The same for every value.
    Always(bool),
    /// A comparison with a number that the program can hold.
    With(CompareFn, Scalar),
}

/// `x f number` for values x of `dtype`, for which `f` is defined.
pub(super) fn comparison(f: CompareFn, dtype: DType, number: Scalar) -> Comparison {
    use Comparison::{Always, With};
    let unordered = f == CompareFn::Ne;
    let never_equal = if dtype.is_float() { With(f, Scalar::F(f64::NAN)) } else { Always(unordered) };
    if number.is_nan() {
        return never_equal;
    }
    let (below, above) = (not_above(dtype, number), not_below(dtype, number));
    let with = |bound: Option<Scalar>, beyond| bound.map_or(Always(beyond), |bound| With(f, bound));
    match f {
        CompareFn::Eq | CompareFn::Ne if below == above => with(below, unordered),
        CompareFn::Eq | CompareFn::Ne => never_equal,
        CompareFn::Lt => with(above, true),
        CompareFn::Ge => with(above, false),
        CompareFn::Gt => with(below, true),
        CompareFn::Le => with(below, false),
    }
}

/// The number that stands for `number` in the larger or smaller (`f`) of it and any value of `dtype`.
///
/// # Errors
/// [`Error::NumberOutOfRange`] where no value of `dtype` is beyond it.
pub(super) fn extremum(f: BinaryFn, dtype: DType, number: Scalar) -> Result<Scalar> {
    if dtype.is_float() {
        return Ok(number.cast(dtype.compute()));
    }
    let bound = if f == BinaryFn::Max { not_below(dtype, number) } else { not_above(dtype, number) };
    bound.filter(|_| !number.is_nan()).ok_or(Error::NumberOutOfRange { op: f.name(), dtype, number })
}

/// Whether no value of `dtype` lies in `low..=high`, neither of them NaN: above all of them, below all, or between two.
pub(crate) fn is_empty_range(dtype: DType, low: Scalar, high: Scalar) -> bool {
    let ends = (not_below(dtype, low), not_above(dtype, high));
    !matches!(ends, (Some(low), Some(high)) if compared(low, high).is_some_and(Ordering::is_le))
}

/// The number that stands for `number` in any other use of it by `op` in `dtype`.
///
/// # Errors
/// [`Error::NumberOutOfRange`].
pub(crate) fn operand(op: &'static str, dtype: DType, number: Scalar) -> Result<Scalar> {
    let held = number.cast(dtype.compute());
    let is_held = if dtype.is_float() {
        let (from, to) = (number.as_f64(), held.as_f64());
        from.is_infinite() || from == 0.0 || (to != 0.0 && !to.is_infinite())
    } else {
        !number.is_nan() && not_above(dtype, number) == not_below(dtype, number)
    };
    if is_held { Ok(held) } else { Err(Error::NumberOutOfRange { op, dtype, number }) }
}

/// How `a` stands to `b`, exactly; `None` with a NaN.
pub(crate) fn compared(a: Scalar, b: Scalar) -> Option<Ordering> {
    /// An integer against a float: its whole part first, which saturates beyond every integer of a dtype.
    fn integer(a: i128, b: f64) -> Option<Ordering> {
        if b.is_nan() {
            return None;
        }
        Some(a.cmp(&(b as i128)).then(if b.fract() > 0.0 {
            Ordering::Less
        } else if b.fract() < 0.0 {
            Ordering::Greater
        } else {
            Ordering::Equal
        }))
    }
    match (a.integer(), b.integer()) {
        (None, None) => a.as_f64().partial_cmp(&b.as_f64()),
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => integer(a, b.as_f64()),
        (None, Some(b)) => integer(b, a.as_f64()).map(Ordering::reverse),
    }
}

/// The largest value that programs in `dtype` can hold and that is not above `number`; `None` where all are.
pub(crate) fn not_above(dtype: DType, number: Scalar) -> Option<Scalar> {
    match held_integers(dtype) {
        Some((least, most)) => {
            let whole = whole(number, f64::floor);
            (whole >= least).then(|| Scalar::from_integer(whole.min(most)))
        }
        None => Some(neighbour(dtype, number, Ordering::Greater)),
    }
}

/// The smallest value that programs in `dtype` can hold and that is not below `number`; `None` where all are.
pub(crate) fn not_below(dtype: DType, number: Scalar) -> Option<Scalar> {
    match held_integers(dtype) {
        Some((least, most)) => {
            let whole = whole(number, f64::ceil);
            (whole <= most).then(|| Scalar::from_integer(whole.max(least)))
        }
        None => Some(neighbour(dtype, number, Ordering::Less)),
    }
}

fn held_integers(dtype: DType) -> Option<(i128, i128)> {
    if dtype == DType::Bool { Some((0, 1)) } else { dtype.integer_range() }
}

/// Infinities stay beyond every integer of a dtype.
fn whole(number: Scalar, round: fn(f64) -> f64) -> i128 {
    number.integer().unwrap_or_else(|| round(number.as_f64()) as i128)
}

/// The float nearest to `number` that programs in `dtype` compute with, or the next one where that is on the `wrong` side of it.
fn neighbour(dtype: DType, number: Scalar, wrong: Ordering) -> Scalar {
    let nearest = number.cast(dtype.compute());
    if compared(nearest, number) != Some(wrong) {
        return nearest;
    }
    let x = nearest.as_f64();
    Scalar::F(match (dtype.compute() == DType::F64, wrong) {
        (true, Ordering::Greater) => x.next_down(),
        (true, _) => x.next_up(),
        (false, Ordering::Greater) => f64::from((x as f32).next_down()),
        (false, _) => f64::from((x as f32).next_up()),
    })
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
