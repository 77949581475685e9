//! Training on CUDA: the cases of polywarp-nn on the first card.

use polywarp_core::Device;
use polywarp_nn::Policy;

use crate::common::{first, scaled};

/// Functions of a device as tests on the first card.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod on_cuda {
            $(
                #[test]
                fn $name() {
                    crate::training::on_first(super::$name);
                }
            )*
        }
    };
}

/// Steps that BERT is trained here; the interpreter takes seconds for one.
fn bert_steps() -> usize {
    scaled(20, 2)
}

/// Policies of 16 bits that networks are trained in here.
fn sixteen_bits() -> Vec<Policy> {
    vec![Policy::BF16, Policy::F16]
}

#[path = "../../../nn/tests/suite/cases/mod.rs"]
mod cases;

fn on_first(test: impl FnOnce(&Device)) {
    if let Some(backend) = first() {
        test(&Device::new(backend));
    }
}
