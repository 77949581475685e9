//! Tests of reading WGSL: limits, errors with their place, overrides, reflection.

use super::*;

const ALL: Capabilities = Capabilities::all();

fn parsed(source: &str) -> (Module, ModuleInfo) {
    parse_and_validate(source, ALL).unwrap()
}

fn shader_fault(result: Result<impl Sized>) -> (u32, u32, String) {
    match result {
        Err(Error::Shader { line, column, message }) => {
            assert!(!message.contains('\n') && !message.is_empty(), "{message:?}");
            (line, column, message)
        }
        Err(other) => panic!("not a shader error: {other}"),
        Ok(_) => panic!("accepted"),
    }
}

fn refused_define(result: Result<impl Sized>) -> String {
    match result {
        Err(Error::InvalidArgument { what: "define", reason }) => reason,
        Err(other) => panic!("not about a define: {other}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn parse_syntax_error_has_its_place() {
    let (line, column, message) = shader_fault(parse_and_validate("fn f() {\n  let a = ;\n}", ALL));
    assert_eq!((line, column), (2, 11), "{message}");
    // Columns count characters, not bytes.
    let (line, column, _) = shader_fault(parse_and_validate("/* \u{e9}\u{e9} */ fn f( {}", ALL));
    assert_eq!((line, column), (1, 16));
    let (line, _, message) = shader_fault(parse_and_validate("fn f() {\n  let a: f32 = 1u;\n}", ALL));
    assert_eq!(line, 2, "{message}");
    shader_fault(parse_and_validate("\0\u{202e}\u{fffd}", ALL));
    shader_fault(parse_and_validate("/*", ALL));
}

#[test]
fn parse_invalid_shader_has_its_place_and_cause() {
    let source =
        "@group(0) @binding(0) var<storage> a: array<f32>;\n@compute @workgroup_size(1)\nfn f() { a[0] = 1.0; }";
    let (line, _, message) = shader_fault(parse_and_validate(source, ALL));
    assert_eq!(line, 3, "{message}");
    assert!(message.contains("`f`") || message.contains("'f'") || message.contains("f at Compute"), "{message}");
}

#[test]
fn parse_without_capability_is_refused() {
    let source = "enable f16;\n@compute @workgroup_size(1) fn f() { var x = 1.0h; x += x; }";
    parsed(source);
    shader_fault(parse_and_validate(source, Capabilities::default()));
    let source = "@compute @workgroup_size(1) fn f() { var x: f64 = 1.0lf; x += x; }";
    parsed(source);
    shader_fault(parse_and_validate(source, Capabilities::default()));
}

#[test]
fn parse_of_enabled_subgroups_keeps_places() {
    parsed("enable subgroups; @compute @workgroup_size(1) fn f() { var x = subgroupAdd(1.0); x += x; }");
    let source = "enable subgroups, f16; fn f() { let x = ; }";
    let (line, column, message) = shader_fault(parse_and_validate(source, ALL));
    assert_eq!((line, column), (1, 41), "{message}");
    // Behind a declaration it is no directive.
    shader_fault(parse_and_validate("fn f() {} enable subgroups;", ALL));
}

#[test]
fn parse_deepest_accepted_text_does_not_overflow() {
    let sum = vec!["x"; MAX_CHAIN - 10].join(" + ");
    parsed(&format!("@compute @workgroup_size(1) fn f() {{ var x = 1.0; let y = {sum}; x = y; }}"));
    let branches = "else if x < 1.0 { x = 1.0; } ".repeat(500);
    parsed(&format!("@compute @workgroup_size(1) fn f() {{ var x = 1.0; if x < 1.0 {{ }} {branches} }}"));
    let negations = "-".repeat(MAX_CHAIN - 10);
    shader_fault(parse_and_validate(&format!("const a = {negations}1.0; fn f() {{ {} }}", "(".repeat(100)), ALL));
    let deep = "{".repeat(100_000);
    let error = parse_and_validate(&deep, ALL).unwrap_err();
    assert!(matches!(error, Error::ShaderTooComplex { limit: 127, .. }), "{error}");
}

#[test]
fn compute_entry_missing_or_ambiguous_lists_what_there_is() {
    let two = "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(1) fn b() {}";
    let (module, _) = parsed(two);
    assert_eq!(compute_entry(&module, Some("b")).unwrap().name, "b");
    for name in [None, Some("c")] {
        let Err(Error::InvalidArgument { what, reason }) = compute_entry(&module, name) else { panic!("accepted") };
        assert_eq!(what, "compute entry point");
        assert!(reason.contains("`a`, `b`"), "{reason}");
    }
    let (module, _) = parsed("fn helper() {}");
    assert!(matches!(compute_entry(&module, None), Err(Error::InvalidArgument { .. })));
}

const OVERRIDES: &str = "override TILE: u32; override SCALE: f32 = 2.0; @id(7) override FLAG: bool = false;
    override ROWS = TILE * 2u;
    var<workgroup> scratch: array<f32, TILE>;
    @group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
    @compute @workgroup_size(TILE, ROWS) fn main(@builtin(local_invocation_index) i: u32) {
        scratch[i % TILE] = SCALE; workgroupBarrier();
        if FLAG { out[i] = vec4(scratch[0]); }
    }
    @compute @workgroup_size(64) fn plain() { out[0] = vec4(1.0); }";

fn defines(pairs: &[(&str, f64)]) -> Vec<(String, f64)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn resolve_overrides_sets_values() {
    let (module, info) = parsed(OVERRIDES);
    let set = defines(&[("TILE", 8.0), ("FLAG", 1.0)]);
    let (resolved, info) = resolve_overrides(&module, &info, Some("main"), &set).unwrap();
    let reflection = reflect(&resolved, &info);
    assert_eq!(reflection.entry_points.len(), 1);
    assert_eq!(reflection.entry_points[0].workgroup_size, Some([8, 16, 1]));
    assert_eq!(reflection.entry_points[0].workgroup_bytes, Some(32));
    // Sizes stay known when wgpu resolves the overrides once more.
    assert!(resolve_overrides(&resolved, &info, None, &[]).is_ok());
}

#[test]
fn resolve_overrides_by_id_equals_by_name() {
    let (module, info) = parsed(OVERRIDES);
    let by_id = resolve_overrides(&module, &info, Some("main"), &defines(&[("TILE", 4.0), ("7", 1.0)])).unwrap();
    let by_name = resolve_overrides(&module, &info, Some("main"), &defines(&[("TILE", 4.0), ("FLAG", 1.0)])).unwrap();
    assert_eq!(format!("{:?}", by_id.0), format!("{:?}", by_name.0));
}

#[test]
fn resolve_overrides_wrong_defines_are_refused() {
    let (module, info) = parsed(OVERRIDES);
    let with = |pairs: &[(&str, f64)]| refused_define(resolve_overrides(&module, &info, Some("main"), &defines(pairs)));
    let unknown = with(&[("TILES", 4.0)]);
    assert!(unknown.contains("`TILES`") && unknown.contains("`TILE`, `SCALE`, `FLAG`, `ROWS`"), "{unknown}");
    assert!(with(&[]).contains("`TILE` has no default"));
    for bad in [1.5, -1.0, 4_294_967_296.0, f64::NAN, f64::INFINITY] {
        assert!(with(&[("TILE", bad)]).contains("fits u32"));
    }
    assert!(with(&[("TILE", 1.0), ("SCALE", 1e39)]).contains("fits f32"));
    assert!(with(&[("TILE", 1.0), ("FLAG", 2.0)]).contains("0 or 1"));
    assert!(with(&[("TILE", 1.0), ("TILE", 2.0)]).contains("twice"));
    assert!(with(&[("TILE", 1.0), ("FLAG", 1.0), ("7", 1.0)]).contains("twice"));
    // Valid numbers that make an invalid shader.
    shader_fault(resolve_overrides(&module, &info, Some("main"), &defines(&[("TILE", 0.0)])));
    // Another entry point does not need TILE.
    resolve_overrides(&module, &info, Some("plain"), &[]).unwrap();
}

#[test]
fn reflect_describes_bindings_overrides_and_entry_points() {
    let (module, info) = parsed(
        "struct P { n: u32, scale: f32 } struct Tail { n: u32, data: array<vec2<f32>> }
         @group(1) @binding(0) var<uniform> p: P;
         @group(0) @binding(2) var<storage, read> a: array<f32>;
         @group(0) @binding(0) var<storage, read_write> b: Tail;
         @group(0) @binding(1) var<storage, read_write> unused: array<atomic<u32>, 4>;
         var<workgroup> w: array<u32, 64>;
         @compute @workgroup_size(8, 4) fn main(@builtin(local_invocation_index) i: u32) {
            w[i] = p.n; workgroupBarrier(); b.data[i].x = a[i] * p.scale + f32(w[0]);
         }",
    );
    let found = reflect(&module, &info);
    let keys: Vec<_> = found.bindings.iter().map(|b| (b.group, b.binding, b.name.as_str(), b.kind, b.access)).collect();
    assert_eq!(
        keys,
        [
            (0, 0, "b", "storage", "read_write"),
            (0, 1, "unused", "storage", "read_write"),
            (0, 2, "a", "storage", "read"),
            (1, 0, "p", "uniform", "read"),
        ]
    );
    let sizes: Vec<_> = found.bindings.iter().map(|b| (b.ty.as_str(), b.min_size_bytes, b.stride_bytes)).collect();
    assert_eq!(
        sizes,
        [
            ("Tail", Some(16), Some(8)),
            ("array<atomic<u32>, 4>", Some(16), Some(4)),
            ("array<f32>", Some(4), Some(4)),
            ("P", Some(8), None),
        ]
    );
    assert_eq!(found.bindings.iter().map(|b| b.runtime_sized).collect::<Vec<_>>(), [true, false, true, false]);
    let entry = &found.entry_points[0];
    assert_eq!((entry.stage.as_str(), entry.workgroup_size), ("compute", Some([8, 4, 1])));
    assert_eq!(entry.workgroup_bytes, Some(256));
    assert_eq!(entry.uses, [[0, 0], [0, 2], [1, 0]]);
    assert_eq!(found.features, Vec::<String>::new());

    let (module, info) = parsed(OVERRIDES);
    let found = reflect(&module, &info);
    assert_eq!(found.entry_points[0].workgroup_size, None);
    assert_eq!(found.entry_points[0].workgroup_bytes, None);
    assert_eq!(found.entry_points[1].workgroup_size, Some([64, 1, 1]));
    let overrides: Vec<_> =
        found.overrides.iter().map(|o| (o.name.as_str(), o.id, o.ty.as_str(), o.default, o.required)).collect();
    assert_eq!(
        overrides,
        [
            ("TILE", None, "u32", None, true),
            ("SCALE", None, "f32", Some(2.0), false),
            ("FLAG", Some(7), "bool", Some(0.0), false),
            ("ROWS", None, "u32", None, false),
        ]
    );
}

#[test]
fn required_features_are_named() {
    let features = |body: &str| {
        let (module, _) =
            parsed(&format!("enable f16; @group(0) @binding(0) var<storage, read_write> out: array<f32>; {body}"));
        required_features(&module).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let main = "@compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32)";
    assert_eq!(features(&format!("{main} {{ out[i] = unpack2x16float(i).x; }}")), Vec::<String>::new());
    assert_eq!(features(&format!("{main} {{ var x = 1.0h; x += x; out[i] = f32(x); }}")), ["f16"]);
    assert_eq!(features(&format!("{main} {{ var x: f64 = 1.0lf; x += x; out[i] = f32(x); }}")), ["f64"]);
    assert_eq!(features(&format!("{main} {{ var x: i64 = 1li; x += x; out[i] = f32(x); }}")), ["int64"]);
    assert_eq!(features(&format!("{main} {{ out[i] = subgroupAdd(out[i]); }}")), ["subgroups"]);
    let atomic = "@group(0) @binding(1) var<storage, read_write> a: atomic<u64>;";
    assert_eq!(features(&format!("{atomic} {main} {{ atomicMax(&a, 1lu); }}")), ["atomics64_min_max", "int64"]);
    assert_eq!(features(&format!("{atomic} {main} {{ atomicAdd(&a, 1lu); }}")), ["atomics64", "int64"]);
    let immediate = "var<immediate> k: vec2<f32>;";
    assert_eq!(features(&format!("{immediate} {main} {{ out[i] = k.y; }}")), ["immediates"]);
}
