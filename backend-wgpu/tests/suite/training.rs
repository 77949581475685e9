//! Training on wgpu: the cases of polywarp-nn, on every adapter, and on the first as if it were poor.

use polywarp_core::harness::Part;
use polywarp_core::{Device, DeviceKind};
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
                    crate::training::each_device(module_path!(), super::$name);
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

/// Networks whose kernels take software GPUs minutes to compile: one turn a day.
const NETWORKS: [(&str, u64); 4] = [("::bert::", 0), ("::resnet::", 1), ("::decoder::", 2), ("::attention::", 2)];

/// The first adapter as it is and as the poorest device, and the others as they are. Compiling takes these tests most of their time: of software GPUs
/// the first one as the poorest on one day, and the others on the next; and the networks of `module` in turns.
fn each_device(module: &str, test: impl Fn(&Device)) {
    let today = Part::today(2);
    let turn = NETWORKS.iter().find(|(name, _)| module.contains(name)).map(|&(_, turn)| turn);
    let is_networks_day = turn.is_none_or(|turn| Part::today(3).is_turn_of(turn));
    for (number, entry) in entries().iter().enumerate() {
        if entry.kind == DeviceKind::Software && !is_networks_day {
            println!("{}: another day", entry.name);
            continue;
        }
        let is_in_turn = |turn: u64| entry.kind != DeviceKind::Software || today.takes(turn);
        let as_it_is = (number == 0 || is_in_turn(1)).then(Options::default);
        let as_the_poorest = (number == 0 && is_in_turn(0)).then_some(POOREST);
        for options in [as_it_is, as_the_poorest].into_iter().flatten() {
            let backend = entry.open(options).expect("open");
            println!("{backend:?} with {options:?}");
            test(&Device::new(backend));
        }
    }
}
