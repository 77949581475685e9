//! Users' kernels: good ones run, bad ones are refused with type and fields, and the device computes on.

mod common;

use common::{bind, download, on_card, upload};
use polywarp_core::{Backend, Binding, Error, Kernel};

fn refusal(backend: &impl Backend, wgsl: &str, bindings: &[Binding]) -> Error {
    backend.launch(&Kernel::wgsl(wgsl), [1, 1, 1], bindings).expect_err(wgsl)
}

#[test]
fn kernel_with_entry_defines_groups_and_uniform_runs() {
    on_card(|backend| {
        let text = "
            struct Scale { by: u32, plus: u32 }
            override WIDTH: u32 = 1;
            @id(3) override TWICE: bool = false;
            @group(0) @binding(0) var<uniform> scale: Scale;
            @group(0) @binding(1) var<storage, read> x: array<u32>;
            @group(2) @binding(5) var<storage, read_write> y: array<u32>;
            var<workgroup> tile: array<u32, WIDTH>;
            @compute @workgroup_size(1) fn other() {}
            @compute @workgroup_size(WIDTH) fn scaled(
                @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32
            ) {
                tile[local] = x[min(id.x, arrayLength(&x) - 1u)];
                workgroupBarrier();
                let v = tile[WIDTH - 1u - local] * scale.by + scale.plus;
                if id.x < arrayLength(&y) { y[id.x] = select(v, 2u * v, TWICE); }
            }";
        let x = upload(backend, &(0..32).collect::<Vec<u32>>());
        let y = upload(backend, &[0; 33]);
        let scale = upload(backend, &[10, 3, 0, 0]);
        let mut to = bind(5, &y);
        to.group = 2;
        let kernel = Kernel::wgsl(text).entry("scaled").define("WIDTH", 16.0).define("3", 1.0);
        backend.launch(&kernel, [2, 1, 1], &[bind(0, &scale), to, bind(1, &x)]).unwrap();
        let expected: Vec<u32> = (0..32u32).map(|i| 2 * (10 * (i / 16 * 16 + 15 - i % 16) + 3)).chain([0]).collect();
        assert_eq!(download(backend, &y), expected);
    });
}

#[test]
fn kernel_cannot_reach_beyond_its_range() {
    on_card(|backend| {
        let start = 64;
        let buffer = upload(backend, &[7; 48]);
        let text = "
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                x[id.x] = 9u;
                x[id.x * 0x1000000u + arrayLength(&x)] = 13u;
                x[0xffffffffu - id.x] = 13u;
            }";
        let binding = Binding { group: 0, binding: 0, buffer: buffer.clone(), range: start..2 * start };
        backend.launch(&Kernel::wgsl(text), [16, 1, 1], &[binding]).unwrap();
        let seen = download(backend, &buffer);
        assert!(seen[..16].iter().chain(&seen[32..]).all(|&word| word == 7), "{seen:?}");
        assert!(seen[16..32].iter().all(|&word| word == 9 || word == 13), "{seen:?}");
    });
}

#[test]
fn workgroup_memory_starts_at_zero_whatever_was_there() {
    on_card(|backend| {
        let fill = "
            var<workgroup> w: array<u32, 4096>;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
                for (var j = i; j < 4096u; j += 64u) { w[j] = 0xdeadbeefu; }
                workgroupBarrier();
                if w[i] == 1u { x[0] = 1u; }
            }";
        let look = "
            var<workgroup> w: array<u32, 4096>;
            @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
                for (var j = i; j < 4096u; j += 64u) { if w[j] != 0u { atomicAdd(&x[0], 1u); } }
            }";
        let x = upload(backend, &[0; 4]);
        backend.launch(&Kernel::wgsl(fill), [1000, 1, 1], &[bind(0, &x)]).unwrap();
        backend.launch(&Kernel::wgsl(look), [1000, 1, 1], &[bind(0, &x)]).unwrap();
        assert_eq!(download(backend, &x)[0], 0);
    });
}

