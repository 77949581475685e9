//! `polywarp compile`.

use super::*;

#[test]
fn every_target_is_written() {
    let folder = Folder::new("targets");
    let starts: [(&str, &[u8]); 6] = [
        ("spirv", &[0x03, 0x02, 0x23, 0x07]),
        ("msl", b"// language: metal2.4"),
        ("hlsl", b""),
        ("glsl", b"#version 310 es"),
        ("wgsl", b""),
        ("ptx", b".version "),
    ];
    for (target, start) in starts {
        let out = folder.path(target);
        well(&["compile", &shader("saxpy"), "--target", target, "--entry", "saxpy", "-o", &out]);
        let bytes = std::fs::read(&out).unwrap();
        assert!(bytes.starts_with(start) && bytes.len() > 100, "{target}: {:?}", String::from_utf8_lossy(&bytes));
        if target != "spirv" {
            assert!(text(&bytes).contains("saxpy") || target == "glsl", "{target}");
        }
    }
    let ptx = |arch: &[&str]| {
        let out = folder.path("arch.ptx");
        well(&[&["compile", &shader("saxpy"), "--target", "ptx", "--entry", "saxpy", "-o", &out], arch].concat());
        std::fs::read_to_string(&out).unwrap()
    };
    for (arch, line) in [
        (&[][..], ".target sm_70"),
        (&["--arch", "sm_70"], ".target sm_70"),
        (&["--arch", "sm_90"], ".target sm_90"),
        (&["--arch", "sm_120"], ".target sm_120"),
    ] {
        let text = ptx(arch);
        assert!(text.lines().any(|found| found == line), "{arch:?}: {text}");
        assert!(text.contains(".visible .entry saxpy") && !text.contains(".entry clear"), "{arch:?}: {text}");
    }
}

#[test]
fn defines_reach_the_output() {
    let args = ["compile", &shader("saxpy"), "--target", "wgsl", "--entry", "saxpy", "-o", "-"];
    let with = |defines: &[&str]| well(&[&args[..], defines].concat());
    let wgsl = with(&["--define", "SCALE=0.125", "--define", "BLOCK=0x20"]);
    assert!(wgsl.contains("0.125") && wgsl.contains("@workgroup_size(32, 1, 1)"), "{wgsl}");
    assert!(with(&[]).contains("@workgroup_size(64, 1, 1)"));
}

#[test]
fn reflection_describes_the_shader() {
    let folder = Folder::new("reflect");
    let (out, reflect) = (folder.path("out.metal"), folder.path("reflect.json"));
    well(&["compile", &shader("saxpy"), "--target", "msl", "--entry", "saxpy", "--reflect", &reflect, "-o", &out]);
    let found: Value = serde_json::from_slice(&std::fs::read(&reflect).unwrap()).unwrap();
    assert_eq!(found["target"], "msl");
    assert_eq!(found["entry_points"][0]["workgroup_size"], serde_json::json!([64, 1, 1]));
    let names: Vec<&Value> = found["bindings"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, ["x", "y", "n"]);
    assert_eq!(found["bindings"][1]["access"], "read_write");
    assert_eq!(found["overrides"][0]["name"], "SCALE");
    assert_eq!(found["features"], serde_json::json!([]));
    assert_eq!(found["slots"][2]["index"], 2);
}

#[test]
fn bad_shaders_are_refused_with_their_place() {
    let folder = Folder::new("bad-shaders");
    let out = folder.path("out");
    let refuse = |name: &str, source: &[u8]| {
        let file = folder.with(name, source);
        let line = refused(&["compile", &file, "--target", "spirv", "-o", &out], 2);
        assert!(line.contains(&file), "{line}");
        line
    };
    assert!(refuse("syntax.wgsl", b"fn f() {\n  let = 1;\n}").contains("syntax.wgsl:2:7: "));
    assert!(refuse("type.wgsl", b"fn f() {\n\n  let a: f32 = 1u;\n}").contains("type.wgsl:3:"));
    assert!(refuse("empty.wgsl", b"").contains("entry point"));
    assert!(refuse("binary.wgsl", b"\xff\xfe\x00").contains("not UTF-8"));
    assert!(refuse("nul.wgsl", b"\0\0\0").contains("nul.wgsl:1:1"));
    assert!(refuse("deep.wgsl", "(".repeat(200_000).as_bytes()).contains("too complex"));
    assert!(refuse("chain.wgsl", format!("const a = 1{};", " + 1".repeat(200_000)).as_bytes()).contains("too complex"));
    assert!(refuse("long.wgsl", &vec![b' '; 5 << 20]).contains("largest shader"));
    assert!(!exists(&out), "nothing was written");
}

