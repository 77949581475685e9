//! The conformance harness on every way wgpu reaches this machine's GPUs, rich and poor.
//!
//! On Linux both Vulkan and GL must be there, hardware or software (Debian: mesa-vulkan-drivers, libvulkan1, libegl1,
//! libgl1-mesa-dri): an absent one fails. `POLYWARP_TEST_APIS=vulkan` asks for other ones, `POLYWARP_TEST_FAMILY=reduce`
//! for one family, `POLYWARP_TEST_FILTER` for cases by name, `POLYWARP_TEST_LEVEL=full` for all sizes.

mod common;

use common::POOREST;
use polywarp_core::Device;
use polywarp_core::harness::{Level, Selection, run};
use polywarp_wgpu::{Options, adapters};

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Runs the harness on the best adapter of `api`; on a rich device nothing may be unsupported.
fn conforms(api: &str, options: Options) {
    let default = if cfg!(target_os = "linux") {
        "vulkan,gl"
    } else if cfg!(target_vendor = "apple") {
        "metal"
    } else {
        "dx12"
    };
    let asked = variable("POLYWARP_TEST_APIS").unwrap_or_else(|| default.to_owned());
    if !asked.split(',').any(|asked| asked.trim() == api) {
        println!("NOT RUN: {api} is not among POLYWARP_TEST_APIS={asked}");
        return;
    }
    let entries = adapters().expect("no adapter at all");
    let entry = entries.iter().find(|entry| entry.api == api && entry.unusable.is_none());
    let Some(entry) = entry else {
        let found: Vec<String> = entries.iter().map(|e| format!("{} {} {:?}", e.api, e.name, e.unusable)).collect();
        panic!("no usable {api} adapter; found {found:?}");
    };
    let backend = entry.open(options).expect("open");
    let rich = backend.caps().f64 && backend.caps().i64;
    let device = Device::new(backend);
    let level = if variable("POLYWARP_TEST_LEVEL").as_deref() == Some("full") { Level::Full } else { Level::Quick };
    let selection = Selection {
        family: variable("POLYWARP_TEST_FAMILY"),
        filter: variable("POLYWARP_TEST_FILTER"),
        ..Selection::level(level)
    };
    let report = run(&device, &selection, &mut |_| {});
    println!("{report}");
    assert!(report.ok(), "{}", report.problem().unwrap_or_default());
    for refused in &report.unsupported {
        // Nothing may be missing but the 64-bit types; a rich device computes in them, save single functions.
        let wide = refused.reason.contains("f64") || refused.reason.contains("i64");
        let missing = refused.reason.contains("cannot compute in");
        assert!(
            wide && !(rich && missing),
            "{} cases: {} (such as {})",
            refused.cases,
            refused.reason,
            refused.example
        );
    }
}

#[test]
fn vulkan_conforms() {
    conforms("vulkan", Options::default());
}

#[test]
fn vulkan_with_webgpu_defaults_conforms() {
    conforms("vulkan", POOREST);
}

#[test]
fn gl_conforms() {
    conforms("gl", Options::default());
}

#[cfg(target_vendor = "apple")]
#[test]
fn metal_conforms() {
    conforms("metal", Options::default());
}

#[cfg(windows)]
#[test]
fn dx12_conforms() {
    conforms("dx12", Options::default());
}
