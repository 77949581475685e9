//! Tests of the offline compiler: what each target gives for shaders, good and bad.

use super::*;

const SAXPY: &str = "
@group(0) @binding(0) var<uniform> n: u32;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
override SCALE: f32 = 2.0;
override BLOCK: u32 = 64;
@compute @workgroup_size(BLOCK) fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < n { y[id.x] += SCALE * x[id.x]; }
}";

const TREE: &str = "
var<workgroup> part: array<u32, 128>;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(1) @binding(3) var<storage, read_write> total: atomic<u32>;
@compute @workgroup_size(128) fn reduce(
    @builtin(local_invocation_index) i: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    var sum = 0u;
    for (var k = group.x * 128u + i; k < arrayLength(&x); k += groups.x * 128u) { sum += x[k]; }
    part[i] = sum;
    workgroupBarrier();
    for (var step = 64u; step > 0u; step /= 2u) {
        if i < step { part[i] += part[i + step]; }
        workgroupBarrier();
    }
    if i == 0u { atomicAdd(&total, part[0]); }
}";

const SUBGROUPS: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    x[id.x] = subgroupAdd(x[id.x]) + subgroupShuffleXor(x[id.x], 1u);
}";

const HALF: &str = "enable f16;
@group(0) @binding(0) var<storage, read_write> x: array<vec4<f16>>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0h; }";

const DOUBLE: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<f64>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0lf; }";

const TILED: &str = "override TILE: u32 = 8u; override TWICE = TILE * 2u;
var<workgroup> tile: array<f32, TILE>; var<workgroup> more: array<f32, TWICE>; var<workgroup> eight: array<f32, 8>;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(TILE, 2) fn main(@builtin(local_invocation_index) i: u32) {
    tile[i / 2u] = x[i]; more[i] = 1.0; eight[i % 8u] = 2.0; workgroupBarrier(); x[i] = tile[0] + more[1] + eight[2];
}";

const IMMEDIATE: &str = "struct K { n: u32, s: f32 } var<immediate> k: K;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < k.n { x[id.x] *= k.s; }
}";

const TEXTURE: &str = "
@group(0) @binding(0) var image: texture_2d<f32>;
@group(0) @binding(1) var by: sampler;
@group(0) @binding(2) var out: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(8, 8) fn blur(@builtin(global_invocation_id) id: vec3<u32>) {
    textureStore(out, id.xy, textureSampleLevel(image, by, vec2<f32>(id.xy), 0.0));
}";

const ALL: [(&str, &str); 8] = [
    ("tiled", TILED),
    ("saxpy", SAXPY),
    ("tree", TREE),
    ("subgroups", SUBGROUPS),
    ("half", HALF),
    ("double", DOUBLE),
    ("immediate", IMMEDIATE),
    ("texture", TEXTURE),
];

fn built(source: &str, target: Target, defines: &[(&str, f64)]) -> Result<Output> {
    let defines: Vec<(String, f64)> = defines.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
    compile(&Request { source, target, entry: None, defines: &defines, arch: None })
}

fn text(source: &str, target: Target, defines: &[(&str, f64)]) -> String {
    String::from_utf8(built(source, target, defines).unwrap().bytes).unwrap()
}

/// Every expected piece must occur, in order.
fn assert_pieces(text: &str, pieces: &[&str]) {
    let mut rest = text;
    for piece in pieces {
        let at = rest.find(piece).unwrap_or_else(|| panic!("`{piece}` is missing (or out of order) in\n{text}"));
        rest = &rest[at + piece.len()..];
    }
}

#[test]
fn spirv_is_accepted_by_the_validator() {
    let mut validated = 0;
    for (name, source) in ALL {
        let bytes = built(source, Target::Spirv, &[]).unwrap().bytes;
        assert_eq!(bytes[..8], [0x03, 0x02, 0x23, 0x07, 0, 3, 1, 0], "{name}: magic and version 1.3");
        let path = std::env::temp_dir().join(format!("polywarp-compiler-{}-{name}.spv", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let run = std::process::Command::new("spirv-val").args(["--target-env", "vulkan1.1"]).arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        match run {
            Ok(run) => {
                assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stdout));
                validated += 1;
            }
            Err(e) => println!("not run: spirv-val: {e}"),
        }
    }
    println!("{validated} of {} modules validated by spirv-val", ALL.len());
}

