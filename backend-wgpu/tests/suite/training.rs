//! Training on wgpu: the cases of polywarp-nn, on every adapter, and on the first as if it were poor.

use polywarp_core::Device;
use polywarp_core::harness::Part;
use polywarp_nn::Policy;
use polywarp_wgpu::Options;

use crate::common::{POOREST, entries};

/// Functions of a device as tests on every adapter.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod on_wgpu {
            $(
                #[test]
                fn $name() {
                    crate::training::each_device(super::$name);
                }
            )*
        }
    };
}

/// Steps that BERT is trained here: as many as there are losses of PyTorch's.
fn bert_steps() -> usize {
    20
}

/// Policies of 16 bits that networks are trained in here: one of the two a day, as their kernels take software GPUs minutes to compile.
fn sixteen_bits() -> Vec<Policy> {
    let today = Part::today(2);
    [Policy::BF16, Policy::F16]
        .into_iter()
        .zip(0..)
        .filter(|(_, i)| today.takes(*i))
        .map(|(policy, _)| policy)
        .collect()
}

#[path = "../../../nn/tests/suite/cases/mod.rs"]
mod cases;

fn each_device(test: impl Fn(&Device)) {
    for (number, entry) in entries().iter().enumerate() {
        // As the poorest device the first alone: compiling takes these tests most of their time.
        let all = [Options::default(), POOREST];
        for &options in &all[..if number == 0 { 2 } else { 1 }] {
            let backend = entry.open(options).expect("open");
            println!("{backend:?} with {options:?}");
            test(&Device::new(backend));
        }
    }
}
