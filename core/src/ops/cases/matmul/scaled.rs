//! Products of 8-bit operands that leave as floats: scales per tensor, row and column, every result's type, epilogues, layouts,
//! batches, extents at the edges of tiles, K = 0, scales of 0, NaN and infinity, scales that overflow in one order alone, results
//! beyond f16.

use super::{DENSE, FAMILY, add, batched, broadcast, exact, of_dtypes, product};
use crate::case::{Case, LayoutKind, Level, Values, output};
use crate::ops::{Matmul, Operation};
use crate::{DType, Layout, Result, Shape, TensorSpec, UnaryFn};

/// Whose scale is whose.
#[derive(Clone, Copy, PartialEq)]
enum Scales {
    None,
    PerTensor,
    PerRow,
    /// Rows of A alone.
    OfA,
    /// Columns of B alone, every second of a longer vector.
    OfB,
}

const TO: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const BITS: Values = Values::RandomBits;
/// A scale by which sums of 4 and more overflow, unless they are multiplied with [`LITTLE`] first: both together are 10.
pub(in crate::ops::cases) const LARGE: Values = Values::Constant(1e38);
/// Its products with integers are normal numbers: devices may take others for zero.
pub(in crate::ops::cases) const LITTLE: Values = Values::Constant(1e-37);
/// The largest sums of the lengths here then stay within f16.
const SCALE: Values = Values::Uniform(0.002, 0.02);

/// `op` stored as `to`, with scales.
#[inline(never)]
fn scaled(op: Result<Matmul>, to: DType, scales: Scales) -> Result<Matmul> {
    let op = op?;
    let dims = op.output.layout.dims().to_vec();
    let rank = dims.len();
    let with = |axis: usize| {
        let mut dims = dims.clone();
        dims[axis] = 1;
        dims
    };
    let of = |axis: usize, kind: LayoutKind| kind.spec(DType::F32, &with(axis));
    let one = |axis: usize| -> Result<TensorSpec> {
        let one = Layout::contiguous(Shape::new(&vec![1; rank])?).with_offset(1);
        Ok(TensorSpec::new(DType::F32, one.broadcast_to(Shape::new(&with(axis))?)?))
    };
    let (scale_a, scale_b) = match scales {
        Scales::None => (None, None),
        Scales::PerTensor => (Some(one(rank - 1)?), Some(one(rank - 2)?)),
        Scales::PerRow => (Some(of(rank - 1, DENSE)?), Some(of(rank - 2, DENSE)?)),
        Scales::OfA => (Some(of(rank - 1, LayoutKind::Offset)?), None),
        Scales::OfB => (None, Some(of(rank - 2, LayoutKind::Step)?)),
    };
    Matmul { scale_a, scale_b, output: output(to, &dims)?, ..op }.check()
}

/// Values of A, B, what is added, and scales of A and of B.
fn values(op: &Matmul, operand: Values, scales: [Values; 2]) -> Vec<Values> {
    let places = op.places();
    let mut all = vec![operand; op.inputs().len()];
    places.addends().into_iter().flatten().for_each(|place| all[place] = Values::Uniform(-1.0, 1.0));
    for (place, scale) in places.scales().into_iter().zip(scales) {
        if let Some(place) = place {
            all[place] = scale;
        }
    }
    all
}

#[inline(never)]
fn push(cases: &mut Vec<Case>, op: Result<Matmul>, operand: Values, scale: Values) {
    push_with(cases, op, operand, [scale; 2]);
}

/// The same with scales of A that are not those of B.
#[inline(never)]
fn push_with(cases: &mut Vec<Case>, op: Result<Matmul>, operand: Values, scales: [Values; 2]) {
    let list = op.as_ref().map(|op| values(op, operand, scales)).unwrap_or_default();
    add(cases, FAMILY, op, &list);
}

pub(super) fn cases(level: Level, cases: &mut Vec<Case>) {
    for dtype in [DType::I8, DType::U8] {
        for to in TO {
            for scales in [Scales::None, Scales::PerTensor, Scales::PerRow, Scales::OfA, Scales::OfB] {
                let scale = if scales == Scales::None { 1.0 / 8192.0 } else { 1.0 };
                let op = scaled(product(dtype, [33, 35, 67], [DENSE; 2]), to, scales);
                push(cases, op.and_then(|op| Matmul { alpha: scale, ..op }.check()), BITS, SCALE);
            }
            for dims in level.list(&[[65, 129, 31], [17, 15, 1025]], &[[129, 127, 257], [64, 64, 64], [256, 256, 128]])
            {
                push(cases, scaled(product(dtype, dims, [DENSE; 2]), to, Scales::PerRow), BITS, SCALE);
            }
        }
        // Sums of small integers times powers of two are exact: one dropped product, or a wrong row's scale, shows.
        for dims in [[33, 35, 67], [128, 128, 64], [1, 65, 1025], [65, 1, 33], [5, 16, 300]] {
            let op = scaled(product(dtype, dims, [DENSE; 2]), DType::F32, Scales::PerRow);
            push(cases, op, Values::Integers(0, 4), Values::Integers(1, 9));
        }
        exact(
            cases,
            scaled(product(dtype, [33, 35, 67], [DENSE; 2]), DType::F32, Scales::None),
            Values::Integers(0, 4),
        );
    }
    float8(cases);
    shapes(level, cases);
    epilogues(level, cases);
    special(cases);
    order(level, cases);
}

