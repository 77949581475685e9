//! RMS normalisation and the tanh form of GELU against their formulas in f64, and of operands of 16 bits.

use polywarp_core::oracle::Subnormals;
use polywarp_core::{DType, Device, Distribution, Error, Tape, Tensor};
use polywarp_nn::{Builder, RmsNorm, gelu_tanh, rms_norm};

use super::support::close;

pub const EPSILON: f64 = 1e-3;

pub fn rms_norm_of(x: &[f64], weight: &[f64]) -> Vec<f64> {
    let n = weight.len();
    let row = |row: &[f64]| {
        let root = (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + EPSILON).sqrt();
        row.iter().zip(weight).map(|(x, w)| x / root * w).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}

pub fn gelu_of(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

#[track_caller]
pub fn near(found: &[f64], want: &[f64], most: f64) {
    assert_eq!(found.len(), want.len());
    for (i, (found, want)) in found.iter().zip(want).enumerate() {
        assert!((found - want).abs() <= most, "element {i}: {found}, not {want}");
    }
}

pub fn rms_norm_is_its_formula(device: &Device) {
    let mut builder = Builder::new(1);
    let layer = RmsNorm::new(&mut builder, "norm", 5, EPSILON).unwrap();
    let parameters = builder.build(device).unwrap();
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["norm.weight"]);
    let x = Tensor::random(device, DType::F32, [2, 3, 5], Distribution::Normal { mean: 1.0, std: 2.0 }, 3, 0).unwrap();
    let of_x: Vec<f64> = x.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    let forward = || layer.forward(&parameters.unwatched(), &x).unwrap();
    assert_eq!(forward().dims(), [2, 3, 5]);
    close(&forward().to_vec().unwrap(), &rms_norm_of(&of_x, &[1.0; 5]), 1e-5);
    let weight = [0.5f32, -1.0, 2.0, 0.0, 3.0];
    parameters.set("norm.weight", &Tensor::from_slice(device, &weight, [5]).unwrap()).unwrap();
    close(&forward().to_vec().unwrap(), &rms_norm_of(&of_x, &weight.map(f64::from)), 1e-5);
}

/// Squares of 1000 are beyond f16, and sums of 4096 of them beyond what bf16 can add one to.
pub fn rms_norm_of_sixteen_bits_sums_in_f32(device: &Device) {
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::full(device, dtype, [2, 4096], 1000.0).unwrap();
        let weight = Tensor::full(device, dtype, [4096], 0.5).unwrap();
        let tape = Tape::new();
        let x = tape.watch(&x).unwrap();
        let y = rms_norm(&x, &weight, 1e-5).unwrap();
        assert_eq!(y.dtype(), dtype);
        let found = y.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert!(found.iter().all(|y| *y == 0.5), "{dtype}: {}", found[0]);
        let gradients = tape.backward(&y.sum(..).unwrap()).unwrap();
        let dx = gradients.of(&x).unwrap();
        assert_eq!(dx.dtype(), dtype);
        // Another length of a row does not change it.
        let dx = dx.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert!(dx.iter().all(|dx| dx.abs() < 1e-6), "{dtype}: {}", dx[0]);
    }
}

pub fn gelu_tanh_is_its_formula(device: &Device) {
    let x: Vec<f32> = (-160..=160).map(|i| i as f32 / 16.0).collect();
    let want: Vec<f64> = x.iter().map(|&x| gelu_of(x.into())).collect();
    let tensor = Tensor::from_slice(device, &x, [x.len() as u64]).unwrap();
    near(
        &gelu_tanh(&tensor).unwrap().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>(),
        &want,
        1e-5,
    );
    let erf: Vec<f64> = tensor.gelu().unwrap().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    near(&want, &erf, 5e-4);
    // x^3 is beyond f16 from 41 on.
    let large = Tensor::from_slice(device, &[100.0f32, -100.0, 1.0], [3]).unwrap().cast(DType::F16).unwrap();
    let found = gelu_tanh(&large).unwrap();
    assert_eq!(found.dtype(), DType::F16);
    let found = found.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
    assert!(found[0] == 100.0 && found[1].abs() < 1e-4 && (found[2] - 0.841_192).abs() < 5e-4, "{found:?}");
    let whole = Tensor::zeros(device, DType::I32, [2]).unwrap();
    assert!(matches!(gelu_tanh(&whole), Err(Error::UndefinedForDType { op: "gelu_tanh", .. })));
}

/// In units in the last place of the result; the formula's form that does not cancel, in f64.
pub fn gelu_tanh_of_all_numbers_of_16_bits_is_near(device: &Device) {
    let by_hand = |x: f64| x / (1.0 + (-2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).exp());
    let flushes = device.info().subnormals == Subnormals::MayFlush;
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    // Bits of the fraction, the least normal number and the largest.
    let dtypes =
        [(DType::F16, 10, (-14f64).exp2(), 65504.0), (DType::BF16, 7, (-126f64).exp2(), 3.389_531_389_251_535_5e38)];
    for (dtype, bits_of_fraction, least, largest) in dtypes {
        let x = Tensor::from_bytes(device, dtype, &bits, [1 << 16]).unwrap();
        let y = gelu_tanh(&x).unwrap();
        let f32s = |tensor: &Tensor| tensor.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        for (x, found) in f32s(&x).into_iter().zip(f32s(&y)) {
            let (x, found) = (f64::from(x), f64::from(found));
            let want = by_hand(x);
            let size = want.abs().clamp(least, largest);
            let ulp = size.log2().floor().exp2() * f64::from(-bits_of_fraction).exp2();
            // As silu it may lose its far tail, and subnormal numbers where a device flushes them.
            let tail = if flushes { 2.0 * least } else { 0.0 }.max(4.0 * x.abs() * f64::from(f32::MIN_POSITIVE));
            let is_tail = found == 0.0 && want.abs() <= tail;
            let is_right = found == want || (found - want).abs() <= 0.52 * ulp || (found.is_nan() && want.is_nan());
            assert!(
                is_right || is_tail,
                "{dtype}: of {x:e} {found:e}, not {want:e}: {} ULP",
                (found - want).abs() / ulp
            );
        }
    }
}

cases!(
    rms_norm_is_its_formula,
    rms_norm_of_sixteen_bits_sums_in_f32,
    gelu_tanh_is_its_formula,
    gelu_tanh_of_all_numbers_of_16_bits_is_near,
);