#[test]
fn errors_name_their_place() {
    on_card(|backend| {
        let error = refusal(backend, "@compute @workgroup_size(1)\nfn main() {\n  let x = ;\n}", &[]);
        assert!(matches!(error, Error::Shader { line: 3, column: 11, .. }), "{error}");
        let error = refusal(backend, "fn helper() {}", &[]);
        assert!(matches!(error, Error::InvalidArgument { what: "compute entry point", .. }), "{error}");
        let unknown = common::add_kernel(1).define("N", 1.0);
        let error = backend.launch(&unknown, [1, 1, 1], &[]).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArgument { what: "define", reason } if reason.contains("`N`")),
            "{error}"
        );
        let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
        let deep = format!("@compute @workgroup_size(1) fn main() {{ var x = {deep}; }}");
        assert!(matches!(refusal(backend, &deep, &[]), Error::ShaderTooComplex { .. }));
        let texture = "@group(0) @binding(0) var t: texture_2d<f32>;
            @compute @workgroup_size(1) fn main() { let x = textureDimensions(t); }";
        assert!(matches!(refusal(backend, texture, &[]), Error::Unsupported { .. }));
    });
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    on_card(|backend| {
        let text = "
            @group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32, 100>;
            @compute @workgroup_size(1) fn main() { y[0] = x[0].x; }";
        let (x, y) = (backend.alloc(16).unwrap(), backend.alloc(400).unwrap());
        let refused_at = |bindings: &[Binding]| match refusal(backend, text, bindings) {
            Error::Binding { group, binding, reason } => (group, binding, reason),
            error => panic!("{error}"),
        };
        let (group, binding, reason) = refused_at(&[bind(0, &x)]);
        assert!((group, binding) == (0, 1) && reason.contains("`y`"), "{reason}");
        let mut wrong_group = bind(1, &y);
        wrong_group.group = 3;
        let (group, binding, _) = refused_at(&[bind(0, &x), wrong_group]);
        assert_eq!((group, binding), (3, 1));
        let (_, binding, reason) = refused_at(&[bind(0, &x), bind(1, &x)]);
        assert!(binding == 1 && reason.contains("400"), "{reason}");
        assert_eq!(refused_at(&[bind(0, &x), bind(0, &x), bind(1, &y)]).1, 0);
        let (_, binding, reason) = refused_at(&[bind(0, &y), bind(1, &y)]);
        assert!(binding == 1 && reason.contains("same buffer"), "{reason}");
        let mut beyond = bind(1, &y);
        beyond.range = 0..500;
        assert_eq!(refused_at(&[bind(0, &x), beyond]).1, 1);
        let mut crooked = bind(0, &y);
        crooked.range = 4..400;
        let (_, binding, reason) = refused_at(&[crooked, bind(1, &y)]);
        assert!(binding == 0 && reason.contains("multiples"), "{reason}");
        backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
    });
}

#[test]
fn workgroup_memory_beyond_48_kib_is_there_and_starts_at_zero() {
    on_card(|backend| {
        let most = backend.info().limits.max_workgroup_bytes;
        assert!(most > 48 << 10, "{most}");
        let words = most / 4;
        let text = format!(
            "var<workgroup> w: array<u32, {words}>;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(256) fn main(@builtin(local_invocation_index) i: u32) {{
                for (var j = i; j < {words}u; j += 256u) {{ if w[j] != 0u {{ x[1] = 1u; }} w[j] = 3u * j; }}
                workgroupBarrier();
                var sum = 0u;
                for (var j = i; j < {words}u; j += 256u) {{ sum += w[{words}u - 1u - j]; }}
                if i == 0u {{ x[0] = sum; }}
            }}"
        );
        let x = upload(backend, &[0; 4]);
        for _ in 0..2 {
            backend.launch(&Kernel::wgsl(&text), [1, 1, 1], &[bind(0, &x)]).unwrap();
            let expected = (0..words).step_by(256).fold(0u32, |sum, j| sum.wrapping_add(3 * (words - 1 - j)));
            assert_eq!(download(backend, &x)[..2], [expected, 0]);
        }
    });
}

#[test]
fn grid_of_more_than_65535_workgroups_along_x_runs_whole() {
    on_card(|backend| {
        let count = 70_000u32;
        let x = upload(backend, &vec![1; count as usize]);
        let text = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { x[id.x] += id.x; }";
        backend.launch(&Kernel::wgsl(text), [count, 1, 1], &[bind(0, &x)]).unwrap();
        assert_eq!(download(backend, &x), (1..=count).collect::<Vec<u32>>());
    });
}

#[test]
fn grid_and_resources_beyond_the_device_are_refused() {
    on_card(|backend| {
        let buffer = upload(backend, &[1]);
        let max = backend.info().limits.max_workgroups;
        let kernel = common::add_kernel(1);
        for grid in [[max[0] + 1, 1, 1], [1, u32::MAX, 1], [0, 1, max[2] + 1]] {
            match backend.launch(&kernel, grid, &[bind(0, &buffer)]) {
                Err(Error::DispatchTooLarge { grid: told, max: limit, .. }) => assert_eq!((told, limit), (grid, max)),
                other => panic!("{other:?}"),
            }
        }
        backend.launch(&kernel, [1, 0, 1], &[bind(0, &buffer)]).unwrap();
        assert_eq!(download(backend, &buffer), [1]);
        let told = |wgsl: &str| match refusal(backend, wgsl, &[]) {
            Error::ResourceLimit { kind, requested, max, .. } => (kind, requested, max),
            error => panic!("{error}"),
        };
        let (kind, requested, max) = told("@compute @workgroup_size(1025) fn main() {}");
        assert!(kind == "invocations per workgroup along x" && (requested, max) == (1025, 1024), "{kind}");
        let (kind, ..) = told("@compute @workgroup_size(1, 1, 65) fn main() {}");
        assert!(kind.contains("along z"), "{kind}");
        let (kind, ..) =
            told("var<workgroup> w: array<u32, 100000>; @compute @workgroup_size(1) fn main() { w[0] = 1u; }");
        assert!(kind.contains("workgroup memory"), "{kind}");
        let (kind, ..) =
            told("var<private> p: array<u32, 1000000>; @compute @workgroup_size(1) fn main() { p[1] = 1u; }");
        assert!(kind.contains("private"), "{kind}");
    });
}
