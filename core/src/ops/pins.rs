//! The kernels' texts and the candidates' names, pinned: caches and stores of users' machines know them by those. Planning every operation
//! for every device takes a minute: a run does so for a device that has everything and for one of the others, another one every day.

use std::collections::HashSet;

use crate::harness::pins::Pins;
use crate::harness::{BenchSize, Level, Part};
use crate::ops::REGISTRY;

use crate::ops::candidates;
use crate::plan::Caps;
use crate::wgsl::validate::full_caps;

#[test]
fn pins_of_kernels_and_candidates_hold() {
    let plain = Caps { cooperative: Vec::new(), f16: false, ..full_caps() };
    let limited = Caps { max_loop_rounds: Some(65_535), ..full_caps() };
    let mut pins = Pins::default();
    let devices =
        [("full", full_caps()), ("plain", plain), ("webgpu", Caps::webgpu_defaults("pins")), ("loops", limited)];
    let (today, renews) = (Part::today(devices.len() as u64 - 1), crate::harness::pins::renews());
    let devices: Vec<(&str, Caps)> = (0..)
        .zip(devices)
        .filter(|(i, _)| *i == 0 || renews || today.is_turn_of(*i))
        .map(|(_, device)| device)
        .collect();
    // `kernels full softmax 12 0123456789abcdef`
    let is_planned = |line: &&str| line.split(' ').nth(1).is_some_and(|of| devices.iter().any(|(name, _)| *name == of));
    let kept: String = include_str!("pins.txt").lines().filter(is_planned).flat_map(|line| [line, "\n"]).collect();
    for (device, caps) in &devices {
        for family in REGISTRY {
            let (mut keys, mut texts, mut plans) = (HashSet::new(), Vec::new(), Vec::new());
            let cases = (family.cases)(Level::Quick).into_iter().map(|case| case.op);
            let benches = (family.benches)(BenchSize::Normal).into_iter().map(|bench| bench.op);
            for op in cases.chain(benches).filter(|op| op.output().layout.elements() > 0) {
                for candidate in candidates(&op, caps).unwrap_or_default() {
                    for launch in candidate.plan.launches {
                        plans.push(format!("{} {:?} {:?}", candidate.name, launch.grid, launch.params));
                        if keys.insert(launch.kernel.clone()) {
                            let source = launch.kernel.source();
                            texts.push(source.name + &source.wgsl);
                        }
                    }
                }
            }
            pins.pin(&format!("kernels {device} {}", family.name), texts);
            pins.pin(&format!("launches {device} {}", family.name), plans);
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/pins.txt");
    pins.differences(&kept, path).unwrap_or_else(|text| panic!("{text}"));
}
