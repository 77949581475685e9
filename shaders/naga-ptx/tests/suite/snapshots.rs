//! Every shader of `tests/in` gives the text in `tests/out`; `NAGA_PTX_WRITE_SNAPSHOTS=1` writes it anew.

use crate::common::{folder, shader_of, shaders};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga_ptx::{Error, Options, Target, compile};

#[test]
fn every_construct_gives_its_snapshot() {
    let write = std::env::var_os("NAGA_PTX_WRITE_SNAPSHOTS").is_some();
    let mut wrong = Vec::new();
    for shader in shaders("in") {
        let ptx = compile(&shader.module, &shader.info, &shader.options)
            .unwrap_or_else(|error| panic!("{}: {error}", shader.name));
        let path = folder("out").join(format!("{}.ptx", shader.name));
        if write {
            std::fs::write(&path, &ptx.text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != ptx.text {
            wrong.push(shader.name);
        }
    }
    assert!(wrong.is_empty(), "these differ from tests/out (NAGA_PTX_WRITE_SNAPSHOTS=1 rewrites them): {wrong:?}");
}

#[test]
fn no_snapshot_without_a_shader() {
    let shaders: Vec<String> = shaders("in").into_iter().map(|shader| shader.name).collect();
    for entry in std::fs::read_dir(folder("out")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(shaders.contains(&name), "{} has no shader", path.display());
    }
}

/// Snapshots with variables in local memory, the bytes of it, and why.
const LOCAL: [(&str, u32, &str); 2] = [
    (
        "arrays",
        128,
        "`large`, 4 times 8 numbers, is indexed by what only the invocation knows: too many to choose between",
    ),
    ("pointers", 256, "`large`, 64 numbers, is so inside a function that gets a pointer to it"),
];

/// Checked or trusted, for old cards and new ones: whatever can be in registers is.
#[test]
fn local_memory_is_for_arrays_of_unknown_index_alone() {
    for shader in shaders("in") {
        let target = shader.options.target;
        let checked = Options { target, loop_limit: Some(1 << 20), ..Options::default() };
        let newest = Target::new(12, 0);
        let all = [checked.clone(), Options::trusted(target), Options { target: newest, ..checked }];
        for options in [shader.options.clone()].into_iter().chain(all) {
            let text = compile(&shader.module, &shader.info, &options).unwrap().text;
            let declared = text.lines().filter_map(|line| line.trim().strip_prefix(".local .align 16 .b8 "));
            let bytes = declared.map(|of| of.split(['[', ']']).nth(1).unwrap().parse::<u32>().unwrap()).sum::<u32>();
            let needed = LOCAL.iter().find(|(name, ..)| *name == shader.name).map_or(0, |(_, bytes, _)| *bytes);
            assert_eq!(bytes, needed, "{} {options:?}", shader.name);
            assert_eq!(text.contains(".local"), needed > 0, "{}", shader.name);
        }
    }
}

#[test]
fn compiling_twice_gives_the_same_text() {
    for shader in shaders("in") {
        let texts = [0, 1].map(|_| compile(&shader.module, &shader.info, &shader.options).unwrap());
        assert_eq!(texts[0], texts[1], "{}", shader.name);
    }
}

/// The place is the line that says what is refused.
#[test]
fn what_cuda_lacks_is_unsupported_with_its_place() {
    for shader in shaders("refused") {
        let source = std::fs::read_to_string(folder("refused").join(format!("{}.wgsl", shader.name))).unwrap();
        let mut marked =
            (1..).zip(source.lines()).filter_map(|(n, line)| Some((n, line.split_once("// refused: ")?.1)));
        let (expected, words) = marked.next().unwrap();
        match compile(&shader.module, &shader.info, &shader.options) {
            Err(Error::Unsupported { construct, span: Some(span), .. }) => {
                assert!(construct.contains(words), "{}: {construct}", shader.name);
                assert_eq!(span.location(&source).line_number, expected, "{}", shader.name);
            }
            other => panic!("{}: {other:?}", shader.name),
        }
    }
}

#[test]
fn a_graphics_stage_is_unsupported_asked_for_or_alone() {
    let source = "@fragment fn shade() { var x = 1; }
        @compute @workgroup_size(1) fn work() {}
        @fragment fn empty() {}";
    let mut shader = shader_of("stages".to_owned(), source);
    let mut compiled = |entry: Option<&str>| {
        shader.options.entry_point = entry.map(str::to_owned);
        compile(&shader.module, &shader.info, &shader.options)
    };
    // Beside compute stages they are left alone.
    assert_eq!(compiled(None).unwrap().entry_points.len(), 1);
    match compiled(Some("shade")) {
        Err(Error::Unsupported { span: Some(span), .. }) => assert_eq!(span.location(source).line_position, 24),
        other => panic!("{other:?}"),
    }
    // naga has no place for a stage with nothing in it.
    assert!(matches!(compiled(Some("empty")), Err(Error::Unsupported { .. })));
    assert!(matches!(compiled(Some("none")), Err(Error::NoEntryPoint { .. })));
    let none = shader_of("none".to_owned(), "fn helper() {}");
    assert!(matches!(compile(&none.module, &none.info, &none.options), Err(Error::NoEntryPoint { .. })));
}

/// Functions are compiled into their callers: a loop is written out only where what it calls is small as well.
#[test]
fn loops_over_calls_of_loops_over_calls_stay_loops() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        fn a(i: u32) { for (var k = 0u; k < 60u; k++) { x[i + k] = x[i + k] * 3u + x[k] / 7u; } }
        fn b(i: u32) { for (var k = 0u; k < 60u; k++) { a(i + k); } }
        fn c(i: u32) { for (var k = 0u; k < 60u; k++) { b(i + k); } }
        @compute @workgroup_size(1) fn main() { for (var k = 0u; k < 60u; k++) { c(k); } }";
    let shader = shader_of("nest".to_owned(), source);
    let text = compile(&shader.module, &shader.info, &shader.options).unwrap().text;
    // A hundred bytes or so for each unit of weight, of which there are 2^16 at most.
    assert!(text.len() < 4 << 20, "{} bytes", text.len());
    let short = shader_of("short".to_owned(), &source.replace("60u", "3u"));
    let text = compile(&short.module, &short.info, &short.options).unwrap().text;
    assert_eq!(text.matches("bra").count(), 0, "{text}");
}

/// Why `tests/in/pointers.wgsl` has none.
#[test]
fn naga_takes_no_pointers_to_shared_memory_as_parameters() {
    for space in ["workgroup, u32", "storage, u32, read_write"] {
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> x: u32;
             var<workgroup> w: u32;
             fn f(p: ptr<{space}>) {{ *p = 1u; }}"
        );
        let module = naga::front::wgsl::parse_str(&source).unwrap();
        let validated = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
        assert!(validated.is_err(), "tests/in/pointers.wgsl and tests/run/semantics.wgsl can have ptr<{space}>");
    }
}
