//! A network trains as PyTorch does on the first card: the tests of `nn/tests/suite/bert.rs`.

use polywarp_core::Device;

use crate::common::{first, scaled};

/// Functions of a device as tests on the first card.
macro_rules! on_devices {
    ($($name:ident),* $(,)?) => {
        mod on_the_first_card {
            $(
                #[test]
                fn $name() {
                    crate::training::on_the_first_card(super::$name);
                }
            )*
        }
    };
}

fn on_the_first_card(test: impl Fn(&Device)) {
    if let Some(backend) = first() {
        test(&Device::new(backend));
    }
}

/// The interpreter takes seconds for a step.
fn bert_steps() -> usize {
    scaled(20, 2)
}

#[path = "../../../nn/tests/suite/bert.rs"]
mod bert;