/// 8-bit floats of both kinds: their sums are f32 already.
fn float8(cases: &mut Vec<Case>) {
    let kinds = [DType::F8E4M3, DType::F8E5M2];
    for (a, b) in kinds.into_iter().flat_map(|a| kinds.map(|b| (a, b))) {
        for to in TO {
            for scales in [Scales::PerTensor, Scales::PerRow, Scales::OfA, Scales::OfB] {
                let op = of_dtypes([a, b, to], [33, 35, 67], [DENSE, LayoutKind::Transposed]);
                push(cases, scaled(op, to, scales), Values::Uniform(-2.0, 2.0), SCALE);
            }
            for dims in [[1, 129, 65], [16, 130, 260], [65, 33, 2051]] {
                let op = scaled(of_dtypes([a, b, to], dims, [DENSE; 2]), to, Scales::PerRow).and_then(|op| {
                    let [_, n, _] = dims;
                    let bias = Some(LayoutKind::Offset.spec(to, &[n])?);
                    Matmul { alpha: 0.5, bias, activation: Some(UnaryFn::Relu), ..op }.check()
                });
                push(cases, op, Values::Uniform(-2.0, 2.0), SCALE);
            }
        }
        let op = || scaled(of_dtypes([a, b, DType::F32], [9, 31, 33], [DENSE; 2]), DType::F32, Scales::PerRow);
        for scale in [0.0, f64::NAN, 1e-18] {
            push(cases, op(), Values::Uniform(-2.0, 2.0), Values::Constant(scale));
        }
        push(cases, op(), Values::RandomBits, SCALE);
    }
}

fn shapes(level: Level, cases: &mut Vec<Case>) {
    let (dtype, to) = (DType::I8, DType::F16);
    // Vectors, few rows, long K, tails of every tile.
    let quick = [[1, 129, 65], [129, 1, 65], [3, 300, 515], [16, 130, 260], [127, 33, 16], [5, 3, 4099], [256, 1, 1]];
    for dims in level.list(&quick, &[[257, 255, 129], [2, 2, 9000], [31, 257, 64], [128, 129, 1024]]) {
        push(cases, scaled(product(dtype, dims, [DENSE; 2]), to, Scales::PerRow), BITS, SCALE);
    }
    for dims in [[0, 3, 5], [3, 0, 5], [3, 5, 0], [0, 0, 0]] {
        push(cases, scaled(product(dtype, dims, [DENSE; 2]), DType::F32, Scales::PerRow), BITS, SCALE);
    }
    for kind in level.list(&[LayoutKind::Transposed, LayoutKind::Padded], &LayoutKind::ALL) {
        for kinds in [[kind, DENSE], [DENSE, kind], [kind; 2]] {
            push(cases, scaled(product(dtype, [35, 33, 67], kinds), to, Scales::PerRow), BITS, SCALE);
            push(cases, scaled(product(dtype, [3, 64, 128], kinds), DType::F32, Scales::PerTensor), BITS, SCALE);
        }
    }
    let batch = || batched(dtype, &[3, 17, 9], &[3, 9, 33], &[3, 17, 33], [DENSE; 2]);
    let shared = || broadcast(dtype, &[2, 1, 5, 9], &[3, 9, 7]);
    for scales in [Scales::PerTensor, Scales::PerRow, Scales::OfB] {
        push(cases, scaled(batch(), DType::F32, scales), BITS, SCALE);
        push(cases, scaled(shared(), to, scales), BITS, SCALE);
    }
}

