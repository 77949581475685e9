//! The oracle's answer to a reduction of everything to one element, element by element from the operand's bytes.
//!
//! The op's own oracle takes its operands as scalars of sixteen bytes, twice over: of 2^28 elements that is minutes of paging
//! before anything is timed. Same values, same order, same bounds ([`Approx::sum`]); a test holds the two together. What is
//! not here (`None`) goes to the op's own.

use crate::ops::{ArgReduce, ArgReduceFn, Reduce, ReduceFn};
use crate::oracle::{Approx, Expected};
use crate::{Scalar, TensorSpec};

/// What a reduction of everything must give for an operand that holds `bytes`.
pub(in crate::ops) fn reduced(op: &Reduce, bytes: &[u8]) -> Option<Expected> {
    if op.axes.len() != op.input.layout.rank() {
        return None;
    }
    let values = values(&op.input, bytes)?;
    let to = op.output.dtype;
    match op.function {
        ReduceFn::Sum => Some(Approx::sum(values.map(|x| x.as_f64()), to.compute(), 0.0).round_to(to).into_expected()),
        ReduceFn::Max => Some(Expected::exact(Scalar::F(best(values, |x, best| x > best)?.1).cast(to))),
        ReduceFn::Min => Some(Expected::exact(Scalar::F(best(values, |x, best| x < best)?.1).cast(to))),
        ReduceFn::AbsMax | ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Any | ReduceFn::All => None,
    }
}

/// Where the largest or smallest of all elements is.
pub(in crate::ops) fn place(op: &ArgReduce, bytes: &[u8]) -> Option<Expected> {
    if op.axes.len() != op.input.layout.rank() {
        return None;
    }
    let values = values(&op.input, bytes)?;
    let (first, _) = match op.function {
        ArgReduceFn::ArgMax => best(values, |x, best| x > best)?,
        ArgReduceFn::ArgMin => best(values, |x, best| x < best)?,
    };
    Some(Expected::exact(Scalar::I(first)))
}

/// The elements of a dense operand of floats.
fn values<'a>(spec: &TensorSpec, bytes: &'a [u8]) -> Option<impl Iterator<Item = Scalar> + use<'a>> {
    if spec.dtype.is_float() { spec.dense_values(bytes) } else { None }
}

/// Place and value of the first element that no other beats; `None` without one, and where there is a NaN.
fn best(values: impl Iterator<Item = Scalar>, beats: fn(f64, f64) -> bool) -> Option<(i64, f64)> {
    let mut found: Option<(i64, f64)> = None;
    for (i, x) in values.map(|x| x.as_f64()).enumerate() {
        if x.is_nan() {
            return None;
        }
        if found.is_none_or(|(_, best)| beats(x, best)) {
            found = Some((i as i64, x));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::HostTensor;
    use crate::{DType, Layout, Op, Shape};

    #[test]
    fn streamed_answers_are_the_oracles() {
        let shape = Shape::new(&[7, 143]).unwrap();
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let spec = |dtype, shape| TensorSpec::new(dtype, Layout::contiguous(shape));
            let values: Vec<Scalar> =
                (0..1001u32).map(|i| Scalar::F(f64::from(i * 7919 % 1001) / 512.0 - 1.0).cast(dtype)).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes(dtype)).collect();
            let (input, one) = (spec(dtype, shape), Shape::new(&[]).unwrap());
            let reduce = |f| Op::from(Reduce::new(f, input, &[0, 1], spec(dtype, one)).unwrap());
            let arg = |f| Op::from(ArgReduce::new(f, input, &[0, 1], spec(DType::U32, one)).unwrap());
            let ops = [ReduceFn::Sum, ReduceFn::Max, ReduceFn::Min].map(reduce);
            for op in ops.into_iter().chain([ArgReduceFn::ArgMax, ArgReduceFn::ArgMin].map(arg)) {
                let host = HostTensor { dtype, shape, values: values.clone() };
                let streamed = op.oracle_of_bytes(&[&bytes]).unwrap();
                assert_eq!(op.oracle(&[host]), [streamed], "{} {dtype}", op.name());
            }
            assert!(reduce(ReduceFn::Mean).oracle_of_bytes(&[&bytes]).is_none());
        }
    }
}
