//! Training on wgpu: the cases of polywarp-nn, on every adapter, rich and poor.

use polywarp_core::Device;
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

#[path = "../../../nn/tests/suite/cases/mod.rs"]
mod cases;

fn each_device(test: impl Fn(&Device)) {
    for entry in entries() {
        for options in [Options::default(), POOREST] {
            let backend = entry.open(options).expect("open");
            println!("{backend:?} with {options:?}");
            test(&Device::new(backend));
        }
    }
}
