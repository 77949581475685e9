//! Tests of `expand.rs` and `sizes.rs`: what is refused, where, and what is not.

use super::super::parse_and_validate;
use super::*;
use naga::valid::Capabilities;

/// `levels` constants, each two of the one before.
fn nested(levels: usize) -> String {
    let constants = (1..=levels).map(|n| format!("const c{n} = array(c{m}, c{m});\n", m = n - 1));
    format!("const c0 = 1u;\n{}", constants.collect::<String>())
}

fn line_refused(source: &str) -> u32 {
    match check_expansion(source) {
        Err(Error::Shader { line, message, .. }) if message.contains("the limit is 1048576") => line,
        other => panic!("{other:?}\n{}", &source[..source.len().min(500)]),
    }
}

#[test]
fn nested_constants_are_refused_where_they_go_beyond_the_limit() {
    assert!(check_expansion(&nested(18)).is_ok());
    for levels in [22, 28, 100, 10_000] {
        assert_eq!(line_refused(&nested(levels)), 21, "{levels}");
    }
    let main = "@compute @workgroup_size(1) fn main() { var x = c28[0][1]; }";
    assert!(parse_and_validate(&format!("{}{main}", nested(28)), Capabilities::all()).is_err());
}

#[test]
fn constants_declared_behind_their_use_are_counted_too() {
    let mut lines: Vec<String> = nested(24).lines().map(str::to_owned).collect();
    lines.reverse();
    line_refused(&lines.join("\n"));
}

#[test]
fn every_way_to_nest_is_counted() {
    let grown =
        |first: &str, line: &dyn Fn(usize) -> String| format!("{first}\n{}", (1..=40).map(line).collect::<String>());
    let body = |inner: &str| format!("fn f() {{ {inner} }}");
    for source in [
        body(&grown("let c0 = array(1, 2);", &|n| format!("let c{n} = array(c{m}, c{m});", m = n - 1))),
        body(&grown("const c0 = array(1, 2);", &|n| format!("const c{n} = array<A, 2>(c{m}, (c{m}));", m = n - 1))),
        body(&grown("let x = array(1, 2);", &|_| "{ let x = array(x, x);".to_owned())),
        grown("struct S { a: u32, b: u32 } const c0 = S(1, 2);", &|n| {
            format!("struct S{n} {{ a: S, b: S }} const c{n}: S{n} = S{n}(c{m}, c{m});", m = n - 1)
        }),
        grown("alias A = array<u32, 2>; alias B = A; const c0 = B(1, 2);", &|n| {
            format!("const c{n} = array(c{m}, c{m});", m = n - 1)
        }),
        grown("const c0 = array(array(1, 2), array(3, 4));", &|n| {
            format!(
                "const c{n} = array(array(c{m}[0], c{m}[1], c{m}[0]), array(c{m}[0], c{m}[1], c{m}[0]), c{m});",
                m = n - 1
            )
        }),
        // Each use is a copy.
        format!("const t = array({});\n{}", "1, ".repeat(4096), body(&"g(t[i]);".repeat(300))),
    ] {
        line_refused(&source);
    }
}