#[test]
fn bad_requests_are_refused() {
    let folder = Folder::new("bad-requests");
    let (file, out) = (shader("saxpy"), folder.path("out"));
    let with = |more: &[&str]| refused(&[&["compile", &file, "--target", "spirv", "-o", &out], more].concat(), 2);
    assert!(with(&["--entry", "nope"]).contains("`saxpy`, `clear`"));
    assert!(with(&["--define", "NOPE=1"]).contains("`SCALE`, `BLOCK`"));
    assert!(with(&["--define", "BLOCK=1.5"]).contains("u32"));
    assert!(with(&["--define", "BLOCK=0"]).contains("workgroup"));
    assert!(with(&["--define", "BLOCK"]).contains("NAME=VALUE"));
    let target = |target: &str| refused(&["compile", &file, "--target", target, "-o", &out], 2);
    assert!(with(&["--arch", "sm_90"]).contains("PTX"), "only PTX has architectures");
    for arch in ["sm_60", "sm_1", "sm_999", "sm_91", "hopper", ""] {
        let line = refused(&["compile", &file, "--target", "ptx", "--arch", arch, "-o", &out], 2);
        assert!(line.contains("sm_"), "{arch}: {line}");
    }
    assert!(target("cuda").contains("spirv msl hlsl glsl wgsl ptx"));
    assert!(target("glsl").contains("choose one"), "GLSL holds one entry point");
    assert!(refused(&["compile", &folder.path("missing.wgsl"), "--target", "msl", "-o", &out], 2).contains("missing"));
    let this_folder = folder.path("");
    assert!(refused(&["compile", &this_folder, "--target", "msl", "-o", &out], 2).contains("folder"));
    assert!(!exists(&out), "nothing was written");
    for same in [out.as_str(), "-"] {
        let args = ["compile", &file, "--target", "wgsl", "-o", same, "--reflect", same];
        assert!(refused(&args, 2).contains("same file"));
    }
    assert!(!exists(&out), "nothing was written");
    let nowhere = folder.path("no/such/folder/out");
    assert!(refused(&["compile", &file, "--target", "spirv", "-o", &nowhere], 1).contains("cannot write"));
    let double = folder.with("double.wgsl", "@compute @workgroup_size(1) fn main() { var x: f64 = 1.0lf; x += x; }");
    assert!(refused(&["compile", &double, "--target", "msl", "-o", &out], 2).contains("f64"));
}

/// What would be lost is not found out by losing it.
#[test]
fn output_that_is_the_shader_or_another_output_is_refused() {
    let folder = Folder::new("same-file");
    let source = std::fs::read_to_string(shader("saxpy")).unwrap();
    let file = folder.with("k.wgsl", &source);
    let (out, same_out, same_file) = (folder.path("x"), folder.path("./x"), folder.path("./k.wgsl"));
    for (output, reflect) in [(&same_file, &out), (&out, &same_file), (&out, &same_out)] {
        let line =
            refused(&["compile", &file, "--target", "wgsl", "-o", output.as_str(), "--reflect", reflect.as_str()], 2);
        assert!(line.contains("same file"), "{line}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), source);
    assert!(!exists(&out), "nothing was written");
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_keeps_the_old_file() {
    let folder = Folder::new("full-disk");
    let (out, reflect) = (folder.with("out", "old"), folder.with("reflect", "old"));
    let file = shader("saxpy");
    let args = ["compile", file.as_str(), "--target", "wgsl", "-o", out.as_str()];
    for args in [args.to_vec(), [&args[..], &["--reflect", reflect.as_str()]].concat()] {
        let output = ended(&mut on_a_full_disk(&args));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("cannot write") && error.lines().count() == 1, "{error}");
    }
    assert_eq!([&out, &reflect].map(|file| std::fs::read_to_string(file).unwrap()), ["old", "old"]);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left");
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_as_they_are() {
    use std::os::unix::fs::FileTypeExt;
    let args = ["compile", &shader("saxpy"), "--target", "wgsl", "-o"];
    well(&[&args[..], &["/dev/null"]].concat());
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(refused(&[&args[..], &["/dev/full"]].concat(), 1).contains("cannot write /dev/full"));
    assert_eq!(well(&[&args[..], &["/dev/stdout"]].concat()), well(&[&args[..], &["-"]].concat()));
}
