//! Devices for the tests: every adapter of the machine, each opened as it is and as the poorest device.
//!
//! `POLYWARP_TEST_ADAPTER=vulkan` (an API, an id or a part of a name) restricts them; a restriction that leaves none fails.
//! `POLYWARP_REQUIRE_ADAPTERS=vulkan,gl` names APIs of which there must be one: what is absent fails, and is not skipped.

#![allow(dead_code, unused_imports)]

#[path = "../../../core/tests/support/mod.rs"]
mod support;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use polywarp_core::DeviceKind;
use polywarp_core::harness::Part;
use polywarp_wgpu::{AdapterEntry, FeatureChoice, LimitChoice, Options, WgpuBackend, adapters};

pub use support::*;

/// Every usable adapter that `POLYWARP_TEST_ADAPTER` allows. One whose driver gives no device, as `polywarp devices` says of it
/// too, is named and left out.
pub fn entries() -> Vec<AdapterEntry> {
    let wanted = std::env::var("POLYWARP_TEST_ADAPTER").unwrap_or_default().to_lowercase();
    let all = adapters().expect("these tests need an adapter; Debian: mesa-vulkan-drivers and libvulkan1");
    let chosen: Vec<AdapterEntry> = all
        .into_iter()
        .filter(|e| e.unusable.is_none())
        .filter(|e| wanted.is_empty() || [&e.id, e.api, &e.name].iter().any(|s| s.to_lowercase().contains(&wanted)))
        .filter(gives_devices)
        .collect();
    let required = std::env::var("POLYWARP_REQUIRE_ADAPTERS").unwrap_or_default();
    for api in required.split(',').filter(|api| wanted.is_empty() && !api.is_empty()) {
        assert!(chosen.iter().any(|e| e.api == api), "no usable {api} adapter; Debian: cargo xtask setup");
    }
    assert!(!chosen.is_empty(), "no usable adapter matches POLYWARP_TEST_ADAPTER={wanted}");
    chosen
}

/// The same; of several software GPUs one, another one every day: what it runs takes it most of a minute, for its compiler.
pub fn entries_of_today() -> Vec<AdapterEntry> {
    let (software, mut taken): (Vec<_>, Vec<_>) =
        entries().into_iter().partition(|entry| entry.kind == DeviceKind::Software);
    let today = if software.len() > 1 { Part::today(software.len() as u64) } else { Part::ALL };
    taken.extend((0..).zip(software).filter(|(number, _)| today.is_turn_of(*number)).map(|(_, entry)| entry));
    taken
}

fn gives_devices(entry: &AdapterEntry) -> bool {
    let refused = entry.open(Options::default()).err();
    if let Some(why) = &refused {
        println!("NOT RUN on {}: {why}", entry.id);
    }
    refused.is_none()
}

/// As the poorest device there is: WebGPU's default limits and no optional feature.
pub const POOREST: Options = Options {
    limits: LimitChoice::WebGpuDefaults,
    features: FeatureChoice::None,
    memory_limit_bytes: None,
    patience: None,
};

/// Runs `test` on every adapter, rich and poor.
pub fn each(test: impl Fn(&WgpuBackend)) {
    for entry in entries() {
        for options in [Options::default(), POOREST] {
            let backend = entry.open(options).expect("open");
            println!("{backend:?} with {options:?}");
            test(&backend);
            assert_alive(&backend);
        }
    }
}

/// Runs `test` once, on the best adapter.
pub fn first() -> WgpuBackend {
    entries()[0].open(Options::default()).expect("open")
}

/// Runs `test` under a deadline: a hang must fail rather than wait.
pub fn within_seconds(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, finished) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(seconds)) {
        Err(RecvTimeoutError::Timeout) => panic!("still not done after {seconds} s"),
        _ => thread.join().unwrap(),
    }
}
