//! The tests of this crate from outside, in one program: linked once, and run side by side.
//!
//! Bodies take a device (`cases/`), so that the tests of backends run them, too; here it is the CPU.

use polywarp_nn::Policy;

/// Functions of a device as tests on the CPU.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod on_the_cpu {
            $(
                #[test]
                fn $name() {
                    super::$name(&polywarp_core::Device::cpu());
                }
            )*
        }
    };
}

/// Steps that BERT is trained here: as many as there are losses of PyTorch's.
fn bert_steps() -> usize {
    20
}

/// Policies of 16 bits that networks are trained in here.
fn sixteen_bits() -> Vec<Policy> {
    vec![Policy::BF16, Policy::F16]
}

mod cases;
mod functions;
mod refusals;
mod text;
