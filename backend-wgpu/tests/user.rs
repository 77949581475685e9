//! Users' kernels: good ones run, bad ones are refused with type and fields, and the device computes on.

mod common;

use common::{bind, download, each, entries, first, upload};
use polywarp_core::{Backend, Binding, Error, Kernel};
use polywarp_wgpu::Options;

fn refusal(backend: &impl Backend, wgsl: &str, bindings: &[Binding]) -> Error {
    backend.launch(&Kernel::wgsl(wgsl), [1, 1, 1], bindings).expect_err(wgsl)
}

#[test]
fn kernel_with_entry_defines_groups_and_uniform_runs() {
    each(|backend| {
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
    each(|backend| {
        let start = u64::from(backend.device().limits().min_storage_buffer_offset_alignment);
        let words = (start / 4 * 3) as usize;
        let buffer = upload(backend, &vec![7; words]);
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
        let third = words / 3;
        assert!(seen[..third].iter().chain(&seen[2 * third..]).all(|&word| word == 7), "{seen:?}");
        assert!(seen[third..2 * third].iter().all(|&word| word == 9 || word == 13), "{seen:?}");
    });
}

#[test]
fn kernel_writing_fewer_bytes_than_a_word_leaves_the_rest() {
    each(|backend| {
        let buffer = backend.alloc(6).unwrap();
        backend.write(&buffer, 0, &[1, 2, 3, 4, 5, 6]).unwrap();
        backend.launch(&common::add_kernel(0x0101_0101), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
        assert_eq!(backend.read_blocking(&buffer, 0..6).unwrap(), [2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn syntax_and_type_errors_name_their_place() {
    each(|backend| {
        let error = refusal(backend, "@compute @workgroup_size(1)\nfn main() {\n  let x = ;\n}", &[]);
        assert!(matches!(error, Error::Shader { line: 3, column: 11, .. }), "{error}");
        let error = refusal(backend, "@compute @workgroup_size(1)\nfn main() {\n  var x: f32 = 1u;\n}", &[]);
        assert!(matches!(error, Error::Shader { line: 3, .. }), "{error}");
        let error = refusal(backend, "fn helper() {}", &[]);
        assert!(matches!(error, Error::InvalidArgument { what: "compute entry point", .. }), "{error}");
        assert!(!error.to_string().contains('\n'));
        let unknown = common::add_kernel(1).define("N", 1.0);
        let error = backend.launch(&unknown, [1, 1, 1], &[]).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArgument { what: "define", reason } if reason.contains("`N`")),
            "{error}"
        );
        let error = backend.launch(&common::add_kernel(1).entry("nix"), [1, 1, 1], &[]).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument { reason, .. } if reason.contains("nix")), "{error}");
        let two = "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(1) fn b() {}";
        assert!(matches!(refusal(backend, two, &[]), Error::InvalidArgument { .. }));
    });
}

#[test]
fn too_complex_shaders_are_refused_not_crashed_on() {
    let backend = first();
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let text = format!("@compute @workgroup_size(1) fn main() {{ var x = {deep}; }}");
    match refusal(&backend, &text, &[]) {
        Error::ShaderTooComplex { what: "nesting of brackets", found, limit } => assert!(found > limit),
        error => panic!("{error}"),
    }
    let error = refusal(&backend, &" ".repeat(100 << 20), &[]);
    assert!(matches!(error, Error::ShaderTooComplex { what: "size in bytes", .. }), "{error}");
    // Just under every guard: long and deep, and compiled all the same.
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

#[test]
fn bindings_that_do_not_fit_are_refused() {
    each(|backend| {
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
        let (_, binding, _) = refused_at(&[bind(0, &x), bind(0, &x), bind(1, &y)]);
        assert_eq!(binding, 0);
        let (_, binding, reason) = refused_at(&[bind(0, &y), bind(1, &y)]);
        assert!(binding == 1 && reason.contains("same buffer"), "{reason}");
        let mut beyond = bind(1, &y);
        beyond.range = 0..500;
        assert_eq!(refused_at(&[bind(0, &x), beyond]).1, 1);
        let mut crooked = bind(0, &y);
        crooked.range = 4..400;
        let (_, binding, reason) = refused_at(&[crooked, bind(1, &y)]);
        assert!(binding == 0 && reason.contains("multiples"), "{reason}");
        let foreign = first().alloc(400).unwrap();
        let error = refusal(backend, text, &[bind(0, &x), bind(1, &foreign)]);
        assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");
        backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
    });
}

#[test]
fn grid_beyond_the_device_is_refused_and_empty_grid_runs_nothing() {
    each(|backend| {
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
    });
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
        assert!(matches!(refusal(&poor, halves, &[]), Error::Shader { .. }));
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
