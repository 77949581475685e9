//! Small shaders whose results are known, bit for bit, on every device: each stands for a kind of fault that a compiler had.
//!
//! `tests/shaders/cases/cases.json` lists them: grid, what is bound, what must be there afterwards. A shader `NAME.wgsl` has its
//! data beside it. A device that lacks what a case `needs` leaves it out, which is said.

use super::*;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    grid: [u32; 3],
    /// Files, or `zeros:DTYPE:N`, by binding.
    bind: std::collections::BTreeMap<u32, String>,
    /// Files, by binding.
    expect: std::collections::BTreeMap<u32, String>,
    /// A word of the message with which a device that lacks a feature refuses the case.
    needs: Option<String>,
}

/// Devices of this machine that the cases run on, by API.
#[derive(Clone, Copy, Debug)]
enum Route {
    /// Any device of wgpu with this API.
    Wgpu(&'static str),
    /// The interpreted driver as a card.
    #[cfg(target_os = "linux")]
    InterpretedCard,
}

fn file(name: &str) -> String {
    format!("{}/tests/shaders/cases/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The data of a .npy file of version 1.0, without its header.
fn data(path: &str) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// The first words that are not what they should be; empty where all are.
fn differences(got: &[u8], want: &[u8]) -> String {
    if got.len() != want.len() {
        return format!("{} bytes, not {}", got.len(), want.len());
    }
    let words = got.chunks(4).zip(want.chunks(4)).enumerate().filter(|(_, (got, want))| got != want);
    let hex = |word: &[u8]| word.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    words.take(6).map(|(i, (got, want))| format!("[{i}] {} not {}", hex(got), hex(want))).collect::<Vec<_>>().join("; ")
}

/// Runs a case with `program`, which makes a run of it from arguments; says what is wrong.
fn fault(case: &Case, device: &str, program: &dyn Fn(&[&str]) -> Command) -> Result<(), String> {
    let folder = Folder::new(&format!("case-{}-{}", case.name, device.replace(':', "-")));
    let mut args =
        vec!["run".to_owned(), file(&format!("{}.wgsl", case.name)), "--device".to_owned(), device.to_owned()];
    args.extend(["--grid".to_owned(), case.grid.map(|n| n.to_string()).join(",")]);
    for (binding, source) in &case.bind {
        let source = if source.starts_with("zeros:") { source.clone() } else { file(source) };
        args.extend(["--bind".to_owned(), format!("{binding}={source}")]);
    }
    for binding in case.expect.keys() {
        args.extend(["--save".to_owned(), format!("{binding}={}", folder.path(&format!("{binding}.npy")))]);
    }
    let output = ended(&mut program(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    if output.status.code() != Some(0) {
        return Err(text(&output.stderr).trim().to_owned());
    }
    for (binding, want) in &case.expect {
        let wrong = differences(&data(&folder.path(&format!("{binding}.npy"))), &data(&file(want)));
        if !wrong.is_empty() {
            return Err(format!("binding {binding}: {wrong}"));
        }
    }
    Ok(())
}

/// Runs every case on each of `routes`; how many ran, and what was wrong.
fn run_cases(routes: &[Route]) -> (usize, Vec<String>) {
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(file("cases.json")).unwrap()).unwrap();
    let (mut ran, mut wrong) = (0, Vec::new());
    for route in routes {
        let (device, driver) = match route {
            Route::Wgpu(api) => (wgpu_device(api), None),
            #[cfg(target_os = "linux")]
            Route::InterpretedCard => {
                let driver = cuda::driver("cases");
                (driver.is_some().then(|| "cuda:0".to_owned()), driver)
            }
        };
        let Some(device) = device else { continue };
        let program = |args: &[&str]| match &driver {
            #[cfg(target_os = "linux")]
            Some(driver) => cuda::with_driver(driver, args),
            _ => program(args),
        };
        for case in &cases {
            match fault(case, &device, &program) {
                Ok(()) => ran += 1,
                Err(message)
                    if case.needs.as_ref().is_some_and(|need| message.to_lowercase().contains(need.as_str())) =>
                {
                    println!("not run: {} on {route:?}: {message}", case.name);
                }
                Err(message) => wrong.push(format!("{} on {route:?}: {message}", case.name)),
            }
        }
    }
    (ran, wrong)
}

/// The first usable device of wgpu with `api`, software included; that there is none is said.
fn wgpu_device(api: &str) -> Option<String> {
    let listing = json(&["devices", "--json"]);
    let devices = listing["devices"].as_array().unwrap();
    let found = devices.iter().find(|device| device["usable"] == true && device["api"] == api);
    if found.is_none() {
        let required = std::env::var("POLYWARP_REQUIRE_ADAPTERS").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == api), "no usable {api} device, which is required");
        println!("NOT RUN: there is no usable {api} device");
    }
    found.map(|device| device["id"].as_str().unwrap().to_owned())
}

#[test]
fn cases_give_the_right_bits_on_vulkan() {
    let (ran, wrong) = run_cases(&[Route::Wgpu("vulkan")]);
    println!("{ran} cases ran");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cases_give_the_right_bits_on_gl() {
    let (ran, wrong) = run_cases(&[Route::Wgpu("gl")]);
    println!("{ran} cases ran");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(target_os = "linux")]
#[test]
fn cases_give_the_right_bits_on_a_card() {
    let (ran, wrong) = run_cases(&[Route::InterpretedCard]);
    println!("{ran} cases ran");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The access is out of bounds at run time, where it reaches some element or none; a constant index there is a fault of the text.
#[test]
fn an_index_that_a_let_holds_may_be_out_of_bounds() {
    let device = wgpu_device("vulkan");
    let folder = Folder::new("let-index");
    let constant = folder.with(
        "constant.wgsl",
        "@group(0) @binding(0) var<storage, read_write> a: array<u32, 4>;
@compute @workgroup_size(1) fn main() { const j = 4u; a[j] = 77u; }",
    );
    for target in ["spirv", "msl", "hlsl", "glsl", "wgsl", "ptx"] {
        well(&["compile", &file("valid/let_index.wgsl"), "--target", target, "-o", &folder.path("out")]);
        let error = refused(&["compile", &constant, "--target", target, "-o", &folder.path("out")], 2);
        assert!(error.contains(":2:55: ") && error.contains("index 4 is out of"), "{error}");
    }
    let Some(device) = device else { return };
    let save = folder.path("a.npy");
    let args = ["--grid", "1,1,1", "--bind", "0=zeros:u32:4", "--save", &format!("0={save}"), "--device", &device];
    well(&[&["run", &file("valid/let_index.wgsl")][..], &args].concat());
    assert!(data(&save).chunks(4).all(|word| word == [0; 4] || word == [77, 0, 0, 0]));
}

#[test]
fn a_large_array_in_a_loop_compiles_to_each_target() {
    let folder = Folder::new("loop-array");
    for target in ["spirv", "msl", "hlsl", "glsl", "wgsl", "ptx"] {
        well(&["compile", &file("valid/loop_array_of_20000.wgsl"), "--target", target, "-o", &folder.path("out")]);
    }
}
