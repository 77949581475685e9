//! The packed bytes, every way of dequantising against the definition element by element, and the arguments that are refused.

use super::*;
use crate::Device;
use crate::harness::values::mix;

fn numbers(count: u64, seed: u64) -> Vec<f32> {
    (0..count).map(|i| (mix(seed, i) >> 40) as f32 / (1 << 22) as f32 - 1.5).collect()
}

fn tensor(dims: &[u64], seed: u64) -> Tensor {
    Tensor::from_slice(&Device::cpu(), &numbers(dims.iter().product(), seed), dims).unwrap()
}

#[test]
fn bytes_hold_the_low_half_first_and_rows_end_with_zero() {
    let device = Device::cpu();
    let steps = Tensor::from_slice(&device, &[1i8, -8, 7, -1, 0, 23], [2, 3]).unwrap();
    let packed = Nibbles::pack(&steps, FourBit::I4).unwrap();
    assert_eq!((packed.bytes().dims(), packed.dims()), (&[2u64, 2][..], &[2u64, 3][..]));
    assert_eq!(packed.bytes().to_vec::<u8>().unwrap(), [0x81, 0x07, 0x0f, 0x07]);
    // 23 keeps its low four bits.
    assert_eq!(packed.unpack().unwrap().to_vec::<i8>().unwrap(), [1, -8, 7, -1, 0, 7]);
    let again = Nibbles::new(packed.bytes().clone(), FourBit::U4, [2, 3]).unwrap();
    assert_eq!(again.unpack().unwrap().to_vec::<u8>().unwrap(), [1, 8, 7, 15, 0, 7]);
    // Packing takes integers of any dtype and any view; no elements give no bytes.
    let wide = Tensor::from_slice(&device, &[1u64, 2, u64::MAX, 4], [2, 2]).unwrap().t().unwrap();
    let packed = Nibbles::pack(&wide, FourBit::U4).unwrap();
    assert_eq!(packed.bytes().to_vec::<u8>().unwrap(), [0xf1, 0x42]);
    let none = Nibbles::pack(&Tensor::zeros(&device, DType::I32, [3, 0]).unwrap(), FourBit::I4).unwrap();
    assert_eq!((none.bytes().dims(), none.unpack().unwrap().dims()), (&[3u64, 0][..], &[3u64, 0][..]));
}

/// (step - zero) scale of each element, by its coordinates.
fn by_definition(x: &Quantized4) -> Vec<f32> {
    let steps: Vec<f64> = x.steps().unpack().unwrap().to_f64_vec().unwrap();
    let scales = x.scales().to_vec::<f32>().unwrap();
    let zeros = x.zeros().map(|zeros| zeros.to_f64_vec().unwrap());
    let (dims, axis) = (x.steps().dims(), x.groups.axis);
    let inner: usize = dims[axis + 1..].iter().product::<u64>() as usize;
    let (extent, count) = (dims[axis] as usize, x.groups.count() as usize);
    let value = |(i, step): (usize, &f64)| {
        let (outer, along) = (i / inner / extent, i / inner % extent);
        let group = (outer * count + along / x.groups.length as usize) * inner + i % inner;
        (step - zeros.as_ref().map_or(0.0, |zeros| zeros[group])) as f32 * scales[group]
    };
    steps.iter().enumerate().map(value).collect()
}

#[test]
fn values_are_steps_times_scales_of_their_group() {
    let shapes: [(&[u64], i32, u64); 8] = [
        (&[4, 64], 1, 32),
        (&[4, 64], 1, 1000),
        (&[5, 37], -1, 8),
        (&[64, 6], 0, 16),
        (&[64, 5], 0, 16),
        (&[37, 6], 0, 16),
        (&[2, 6, 3, 10], 1, 2),
        (&[30], 0, 3),
    ];
    for (seed, (dims, axis, group)) in shapes.into_iter().enumerate() {
        for kind in [FourBit::I4, FourBit::U4] {
            let x = tensor(dims, seed as u64);
            let packed = x.quantize4(kind, axis, group).unwrap();
            assert_eq!(packed.zeros().is_some(), kind == FourBit::U4);
            let back = packed.dequantize(DType::F32).unwrap();
            assert_eq!(back.dims(), dims);
            let back = back.to_vec::<f32>().unwrap();
            assert_eq!(back, by_definition(&packed), "{kind:?} {dims:?} by {group} along {axis}");
            // The error is at most half the scale of the group, which is at most the largest scale of all.
            let most = packed.scales().to_vec::<f32>().unwrap().into_iter().fold(0f32, f32::max);
            let off = x.to_vec::<f32>().unwrap().into_iter().zip(back).map(|(x, back)| (x - back).abs());
            assert!(off.fold(0f32, f32::max) <= 0.5001 * most, "{kind:?} {dims:?}");
            let parts = (packed.steps().clone(), packed.scales().clone(), packed.zeros().cloned());
            let again = Quantized4::new(parts.0, parts.1, parts.2, axis, group).unwrap();
            assert_eq!(
                again.dequantize(DType::BF16).unwrap().to_bytes().unwrap(),
                packed.dequantize(DType::BF16).unwrap().to_bytes().unwrap()
            );
        }
    }
}