#[test]
fn spirv_is_deterministic_and_overrides_change_it() {
    let plain = built(SAXPY, Target::Spirv, &[]).unwrap().bytes;
    assert_eq!(plain, built(SAXPY, Target::Spirv, &[("SCALE", 2.0)]).unwrap().bytes);
    assert_ne!(plain, built(SAXPY, Target::Spirv, &[("SCALE", 3.0)]).unwrap().bytes);
}

#[test]
fn msl_numbers_buffers_per_entry_point() {
    let msl = text(SAXPY, Target::Msl, &[("SCALE", 3.5)]);
    assert_pieces(&msl, &["kernel void saxpy(", "[[buffer(0)]]", "[[buffer(1)]]", "[[buffer(2)]]", "[[buffer(3)]]"]);
    assert!(msl.contains("3.5") && !msl.contains("fake"), "{msl}");
    let slots = built(SAXPY, Target::Msl, &[]).unwrap().slots;
    let found: Vec<_> = slots.iter().map(|s| (s.name.as_str(), s.source, s.list, s.index)).collect();
    assert_eq!(
        found,
        [
            ("n", Some([0, 0]), "buffer", 0),
            ("x", Some([0, 1]), "buffer", 1),
            ("y", Some([0, 2]), "buffer", 2),
            ("array_lengths", None, "buffer", 3),
        ]
    );
    assert_pieces(&text(TREE, Target::Msl, &[]), &["threadgroup", "threadgroup_barrier", "atomic_fetch_add"]);
    assert_pieces(&text(SUBGROUPS, Target::Msl, &[]), &["simd_sum", "simd_shuffle_xor"]);
    assert_pieces(&text(HALF, Target::Msl, &[]), &["half4"]);
    assert_pieces(&text(IMMEDIATE, Target::Msl, &[]), &["kernel void", "[[buffer(1)]]"]);
    assert_pieces(&text(TEXTURE, Target::Msl, &[]), &["[[texture(0)]]", "[[sampler(0)]]", "[[texture(1)]]"]);
}

#[test]
fn hlsl_keeps_binding_as_register_and_group_as_space() {
    let hlsl = text(SAXPY, Target::Hlsl, &[("BLOCK", 256.0)]);
    assert_pieces(
        &hlsl,
        &["cbuffer n : register(b0)", "x : register(t1)", "y : register(u2)", "[numthreads(256, 1, 1)]"],
    );
    let output = built(TREE, Target::Hlsl, &[]).unwrap();
    let hlsl = String::from_utf8(output.bytes).unwrap();
    assert_pieces(&hlsl, &["register(b0, space2)", "groupshared", "register(u3, space1)", "InterlockedAdd"]);
    let count = output.slots.iter().find(|slot| slot.name == "workgroup_count").unwrap();
    assert_eq!((count.list, count.space, count.index), ("b", 2, 0));
    assert_pieces(&text(SUBGROUPS, Target::Hlsl, &[]), &["WaveActiveSum", "WaveReadLaneAt"]);
    assert_pieces(&text(HALF, Target::Hlsl, &[]), &["half4"]);
    assert_pieces(&text(DOUBLE, Target::Hlsl, &[]), &["double"]);
    assert_pieces(&text(IMMEDIATE, Target::Hlsl, &[]), &["ConstantBuffer<K> k: register(b0, space1)"]);
}

#[test]
fn glsl_is_es_310_or_desktop_430_for_f64() {
    let glsl = text(SAXPY, Target::Glsl, &[("BLOCK", 16.0)]);
    assert_pieces(
        &glsl,
        &[
            "#version 310 es",
            "local_size_x = 16",
            "std140, binding = 0",
            "std430, binding = 0",
            "std430, binding = 1",
            "void main()",
        ],
    );
    assert_pieces(&text(DOUBLE, Target::Glsl, &[]), &["#version 430 core", "double"]);
    assert_pieces(&text(TREE, Target::Glsl, &[]), &["shared", "barrier()", "atomicAdd"]);
}

