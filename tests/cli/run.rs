//! `polywarp run`.

use super::*;

/// A .npy file of version 1.0.
pub(super) fn npy(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn saxpy_from_and_to_files() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("saxpy");
    let x = folder.with("x.npy", npy("<f4", "False", "(2, 50)", &floats((0..100).map(|i| i as f32))));
    let y = folder.with("y.npy", npy("<f4", "False", "(4, 25)", &floats((0..100).map(|_| 1.0))));
    let n = folder.with("n.npy", npy("<u4", "False", "()", &99_u32.to_le_bytes()));
    let (out, same) = (folder.path("out.npy"), folder.path("same.npy"));
    let said = well(&[
        "run",
        &shader("saxpy"),
        "--device",
        &gpu,
        "--grid",
        "2,1,1",
        "--bind",
        &format!("0={x}"),
        "--bind",
        &format!("0.1={y}"),
        "--bind",
        &format!("1.0={n}"),
        "--save",
        &format!("1={out}"),
        "--save",
        &format!("0.0={same}"),
        "--entry",
        "saxpy",
        "--define",
        "SCALE=3",
    ]);
    assert!(said.contains("f32 4x25"), "{said}");
    let expected = floats((0..100).map(|i| if i < 99 { 1.0 + 3.0 * i as f32 } else { 1.0 }));
    assert_eq!(std::fs::read(&out).unwrap(), npy("<f4", "False", "(4, 25)", &expected));
    assert_eq!(std::fs::read(&same).unwrap(), std::fs::read(&x).unwrap(), "an input is saved as it was");
}

#[test]
fn spirv_runs_like_wgsl() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("spirv");
    let x = folder.with("x.npy", npy("<f4", "False", "(5,)", &floats((0..5).map(|i| i as f32))));
    let out = folder.path("out.npy");
    let spv = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shaders/multiply_them.spv");
    let (a, b, save) = (format!("1={x}"), format!("2={x}"), format!("0={out}"));
    let args = ["run", spv, "--device", &gpu, "--grid", "1", "--bind", &a, "--bind", &b, "--save", &save];
    well(&[&args[..], &["--bind", "0=zeros:f32:5"]].concat());
    let squares = floats([0.0, 1.0, 4.0, 9.0, 16.0]);
    assert_eq!(std::fs::read(&out).unwrap(), npy("<f4", "False", "(5,)", &squares));
    let none = folder.with("none.spv", "no module");
    let line = refused(&["run", &none, "--device", &gpu, "--grid", "1"], 2);
    assert!(line.contains("none.spv") && line.contains("SPIR-V"), "{line}");
}

#[test]
fn zeros_and_every_order_of_bytes() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("zeros");
    let copy = folder.with(
        "copy.wgsl",
        "@group(0) @binding(0) var<storage, read> a: array<u32>;
         @group(0) @binding(1) var<storage, read_write> b: array<u32>;
         @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { b[id.x] += a[id.x]; }",
    );
    let run = |input: Vec<u8>, zeros: &str, words: usize| {
        let a = folder.with("a.npy", input);
        let out = folder.path("b.npy");
        let binds = [format!("0={a}"), format!("1=zeros:{zeros}"), format!("1={out}")];
        let grid = words.to_string();
        well(&[
            "run", &copy, "--device", &gpu, "--grid", &grid, "--bind", &binds[0], "--bind", &binds[1], "--save",
            &binds[2],
        ]);
        std::fs::read(&out).unwrap()
    };
    // Big-endian and column-major come out little-endian and row-major.
    let by_columns: Vec<u8> = [1_u32, 3, 2, 4].iter().flat_map(|v| v.to_be_bytes()).collect();
    let by_rows: Vec<u8> = [1_u32, 2, 3, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(run(npy(">u4", "True", "(2, 2)", &by_columns), "u32:2x2", 4), npy("<u4", "False", "(2, 2)", &by_rows));
    // Five bytes are two words on the device and five bytes again in the file.
    assert_eq!(
        run(npy("|u1", "False", "(5,)", &[1, 2, 3, 4, 5]), "u8:5", 2),
        npy("|u1", "False", "(5,)", &[1, 2, 3, 4, 5])
    );
    for (descr, dtype) in
        [("<f2", "f16"), ("<f8", "f64"), ("<i8", "i64"), ("|i1", "i8"), ("|b1", "bool"), ("<V2", "bf16")]
    {
        let size: usize = descr[2..].parse().unwrap();
        let data: Vec<u8> = (0..8 * size).map(|i| (i % 2) as u8).collect();
        let file = npy(descr, "False", "(8,)", &data);
        assert_eq!(run(file.clone(), &format!("{dtype}:8"), 2 * size), file, "{dtype}");
    }
}