fn epilogues(level: Level, cases: &mut Vec<Case>) {
    for to in TO {
        for activation in [None, Some(UnaryFn::Relu), Some(UnaryFn::Gelu)] {
            for dims in level.list(&[[33, 35, 67], [1, 130, 64], [75, 72, 64]], &[[129, 65, 33], [5, 7, 0]]) {
                let op = scaled(product(DType::I8, dims, [DENSE; 2]), to, Scales::PerRow).and_then(|op| {
                    let [m, n, _] = dims;
                    Matmul {
                        alpha: 0.7,
                        beta: 1.3,
                        c: Some(LayoutKind::Padded.spec(to, &[m, n])?),
                        bias: Some(LayoutKind::Offset.spec(to, &[n])?),
                        activation,
                        ..op
                    }
                    .check()
                });
                push(cases, op, BITS, SCALE);
            }
        }
        let biased = scaled(product(DType::I8, [64, 128, 64], [DENSE; 2]), to, Scales::PerTensor);
        let bias = LayoutKind::Dense.spec(to, &[128]).map(Some);
        push(cases, biased.and_then(|op| Matmul { bias: bias?, ..op }.check()), BITS, SCALE);
    }
}

fn special(cases: &mut Vec<Case>) {
    let op = |to| scaled(product(DType::I8, [33, 35, 67], [DENSE; 2]), to, Scales::PerRow);
    // Rows of zeros have scale 0; what was NaN or infinite stays that; f16 overflows when stored.
    for scale in [0.0, f64::NAN, f64::INFINITY, -0.01, 1e-18, 1e30, 3.0] {
        push(cases, op(DType::F32), BITS, Values::Constant(scale));
    }
    push(cases, op(DType::F16), Values::Constant(100.0), Values::Constant(3.0));
    push(cases, op(DType::F32), Values::Constant(0.0), Values::Constant(f64::INFINITY));
    push(cases, op(DType::BF16), Values::Constant(-128.0), SCALE);
}

/// Scales of A come first, then those of B: of a large and a small one the first decides whether sums overflow.
fn order(level: Level, cases: &mut Vec<Case>) {
    // No result above 4800 times 10, which f16 holds.
    let sizes = [[33, 35, 67], [64, 128, 64], [1, 65, 300], [65, 1, 300], [5, 16, 300]];
    let small = Values::Integers(1, 4);
    for dtype in level.list(&[DType::I8, DType::F8E4M3], &[DType::U8, DType::F8E5M2]) {
        for scales in [[LARGE, LITTLE], [LITTLE, LARGE]] {
            for to in level.list(&TO[..1], &TO[1..]) {
                for dims in sizes {
                    push_with(cases, scaled(product(dtype, dims, [DENSE; 2]), to, Scales::PerRow), small, scales);
                }
                let op = scaled(product(dtype, [33, 35, 67], [DENSE; 2]), to, Scales::PerTensor);
                push_with(cases, op, small, scales);
            }
            // Slabs of K end in a launch of their own, and operands along K need no packing.
            let along_k = [DENSE, LayoutKind::Transposed];
            for (dims, kinds) in [([5, 33, 4099], [DENSE; 2]), ([16, 64, 1040], along_k), ([72, 136, 128], along_k)] {
                push_with(cases, scaled(product(dtype, dims, kinds), DType::F32, Scales::PerRow), small, scales);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scalar;
    use crate::oracle::HostTensor;

    #[test]
    fn scales_in_another_order_would_overflow_where_these_do_not() {
        let mut cases = Vec::new();
        order(Level::Full, &mut cases);
        let (mut overflowing, mut finite) = (0, 0);
        for case in cases {
            let op = case.op.get::<Matmul>().unwrap_or_else(|| panic!("{}", case.name));
            // All elements of one scale are alike.
            let alike = [1, 1, op.dims().k];
            let one = scaled(product(op.a.dtype, alike, [DENSE; 2]), op.output.dtype, Scales::PerRow).unwrap();
            // The least and the largest that operands hold.
            for element in [1i32, 4] {
                let value = |values: &Values, dtype: DType| match values {
                    Values::Constant(scale) => Scalar::F(f64::from(*scale as f32)),
                    _ if dtype.is_float() => Scalar::F(f64::from(element)),
                    _ => Scalar::I(element.into()),
                };
                let host = |(spec, values): (TensorSpec, &Values)| HostTensor {
                    dtype: spec.dtype,
                    shape: *spec.layout.shape(),
                    values: vec![value(values, spec.dtype); spec.layout.elements() as usize],
                };
                let inputs = one.inputs().into_iter().zip(&case.values).map(host).collect::<Vec<HostTensor>>();
                let expected = one.expected(&inputs)[0];
                let (value, error) = (expected.value.as_f64(), expected.error);
                if case.values[2] == LARGE {
                    assert!(value == f64::INFINITY && error == 0.0, "{}: {value} +- {error}", case.name);
                    overflowing += 1;
                } else {
                    let largest = case.op.output().dtype.max_finite();
                    assert!(value >= 300.0 && value + error < largest, "{}: {value} +- {error}", case.name);
                    finite += 1;
                }
            }
        }
        assert!(overflowing > 50 && overflowing == finite, "{overflowing} {finite}");
    }
}
