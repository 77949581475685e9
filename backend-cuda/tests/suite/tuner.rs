//! The tuner on a card, or on the interpreted driver: kernels that lie are caught and left out, also inside of a recording,
//! and what was tuned is remembered.

use std::time::Duration;

use crate::common::products::{operands, product, values};
use crate::common::{assert_alive, first, scaled};
use polywarp_core::harness::contract;
use polywarp_core::ops::GroupedMatmul;
use polywarp_core::tuner::{Key, Mode};
use polywarp_core::{Backend, DType, Error, Layout, Op, Shape, TensorSpec};
use polywarp_cuda::CudaBackend;

/// A backend whose driver has shown whether it takes machine code. The interpreted one does not, and from then on native
/// kernels are no candidates.
fn settled() -> Option<CudaBackend> {
    let backend = first()?;
    let op = product(8, 8, 8);
    let (inputs, output) = operands(&backend, &op);
    backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
    Some(backend)
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
    backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
    let count = (n * n) as usize;
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    let key = Key::of(&op).unwrap();
    let answer = tuner.answer(&key).expect("it was tuned");
    println!("{}: {:?}", answer.key, answer.times);
    assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner));
    backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
    assert_eq!(tuner.answer(&key), Some(answer));
    assert_eq!(values(&backend, &output, count), vec![2.0 * n as f32; count]);
    assert!(tuner.quarantine().iter().all(|verdict| verdict.candidate != "liar"));
}

/// Ends that leave rows to none; on a card the native kernels are among what is checked and timed.
#[test]
fn grouped_products_are_tuned_with_the_users_own_ends() {
    let Some(backend) = settled() else { return };
    let tuner = backend.tuner().unwrap();
    tuner.set(Mode::Full, Duration::from_millis(200));
    let rows = scaled(1000, 40) as u64;
    let halves = |dims: &[u64]| TensorSpec::new(DType::F16, Layout::contiguous(Shape::new(dims).unwrap()));
    let ends = TensorSpec::new(DType::I32, Layout::contiguous(Shape::new(&[3]).unwrap()));
    let op = GroupedMatmul::product(halves(&[rows, 24]), halves(&[3, 24, 16]), ends, halves(&[rows, 16]));
    let op: Op = op.check().unwrap().into();
    let upload = |bytes: Vec<u8>| {
        let buffer = backend.alloc(bytes.len() as u64).unwrap();
        backend.write(&buffer, 0, &bytes).unwrap();
        buffer
    };
    // 1.0, and 1.0, 2.0, 3.0 for the three groups.
    let a = upload(0x3c00u16.to_le_bytes().repeat(rows as usize * 24));
    let b = [0x3c00u16, 0x4000, 0x4200].map(|one| one.to_le_bytes().repeat(24 * 16)).concat();
    let ends = upload([10i32, 10, 33].iter().flat_map(|end| end.to_le_bytes()).collect());
    let (b, output) = (upload(b), upload(vec![0xff; rows as usize * 32]));
    for _ in 0..2 {
        backend.execute(&op, &[&a, &b, &ends], &[&output]).unwrap();
        let bytes = backend.read_blocking(&output, 0..rows * 32).unwrap();
        // 24.0 for ten rows, 72.0 for as many as the last group owns, 0 behind.
        let of_row = |row: u64| match row {
            0..10 => 0x4e00u16,
            10..33 => 0x5480,
            _ => 0,
        };
        let expected = (0..rows).flat_map(|row| of_row(row).to_le_bytes().repeat(16));
        assert!(bytes.iter().copied().eq(expected));
    }
    let answer = tuner.answer(&Key::of(&op).unwrap()).expect("it was tuned");
    println!("{}: {:?}", answer.key, answer.times);
    assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner));
    assert!(tuner.quarantine().iter().all(|verdict| !verdict.class.starts_with("grouped")));
}

#[test]
fn faults_of_the_user_are_not_blamed_on_kernels() {
    let (Some(backend), Some(other)) = (settled(), settled()) else { return };
    let tuner = backend.tuner().unwrap();
    let op = product(16, 17, 18);
    let (inputs, _) = operands(&backend, &op);
    let (_, foreign) = operands(&other, &op);
    let before = tuner.quarantine();
    let refused = backend.execute(&op, &[&inputs[0], &inputs[1]], &[&foreign]);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })), "{refused:?}");
    assert_eq!(tuner.quarantine().len(), before.len(), "{:?}", tuner.quarantine());
}