/// numpy makes f64 unless told otherwise; a shader with f32 gives nonsense then, and nothing else would say why.
#[test]
fn elements_of_another_type_are_warned_of() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("types");
    let double = folder.with(
        "double.wgsl",
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
         @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0; }",
    );
    let run = |file: &str| {
        let bind = format!("0={file}");
        let out = ended(&mut program(&["run", &double, "--device", &gpu, "--grid", "1", "--bind", &bind]));
        assert_eq!(out.status.code(), Some(0));
        // Nothing is kept, and so is said.
        assert_eq!(text(&out.stdout), format!("ran on {gpu}; --save BINDING=FILE keeps an array\n"));
        text(&out.stderr).to_owned()
    };
    let wide = folder.with("wide.npy", npy("<f8", "False", "(1,)", &1.0f64.to_le_bytes()));
    let said = run(&wide);
    assert!(said.starts_with("warning: binding 0.0 ") && said.contains("f64") && said.contains("array<f32>"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let right = folder.with("right.npy", npy("<f4", "False", "(1,)", &1.0f32.to_le_bytes()));
    assert_eq!(run(&right), "");
}

#[test]
fn file_that_cannot_be_written_is_refused_first() {
    let folder = Folder::new("unwritable");
    let save = format!("1={}", folder.path("none/out.npy"));
    let flags = ["--device", "cpu", "--grid", "1", "--bind", "1=zeros:f32:4", "--save", &save];
    let line = refused(&[&["run", &shader("saxpy")], &flags[..]].concat(), 1);
    assert!(line.contains("cannot write") && !line.contains("cpu does not support"), "{line}");
    // What is there is not touched before there is something to put in its place.
    let kept = folder.with("kept.npy", "kept");
    let save = format!("1={kept}");
    let flags = ["--device", "cpu", "--grid", "1", "--bind", "1=zeros:f32:4", "--save", &save];
    assert!(refused(&[&["run", &shader("saxpy")], &flags[..]].concat(), 2).contains("cpu does not support"));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
}

#[test]
fn file_that_is_the_shader_or_another_result_is_refused() {
    let folder = Folder::new("run-same-file");
    let source = std::fs::read_to_string(shader("saxpy")).unwrap();
    let file = folder.with("k.wgsl", &source);
    let (over, one, other) = (folder.path("./k.wgsl"), folder.path("a"), folder.path("./a"));
    let binds = ["--device", "cpu", "--grid", "1", "--bind", "0=zeros:f32:4", "--bind", "1=zeros:f32:4"];
    let with = |saves: &[String]| {
        let saves = saves.iter().flat_map(|save| ["--save", save.as_str()]);
        refused(&["run", &file].into_iter().chain(binds).chain(saves).collect::<Vec<_>>(), 2)
    };
    assert!(with(&[format!("0={over}")]).contains("the shader and --save 0.0 name the same file"));
    let line = with(&[format!("0={one}"), format!("1={other}")]);
    assert!(line.contains("--save 0.0 and --save 0.1 name the same file"), "{line}");
    assert!(with(&["0=-".to_owned(), "1=-".to_owned()]).contains("same file"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), source);
    assert!(!exists(&one));
}

#[test]
fn array_is_saved_over_its_own_file_or_to_standard_output() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("over");
    let double = folder.with(
        "double.wgsl",
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
         @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] *= 2.0; }",
    );
    let file = folder.with("x.npy", npy("<f4", "False", "(1,)", &floats([1.5])));
    let (bind, save) = (format!("0={file}"), format!("0={file}"));
    let args = ["run", &double, "--device", &gpu, "--grid", "1", "--bind", &bind, "--save"];
    well(&[&args[..], &[save.as_str()]].concat());
    assert_eq!(std::fs::read(&file).unwrap(), npy("<f4", "False", "(1,)", &floats([3.0])));
    let output = ended(&mut program(&[&args[..], &["0=-"]].concat()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(output.stdout, npy("<f4", "False", "(1,)", &floats([6.0])));
    assert_eq!(text(&output.stderr), "-: f32 1\n");
    assert!(!exists("-"), "it is no file's name");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn cpu_by_default_names_the_device_that_can() {
    let args = ["run", &shader("saxpy"), "--grid", "1", "--entry", "clear"];
    let output = ended(program(&args).env("POLYWARP_DEVICE", "cpu"));
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.starts_with("error: ") && line.lines().count() == 1, "{line}");
    assert!(line.contains("cpu, does not support shaders"), "{line}");
    match gpu() {
        Some(gpu) => assert!(line.contains(&format!("--device {gpu} (")), "{line}"),
        None => assert!(line.contains("polywarp doctor"), "{line}"),
    }
}

#[test]
fn cpu_device_says_that_it_cannot() {
    let line = refused(&["run", &shader("saxpy"), "--device", "cpu", "--grid", "1", "--entry", "clear"], 2);
    assert!(line.contains("cpu does not support"), "{line}");
}

#[test]
fn bad_flags_are_refused() {
    let file = shader("saxpy");
    let with = |more: &[&str]| refused(&[&["run", &file, "--device", "cpu"], more].concat(), 2);
    assert!(with(&[]).contains("--grid"));
    for grid in ["x", "1,2,3,4", "-1", "4294967296", ""] {
        assert!(with(&["--grid", grid]).contains("--grid"), "{grid}");
    }
    for bind in ["x", "0", "0=", "a=b", "0.=b", "0=zeros:f32", "0=zeros:q8:4", "0=zeros:f32:4y4"] {
        assert!(with(&["--grid", "1", "--bind", bind]).contains("--bind"), "{bind}");
    }
    assert!(with(&["--grid", "1", "--bind", "0=zeros:f32:0"]).contains("no elements"));
    assert!(with(&["--grid", "1", "--bind", "0=zeros:f32:9999999999x9999999999"]).contains("larger than any device"));
    assert!(with(&["--grid", "1", "--bind", "0=zeros:f32:1", "--bind", "0.0=zeros:f32:1"]).contains("twice"));
    assert!(with(&["--grid", "1", "--save", "1=out.npy"]).contains("nothing is bound there"));
    let device = refused(&["run", &file, "--device", "wgpu:99", "--grid", "1"], 2);
    assert!(device.contains("no device `wgpu:99`") || device.contains("not available"), "{device}");
}

#[test]
fn bad_files_are_refused() {
    let folder = Folder::new("bad-files");
    let good = npy("<f4", "False", "(2,)", &[0; 8]);
    let files: [(&str, Vec<u8>, &str); 8] = [
        ("empty.npy", vec![], "not a .npy file"),
        ("zip.npy", b"PK\x03\x04........".to_vec(), "not a .npy file"),
        ("header.npy", good[..30].to_vec(), "truncated in its header"),
        ("short.npy", good[..good.len() - 3].to_vec(), "needs 8 bytes of data, the file has 5"),
        ("long.npy", [good.clone(), vec![0; 3]].concat(), "3 bytes too many"),
        ("lying.npy", npy("<f4", "False", "(1000000000000,)", &[0; 8]), "truncated"),
        ("overflow.npy", npy("<f4", "False", "(8589934592, 8589934592)", &[0; 8]), "header"),
        ("strings.npy", npy("<U4", "False", "(1,)", &[0; 16]), "numbers are expected"),
    ];
    for (name, bytes, expected) in files {
        let path = folder.with(name, bytes);
        let bind = format!("0={path}");
        let line = refused(&["run", &shader("saxpy"), "--device", "cpu", "--grid", "1", "--bind", &bind], 2);
        assert!(line.contains(expected) && line.contains(name), "{name}: {line}");
    }
    let missing = format!("0={}", folder.path("missing.npy"));
    assert!(
        refused(&["run", &shader("saxpy"), "--device", "cpu", "--grid", "1", "--bind", &missing], 2)
            .contains("missing.npy")
    );
    let directory = format!("0={}", folder.path(""));
    let line = refused(&["run", &shader("saxpy"), "--device", "cpu", "--grid", "1", "--bind", &directory], 2);
    assert!(line.contains("not a regular file"), "{line}");
}

#[test]
fn bad_kernels_are_refused_by_the_device() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("bad-kernels");
    let run = |file: &str, more: &[&str]| refused(&[&["run", file, "--device", &gpu, "--grid", "1"], more].concat(), 2);
    let saxpy = shader("saxpy");
    assert!(run(&saxpy, &[]).contains("saxpy"), "two entry points");
    let bound = ["--entry", "clear", "--bind", "1=zeros:f32:4"];
    assert!(run(&saxpy, &[&bound[..], &["--define", "NOPE=1"]].concat()).contains("NOPE"));
    assert!(run(&saxpy, &["--entry", "nope"]).contains("nope"));
    assert!(run(&saxpy, &["--entry", "clear"]).contains("0.1"), "nothing is bound to y");
    let syntax = folder.with("syntax.wgsl", "@compute @workgroup_size(1) fn main() { let = 1; }");
    assert!(run(&syntax, &[]).contains("syntax.wgsl:1:45"));
    let deep = folder.with("deep.wgsl", "{".repeat(100_000));
    assert!(run(&deep, &[]).contains("too complex"));
    let big = folder.with("big.wgsl", "@compute @workgroup_size(60000) fn main() {}");
    run(&big, &[]);
    let out = format!("1={}", folder.path("no/such/folder.npy"));
    let args = [&["run", &saxpy, "--device", &gpu, "--grid", "1", "--save", &out], &bound[..]].concat();
    assert!(refused(&args, 1).contains("cannot write"));
    let huge = ["--entry", "clear", "--bind", "1=zeros:f32:999999999999"];
    assert!(run(&saxpy, &huge).contains("999999999999") || run(&saxpy, &huge).contains("bytes"));
}

