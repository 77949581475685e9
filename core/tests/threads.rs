//! The CPU device among threads: what one of them holds, none waits for that it waits for.

use std::sync::mpsc;
use std::time::Duration;

use polywarp_core::cpu::CpuBackend;
use polywarp_core::{DType, Device, Tensor};

#[test]
fn threads_that_assign_to_each_others_operands_come_to_an_end() {
    let device = Device::new(CpuBackend::new());
    let [a, b] = [1.0, 2.0].map(|value| Tensor::full(&device, DType::F32, [4], value).unwrap());
    let (done, all) = mpsc::channel();
    for (to, from) in [(a.clone(), b.clone()), (b, a)] {
        let done = done.clone();
        std::thread::spawn(move || {
            (0..100_000).for_each(|_| to.assign(&from).unwrap());
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        all.recv_timeout(Duration::from_secs(300)).expect("both wait for each other");
    }
}
