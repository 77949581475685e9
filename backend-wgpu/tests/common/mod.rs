//! Devices for the tests: every adapter of the machine, each opened as it is and as the poorest device.
//!
//! `POLYWARP_TEST_ADAPTER=vulkan` (an API, an id or a part of a name) restricts them; a restriction that leaves none fails.
//! `POLYWARP_REQUIRE_ADAPTERS=vulkan,gl` names APIs of which there must be one: what is absent fails, and is not skipped.

#![allow(dead_code)]

use polywarp_core::{Backend, Binding, Buffer, Kernel};
use polywarp_wgpu::{AdapterEntry, FeatureChoice, LimitChoice, Options, WgpuBackend, adapters};

/// Every usable adapter that `POLYWARP_TEST_ADAPTER` allows.
pub fn entries() -> Vec<AdapterEntry> {
    let wanted = std::env::var("POLYWARP_TEST_ADAPTER").unwrap_or_default().to_lowercase();
    let all = adapters().expect("these tests need an adapter; Debian: mesa-vulkan-drivers and libvulkan1");
    let chosen: Vec<AdapterEntry> = all
        .into_iter()
        .filter(|e| e.unusable.is_none())
        .filter(|e| wanted.is_empty() || [&e.id, e.api, &e.name].iter().any(|s| s.to_lowercase().contains(&wanted)))
        .collect();
    let required = std::env::var("POLYWARP_REQUIRE_ADAPTERS").unwrap_or_default();
    for api in required.split(',').filter(|api| wanted.is_empty() && !api.is_empty()) {
        assert!(chosen.iter().any(|e| e.api == api), "no usable {api} adapter; Debian: cargo xtask setup");
    }
    assert!(!chosen.is_empty(), "no usable adapter matches POLYWARP_TEST_ADAPTER={wanted}");
    chosen
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

/// Adds `by` to every word.
pub fn add_kernel(by: u32) -> Kernel {
    Kernel::wgsl(format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < arrayLength(&x) {{ x[id.x] = x[id.x] + {by}u; }}
        }}"
    ))
}

/// `y = x + 1`, into another buffer.
pub fn copy_add_kernel() -> Kernel {
    Kernel::wgsl(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = x[id.x] + 1u; }
        }",
    )
}

/// The whole of `buffer` at `@group(0) @binding(binding)`.
pub fn bind(binding: u32, buffer: &Buffer) -> Binding {
    Binding { group: 0, binding, buffer: buffer.clone(), range: 0..buffer.size_bytes() }
}

/// A buffer holding `words`.
pub fn upload(backend: &WgpuBackend, words: &[u32]) -> Buffer {
    let buffer = backend.alloc(4 * words.len() as u64).expect("alloc");
    backend.write(&buffer, 0, &bytes(words)).expect("write");
    buffer
}

/// The words of a whole buffer.
pub fn download(backend: &WgpuBackend, buffer: &Buffer) -> Vec<u32> {
    words(&backend.read_blocking(buffer, 0..buffer.size_bytes()).expect("read"))
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The device still computes correctly: asserted after every test that provoked a fault.
pub fn assert_alive(backend: &WgpuBackend) {
    let buffer = upload(backend, &[1, 2, 3, 40]);
    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]).expect("launch");
    assert_eq!(download(backend, &buffer), [2, 3, 4, 41]);
}
