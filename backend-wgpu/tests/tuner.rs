//! The tuner on real adapters: kernels that lie are caught and left out, whatever the user is doing, and nothing of the
//! user's changes for it.

mod common;

use std::time::Duration;

use common::{assert_alive, entries};
use polywarp_core::harness::contract;
use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Key, Mode};
use polywarp_core::{Backend, Buffer, DType, Device, Layout, Op, Precision, Shape, TensorSpec};
use polywarp_wgpu::WgpuBackend;

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(m: u64, n: u64, k: u64) -> Op {
    Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n])).check().unwrap().into()
}

/// Operands of `op` whose every product is 1 * 2.
fn operands(backend: &WgpuBackend, op: &Op) -> (Vec<Buffer>, Buffer) {
    let filled = |spec: &TensorSpec, value: f32| {
        let buffer = backend.alloc(spec.required_bytes()).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(spec.layout.elements() as usize)).unwrap();
        buffer
    };
    let inputs = op.inputs().iter().zip([1.0, 2.0]).map(|(spec, value)| filled(spec, value)).collect();
    (inputs, filled(&op.output(), -7.0))
}

fn values(backend: &WgpuBackend, buffer: &Buffer, count: usize) -> Vec<f32> {
    let bytes = backend.read_blocking(buffer, 0..4 * count as u64).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Every adapter as it is; software ones are fast enough for small products.
fn each(test: impl Fn(&WgpuBackend)) {
    for entry in entries() {
        let backend = entry.open(polywarp_wgpu::Options::default()).unwrap();
        println!("{backend:?}");
        test(&backend);
        assert_alive(&backend);
    }
}

#[test]
fn liars_are_caught() {
    each(|backend| {
        for row in contract::tuner::run(backend) {
            assert_eq!(row.result, Ok(()), "{}", row.name);
        }
    });
}

#[test]
fn tuning_keeps_the_order_of_work_and_repeats_bits() {
    each(|backend| {
        let tuner = backend.tuner().unwrap();
        tuner.set(Mode::Full, Duration::from_millis(200));
        let op = product(96, 80, 64);
        let Op::Matmul(matmul) = &op else { panic!() };
        let (inputs, output) = operands(backend, &op);
        // Work before the first use is not seen late, work after it not early.
        let fours = 4.0f32.to_le_bytes().repeat(96 * 64);
        backend.write(&inputs[0], 0, &fours).unwrap();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
        backend.write(&inputs[0], 0, &vec![0; fours.len()]).unwrap();
        assert_eq!(values(backend, &output, 96 * 80), vec![8.0 * 64.0; 96 * 80]);
        let answer = tuner.answer(&Key::of(&op).unwrap()).expect("it was tuned");
        println!("{}: {:?}", answer.key, answer.times);
        assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner && timed.ns > 0.0));
        // Nothing is compiled or timed any more.
        let compiled = backend.compiled_kernels();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
        assert_eq!(backend.compiled_kernels(), compiled);
        // Another precision has an answer of its own.
        let low: Op = Matmul { precision: Precision::Low, ..matmul.clone() }.check().unwrap().into();
        assert_eq!(tuner.answer(&Key::of(&low).unwrap()), None);
    });
}

#[test]
fn software_adapters_are_checked_but_not_timed_unless_asked() {
    each(|backend| {
        let tuner = backend.tuner().unwrap();
        let software = backend.info().kind == polywarp_core::DeviceKind::Software;
        if std::env::var_os("POLYWARP_TUNE").is_none() {
            assert_eq!(tuner.mode(), if software { Mode::Off } else { Mode::Full });
        }
        let device = Device::new(entries()[0].open(polywarp_wgpu::Options::default()).unwrap());
        let reference = Device::new(polywarp_core::harness::ReferenceBackend::default());
        assert!(device.tuner().is_some() && reference.tuner().is_none());
    });
}
