//! Every comparison and extremum of every dtype with numbers at the edges of all of them, against an exact order that knows
//! nothing of how numbers are lowered; and what is refused.

use std::cmp::Ordering;

use super::*;
use crate::case::values::special;
use crate::cpu::CpuBackend;
use crate::harness::ReferenceBackend;
use crate::{Device, Expr, Tensor};

fn devices() -> [Device; 2] {
    [Device::new(CpuBackend::new()), Device::new(ReferenceBackend::default())]
}

/// Whole parts in 128 bits first, then what is left: nothing is rounded.
fn order(a: Scalar, b: Scalar) -> Option<Ordering> {
    let split = |x: Scalar| match x {
        Scalar::I(x) => (i128::from(x), 0.0),
        Scalar::U(x) => (i128::from(x), 0.0),
        Scalar::F(x) => (x.floor() as i128, if x.is_infinite() { 0.0 } else { x - x.floor() }),
    };
    if let (Scalar::F(a), Scalar::F(b)) = (a, b) {
        return a.partial_cmp(&b);
    }
    if a.is_nan() || b.is_nan() { None } else { split(a).partial_cmp(&split(b)) }
}

/// Numbers at the edges of every dtype, between their values, and beyond all.
fn numbers() -> Vec<Scalar> {
    let integers = [0, 1, -1, 2, 3, 127, 128, -128, -129, 255, 256, 65_535, 65_536, 16_777_216, 16_777_217];
    let wide =
        [i64::from(i32::MAX), 1 << 31, i64::from(i32::MIN), i64::from(i32::MIN) - 1, i64::from(u32::MAX), 1 << 32];
    let long = [(1 << 53) + 1, -(1 << 53) - 1, i64::MAX, i64::MAX - 1, i64::MIN];
    let longest = [1u64 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
    let floats = [
        -0.0,
        0.1,
        2.5,
        -2.5,
        1e-8,
        1e-50,
        -1e-300,
        254.5,
        255.5,
        -128.5,
        65_504.0,
        65_519.0,
        65_520.0,
        1e10,
        1e18,
        1e39,
        -1e39,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9_007_199_254_740_994.0,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from(0.1f32),
        f64::from(f32::MAX),
        3.5,
    ];
    let integers = integers.into_iter().chain(wide).chain(long).map(Scalar::I).chain(longest.map(Scalar::from));
    integers.chain(floats.map(Scalar::F)).collect()
}

/// Values of `dtype`, the neighbours of the numbers among them, and the bytes of them.
fn values(dtype: DType) -> (Vec<Scalar>, Vec<u8>) {
    let mut all = special(dtype);
    all.extend(numbers().into_iter().map(|number| number.kept_in(dtype)));
    let bytes = all.iter().flat_map(|x| x.to_le_bytes(dtype)).collect();
    (all, bytes)
}

#[test]
fn comparisons_with_numbers_have_the_answers_of_mathematics() {
    for device in devices() {
        for dtype in DType::ALL {
            let (values, bytes) = values(dtype);
            let x = Tensor::from_bytes(&device, dtype, &bytes, [values.len() as u64]).unwrap();
            for number in numbers() {
                for f in CompareFn::ALL.into_iter().filter(|f| f.defined_for(dtype)) {
                    let got = x.compare_scalar(f, number).unwrap().to_vec::<bool>().unwrap();
                    let flipped = Expr::constant(number).compare(f, Expr::input(0));
                    let flipped = Tensor::map(&flipped, &[&x]).unwrap().to_vec::<bool>().unwrap();
                    for ((value, got), flipped) in values.iter().zip(got).zip(flipped) {
                        let said = format!("{dtype} {value} {} {number} on {}", f.name(), device.id());
                        assert_eq!(got, f.of(order(*value, number)), "{said}");
                        assert_eq!(flipped, f.of(order(number, *value)), "{said}, number first");
                    }
                }
            }
        }
    }
}

#[test]
fn extrema_with_numbers_are_the_nearest_bound_that_the_dtype_has() {
    for device in devices() {
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
            let (values, bytes) = values(dtype);
            let x = Tensor::from_bytes(&device, dtype, &bytes, [values.len() as u64]).unwrap();
            for (f, wins) in [(BinaryFn::Max, Ordering::Greater), (BinaryFn::Min, Ordering::Less)] {
                for number in numbers() {
                    let of_integer = match number {
                        Scalar::F(x) if f == BinaryFn::Max => Scalar::F(x.ceil()),
                        Scalar::F(x) => Scalar::F(x.floor()),
                        number => number,
                    };
                    let (low, high) = dtype.integer_range().unwrap_or((0, 0));
                    let beyond = match f {
                        BinaryFn::Max => order(of_integer, Scalar::from_integer(high)) == Some(Ordering::Greater),
                        _ => order(of_integer, Scalar::from_integer(low)) == Some(Ordering::Less),
                    };
                    let got = x.binary_scalar(f, number);
                    if !dtype.is_float() && (beyond || number.is_nan()) {
                        let err = got.unwrap_err();
                        assert!(matches!(err, Error::NumberOutOfRange { dtype: d, .. } if d == dtype), "{err}");
                        continue;
                    }
                    let got = got.unwrap().to_bytes().unwrap();
                    for (value, got) in values.iter().zip(got.chunks(dtype.size_bytes() as usize)) {
                        let got = Scalar::from_le_bytes(got, dtype);
                        let said = format!("{dtype} {} of {value} and {number} is {got} on {}", f.name(), device.id());
                        if dtype.is_float() {
                            let chosen =
                                if value.is_nan() || order(*value, number) == Some(wins) { *value } else { number };
                            let want = chosen.kept_in(dtype);
                            assert!(
                                got.as_f64() == want.as_f64() || (got.is_nan() && want.is_nan()),
                                "{said}, not {want}"
                            );
                        } else {
                            let want = if order(*value, of_integer) == Some(wins) { *value } else { of_integer };
                            assert_eq!(order(got, want), Some(Ordering::Equal), "{said}, not {want}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_that_integers_cannot_hold_are_refused_but_where_they_need_not_be_held() {
    let device = Device::new(CpuBackend::new());
    let bytes = Tensor::from_slice(&device, &[1u8, 2, 255], [3]).unwrap();
    let words = Tensor::from_slice(&device, &[1i32, 2, -3], [3]).unwrap();
    let long = Tensor::from_slice(&device, &[i64::MAX], [1]).unwrap();
    let truth = Tensor::from_slice(&device, &[true, false], [2]).unwrap();
    let pair = Tensor::from_slice(&device, &[7u8, 8], [2]).unwrap();
    let is = |result: Result<Tensor>, op: &str| match result {
        Err(Error::NumberOutOfRange { op: o, .. }) => assert_eq!(o, op),
        other => panic!("{op}: {other:?}"),
    };
    is(bytes.add_scalar(256), "add");
    is(bytes.sub_scalar(-1), "sub");
    is(words.add_scalar(2.5), "add");
    is(words.mul_scalar(f64::NAN), "mul");
    is(words.div_scalar(f64::INFINITY), "div");
    is(words.binary_scalar(BinaryFn::And, u32::MAX), "and");
    is(words.binary_scalar(BinaryFn::Rem, 3e9), "rem");
    is(long.add_scalar(9_223_372_036_854_775_808.0), "add");
    is(truth.binary_scalar(BinaryFn::Xor, 2), "xor");
    is(Tensor::map(&Expr::input(0).select(Expr::input(1), 300), &[&truth, &pair]), "where");
    is(Tensor::arange(&device, DType::U8, -1, 1, 3), "arange");
    is(Tensor::arange(&device, DType::I32, 0, 0.5, 3), "arange");
    let said = bytes.add_scalar(256).unwrap_err().to_string();
    let advice = "cast the tensor to a dtype that can, or convert the number with Expr::cast";
    assert_eq!(said, format!("add: programs in u8 cannot hold the number 256, only integers of 0 to 255; {advice}"));
    // A cast converts, and whole numbers are what they are.
    let wrapped = Expr::input(0) + Expr::constant(257).cast(DType::U8);
    assert_eq!(Tensor::map(&wrapped, &[&bytes]).unwrap().to_vec::<u8>().unwrap(), [2, 3, 0]);
    assert_eq!(words.add_scalar(2.0).unwrap().to_vec::<i32>().unwrap(), [3, 4, -1]);
    assert_eq!(long.sub_scalar(1e18).unwrap().to_vec::<i64>().unwrap(), [i64::MAX - 1_000_000_000_000_000_000]);
    let down = Tensor::arange(&device, DType::U8, 5, -2, 3).unwrap();
    assert_eq!(down.to_vec::<u8>().unwrap(), [5, 3, 1]);
}

#[test]
fn numbers_beside_floats_stay_in_the_type_that_computes() {
    use half::{bf16, f16};
    for device in devices() {
        let half = Tensor::from_slice(&device, &[0.25f32, 0.0].map(f16::from_f32), [2]).unwrap();
        let product = half.mul_scalar(65_536).unwrap().to_vec::<f16>().unwrap();
        assert_eq!(product.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), [16_384.0, 0.0]);
        let sum = (Expr::input(0) + 1e-8) * 1e8;
        let sum = Tensor::map(&sum, &[&half]).unwrap().to_vec::<f16>().unwrap();
        assert_eq!(f32::from(sum[1]), 1.0);
        let brain = Tensor::from_slice(&device, &[1.0f32].map(bf16::from_f32), [1]).unwrap();
        let third = (Expr::input(0) * 257.0).cast(DType::F32);
        assert_eq!(f32::from(brain.mul_scalar(257).unwrap().to_vec::<bf16>().unwrap()[0]), 256.0);
        // Rounded by the cast, as all arithmetic in bf16: the number itself is not. (The reference carries the error instead.)
        if device.id() == "cpu" {
            assert_eq!(Tensor::map(&(third * 1.0), &[&brain]).unwrap().to_vec::<f32>().unwrap(), [256.0]);
        }
        let whole = Expr::input(0) * 257.0 - 256.0;
        assert_eq!(f32::from(Tensor::map(&whole, &[&brain]).unwrap().to_vec::<bf16>().unwrap()[0]), 1.0);
        let small = Tensor::from_slice(&device, &[2.0f32].map(crate::F8E4M3::from_f32), [1]).unwrap();
        let scaled = Expr::input(0) * 1000.0 / 250.0;
        assert_eq!(Tensor::map(&scaled, &[&small]).unwrap().to_vec::<crate::F8E4M3>().unwrap()[0].to_f32(), 8.0);
        let single = Tensor::from_slice(&device, &[1.0f32], [1]).unwrap();
        for number in [1e39, -1e300, 1e-50] {
            let err = single.mul_scalar(number).unwrap_err();
            assert!(matches!(err, Error::NumberOutOfRange { op: "mul", dtype: DType::F32, .. }), "{err}");
        }
        assert_eq!(single.mul_scalar(f64::INFINITY).unwrap().to_vec::<f32>().unwrap(), [f32::INFINITY]);
    }
}

#[test]
fn clamp_of_integers_stays_in_its_range() {
    let device = Device::new(CpuBackend::new());
    let x = Tensor::from_slice(&device, &[2i32, 4, 9], [3]).unwrap();
    assert_eq!(x.clamp(2.5, 5.5).unwrap().to_vec::<i32>().unwrap(), [3, 4, 5]);
    assert_eq!(x.clamp(f64::NEG_INFINITY, 3e9).unwrap().to_vec::<i32>().unwrap(), [2, 4, 9]);
    for (low, high) in [(2.2, 2.8), (3e9, 4e9), (-4e9, -3e9)] {
        let err = x.clamp(low, high).unwrap_err();
        assert!(matches!(err, Error::InvalidArgument { what: "clamp range", .. }), "{err}");
        assert!(Tensor::map(&Expr::input(0).clamp(low, high), &[&x]).is_err());
    }
    let long = Tensor::from_slice(&device, &[i64::MAX], [1]).unwrap();
    assert!(long.clamp(i64::MAX, i64::MAX - 1).is_err(), "as f64 they are one number");
}

#[test]
fn nested_choices_of_constants_are_compiled_in_linear_time() {
    let condition = Expr::input(0).compare(CompareFn::Gt, 0.0);
    let mut nested = Expr::constant(1.0);
    for _ in 0..100 {
        nested = condition.select(nested.clone(), nested);
    }
    for dtype in [DType::F64, DType::F8E5M2] {
        let program = crate::Program::compile(&nested.cast(dtype), &[DType::F32]).unwrap();
        assert_eq!(program.steps().len(), 104);
    }
}
