//! The program on an NVIDIA card. The interpreted driver stands for it (`testing/interpreted-driver`), under the name that
//! the program opens, so that this runs on every machine; what a card alone can show is `benches/card.sh`'s.

use super::*;

/// A folder in which the interpreted driver is `libcuda.so.1`; `None` where it was not built, which is said.
pub(super) fn driver(test: &str) -> Option<Folder> {
    let library = std::env::current_exe().unwrap().with_file_name("libinterpreted_cuda.so");
    if !library.is_file() {
        println!("NOT RUN: there is no {}", library.display());
        return None;
    }
    let folder = Folder::new(test);
    std::os::unix::fs::symlink(library, folder.path("libcuda.so.1")).unwrap();
    Some(folder)
}

/// The program where that driver is found first.
pub(super) fn with_driver(folder: &Folder, args: &[&str]) -> Command {
    let mut command = program(args);
    command.env("LD_LIBRARY_PATH", &folder.0).env("POLYWARP_CACHE", "off").env("POLYWARP_TUNE", "off");
    command.env_remove("CUDA_VISIBLE_DEVICES");
    command
}

fn well_with(folder: &Folder, args: &[&str]) -> String {
    let output = ended(&mut with_driver(folder, args));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn devices_lists_cards_first() {
    let Some(folder) = driver("cuda-devices") else { return };
    let output = ended(with_driver(&folder, &["devices", "--json"]).env("INTERPRETED_DEVICES", "2"));
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &listing["default"]), (Some(0), &"cuda:0".into()));
    for (number, bus) in [(0, "0000:3b:00.0"), (1, "0000:3c:00.0")] {
        let device = &listing["devices"][number];
        assert_eq!((&device["id"], &device["api"]), (&format!("cuda:{number}").into(), &"cuda".into()));
        assert_eq!((&device["name"], &device["usable"]), (&format!("Interpreted {number}").into(), &true.into()));
        assert_eq!((&device["driver"], &device["info"]["pci_bus"]), (&"NVIDIA (CUDA 13.0)".into(), &bus.into()));
    }
    let listing = well_with(&folder, &["devices"]);
    assert!(listing.lines().any(|line| line.starts_with("cuda:0 ") && line.contains("Interpreted 0")), "{listing}");
}

#[test]
fn devices_of_a_driver_that_is_too_old_says_so() {
    let Some(folder) = driver("cuda-too-old") else { return };
    let output = ended(with_driver(&folder, &["devices", "--json"]).env("INTERPRETED_VERSION", "11020"));
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cuda = &listing["devices"][0];
    assert_eq!((&cuda["id"], &cuda["usable"]), (&"cuda".into(), &false.into()));
    assert!(cuda["reason"].as_str().unwrap().contains("driver 470 (CUDA 11.4) or newer is needed"), "{cuda}");
    assert_ne!(listing["default"], "cuda:0");
}

#[test]
fn run_takes_each_name_of_a_card() {
    let Some(folder) = driver("cuda-run") else { return };
    let source = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += 7u + id.x; }";
    let shader = folder.with("add.wgsl", source);
    let run = |device: &str, code: i32| {
        let out = folder.path("out.npy");
        let _ = std::fs::remove_file(&out);
        let (bind, save) = ("0=zeros:u32:4", format!("0={out}"));
        let args = ["run", &shader, "--device", device, "--grid", "1,1,1", "--bind", bind, "--save", &save];
        let output = ended(with_driver(&folder, &args).env("INTERPRETED_DEVICES", "2"));
        assert_eq!(output.status.code(), Some(code), "{device}: {}", text(&output.stderr));
        (std::fs::read(&out).ok(), text(&output.stderr).to_owned())
    };
    let data: Vec<u8> = [7u32, 8, 9, 10].into_iter().flat_map(u32::to_le_bytes).collect();
    for device in [
        "cuda:0",
        "cuda:1",
        "cuda",
        "0000:3b:00.0",
        "0000:3c:00.0",
        "00000000:3C:00.0",
        "GPU-10101010-1010-1010-1010-101010101010",
        "GPU-1111",
    ] {
        let (bytes, _) = run(device, 0);
        assert!(bytes.is_some_and(|bytes| bytes.ends_with(&data)), "{device}");
    }
    for device in ["cuda:2", "GPU-1", "GPU-99999", "0000:3d:00.0"] {
        let (bytes, error) = run(device, 2);
        assert!(bytes.is_none() && error.contains(&format!("no device `{device}`")), "{error}");
        assert!(error.contains("cuda:0") && error.contains("cuda:1"), "{error}");
    }
}

