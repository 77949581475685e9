//! The best rates that a device can reach, measured: the ceilings with which rates are compared.
//!
//! Copy rate: the fastest copy of a large buffer by the device's own copy kernel, bytes read plus written. Multiply-add
//! rate: independent chains of fused multiply-adds in registers, run as a user's kernel. The CPU's rate is that of its
//! best product among a few sizes: with two threads a product that stays in cache, with many a larger one.

use polywarp_core::harness::BenchSize;
use polywarp_core::ops::{Copy, Matmul};
use polywarp_core::{Binding, DType, Device, DeviceKind, Kernel, Layout, Op, Precision, Result, Shape, TensorSpec};
use serde::Serialize;
use std::time::Duration;

use super::Prepared;

/// The measured ceilings of a device; absent where they could not be measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ceilings {
    /// Bytes read and written per second by a large copy, in GB/s.
    pub copy_gb_per_s: Option<f64>,
    /// f32 multiply-adds in registers (two operations each), in TFLOP/s.
    pub f32_tflop_per_s: Option<f64>,
}

impl Ceilings {
    /// The ceiling of a product, in TFLOP/s, for f32. Other dtypes run on units (tensor cores, integer and double
    /// pipes) whose rate no kernel of the library measures by itself, and a share of the f32 rate would mean nothing.
    pub(super) fn flops(&self, op: &Op) -> Option<f64> {
        let product = op.get::<Matmul>()?;
        let plain = product.a.dtype == DType::F32 && product.precision == Precision::Highest;
        plain.then_some(self.f32_tflop_per_s).flatten()
    }
}

/// Measures the ceilings of `device`.
pub(super) fn ceilings(device: &Device, size: BenchSize) -> Ceilings {
    let log_failure = |what: &str, e: &polywarp_core::Error| log::warn!("{what} of {} not measured: {e}", device.id());
    let copy = copy_rate(device, size).inspect_err(|e| log_failure("copy rate", e)).ok();
    let fma = match device.info().kind {
        DeviceKind::Cpu => product_rate(device, size),
        _ => fma_rate(device),
    };
    let fma = fma.inspect_err(|e| log_failure("multiply-add rate", e)).ok();
    Ceilings { copy_gb_per_s: copy, f32_tflop_per_s: fma }
}

fn copy_rate(device: &Device, size: BenchSize) -> Result<f64> {
    let elements: u64 = match size {
        BenchSize::Small => 1 << 22,
        BenchSize::Normal => 1 << 26,
        BenchSize::Large => 1 << 28,
    };
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[elements])?));
    let prepared = Prepared::new(&Copy::new(spec, spec)?.into(), device)?;
    let timing = prepared.time(Duration::from_millis(200))?;
    Ok(8.0 * elements as f64 / timing.fastest_ns)
}

/// Sides of the products that the CPU's ceiling is taken from; the last takes seconds on few threads, and small sizes do without.
const SIDES: [u64; 3] = [384, 1024, 2048];

fn product_rate(device: &Device, size: BenchSize) -> Result<f64> {
    let sides = if size == BenchSize::Small { &SIDES[..2] } else { &SIDES[..] };
    sides.iter().try_fold(0.0, |best: f64, &side| Ok(best.max(product_rate_at(device, side)?)))
}

fn product_rate_at(device: &Device, n: u64) -> Result<f64> {
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[n, n])?));
    let prepared = Prepared::new(&Matmul::product(spec, spec, spec).check()?.into(), device)?;
    let timing = prepared.time(Duration::from_millis(200))?;
    Ok(2.0 * (n * n * n) as f64 / timing.fastest_ns / 1e3)
}

/// Eight independent chains of vec4 multiply-adds per invocation, so that latency does not limit.
fn fma_rate(device: &Device) -> Result<f64> {
    const INVOCATIONS: u64 = 256;
    const CHAINS: u64 = 8;
    const STEPS: u64 = 256;
    let groups: u32 = if device.info().kind == DeviceKind::Software { 16 } else { 132 * 64 };
    let kernel = Kernel::wgsl(include_str!("fma_rate.wgsl"));
    let out = device.backend().alloc(u64::from(groups) * INVOCATIONS * 4)?;
    let bytes = out.size_bytes();
    let binding = [Binding { group: 0, binding: 0, buffer: out, range: 0..bytes }];
    let launch = || device.backend().launch(&kernel, [groups, 1, 1], &binding);
    launch()?;
    device.synchronize()?;
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        fastest = fastest.min(device.backend().timed(&mut || launch())?.ns);
    }
    let flops = u64::from(groups) * INVOCATIONS * CHAINS * STEPS * 4 * 2;
    Ok(flops as f64 / fastest / 1e3)
}
