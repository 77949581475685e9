//! Data and dtypes that do not fit each other, the function or the device.

use super::{Answer, must, ones, refused};
use crate::ops::Matmul;
use crate::{BinaryFn, DType, Device, Error, Tensor};

pub(super) fn data_length(device: &Device) -> Answer {
    refused(
        "5 numbers for [2,3]",
        Tensor::from_slice(device, &[0f32; 5], [2, 3]),
        |e| matches!(e, Error::DataLength { shape, expected: 6, got: 5 } if shape == &[2, 3]),
    )?;
    refused("23 bytes for [2,3]", Tensor::from_bytes(device, DType::F32, &[0; 23], [2, 3]), |e| {
        matches!(e, Error::DataLength { expected: 6, got: 5, .. })
    })?;
    refused(
        "7 numbers written to [2,3]",
        ones(device, &[2, 3])?.write(&[0f32; 7]),
        |e| matches!(e, Error::DataLength { shape, expected: 6, got: 7 } if shape == &[2, 3]),
    )
}

pub(super) fn item(device: &Device) -> Answer {
    refused(
        "item of [2,3]",
        ones(device, &[2, 3])?.item::<f32>(),
        |e| matches!(e, Error::DataLength { shape, expected: 1, got: 6 } if shape == &[2, 3]),
    )
}

pub(super) fn read_dtype(device: &Device) -> Answer {
    refused("f32 read as i32", ones(device, &[2])?.to_vec::<i32>(), |e| {
        matches!(e, Error::DTypeMismatch { expected: DType::I32, got: DType::F32, .. })
    })?;
    refused("i32 written to f32", ones(device, &[2])?.write(&[1i32, 2]), |e| {
        matches!(e, Error::DTypeMismatch { op: "write", expected: DType::F32, got: DType::I32 })
    })
}

pub(super) fn mixed_dtypes(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 2])?, must(Tensor::from_slice(device, &[1i32; 4], [2, 2]))?);
    refused("f32 + i32", a.add(&b), |e| {
        matches!(e, Error::DTypeMismatch { op: "add", expected: DType::F32, got: DType::I32 })
    })?;
    refused("f32 x i32", a.matmul(&b), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::F32, got: DType::I32 })
    })?;
    let eight = must(Tensor::zeros(device, DType::F8E4M3, [2, 2]))?;
    refused("f8e4m3 x f32", eight.matmul(&a), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::F8E4M3, got: DType::F32 })
    })?;
    refused("i32 assigned to f32", a.assign(&b), |e| matches!(e, Error::DTypeMismatch { .. }))
}

pub(super) fn undefined(device: &Device) -> Answer {
    let integers = must(Tensor::from_slice(device, &[1i32; 4], [2, 2]))?;
    let truths = must(Tensor::from_slice(device, &[true; 4], [2, 2]))?;
    let is = |op, dtype| move |e: &Error| matches!(e, Error::UndefinedForDType { op: o, dtype: d } if *o == op && *d == dtype);
    refused("exp of i32", integers.exp(), is("exp", DType::I32))?;
    refused("softmax of i32", integers.softmax(0), is("softmax", DType::I32))?;
    refused("bool + bool", truths.add(&truths), is("add", DType::Bool))?;
    refused("bool x bool", truths.matmul(&truths), is("matmul", DType::Bool))?;
    refused("max of bool", truths.max(..), is("max", DType::Bool))?;
    refused("argmax of bool", truths.argmax(..), is("argmax", DType::Bool))?;
    refused("pow of i32", integers.pow(&integers), is("pow", DType::I32))?;
    refused("f32 & f32", ones(device, &[2])?.binary(BinaryFn::And, &ones(device, &[2])?), is("and", DType::F32))?;
    refused("arange of bool", Tensor::arange(device, DType::Bool, 0, 1, 3), is("arange", DType::Bool))
}

pub(super) fn condition(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    refused("where with an f32 condition", x.where_(&x, &x), |e| {
        matches!(e, Error::DTypeMismatch { op: "where", expected: DType::Bool, got: DType::F32 })
    })
}

/// A device may compute in every dtype; one that does not must say so by name, before it does anything.
pub(super) fn unsupported_dtype(device: &Device) -> Answer {
    for lacked in DType::ALL.into_iter().filter(|&dtype| !device.supports(dtype)) {
        let bytes = vec![0; 4 * lacked.size_bytes() as usize];
        let x = must(Tensor::from_bytes(device, lacked, &bytes, [4]))?;
        let named = |e: &Error| match e {
            Error::UnsupportedDType { device: named, dtype, feature } => {
                named == device.id() && *dtype == lacked && !feature.is_empty()
            }
            _ => false,
        };
        let square = must(x.reshape([2, 2]))?;
        refused("a sum in a dtype the device lacks", x.sum(..), named)?;
        // Of what has no products on any device that is the reason.
        let product = |e: &Error| match Matmul::output_dtype(lacked) {
            Some(_) => named(e),
            None => matches!(e, Error::UndefinedForDType { op: "matmul", dtype } if *dtype == lacked),
        };
        refused("a product in a dtype the device lacks", square.matmul(&square), product)?;
        refused("a cast from a dtype the device lacks", x.cast(DType::F32), named)?;
        refused("a cast to a dtype the device lacks", ones(device, &[4])?.cast(lacked), named)?;
        refused("a fill in a dtype the device lacks", Tensor::full(device, lacked, [4], 1.0), named)?;
        refused("a position in a dtype the device lacks", x.argmax(..), named)?;
        refused("a comparison in a dtype the device lacks", x.lt(&x), named)?;
        refused("a recording in a dtype the device lacks", device.record(|| x.abs()), named)?;
        if must(x.to_bytes())? != bytes {
            return Err(format!("{lacked} cannot even be stored"));
        }
    }
    Ok(())
}

pub(super) fn nan_cast(device: &Device) -> Answer {
    let x = must(Tensor::from_slice(device, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 300.7, -300.7], [5]))?;
    let integers: Vec<i32> = must(must(x.cast(DType::I32))?.to_vec())?;
    let bytes: Vec<u8> = must(must(x.cast(DType::U8))?.to_vec())?;
    if integers == [0, i32::MAX, i32::MIN, 300, -300] && bytes == [0, 255, 0, 255, 0] {
        return Ok(());
    }
    Err(format!("cast gave {integers:?} and {bytes:?}"))
}
