//! A network trains as PyTorch does on every adapter: the tests of `nn/tests/suite/bert.rs`.

use polywarp_core::Device;
use polywarp_wgpu::Options;

use crate::common::entries;

/// Functions of a device as tests on every adapter.
macro_rules! on_devices {
    ($($name:ident),* $(,)?) => {
        mod on_every_adapter {
            $(
                #[test]
                fn $name() {
                    crate::training::on_every_adapter(super::$name);
                }
            )*
        }
    };
}

fn on_every_adapter(test: impl Fn(&Device)) {
    for entry in entries() {
        println!("{}", entry.id);
        test(&Device::new(entry.open(Options::default()).expect("open")));
    }
}

fn bert_steps() -> usize {
    20
}

#[path = "../../../nn/tests/suite/bert.rs"]
mod bert;