/// With a grid of 65535 x 65535 this runs for days. A single endless loop does not serve: llvmpipe leaves every loop after
/// 65,535 rounds, whatever the shader says.
const ENDLESS: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    @compute @workgroup_size(64) fn main() { loop { if atomicAdd(&x[0], 1u) == 5u && atomicLoad(&x[1]) == 7u { break; } } }";

/// Every GPU in software: one in hardware would have to be reset.
#[test]
fn shader_that_does_not_end_is_given_up_and_the_process_ends() {
    let folder = Folder::new("endless");
    let (endless, out) = (folder.with("endless.wgsl", ENDLESS), folder.path("out.npy"));
    let listing = json(&["devices", "--json"]);
    let software = |device: &&Value| device["usable"] == true && device["kind"] == "software";
    for device in listing["devices"].as_array().unwrap().iter().filter(software) {
        let id = device["id"].as_str().unwrap();
        let started = std::time::Instant::now();
        let save = format!("0={out}");
        let args =
            ["run", &endless, "--device", id, "--grid", "65535,65535", "--bind", "0=zeros:u32:2", "--save", &save];
        let error = refused(&[&args[..], &["--timeout", "1.5"]].concat(), 124);
        assert!(error.contains(id) && error.contains("1.5s") && error.contains("--timeout"), "{error}");
        assert!(started.elapsed().as_secs() < 30, "{id}: {:?}", started.elapsed());
        assert!(!exists(&out), "nothing was computed");
        println!("{id} ({}): given up after {:?}", device["api"], started.elapsed());
    }
    assert!(refused(&["run", &endless, "--grid", "1", "--timeout=-1"], 2).contains("seconds"));
}