#[test]
fn ptx_has_one_parameter_per_buffer_and_size() {
    let with = |arch| compile(&Request { source: SAXPY, target: Target::Ptx, entry: None, defines: &[], arch });
    let output = with(Some("sm_90")).unwrap();
    let ptx = String::from_utf8(output.bytes).unwrap();
    assert_pieces(&ptx, &[".target sm_90", ".visible .entry saxpy(", ".reqntid 64, 1, 1", "ld.global.nc", "st.global"]);
    let found: Vec<_> = output.slots.iter().map(|s| (s.name.as_str(), s.source, s.list, s.index)).collect();
    assert_eq!(
        found,
        [
            ("n", Some([0, 0]), "address", 0),
            ("x", Some([0, 1]), "address", 1),
            ("x", Some([0, 1]), "size", 2),
            ("y", Some([0, 2]), "address", 3),
            ("y", Some([0, 2]), "size", 4),
        ]
    );
    assert!(String::from_utf8(with(None).unwrap().bytes).unwrap().contains(".target sm_70"));
    for arch in ["sm_61", "gfx90a", ""] {
        assert!(matches!(with(Some(arch)), Err(Error::InvalidArgument { what: "arch", .. })), "{arch}");
    }
    for (name, source) in ALL.into_iter().filter(|&(name, _)| name != "texture") {
        assert!(text(source, Target::Ptx, &[]).contains(".visible .entry"), "{name}");
    }
}

