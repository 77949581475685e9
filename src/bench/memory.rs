//! The memory that half precision saves: the peak of a device's pool during the same product in f16 and in f32.

use polywarp_core::harness::BenchSize;
use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Device, DeviceKind, Layout, Result, Shape, TensorSpec};
use serde::Serialize;

use super::measure::operands;

/// The memory of one square product in two dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Side of the matrices.
    pub side: u64,
    /// The pool's peak in f16 above the memory in use before: operands, result and scratch.
    pub f16_bytes: u64,
    /// The same in f32.
    pub f32_bytes: u64,
}

impl MemoryUse {
    /// The f16 product's memory as a share of the f32 product's.
    pub fn saving(&self) -> f64 {
        self.f16_bytes as f64 / self.f32_bytes as f64
    }
}

/// Runs both products, once each. `None` for the CPU, whose products use scratch outside its pool, and on a device
/// whose pool has already had a higher peak, because a peak only grows.
pub(super) fn of_product(device: &Device, size: BenchSize) -> Result<Option<MemoryUse>> {
    if device.info().kind == DeviceKind::Cpu {
        return Ok(None);
    }
    let side = size.pick(512, 2048, 8192);
    // The smaller one first, so that both raise the peak.
    let f16_bytes = peak_of(device, DType::F16, side)?;
    let f32_bytes = peak_of(device, DType::F32, side)?;
    Ok(f16_bytes.zip(f32_bytes).map(|(f16_bytes, f32_bytes)| MemoryUse { side, f16_bytes, f32_bytes }))
}

fn peak_of(device: &Device, dtype: DType, side: u64) -> Result<Option<u64>> {
    let spec = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[side, side])?));
    let op = Matmul::product(spec, spec, spec).check()?.into();
    let before = device.memory();
    let (inputs, outputs) = operands(&op, device)?;
    device.execute(&op, &inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())?;
    device.synchronize()?;
    let peak = device.memory().peak_bytes;
    Ok((peak > before.peak_bytes).then(|| peak - before.in_use_bytes))
}

#[cfg(test)]
mod tests {
    use polywarp_core::harness::ReferenceBackend;

    use super::*;

    #[test]
    fn half_precision_takes_half_the_memory() {
        let device = Device::new(ReferenceBackend::new("reference"));
        assert_eq!(device.info().kind, DeviceKind::Other);
        let f16 = peak_of(&device, DType::F16, 24).unwrap().unwrap();
        let f32 = peak_of(&device, DType::F32, 24).unwrap().unwrap();
        assert_eq!((f16, f32), (3 * 24 * 24 * 2, 3 * 24 * 24 * 4));
        assert_eq!(peak_of(&device, DType::F16, 24).unwrap(), None, "the peak was not raised, so it says nothing");
        assert_eq!(of_product(&Device::cpu(), BenchSize::Small).unwrap(), None);
    }
}