/// Opening a pipe waits for its other end, which may never come.
#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = Folder::new("pipes");
    let (pipe, socket, sub) = (folder.path("pipe"), folder.path("socket"), folder.path("sub"));
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|made| made.success()) {
        println!("not run: no mkfifo here");
        return;
    }
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::create_dir(&sub).unwrap();
    let link = folder.path("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let saxpy = shader("saxpy");
    for (path, what) in [
        (&pipe, "named pipe"),
        (&link, "named pipe"),
        (&socket, "socket"),
        (&sub, "folder"),
        (&"/dev/zero".to_owned(), "device"),
    ] {
        let bind = format!("0={path}");
        let error = refused(&["run", &saxpy, "--grid", "1", "--bind", &bind], 2);
        assert!(error.contains(&**path) && error.contains("not a regular file") && error.contains(what), "{error}");
    }
    for (path, what) in [(&pipe, "named pipe"), (&link, "named pipe"), (&socket, "socket"), (&sub, "directory")] {
        let save = format!("0={path}");
        let error = refused(&["run", &saxpy, "--grid", "1", "--bind", "0=zeros:f32:4", "--save", &save], 1);
        assert!(error.contains(&**path) && error.contains(what), "{error}");
    }
    // The same of every file that a command reads or writes.
    for (path, what) in [(&pipe, "named pipe"), (&socket, "socket"), (&sub, "folder")] {
        assert!(refused(&["run", path, "--grid", "1"], 2).contains(what));
        assert!(refused(&["compile", path, "--target", "wgsl", "-o", &folder.path("out")], 2).contains(what));
        assert!(refused(&["tune", "--merge", path], 2).contains(what), "{path}");
    }
    assert!(refused(&["compile", &saxpy, "--target", "wgsl", "-o", &pipe], 1).contains("named pipe"));
}
