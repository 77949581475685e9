//! The conformance harness on every way wgpu reaches this machine's GPUs, rich and poor.
//!
//! `POLYWARP_REQUIRE_ADAPTERS=vulkan,gl` names the APIs that must be there, hardware or software: an absent one fails.
//! Unset, it is both on Linux (Debian: mesa-vulkan-drivers, libvulkan1, libegl1, libgl1-mesa-dri) and the system's own
//! API elsewhere. `POLYWARP_TEST_FAMILY=reduce` restricts a run to one family, `POLYWARP_TEST_FILTER` to cases by name;
//! `POLYWARP_TEST_LEVEL=full` takes all sizes. Without any of these three, a part of the quick cases runs, another every day
//! ([`Parts`]).

mod common;

use std::collections::BTreeMap;
use std::time::Instant;

use common::POOREST;
use polywarp_core::harness::{Level, Part, Selection, run, run_async};
use polywarp_core::{DType, Device, DeviceKind};
use polywarp_wgpu::{Options, adapters};

/// Which of the quick cases run: software GPUs take minutes to compile all of their kernels.
enum Parts {
    /// A real GPU runs all cases. A software one runs some of f32 and of other dtypes of each family
    /// ([`Selection::in_full`]), and of the rest every n-th.
    F32And(u64),
    /// Every n-th case; on a software GPU of two days the one of this number.
    Of(u64, u64),
}

const RICH: Parts = Parts::F32And(80);
const WEBGPU_DEFAULTS: Parts = Parts::Of(64, 0);
/// Its kernels are written in another language.
const GL: Parts = Parts::Of(48, 1);

/// Runs `parts` of the cases of the harness on the best adapter of `api`; on a rich device nothing may be unsupported.
fn conforms(api: &str, options: Options, parts: Parts) {
    let selection = common::selection();
    // Asked for all sizes, or for something in particular, it leaves nothing out.
    let whole = selection.level == Level::Full || selection.family.is_some() || selection.filter.is_some();
    let default = if cfg!(target_os = "linux") {
        "vulkan,gl"
    } else if cfg!(target_vendor = "apple") {
        "metal"
    } else {
        "dx12"
    };
    let required = std::env::var("POLYWARP_REQUIRE_ADAPTERS").unwrap_or_else(|_| default.to_owned());
    let entries = adapters().unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| entry.api == api && entry.unusable.is_none()) else {
        let found: Vec<String> = entries.iter().map(|e| format!("{} {} {:?}", e.api, e.name, e.unusable)).collect();
        let required = required.split(',').any(|name| name.trim() == api);
        assert!(!required, "no usable {api} adapter, which POLYWARP_REQUIRE_ADAPTERS demands; found {found:?}");
        println!("NOT RUN: no usable {api} adapter; found {found:?}");
        return;
    };
    if let Parts::Of(_, turn) = parts
        && entry.kind == DeviceKind::Software
        && !whole
        && !Part::today(2).is_turn_of(turn)
    {
        println!("{}, {options:?}: another day", entry.name);
        return;
    }
    let backend = entry.open(options).expect("open");
    let rich = backend.caps().f64 && backend.caps().i64;
    let device = Device::new(backend);
    let (part, in_full) = match parts {
        _ if whole => (Part::ALL, None),
        Parts::F32And(_) if entry.kind != DeviceKind::Software => (Part::ALL, None),
        Parts::F32And(of) => (Part::today(of), Some(DType::F32)),
        Parts::Of(of, _) => (Part::today(of), None),
    };
    let (mut last, mut families) = (Instant::now(), BTreeMap::new());
    let report = run(&device, &Selection { part, in_full, ..selection }, &mut |progress| {
        let (seconds, count): &mut (f64, u32) = families.entry(progress.family).or_default();
        *seconds += last.elapsed().as_secs_f64();
        *count += 1;
        last = Instant::now();
    });
    println!("{report}");
    // Where the minutes go, on a software GPU to its compiler.
    let mut families: Vec<_> = families.into_iter().collect();
    families.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    for (family, (seconds, count)) in families.iter().take(12) {
        println!("{api}: {family}: {seconds:.1} s for {count} cases");
    }
    assert!(report.ok(), "{}", report.problem().unwrap_or_default());
    for refused in &report.unsupported {
        // Nothing may be missing but the 64-bit types; a rich device computes in them, save single functions.
        let wide = ["f64", "i64", "u64"].iter().any(|dtype| refused.reason.contains(dtype));
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
    conforms("vulkan", Options::default(), RICH);
}

#[test]
fn vulkan_with_webgpu_defaults_conforms() {
    conforms("vulkan", POOREST, WEBGPU_DEFAULTS);
}

/// As in a browser, where nothing may block; on native targets a thread then waits for the device.
#[test]
fn vulkan_read_asynchronously_conforms() {
    let entries = adapters().unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| entry.api == "vulkan" && entry.unusable.is_none()) else {
        println!("NOT RUN: no usable vulkan adapter"); // `vulkan_conforms` fails where there must be one
        return;
    };
    let device = Device::new(entry.open(POOREST).expect("open"));
    let report = pollster::block_on(run_async(&device, &Selection::family("copy"), &mut |_| {}));
    assert!(report.ok(), "{report}");
}

#[test]
fn gl_conforms() {
    conforms("gl", Options::default(), GL);
}

#[cfg(target_vendor = "apple")]
#[test]
fn metal_conforms() {
    conforms("metal", Options::default(), RICH);
}

#[cfg(windows)]
#[test]
fn dx12_conforms() {
    conforms("dx12", Options::default(), RICH);
}
