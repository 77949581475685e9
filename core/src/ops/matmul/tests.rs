//! The bound of a product of 8-bit floats accepts an emulation of tensor cores with 14 bits that moves its sums to f32
//! every 128 products, and rejects one that never does. Also: the dtypes that a product may combine.

use super::roundoff::{TENSOR_CORE_PRODUCTS, TENSOR_CORE_ROUNDOFF};
use super::*;
use crate::case::Values;
use crate::oracle::Subnormals;
use crate::{Layout, Shape, TensorSpec};

fn spec(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product([a, b, d]: [DType; 3], [m, n, k]: [u64; 3]) -> Result<Matmul> {
    Matmul::product(spec(a, &[m, k]), spec(b, &[k, n]), spec(d, &[m, n])).check()
}

/// Cuts off the bits of `x` below 2^-13 of `2^exponent`.
fn cut(x: f64, exponent: i32) -> f64 {
    let unit = 2f64.powi(exponent) * TENSOR_CORE_ROUNDOFF;
    (x / unit).trunc() * unit
}

fn exponent(x: f64) -> i32 {
    if x == 0.0 { -1000 } else { x.abs().log2().floor() as i32 }
}

/// One instruction: adds 32 products and the sum, aligned to the largest of them, and normalises the result.
fn instruction(sum: f64, products: &[f64]) -> f64 {
    let largest = products.iter().map(|&x| exponent(x)).fold(exponent(sum), i32::max);
    let total = products.iter().map(|&x| cut(x, largest)).sum::<f64>() + cut(sum, largest);
    cut(total, exponent(total))
}

/// The sum as tensor cores compute it, moved to f32 after every `promoted_every` products.
fn tensor_core_sum(products: &[f64], promoted_every: usize) -> f64 {
    products
        .chunks(promoted_every)
        .fold(0f32, |sum, chunk| sum + chunk.chunks(TENSOR_CORE_PRODUCTS as usize).fold(0.0, instruction) as f32)
        as f64
}

/// The number of elements that the bound accepts, of `count` random ones; K = `k`, values of the given kind in both operands.
fn accepted(dtypes: [DType; 3], k: usize, values: Values, promoted_every: usize, count: u64) -> u64 {
    let op = product(dtypes, [1, 1, k as u64]).unwrap();
    let draw = |spec: &TensorSpec, seed: u64| {
        let bytes = values.bytes(spec.dtype, k as u64, seed);
        let values = bytes.iter().map(|&byte| Scalar::from_le_bytes(&[byte], spec.dtype)).collect();
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    };
    let one = |seed: u64| {
        let (a, b) = (draw(&op.a, 2 * seed), draw(&op.b, 2 * seed + 1));
        let products: Vec<f64> = a.values.iter().zip(&b.values).map(|(a, b)| a.as_f64() * b.as_f64()).collect();
        let got = Scalar::F(tensor_core_sum(&products, promoted_every)).cast(op.output.dtype);
        op.expected(&[a, b])[0].accepts(got, op.output.dtype, crate::oracle::Subnormals::Kept)
    };
    (0..count).filter(|&seed| one(seed)).count() as u64
}

const E4M3: [DType; 3] = [DType::F8E4M3, DType::F8E4M3, DType::F32];
const MIXED: [DType; 3] = [DType::F8E5M2, DType::F8E4M3, DType::BF16];

#[test]
fn sums_promoted_every_128_products_are_within_the_bound() {
    for dtypes in [E4M3, MIXED] {
        for k in [1, 31, 32, 33, 100, 128, 129, 1024, 4096, 16_384] {
            for values in [Values::Uniform(-1.0, 1.0), Values::Uniform(0.0, 1.0), Values::Normal, Values::Special] {
                assert_eq!(accepted(dtypes, k, values, PROMOTED_EVERY as usize, 20), 20, "{dtypes:?} {k} {values:?}");
            }
        }
    }
}

#[test]
fn sums_never_promoted_are_beyond_the_bound_for_long_k() {
    for dtypes in [E4M3, MIXED] {
        for k in [2048, 4096, 16_384] {
            assert_eq!(accepted(dtypes, k, Values::Uniform(0.0, 1.0), usize::MAX, 20), 0, "{dtypes:?} {k}");
        }
    }
}

#[test]
fn eight_bit_floats_mix_and_give_three_dtypes() {
    let dims = [2, 3, 4];
    for a in [DType::F8E4M3, DType::F8E5M2] {
        for b in [DType::F8E4M3, DType::F8E5M2] {
            for d in DType::ALL {
                let made = product([a, b, d], dims);
                assert_eq!(made.is_ok(), matches!(d, DType::F32 | DType::F16 | DType::BF16), "{a} {b} {d}");
            }
        }
    }
    let refused = |dtypes| product(dtypes, dims).unwrap_err();
    assert!(matches!(refused([DType::F8E4M3, DType::F16, DType::F32]), Error::DTypeMismatch { op: "matmul", .. }));
    assert!(matches!(refused([DType::I8, DType::U8, DType::I32]), Error::DTypeMismatch { op: "matmul", .. }));
    assert!(matches!(refused([DType::F16, DType::F16, DType::BF16]), Error::DTypeMismatch { op: "matmul", .. }));
    assert!(product([DType::BF16, DType::BF16, DType::F32], dims).is_ok());
}

#[test]
fn only_split_products_with_an_infinity_may_be_nan() {
    let operand = |values: [f64; 4]| HostTensor {
        dtype: DType::F32,
        shape: Shape::new(&[2, 2]).unwrap(),
        values: values.map(Scalar::F).to_vec(),
    };
    let inputs = [operand([f64::INFINITY, 1.0, 2.0, 3.0]), operand([1.0, 2.0, 3.0, 4.0])];
    for precision in [Precision::Medium, Precision::High, Precision::Highest] {
        let op = Matmul { precision, ..product([DType::F32; 3], [2, 2, 2]).unwrap() };
        let expected = op.expected(&inputs);
        for (at, e) in expected.iter().enumerate() {
            let accepts = |x: f64| e.accepts(Scalar::F(x), DType::F32, Subnormals::Kept);
            assert!(accepts(e.value.as_f64()));
            assert_eq!(accepts(f64::NAN), precision == Precision::High && at < 2, "{precision:?} {at}");
            assert!(!accepts(7.5));
        }
    }
}

/// The sum of the two f16 parts of x, which a power of two brings into f16's range. `shift`: the factor by which the
/// low part is kept larger.
fn parts(x: f64, scale: f64, shift: f64) -> [f64; 2] {
    let round = |x: f64| Scalar::F(x).cast(DType::F16).as_f64();
    let high = round(x * scale);
    [high, round((x * scale - high) * shift) / shift]
}

#[test]
fn small_elements_need_low_parts_that_are_kept_larger() {
    let dims = [9, 11, 1];
    let op = Matmul { precision: Precision::High, ..product([DType::F32; 3], dims).unwrap() };
    let operand = |rows: u64, columns: u64, seed| HostTensor {
        dtype: DType::F32,
        shape: Shape::new(&[rows, columns]).unwrap(),
        values: Values::Spread(26)
            .bytes(DType::F32, rows * columns, seed)
            .chunks(4)
            .map(|bytes| Scalar::from_le_bytes(bytes, DType::F32))
            .collect(),
    };
    let inputs = [operand(9, 1, 1), operand(1, 11, 2)];
    let expected = op.expected(&inputs);
    let accepted = |shift: f64| {
        let scale = 14f64.exp2();
        let split = |i: usize, at: usize| parts(inputs[i].values[at].as_f64(), scale, shift);
        let products = (0..9).flat_map(|row| (0..11).map(move |column| (row, column)));
        products.zip(&expected).all(|((row, column), expected)| {
            let ([a_high, a_low], [b_high, b_low]) = (split(0, row), split(1, column));
            let sum = a_low * b_high + a_high * b_low + a_high * b_high;
            let product = Scalar::F(sum / scale / scale).cast(DType::F32);
            expected.accepts(product, DType::F32, Subnormals::Kept)
        })
    };
    assert!(accepted(2048.0));
    assert!(!accepted(1.0));
}

#[test]
fn products_scaled_by_zero_have_a_k_of_zero_and_read_no_scales() {
    let dims = [9, 11, 40];
    for alpha in [0.0, -0.0, 1e-60] {
        let op = Matmul { alpha, ..product([DType::F32; 3], dims).unwrap() }.check().unwrap();
        assert_eq!((op.dims().k, op.inputs().len(), op.alpha), (0, 2, 0.0), "{alpha}");
        assert_eq!((op.a.layout.elements(), op.b.layout.elements()), (0, 0));
    }
    let kept = Matmul { alpha: 1e-60, ..product([DType::F64; 3], dims).unwrap() }.check().unwrap();
    assert_eq!(kept.dims().k, 40, "1e-60 is a number of f64");
    let scales = |scale_blocks, a: &[u64], b: &[u64]| Matmul {
        alpha: 0.0,
        scale_a: Some(spec(DType::F32, a)),
        scale_b: Some(spec(DType::F32, b)),
        scale_blocks,
        ..product([DType::F8E4M3, DType::F8E4M3, DType::F32], dims).unwrap()
    };
    let blocks = Some(ScaleBlocks { m: 2, n: 3, k: 16 });
    for op in [scales(None, &[9, 1], &[1, 11]), scales(blocks, &[5, 3], &[3, 4])] {
        let op = op.check().unwrap();
        assert!(op.inputs()[..4].iter().all(|spec| spec.layout.elements() == 0), "{op:?}");
        // An op without its product stays unchanged when it is checked again.
        assert_eq!(op.clone().check().unwrap(), op);
    }
    // Operands that do not fit are still refused.
    assert!(scales(None, &[9, 2], &[1, 11]).check().is_err());
}
