//! Sums of 8-bit integers that stand for floats are those of the products, however many there are: cut, or refused; never wrapped.

use polywarp_core::{DType, Device, Error, Granularity, MatmulOptions, Quantized, Tensor};

const K: u64 = 140_000;

#[test]
fn quantised_layers_of_long_rows_do_not_wrap() {
    let device = Device::cpu();
    let x = Tensor::full(&device, DType::F32, [2, K], 1.0).unwrap();
    let weights = Tensor::full(&device, DType::F32, [3, K], -1.0).unwrap();
    let weights = weights.quantize(DType::I8, Granularity::PerRow).unwrap();
    let d: Vec<f32> = x.linear(&weights, None, None).unwrap().to_vec().unwrap();
    for value in d {
        assert!((value + K as f32).abs() < 0.01 * K as f32, "{value} of {K} products of 1 and -1");
    }
}

#[test]
fn the_largest_steps_do_not_wrap_at_any_length() {
    let device = Device::cpu();
    for k in [131_071u64, 131_072, 133_145, 300_000] {
        let steps = Tensor::full(&device, DType::I8, [1, k], -128.0).unwrap();
        let one = Tensor::full(&device, DType::F32, [1, 1], 1.0).unwrap();
        let a = Quantized::new(steps.clone(), one.clone()).unwrap();
        let b = Quantized::new(steps.t().unwrap(), one).unwrap();
        let d: Vec<f32> = a.matmul(&b, &MatmulOptions::default()).unwrap().to_vec().unwrap();
        assert_eq!(d, [(16_384 * k) as f32], "k = {k}");
    }
}

#[test]
fn sums_that_cannot_be_cut_are_refused_with_what_to_do() {
    let device = Device::cpu();
    for (dtype, longest) in [(DType::I8, 131_071u64), (DType::U8, 33_025)] {
        let product = |k: u64| {
            let a = Tensor::full(&device, dtype, [1, k], 1.0)?;
            let output = Some(DType::F32);
            a.matmul_with(&a.t()?, &MatmulOptions { output, ..MatmulOptions::default() })
        };
        product(longest).unwrap();
        match product(longest + 1) {
            Err(Error::InvalidArgument { what: "k", reason }) => {
                assert!(reason.contains("scales in blocks"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        // Whoever asks for integers gets them.
        let a = Tensor::full(&device, dtype, [1, longest + 1], 1.0).unwrap();
        let d: Vec<i32> = a.matmul(&a.t().unwrap()).unwrap().to_vec().unwrap();
        assert_eq!(d, [longest as i32 + 1]);
    }
}