#[test]
fn rounds_of_scalars_and_flat_structures_are_not_taken_for_nesting() {
    let rounds = |first: &str, line: &dyn Fn(usize) -> String| {
        format!("fn f() {{ {first} {} }}", (1..=500).map(line).collect::<String>())
    };
    for source in [
        rounds("let x0 = t[i];", &|n| format!("let x{n} = x{m} * x{m} + x{m} ^ (x{m} >> 3u);", m = n - 1)),
        rounds("let x0 = array(1u, 2u);", &|n| {
            format!("let x{n} = array(x{m}[0] + x{m}[1], x{m}[1] * x{m}[0] + x{m}[1]);", m = n - 1)
        }),
        rounds("let x0 = State(1u, 2u);", &|n| {
            format!("let x{n} = State(x{m}.a + x{m}.b, x{m}.b * x{m}.a + x{m}.b);", m = n - 1)
        }),
        rounds("let x0 = vec4(1.0);", &|n| {
            format!("let x{n} = vec4<f32>(x{m}.xy, x{m}.zw) + fma(x{m}, x{m}, x{m});", m = n - 1)
        }),
        rounds("let x0 = F(1.0);", &|n| format!("let x{n} = F(x{m} + x{m});", m = n - 1)),
    ] {
        let source = format!("alias F = f32; struct State {{ a: u32, b: u32 }} {source}");
        check_expansion(&source).unwrap_or_else(|e| panic!("{e}\n{}", &source[..300]));
    }
    // A table that is used now and then.
    let table = format!("const t = array({}); fn f() {{ {} }}", "1, ".repeat(1024), "g(t[i]); ".repeat(1000));
    check_expansion(&table).unwrap();
}

#[test]
fn text_that_is_not_wgsl_is_read_to_its_end() {
    for source in [
        "const",
        "const a",
        "const a =",
        "let x = array(",
        "const a = b; const b = a;",
        "array<",
        "a[",
        "a.",
        "(",
        "}",
        "alias",
        "struct",
        "const a = a;",
    ] {
        check_expansion(source).unwrap_or_else(|e| panic!("{source}: {e}"));
    }
}

#[test]
fn variables_and_zero_values_beyond_the_limit_are_refused_with_their_place() {
    let main = |globals: &str, body: &str| format!("{globals}\n@compute @workgroup_size(1) fn main() {{\n{body} }}");
    for (source, wanted) in [
        (main("var<workgroup> w: array<u32, 100000000>;", "w[0] = 1u;"), 1),
        (main("var<private> p: array<array<vec4<f32>, 10000>, 1000>;", "p[0][0].x = 1.0;"), 1),
        (main("", "var v: array<u32, 2000000>; v[0] = 1u;"), 3),
        (main("const z = array<u32, 2000000>();", "var i = 0; let y = z[i]; i = i32(y);"), 3),
        (main("struct S { a: array<u32, 600000> }", "var i = 0; var a = S().a[i]; var b = S().a[i]; a = b;"), 3),
    ] {
        match parse_and_validate(&source, Capabilities::all()) {
            Err(Error::Shader { line, message, .. }) => {
                assert!(line == wanted && message.contains("the limit is 1048576"), "{line} {message}: {source}");
            }
            other => panic!("{:?}: {source}", other.map(drop)),
        }
    }
    let buffer = main("@group(0) @binding(0) var<storage, read_write> b: array<u32, 100000000>;", "b[0] = 1u;");
    parse_and_validate(&buffer, Capabilities::all()).unwrap();
}

#[test]
fn arrays_that_an_override_sizes_are_bounded_once_it_is_set() {
    let source = "override N: u32 = 64; var<workgroup> w: array<u32, N>;
        @compute @workgroup_size(1) fn main() { w[0] = 1u; }";
    let (module, info) = parse_and_validate(source, Capabilities::all()).unwrap();
    let with = |n: f64| super::super::resolve_overrides(&module, &info, None, &[("N".to_owned(), n)]).map(drop);
    with(4096.0).unwrap();
    assert!(matches!(with(400_000_000.0), Err(Error::Shader { .. })), "{:?}", with(400_000_000.0));
}

#[test]
fn types_nested_without_end_are_refused() {
    let structs = (1..=20_000).map(|n| format!("struct S{n} {{ a: S{m} }}", m = n - 1)).collect::<String>();
    let source = format!(
        "struct S0 {{ a: u32 }} {structs} @compute @workgroup_size(1) fn main() {{ var s: S20000; s = S20000(); }}"
    );
    match parse_and_validate(&source, Capabilities::all()) {
        Err(Error::ShaderTooComplex { .. } | Error::Shader { .. }) => {}
        other => panic!("{:?}", other.map(drop)),
    }
}
