//! Users' kernels on wgpu: resources and features that adapters differ in. The rest is the harness's (`contract.rs`).

use crate::common::{self, bind, download, each, entries, first, upload};
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

/// What SPIR-V lacks for f64 was computed as garbage: `sin(0.5lf)` as 0.
#[test]
fn f64_functions_that_drivers_lack_are_refused() {
    for entry in entries() {
        let backend = entry.open(Options::default()).unwrap();
        if !backend.device().features().contains(polywarp_wgpu::wgpu::Features::SHADER_F64) {
            continue;
        }
        let text = |term: &str| {
            format!(
                "@group(0) @binding(0) var<storage, read_write> x: array<f64>;
                fn term(a: f64, b: f64, v: vec2<f64>) -> f64 {{ return {term}; }}
                @compute @workgroup_size(1) fn main() {{ x[0] = term(x[1], x[2], vec2(x[1], x[2])); }}"
            )
        };
        let buffer = backend.alloc(32).unwrap();
        let one = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh radians degrees exp exp2 log log2";
        let one = one.split(' ').map(|name| (name, format!("{name}(a)")));
        let more = [("atan2", "atan2(a, b)"), ("pow", "pow(a, b)"), ("sin", "a + sin(v).y")];
        for (name, term) in one.chain(more.map(|(name, term)| (name, term.to_owned()))) {
            match refusal(&backend, &text(&term), &[bind(0, &buffer)]) {
                Error::Unsupported { what, reason, .. } => {
                    assert_eq!(what, format!("{name} of f64 in a kernel of your own"));
                    assert!(reason.contains("(line 2, ") && reason.contains("f32"), "{reason}");
                }
                error => panic!("{term}: {error}"),
            }
        }
        for (term, wanted) in [
            ("sqrt(a)", 1.5),
            ("floor(a)", 2.0),
            ("fma(a, b, a)", 3.375),
            ("mix(a, b, a - 1.75lf)", 1.375),
            ("f64(exp2(f32(b) + 0.5f))", 2.0),
            ("length(v * 0.0lf) + abs(-a)", 2.25),
        ] {
            let data: Vec<u8> = [0.0f64, 2.25, 0.5, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            backend.write(&buffer, 0, &data).unwrap();
            backend.launch(&Kernel::wgsl(text(term)), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
            let got = backend.read_blocking(&buffer, 0..8).unwrap();
            assert_eq!(f64::from_le_bytes(got.try_into().unwrap()), wanted, "{term}");
        }
        common::assert_alive(&backend);
    }
}

#[test]
fn spirv_of_another_compiler_computes_with_the_checks_of_wgsl() {
    each(|backend| {
        // dest = a * b, by glslang.
        let kernel = Kernel::spirv(&include_bytes!("../../../examples/shaders/multiply_them.spv")[..]);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        let (a, b): (Vec<f32>, Vec<f32>) =
            ((0..300).map(|i| i as f32).collect(), (0..300).map(|i| 0.5 * i as f32).collect());
        let products: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        let (a, b, dest) = (upload(backend, &bits(&a)), upload(backend, &bits(&b)), upload(backend, &[0; 300]));
        backend.launch(&kernel, [2, 1, 1], &[bind(0, &dest), bind(1, &a), bind(2, &b)]).unwrap();
        assert_eq!(download(backend, &dest), bits(&products));
        // Recorded and replayed.
        let again = upload(backend, &[0; 300]);
        backend.begin_recording().unwrap();
        backend.launch(&kernel, [2, 1, 1], &[bind(0, &again), bind(1, &dest), bind(2, &b)]).unwrap();
        let recorded = backend.end_recording().unwrap();
        assert_eq!(download(backend, &again), [0; 300]);
        backend.replay(&recorded).unwrap();
        assert_eq!(f32::from_bits(download(backend, &again)[7]), 7.0 * 3.5 * 3.5);
        let refused = |bindings: &[Binding]| backend.launch(&kernel, [1, 1, 1], bindings).unwrap_err();
        assert!(matches!(refused(&[bind(0, &dest)]), Error::Binding { binding: 1, .. }));
        assert!(matches!(refused(&[bind(0, &a), bind(1, &a), bind(2, &b)]), Error::Binding { binding: 1, .. }));
    });
}

#[test]
fn kernels_for_cuda_are_refused_with_the_devices_that_run_them() {
    each(|backend| {
        let signature = || polywarp_core::Signature::new([1, 1, 1]);
        for kernel in [Kernel::ptx_unchecked("", signature()), Kernel::cuda_cpp_unchecked("", signature())] {
            match backend.launch(&kernel, [1, 1, 1], &[]) {
                Err(Error::Unsupported { what, reason, .. }) => {
                    assert!(
                        what.starts_with(kernel.form()) && reason.contains("cuda devices alone"),
                        "{what}: {reason}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    });
}