#[test]
fn check_passes_on_a_card() {
    let Some(folder) = driver("cuda-check") else { return };
    for device in ["cuda:0", "0000:3b:00.0"] {
        let lines = well_with(&folder, &["check", "--device", device, "--op", "fill", "--json"]);
        let report: Value = serde_json::from_str(lines.lines().last().unwrap()).expect("valid JSON");
        assert_eq!(report["device"], "cuda:0");
        assert!(report["total"]["passed"].as_u64().unwrap() > 20, "{report}");
        assert_eq!(report["total"]["failed"], 0, "{report}");
    }
}

#[test]
fn doctor_lets_a_card_compute() {
    let Some(folder) = driver("cuda-doctor") else { return };
    let output = ended(with_driver(&folder, &["doctor", "--json"]).env("POLYWARP_DEVICE", "cuda:0"));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let devices = diagnosis["devices"].as_array().unwrap();
    let card = devices.iter().find(|device| device["id"] == "cuda:0").unwrap_or_else(|| panic!("{diagnosis}"));
    assert_eq!(card["computes"], true, "{diagnosis}");
    // The device that was asked for is there.
    let findings = diagnosis["findings"].as_array().unwrap();
    let about = |word: &str| findings.iter().filter(|found| found["what"].as_str().unwrap().contains(word)).count();
    assert_eq!(about("POLYWARP_DEVICE"), 0, "{diagnosis}");
    let output = ended(with_driver(&folder, &["doctor"]).env("POLYWARP_DEVICE", "cuda:1"));
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{found}");
    assert!(found.lines().any(|line| line.starts_with("error: ") && line.contains("cuda:1")), "{found}");
}

/// The card is the interpreted driver's, to which the kernel is endless.
#[test]
fn run_gives_up_a_shader_that_does_not_end() {
    let Some(folder) = driver("cuda-endless") else { return };
    let source = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { for (var i = 0u; i < 4000000000u; i++) { x[0] += i; } }";
    let endless = folder.with("endless.wgsl", source);
    let args = ["run", &endless, "--device", "cuda:0", "--grid", "1", "--bind", "0=zeros:u32:4", "--timeout", "1"];
    let started = std::time::Instant::now();
    let output = ended(with_driver(&folder, &args).env("INTERPRETED_ENDLESS", "4000000000"));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{error}");
    assert!(error.contains("cuda:0") && error.contains("1s") && error.lines().count() == 1, "{error}");
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn run_takes_ptx_with_its_arguments() {
    let Some(folder) = driver("cuda-ptx") else { return };
    let ptx = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shaders/multiply_them.ptx");
    let array = |name: &str, values: &[f32]| {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        folder.with(name, run::npy("<f4", "False", &format!("({},)", values.len()), &data))
    };
    let (a, b, out) = (array("a.npy", &[1.5, 2.0, -3.0]), array("b.npy", &[2.0, 0.5, 4.0]), folder.path("out.npy"));
    let (a, b, save) = (format!("1={a}"), format!("2={b}"), format!("0={out}"));
    let run = |file: &str, more: &[&str]| {
        let bound = ["--bind", "0=zeros:f32:3", "--bind", &a, "--bind", &b, "--save", &save];
        let args = [&["run", file, "--device", "cuda:0", "--grid", "1"], &bound[..], more].concat();
        let output = ended(&mut with_driver(&folder, &args));
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let arguments = ["--block", "256", "--unchecked-args", "out:0,in:1,in:2,u32:3"];
    assert_eq!(run(ptx, &arguments), (Some(0), String::new()));
    let data: Vec<u8> = [3.0f32, 1.0, -12.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert!(std::fs::read(&out).unwrap().ends_with(&data));
    let refused = |file: &str, more: &[&str], word: &str| {
        let (code, error) = run(file, more);
        assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(word), "{error}");
    };
    refused(ptx, &[], "--unchecked-args");
    refused(ptx, &["--block", "256", "--unchecked-args", "out:0,in:1,in:2"], "takes 4, the signature has 3");
    refused(ptx, &["--block", "256", "--unchecked-args", "out:0,in:1,in:2,u64:3"], "argument 3 (`n`)");
    refused(ptx, &["--block", "256", "--unchecked-args", "in:x"], "binding of group 0");
    let faulty = folder.with("faulty.ptx", std::fs::read_to_string(ptx).unwrap().replace("mul.f32", "mul.f33"));
    refused(&faulty, &arguments, "faulty.ptx:");
    refused(
        &folder.with("none.cubin", "no machine code"),
        &[&arguments[..], &["--entry", "f"]].concat(),
        "neither a cubin",
    );
    let wgsl = folder.with("k.wgsl", "@compute @workgroup_size(1) fn main() {}");
    refused(&wgsl, &arguments, "WGSL says what it takes");
    // Without NVRTC, what to install; with it, the same values.
    let cpp = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shaders/multiply_them.cu");
    match run(cpp, &arguments) {
        (Some(0), _) => assert!(std::fs::read(&out).unwrap().ends_with(&data)),
        (code, error) => assert!(code == Some(1) && error.contains("NVRTC") && error.contains("install"), "{error}"),
    }
}
