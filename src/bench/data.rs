//! Benchmark operands: random numbers made on the device itself, the same on every device.
//!
//! Uniform in [-1, 1) for floats, all bit patterns for integers (i8 products: all of -128..127), fair coins for bool; groups get
//! equal numbers of rows. Made by the Philox generator, whose bits do not depend on the device, so the host can know them without a download.

use polywarp_core::{BinaryFn, Buffer, DType, Device, Distribution, Layout, Result, Shape, Tensor, TensorSpec};

/// A buffer that holds every element `spec` reaches, filled from `seed`.
pub(super) fn operand(device: &Device, spec: &TensorSpec, seed: u64) -> Result<Buffer> {
    let elements = spec.layout.required_elements().max(1);
    let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
    let tensor = match spec.dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => {
            Tensor::random(device, spec.dtype, [elements], uniform, seed, 0)?
        }
        DType::F64 => Tensor::random(device, DType::F32, [elements], uniform, seed, 0)?.cast(DType::F64)?,
        DType::Bool => {
            let bits = Tensor::random(device, DType::U32, [elements], Distribution::Bits, seed, 0)?;
            bits.binary_scalar(BinaryFn::Rem, 2)?.cast(DType::Bool)?
        }
        dtype => {
            let words = (elements * dtype.size_bytes()).div_ceil(4);
            let bits = Tensor::random(device, DType::U32, [words], Distribution::Bits, seed, 0)?;
            let layout = Layout::contiguous(Shape::new(&[elements])?);
            Tensor::from_buffer(device, bits.buffer().clone(), dtype, layout)?
        }
    };
    Ok(tensor.buffer().clone())
}

/// The same of positive numbers, from a half to one; where the dtype is no float, of any.
pub(super) fn factors(device: &Device, spec: &TensorSpec, seed: u64) -> Result<Buffer> {
    if !spec.dtype.is_float() {
        return operand(device, spec, seed);
    }
    let elements = spec.layout.required_elements().max(1);
    let uniform = Distribution::Uniform { low: 0.5, high: 1.0 };
    let dtype = if spec.dtype == DType::F64 { DType::F32 } else { spec.dtype };
    Ok(Tensor::random(device, dtype, [elements], uniform, seed, 0)?.cast(spec.dtype)?.buffer().clone())
}

/// The ends of groups that all own the same number of rows.
pub(super) fn even_ends(device: &Device, ends: &TensorSpec, rows: u64) -> Result<Buffer> {
    let groups = ends.layout.elements();
    let each = (rows / groups.max(1)) as i64;
    Ok(Tensor::arange(device, ends.dtype, each, each, groups)?.buffer().clone())
}

/// Positions of random rows.
pub(super) fn places(device: &Device, places: &TensorSpec, rows: u64) -> Result<Buffer> {
    let shape = Shape::new(&[places.layout.required_elements()])?;
    let bits = Tensor::random(device, DType::U32, shape, Distribution::Bits, 1, 0)?;
    Ok(bits
        .binary_scalar(BinaryFn::Rem, rows.clamp(1, u64::from(u32::MAX)) as u32)?
        .cast(places.dtype)?
        .buffer()
        .clone())
}

/// Metadata for the compressed operand of a product, made by compressing random numbers, because not all bit patterns name places.
pub(super) fn metadata(device: &Device, metadata: &TensorSpec, k: u64) -> Result<Buffer> {
    let mut dims = metadata.layout.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = k;
    }
    let uniform = Distribution::Uniform { low: -1.0, high: 1.0 };
    let dense = Tensor::random(device, DType::F16, Shape::new(&dims)?, uniform, 1, 0)?;
    Ok(dense.compress_2_4()?.metadata().buffer().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_every_dtype_hold_all_that_is_asked_for() -> Result<()> {
        let device = Device::cpu();
        for dtype in DType::ALL {
            let spec = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[1001])?));
            let buffer = operand(&device, &spec, 3)?;
            assert!(buffer.size_bytes() >= spec.required_bytes(), "{dtype}: {} bytes", buffer.size_bytes());
        }
        Ok(())
    }

    #[test]
    fn masks_are_fair_coins() -> Result<()> {
        let device = Device::cpu();
        let layout = Layout::contiguous(Shape::new(&[10_000])?);
        let buffer = operand(&device, &TensorSpec::new(DType::Bool, layout), 3)?;
        let mask = Tensor::from_buffer(&device, buffer, DType::Bool, layout)?;
        let count = mask.cast(DType::U32)?.sum(..)?.item::<u32>()?;
        // Seven standard deviations of 50 off.
        assert!(count.abs_diff(5_000) < 350, "{count} of 10000");
        Ok(())
    }
}
