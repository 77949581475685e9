//! Users' kernels on wgpu: resources and features that adapters differ in. The rest is the harness's (`contract.rs`).

mod common;

use common::{bind, download, each, entries, first, upload};
use polywarp_core::{Backend, Binding, Error, Kernel};
use polywarp_wgpu::Options;

fn refusal(backend: &impl Backend, wgsl: &str, bindings: &[Binding]) -> Error {
    backend.launch(&Kernel::wgsl(wgsl), [1, 1, 1], bindings).expect_err(wgsl)
}

#[test]
fn resources_beyond_the_device_are_refused() {
    each(|backend| {
        let limits = backend.device().limits();
        let size = limits.max_compute_workgroup_size_x + 1;
        let told = |wgsl: &str| match refusal(backend, wgsl, &[]) {
            Error::ResourceLimit { kind, requested, max, .. } => (kind, requested, max),
            error => panic!("{error}"),
        };
        let (kind, requested, max) = told(&format!("@compute @workgroup_size({size}) fn main() {{}}"));
        assert!(kind.contains("along x") && requested == u64::from(size) && max + 1 == requested, "{kind}");
        let words = limits.max_compute_workgroup_storage_size / 4 + 4;
        let (kind, requested, _) = told(&format!(
            "var<workgroup> w: array<u32, {words}>; @compute @workgroup_size(1) fn main() {{ w[0] = 1u; }}"
        ));
        assert!(kind.contains("workgroup memory") && requested == u64::from(words) * 4, "{kind}");
        let (kind, ..) =
            told("var<private> p: array<u32, 1000000>; @compute @workgroup_size(1) fn main() { p[1] = 1u; }");
        assert!(kind.contains("private"), "{kind}");
        let count = limits.max_storage_buffers_per_shader_stage + 1;
        if count < 100 {
            let declare = |i| format!("@group(0) @binding({i}) var<storage, read_write> b{i}: u32;");
            let declarations: String = (0..count).map(declare).collect();
            let body: String = (0..count).map(|i| format!("b{i} = 1u;")).collect();
            let (kind, requested, _) =
                told(&format!("{declarations} @compute @workgroup_size(1) fn main() {{ {body} }}"));
            assert!(kind == "storage buffers" && requested == u64::from(count), "{kind}");
        }
    });
}

#[test]
fn features_the_device_lacks_are_refused() {
    for entry in entries() {
        let poor = entry.open(common::POOREST).unwrap();
        let halves = "enable f16; @compute @workgroup_size(1) fn main() { var x: f16 = 1.0h; }";
        assert!(matches!(refusal(&poor, halves, &[]), Error::Unsupported { .. }));
        let texture = "@group(0) @binding(0) var t: texture_2d<f32>;
            @compute @workgroup_size(1) fn main() { let x = textureDimensions(t); }";
        assert!(matches!(refusal(&poor, texture, &[]), Error::Unsupported { .. }));
        common::assert_alive(&poor);
        let rich = entry.open(Options::default()).unwrap();
        if rich.caps().f16 {
            rich.launch(&Kernel::wgsl(halves), [1, 1, 1], &[]).unwrap();
            rich.synchronize().unwrap();
        }
    }
}

#[test]
fn shader_just_under_every_guard_compiles() {
    let backend = first();
    let long = format!("x{}", " + x".repeat(4000));
    let nested = format!("{}x{}", "(".repeat(80), ")".repeat(80));
    let inverted = format!("{}x", "~".repeat(4000));
    let text = format!(
        "@group(0) @binding(0) var<storage, read_write> d: array<u32>;
        @compute @workgroup_size(1) fn main() {{ let x = d[0]; d[0] = {long}; d[1] = {nested}; d[2] = {inverted}; }}"
    );
    let buffer = upload(&backend, &[3, 0, 0]);
    backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
    assert_eq!(download(&backend, &buffer), [3 * 4001, 3, 3]);
}