#[test]
fn ptx_of_a_texture_is_refused_with_its_place() {
    match built(TEXTURE, Target::Ptx, &[]) {
        Err(Error::Shader { line: 2, message, .. }) => assert!(message.contains("texture"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arch_of_another_target_is_refused() {
    let request = Request { source: SAXPY, target: Target::Msl, entry: None, defines: &[], arch: Some("sm_90") };
    assert!(matches!(compile(&request), Err(Error::InvalidArgument { what: "arch", .. })));
}

#[test]
fn wgsl_is_valid_again_without_overrides() {
    for (name, source) in ALL {
        let wgsl = text(source, Target::Wgsl, &[]);
        assert!(!wgsl.contains("override"), "{wgsl}");
        let (module, info) = parse_and_validate(&wgsl, Capabilities::all()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let original = built(source, Target::Wgsl, &[]).unwrap().reflection;
        let again = reflect(&module, &info);
        assert_eq!(again.bindings, original.bindings, "{name}");
        assert_eq!(again.entry_points, original.entry_points, "{name}");
        assert_eq!(again.features, original.features, "{name}");
    }
}

#[test]
fn target_that_cannot_express_a_feature_is_refused_by_name() {
    let cases =
        [(DOUBLE, Target::Msl, "f64"), (HALF, Target::Glsl, "f16"), (TEXTURE, Target::Hlsl, "the sampler `by`")];
    for (source, target, feature) in cases {
        match built(source, target, &[]) {
            Err(Error::Unsupported { device, what, .. }) => {
                assert_eq!((device, what), (format!("target {target}"), feature.to_owned()));
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}

#[test]
fn entry_missing_or_ambiguous_lists_what_there_is() {
    let two = format!("{SAXPY} @compute @workgroup_size(1) fn other() {{}}");
    let with = |target, entry| compile(&Request { source: &two, target, entry, defines: &[], arch: None });
    for result in [with(Target::Spirv, Some("main")), with(Target::Glsl, None)] {
        let Err(Error::InvalidArgument { what: "entry point", reason }) = result else { panic!("{result:?}") };
        assert!(reason.contains("`saxpy`, `other`"), "{reason}");
    }
    assert_eq!(with(Target::Spirv, None).unwrap().reflection.entry_points.len(), 2);
    let one = with(Target::Glsl, Some("other")).unwrap();
    assert_eq!(one.reflection.entry_points.len(), 1);
    assert!(one.reflection.bindings.is_empty());
    assert!(matches!(built("const a = 1;", Target::Spirv, &[]), Err(Error::InvalidArgument { .. })));
}

#[test]
fn reflection_lists_the_sources_overrides() {
    let reflection = built(SAXPY, Target::Spirv, &[("BLOCK", 8.0)]).unwrap().reflection;
    assert_eq!(reflection.overrides.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["SCALE", "BLOCK"]);
    assert_eq!(reflection.entry_points[0].workgroup_size, Some([8, 1, 1]));
    assert_eq!(built(IMMEDIATE, Target::Spirv, &[]).unwrap().reflection.immediates_bytes, 8);
}

#[test]
fn entry_point_that_a_language_renames_has_its_symbol() {
    const NAMES: &str = "@compute @workgroup_size(1) fn main() {}
        @compute @workgroup_size(1) fn main0() {}
        @compute @workgroup_size(1) fn gr\u{f6}\u{df}e() {}
        @compute @workgroup_size(1) fn plain() {}";
    let mut renamed = 0;
    for target in Target::ALL.into_iter().filter(|&target| target != Target::Glsl) {
        let output = built(NAMES, target, &[]).unwrap();
        let entries = &output.reflection.entry_points;
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["main", "main0", "gr\u{f6}\u{df}e", "plain"], "{target}");
        let text = String::from_utf8_lossy(&output.bytes);
        for entry in entries {
            let symbol = entry.symbol.as_deref().unwrap();
            assert!(target == Target::Spirv || text.contains(&format!("{symbol}(")), "{target}: {symbol} in {text}");
            renamed += usize::from(symbol != entry.name);
        }
        assert_eq!(entries[3].symbol.as_deref(), Some("plain"), "{target}");
    }
    assert!(renamed >= 4, "{renamed}");
    let of = |source, target| built(source, target, &[]).unwrap().reflection.entry_points[0].symbol.clone();
    assert_eq!(of(HALF, Target::Msl).as_deref(), Some("main_"));
    assert_eq!(of(HALF, Target::Spirv).as_deref(), Some("main"));
    assert_eq!(of(SAXPY, Target::Glsl).as_deref(), Some("main"));
}

#[test]
fn entry_point_that_ptx_leaves_out_has_no_symbol() {
    let source = "@compute @workgroup_size(1) fn go() {}
        @vertex fn corner() -> @builtin(position) vec4<f32> { return vec4(0.0); }";
    let entries = built(source, Target::Ptx, &[]).unwrap().reflection.entry_points;
    let symbols: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.symbol.as_deref())).collect();
    assert_eq!(symbols, [("go", Some("go")), ("corner", None)]);
}

#[test]
fn subgroups_that_a_browser_has_enabled_compile_and_stay_enabled() {
    let enabled = format!("enable subgroups;{SUBGROUPS}");
    for target in Target::ALL.into_iter().filter(|&target| target != Target::Wgsl) {
        let (with, without) = (built(&enabled, target, &[]), built(SUBGROUPS, target, &[]));
        match (with, without) {
            (Ok(with), Ok(without)) => assert_eq!(with.bytes, without.bytes, "{target}"),
            (Err(with), Err(without)) => assert_eq!(with.to_string(), without.to_string(), "{target}"),
            other => panic!("{target}: {other:?}"),
        }
    }
    let plain = text(SUBGROUPS, Target::Wgsl, &[]);
    assert_eq!(text(&enabled, Target::Wgsl, &[]), format!("enable subgroups;\n{plain}"));
    assert!(!text("enable subgroups; @compute @workgroup_size(1) fn f() {}", Target::Wgsl, &[]).contains("enable"));
}

#[test]
fn target_name_parses_back() {
    for target in Target::ALL {
        assert_eq!(target.name().parse::<Target>().unwrap(), target);
    }
    assert!(matches!("cuda".parse::<Target>(), Err(Error::InvalidArgument { what: "target", .. })));
}

const EDGES: &str = "struct A { s: atomic<i32>, u: atomic<u32> }
@group(0) @binding(0) var<storage, read_write> a: A;
@group(0) @binding(1) var<storage, read_write> x: array<vec2<i32>>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) w: vec3<u32>) {
    x[0] = x[1] / x[2]; x[3].x = x[4].x % x[5].y; x[6].x = i32(y[w.x]); x[7].y = x[8].x << w.y;
    x[9].x = x[9].x / 7; x[9].y = atomicSub(&a.s, -1i); atomicSub(&a.u, abs(w.z));
}";

#[test]
fn glsl_guards_what_it_leaves_undefined() {
    let glsl = text(EDGES, Target::Glsl, &[]);
    assert!(!glsl.contains("--") && !glsl.contains('%') && !glsl.contains("abs("), "{glsl}");
    assert_pieces(&glsl, &["-2147483600.0, 2147483500.0", "& 31u", "/ 7)", "atomicAdd("]);
    // HLSL and MSL have functions of naga's for the same.
    assert_pieces(&text(EDGES, Target::Msl, &[]), &["naga_div", "naga_mod", "naga_f2i32"]);
    let hlsl = text(EDGES, Target::Hlsl, &[]);
    for helper in ["naga_div", "naga_mod", "naga_f2i32"] {
        assert!(hlsl.contains(helper), "{helper} in {hlsl}");
    }
}

const PLACED: &str = "struct Inner { @size(32) a: f32, @align(16) b: vec2<f32> }
struct U { s: f32, m: mat3x2<f32>, @align(64) inner: array<Inner, 2>, @size(100) last: f32, end: f32 }
struct W { @size(16) a: u32, @align(32) b: vec2<u32>, list: array<u32> }
@group(0) @binding(0) var<uniform> u: U;
@group(0) @binding(1) var<storage, read_write> w: W;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) g: vec3<u32>) {
    let whole = u; w.b = vec2<u32>(u.m[g.x]); w.list[g.y] = u32(whole.inner[1].b.x + u.end) + arrayLength(&w.list);
}";

#[test]
fn glsl_pads_what_attributes_move_and_splits_matrices_of_two_rows() {
    let glsl = text(PLACED, Target::Glsl, &[]);
    assert_pieces(
        &glsl,
        &[
            "vec2 m_column_0_;",
            "vec2 m_column_1_;",
            "vec2 m_column_2_;",
            "uvec4 padding_32_[2]",
            "float last;",
            "uvec4 padding_176_[5]",
        ],
    );
    assert_pieces(&glsl, &["uint a;", "uint padding_4_[7];", "uvec2 b;", "uint list[];"]);
}

#[test]
fn wgsl_keeps_sizes_and_alignments() {
    let wgsl = text(PLACED, Target::Wgsl, &[]);
    assert_pieces(
        &wgsl,
        &["@size(32) a: f32,", "@size(56) m: mat3x2<f32>,", "@size(100) last: f32,", "@align(32) @size(32) a: u32,"],
    );
    let (module, info) = parse_and_validate(&wgsl, Capabilities::all()).unwrap();
    let original = built(PLACED, Target::Wgsl, &[]).unwrap().reflection;
    assert_eq!(reflect(&module, &info).bindings, original.bindings);
}

#[test]
fn wgsl_enables_f16_for_values_alone_and_names_results() {
    let half = "enable f16; @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(1) fn main() { x[0] = f32(vec2<f16>(vec2<f32>(x[1], 2.0)).x + 1.5h); }";
    let wgsl = text(half, Target::Wgsl, &[]);
    assert!(wgsl.contains("enable f16;"), "{wgsl}");
    parse_and_validate(&wgsl, Capabilities::all()).unwrap();
    let results = "@group(0) @binding(0) var<storage, read_write> a: atomic<i32>;
        @group(0) @binding(1) var<storage, read_write> out: array<vec2<f32>>;
        @compute @workgroup_size(1) fn main() {
            var hit = atomicCompareExchangeWeak(&a, -9, 11);
            while !hit.exchanged { hit = atomicCompareExchangeWeak(&a, hit.old_value, 11); }
            var parts = modf(out[0]); var halves = frexp(out[1].x); let copy = parts; parts = copy;
            out[2] = parts.fract + parts.whole; out[3].x = halves.fract; let once = atomicCompareExchangeWeak(&a, 1, 2);
            out[4].y = f32(once.old_value);
        }";
    let wgsl = text(results, Target::Wgsl, &[]);
    assert!(!wgsl.contains("__"), "{wgsl}");
    parse_and_validate(&wgsl, Capabilities::all()).unwrap();
}

#[test]
fn wgsl_that_would_mean_something_else_is_refused_with_its_place() {
    let (module, info) = parse_and_validate(PLACED, Capabilities::all()).unwrap();
    let plain = PLACED.replace("@size(100) ", "");
    match super::wgsl::compare(&plain, &module, &info, PLACED) {
        Err(Error::Unsupported { reason, .. }) => {
            assert!(reason.contains("layout of `u`") && reason.contains("line 2"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    for (from, to) in [
        ("@workgroup_size(1)", "@workgroup_size(2)"),
        ("workgroup_id", "local_invocation_id"),
        ("var<uniform> u", "var<storage> u"),
        ("binding(1)", "binding(2)"),
        ("u32(whole", "nothing(whole"),
    ] {
        let other = PLACED.replace(from, to);
        assert!(super::wgsl::compare(&other, &module, &info, PLACED).is_err(), "{to}");
    }
    super::wgsl::compare(PLACED, &module, &info, PLACED).unwrap();
}

#[test]
fn nested_constants_are_refused_for_every_target() {
    let constants: String = (1..=28).map(|n| format!("const c{n} = array(c{m}, c{m});\n", m = n - 1)).collect();
    let source = format!("const c0 = 1u;\n{constants}@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() {{ x[0] = c28[0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1][0][1]; }}");
    for target in Target::ALL {
        match built(&source, target, &[]) {
            Err(Error::Shader { line: 21, message, .. }) => assert!(message.contains("1048576"), "{message}"),
            other => panic!("{target}: {:?}", other.map(drop)),
        }
    }
}