#[test]
fn given_scales_and_zero_points_decide() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[0.0f32, 0.5, 1.0, -100.0, 100.0, 1.5], [6]).unwrap();
    let scales = Tensor::from_slice(&device, &[0.5f32, 1.0], [2]).unwrap();
    let steps = |kind, zeros| {
        let packed = x.quantize4_with(kind, 0, 3, scales.clone(), zeros).unwrap();
        packed.steps().unpack().unwrap().to_f64_vec().unwrap()
    };
    assert_eq!(steps(FourBit::I4, None), [0.0, 1.0, 2.0, -8.0, 7.0, 2.0]);
    let zeros = Tensor::from_slice(&device, &[3u8, 8], [2]).unwrap();
    assert_eq!(steps(FourBit::U4, Some(zeros)), [3.0, 4.0, 5.0, 0.0, 15.0, 10.0]);
}

#[test]
fn zeros_stay_and_what_is_no_number_is_not_hidden() {
    let device = Device::cpu();
    let data = [0.0f32, 0.0, f32::NAN, 1.0, f32::NEG_INFINITY, 2.0, 3.0, 4.0];
    for kind in [FourBit::I4, FourBit::U4] {
        let x = Tensor::from_slice(&device, &data, [4, 2]).unwrap();
        let back = x.quantize4(kind, 1, 2).unwrap().dequantize(DType::F32).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(back[..2], [0.0, 0.0]);
        assert!(back[2..6].iter().all(|x| x.is_nan()), "{back:?}");
        assert!((back[6] - 3.0).abs() <= 0.3 && (back[7] - 4.0).abs() <= 0.3, "{back:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let x = tensor(&[4, 6], 1);
    assert!(matches!(x.quantize4(FourBit::I4, 2, 2), Err(Error::AxisOutOfRange { .. })));
    assert!(matches!(x.quantize4(FourBit::I4, 1, 0), Err(Error::InvalidArgument { what: "group", .. })));
    let whole = x.cast(DType::I32).unwrap();
    assert!(matches!(whole.quantize4(FourBit::U4, 1, 2), Err(Error::UndefinedForDType { .. })));
    assert!(matches!(Nibbles::pack(&x, FourBit::U4), Err(Error::UndefinedForDType { op: "pack", .. })));
    let number = Tensor::full(&device, DType::I8, Shape::SCALAR, 1).unwrap();
    assert!(matches!(Nibbles::pack(&number, FourBit::I4), Err(Error::InvalidArgument { what: "shape", .. })));
    let bytes = Tensor::zeros(&device, DType::U8, [4, 3]).unwrap();
    assert!(matches!(Nibbles::new(bytes.clone(), FourBit::I4, [4, 7]), Err(Error::ShapeMismatch { .. })));
    assert!(matches!(Nibbles::new(whole, FourBit::I4, [4, 12]), Err(Error::DTypeMismatch { .. })));
    let steps = Nibbles::new(bytes, FourBit::U4, [4, 6]).unwrap();
    let ones = |dtype, dims: [u64; 2]| Tensor::full(&device, dtype, dims, 1).unwrap();
    let new = |scales, zeros| Quantized4::new(steps.clone(), scales, zeros, 1, 4);
    assert!(matches!(new(ones(DType::F32, [4, 3]), None), Err(Error::ShapeMismatch { .. })));
    assert!(matches!(new(ones(DType::F16, [4, 2]), None), Err(Error::DTypeMismatch { .. })));
    let signed = new(ones(DType::F32, [4, 2]), Some(ones(DType::I8, [4, 2])));
    assert!(matches!(signed, Err(Error::DTypeMismatch { expected: DType::U8, .. })));
    let packed = new(ones(DType::F32, [4, 2]), Some(ones(DType::U8, [4, 2]))).unwrap();
    assert_eq!(packed.size_bytes(), 4 * 3 + 4 * 2 * 4 + 4 * 2);
    assert!(matches!(packed.dequantize(DType::I32), Err(Error::UndefinedForDType { .. })));
}
