//! The tuner on real adapters: kernels that lie are caught and left out, whatever the user is doing, and nothing of the
//! user's changes for it.

use std::time::Duration;

use crate::common::products::{operands, product, values};
use crate::common::{assert_alive, entries};
use polywarp_core::harness::contract;
use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Key, Mode, Planned};
use polywarp_core::{Backend, Device, Op, Precision};
use polywarp_wgpu::WgpuBackend;

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
        tuner.set(Mode::Full, Duration::from_secs(2));
        let op = product(96, 80, 64);
        let matmul = op.get::<Matmul>().unwrap();
        let (inputs, output) = operands(backend, &op);
        // Work before the first use is not seen late, work after it not early.
        let fours = 4.0f32.to_le_bytes().repeat(96 * 64);
        backend.write(&inputs[0], 0, &fours).unwrap();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
        backend.write(&inputs[0], 0, &vec![0; fours.len()]).unwrap();
        assert_eq!(values(backend, &output, 96 * 80), vec![8.0 * 64.0; 96 * 80]);
        let answer = tuner.answer(&Key::of(&op).unwrap()).expect("it was tuned");
        println!("{}: {:?}", answer.key, answer.times);
        assert!(answer.times.iter().any(|timed| timed.candidate == answer.winner && timed.ns > 0.0));
        // Nothing is compiled or timed any more.
        let compiled = backend.compiled_kernels();
        backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
        assert_eq!(backend.compiled_kernels(), compiled);
        // Another precision has an answer of its own.
        let low: Op = Matmul { precision: Precision::Low, ..matmul.clone() }.check().unwrap().into();
        assert_eq!(tuner.answer(&Key::of(&low).unwrap()), None);
    });
}

#[test]
fn first_use_waits_for_no_kernel_but_its_own() {
    each(|backend| {
        let tuner = backend.tuner().unwrap();
        let budget = tuner.budget();
        tuner.set(Mode::Full, budget);
        let op = product(200, 72, 104);
        let takes = |name: &str| backend.compile_time(&backend.named(&op, name).unwrap().unwrap());
        let names: Vec<String> = backend.candidates(&op).unwrap().into_iter().map(|found| found.name).collect();
        assert!(names.len() > 1 && names.iter().all(|name| takes(name) > budget), "{budget:?} is not the usual one");
        let (inputs, output) = operands(backend, &op);
        backend.execute(&op, &[&inputs[0], &inputs[1]], &[&output]).unwrap();
        // What the driver has compiled costs nothing, and nothing else was.
        let answer = tuner.answer(&Key::of(&op).unwrap()).expect("the first one was timed");
        assert_eq!((answer.times.len(), takes(&answer.winner)), (1, Duration::ZERO), "{:?}", answer.times);
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
