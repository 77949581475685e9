//! The tuner on a card, or on the interpreted driver: kernels that lie are caught and left out, also inside of a recording,
//! and what was tuned is remembered.

mod common;

use std::time::Duration;

use common::{assert_alive, first, scaled};
use polywarp_core::harness::contract;
use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Key, Mode};
use polywarp_core::{Backend, Buffer, DType, Error, Layout, Op, Shape, TensorSpec};
use polywarp_cuda::CudaBackend;

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(m: u64, n: u64, k: u64) -> Op {
    Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n])).check().unwrap().into()
}

/// Operands of `op` whose every product is 1 * 2.
fn operands(backend: &CudaBackend, op: &Op) -> (Vec<Buffer>, Buffer) {
    let filled = |spec: &TensorSpec, value: f32| {
        let buffer = backend.alloc(spec.required_bytes()).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(spec.layout.elements() as usize)).unwrap();
        buffer
    };
    let inputs = op.inputs().iter().zip([1.0, 2.0]).map(|(spec, value)| filled(spec, value)).collect();
    (inputs, filled(&op.output(), -7.0))
}

/// A backend whose driver has shown whether it takes machine code. The interpreted one does not, and from then on native
/// kernels are no candidates.
fn settled() -> Option<CudaBackend> {
    let backend = first()?;
    let op = product(8, 8, 8);
    let (inputs, output) = operands(&backend, &op);
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    Some(backend)
}

fn values(backend: &CudaBackend, buffer: &Buffer, count: usize) -> Vec<f32> {
    let bytes = backend.read_blocking(buffer, 0..4 * count as u64).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn liars_are_caught() {
    let Some(backend) = settled() else { return };
    for row in contract::tuner::run(&backend) {
        assert_eq!(row.result, Ok(()), "{}", row.name);
    }
    assert_alive(&backend);
}

#[test]
fn tuning_ends_with_the_winners_result_and_is_remembered() {
    let Some(backend) = settled() else { return };
    let tuner = backend.tuner().unwrap();
    tuner.set(Mode::Full, Duration::from_millis(200));
    let n = scaled(1024, 40) as u64;
    let op = product(n, n, n);
    let (inputs, output) = operands(&backend, &op);
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    let count = (n * n) as usize;
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    let key = Key::of(&op).unwrap();
    let answer = tuner.answer(&key).expect("it was tuned");
    println!("{}: {:?}", answer.key, answer.times);
    assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner));
    backend.execute(&op, &[&inputs[0], &inputs[1]], &output).unwrap();
    assert_eq!(tuner.answer(&key), Some(answer));
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    assert!(tuner.quarantine().iter().all(|verdict| verdict.candidate != "liar"));
}

#[test]
fn faults_of_the_user_are_not_blamed_on_kernels() {
    let (Some(backend), Some(other)) = (settled(), settled()) else { return };
    let tuner = backend.tuner().unwrap();
    let op = product(16, 17, 18);
    let (inputs, _) = operands(&backend, &op);
    let (_, foreign) = operands(&other, &op);
    let before = tuner.quarantine();
    let refused = backend.execute(&op, &[&inputs[0], &inputs[1]], &foreign);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })), "{refused:?}");
    assert_eq!(tuner.quarantine().len(), before.len(), "{:?}", tuner.quarantine());
}
