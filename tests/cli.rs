//! The program `polywarp`, run as its users run it: output, files, exit codes. And an example, stopped as its users stop it.
//!
//! Needs no GPU for most of it. What runs shaders uses any GPU the machine has, a software one too, and says so when
//! there is none.
#![cfg(feature = "cli")]

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/cases.rs"]
mod cases;
#[path = "cli/compile.rs"]
mod compile;
#[cfg(target_os = "linux")]
#[path = "cli/cuda.rs"]
mod cuda;
#[path = "cli/run.rs"]
mod run;
#[cfg(unix)]
#[path = "cli/stopped.rs"]
mod stopped;
#[path = "cli/tune.rs"]
mod tune;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A run of the program with a clean environment.
fn program(args: &[&str]) -> Command {
    cleaned(Command::new(env!("CARGO_BIN_EXE_polywarp")), args)
}

/// The same where no file can grow, which is what a full disk is to it.
#[cfg(target_os = "linux")]
fn on_a_full_disk(args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_polywarp")]);
    cleaned(shell, args)
}

fn cleaned(mut command: Command, args: &[&str]) -> Command {
    command.args(args).stdin(Stdio::null());
    for name in ["POLYWARP_DEVICE", "POLYWARP_TUNE", "RUST_LOG", "WGPU_BACKEND", "WGPU_ADAPTER_NAME"] {
        command.env_remove(name);
    }
    command
}

fn ended(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// Standard output of a run that must go well.
fn well(args: &[&str]) -> String {
    let output = ended(&mut program(args));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&well(args)).expect("valid JSON")
}

/// The error of a run that must fail with `code`: exactly one line, and not a word on standard output.
fn refused(args: &[&str], code: i32) -> String {
    let output = ended(&mut program(args));
    let stderr = text(&output.stderr).to_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert!(stderr.starts_with("error: ") && stderr.ends_with('\n'), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{args:?}: {stderr}");
    stderr
}

fn shader(name: &str) -> String {
    format!("{}/tests/shaders/{name}.wgsl", env!("CARGO_MANIFEST_DIR"))
}

/// A folder of its own for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polywarp-cli-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn with(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A device that runs shaders, software included; `None` is said aloud.
fn gpu() -> Option<String> {
    let listing = json(&["devices", "--json"]);
    let devices = listing["devices"].as_array().unwrap();
    let found = devices.iter().find(|device| device["usable"] == true && device["id"] != "cpu");
    if found.is_none() {
        println!("not run: no GPU here, not even a software one");
    }
    found.map(|device| device["id"].as_str().unwrap().to_owned())
}

#[test]
fn help_lists_every_command() {
    let help = well(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(commands, ["bench", "check", "compile", "devices", "doctor", "run", "top", "tune", "help"], "{help}");
    for command in &commands[..commands.len() - 1] {
        let usage = format!("Usage: polywarp {command}");
        assert!(well(&[command, "--help"]).contains(&usage), "{command}");
    }
    assert_eq!(well(&["--version"]), format!("polywarp {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_is_a_usage_error() {
    let output = ended(&mut program(&[]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: polywarp"));
}

#[test]
fn devices_json_describes_each_device() {
    let listing = json(&["devices", "--json"]);
    let devices = listing["devices"].as_array().unwrap();
    let cpu = devices.last().unwrap();
    assert_eq!((&cpu["id"], &cpu["kind"], &cpu["usable"]), (&"cpu".into(), &"cpu".into(), &true.into()));
    assert!(cpu["info"]["threads"].as_u64().unwrap() > 0);
    assert!(cpu["info"]["dtypes"].as_array().unwrap().contains(&"bf16".into()));
    for device in devices.iter().filter(|device| device["usable"] == true) {
        assert!(device["info"]["limits"]["max_binding_bytes"].as_u64().unwrap() > 0, "{device}");
    }
    let default = listing["default"].as_str().unwrap();
    let kind = &devices.iter().find(|device| device["id"] == default).unwrap()["kind"];
    assert_ne!(kind, "software", "a software GPU is never the default");
}

#[test]
fn devices_text_names_the_default() {
    let listing = well(&["devices"]);
    assert!(listing.lines().any(|line| line.starts_with("cpu ")), "{listing}");
    assert!(listing.lines().any(|line| line.starts_with("default: ")), "{listing}");
}

#[test]
fn top_is_one_table_where_output_is_piped() {
    let table = well(&["top"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("device ") && lines[0].ends_with("power"), "{table}");
    // The processor at least; without a GPU that tells how busy it is, one line that says so.
    assert!(lines.len() >= 2 && table.matches("device ").count() == 1, "{table}");
}

#[test]
fn top_writes_a_line_of_json_each_time() {
    let lines = well(&["top", "--json", "--times", "2", "--every", "0.05"]);
    let looks: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 2);
    assert!(looks[1]["unix_seconds"].as_f64() > looks[0]["unix_seconds"].as_f64());
    let processor = looks[1]["devices"].as_array().unwrap().last().unwrap();
    if cfg!(target_os = "linux") {
        let [used, all] = ["memory_used_bytes", "memory_bytes"].map(|name| processor[name].as_u64().unwrap());
        assert!(0 < used && used < all, "{processor}");
        assert!((0.0..=100.0).contains(&processor["busy_percent"].as_f64().unwrap_or(0.0)), "{processor}");
    }
}

#[test]
fn top_refuses_what_is_no_interval() {
    for wrong in ["0", "-1", "soon"] {
        let output = ended(&mut program(&["top", &format!("--every={wrong}")]));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert_eq!(text(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn default_device_is_what_the_variable_names() {
    let output = ended(program(&["devices", "--json"]).env("POLYWARP_DEVICE", "cpu"));
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listing["default"], "cpu");
    let output = ended(program(&["devices", "--json"]).env("POLYWARP_DEVICE", "wgpu:99"));
    assert_eq!(output.status.code(), Some(1), "a device that was asked for is missing");
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(listing["default_error"].as_str().unwrap().contains("no device `wgpu:99`"), "{listing}");
}

#[test]
fn closed_output_ends_quietly() {
    // `true` exits at once, so its end of the pipe is closed by the time something is written.
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    let output = ended(program(&["devices"]).stdout(pipe));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn doctor_agrees_with_its_exit_code() {
    let output = ended(&mut program(&["doctor", "--json"]));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = diagnosis["findings"].as_array().unwrap();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error").count();
    assert_eq!(output.status.code(), Some(i32::from(errors > 0)), "{diagnosis}");
    assert_eq!(diagnosis["healthy"], errors == 0);
    for finding in findings {
        assert!(!finding["what"].as_str().unwrap().is_empty() && !finding["fix"].as_str().unwrap().is_empty());
    }
    let devices = diagnosis["devices"].as_array().unwrap();
    let cpu = devices.iter().find(|device| device["id"] == "cpu").unwrap();
    assert_eq!(cpu["computes"], true);
}

#[test]
fn doctor_finds_what_is_broken() {
    let cases = [
        ("POLYWARP_DEVICE", "wgpu:99", "POLYWARP_DEVICE"),
        ("VK_DRIVER_FILES", "/nowhere/icd.json", "/nowhere/icd.json"),
        ("WGPU_BACKEND", "vulcan", "WGPU_BACKEND is `vulcan`"),
        ("WGPU_ADAPTER_NAME", "no such card", "WGPU_ADAPTER_NAME is `no such card`"),
    ];
    for (name, value, expected) in cases {
        if name == "VK_DRIVER_FILES" && !cfg!(target_os = "linux") || name == "WGPU_ADAPTER_NAME" && gpu().is_none() {
            continue; // looked at on Linux alone; without any adapter no name hides one
        }
        let output = ended(program(&["doctor"]).env(name, value));
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {found}");
        let mut errors = found.lines().filter(|line| line.starts_with("error: "));
        assert!(errors.any(|error| error.contains(expected)), "{found}");
    }
}

#[test]
fn doctor_looks_where_egl_is_told_to() {
    let name = "__EGL_VENDOR_LIBRARY_DIRS";
    let output = ended(program(&["doctor", "--json"]).env(name, "/nowhere"));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let system = &diagnosis["system"];
    if system["looked"] != true {
        println!("not run: the system is not looked at here");
        return;
    }
    assert_eq!((&system["egl_variable"], &system["egl_files"]), (&name.into(), &Value::Array(Vec::new())));
    // A loader without drivers is worth a word where no real GPU makes it idle.
    let gpu = diagnosis["devices"].as_array().unwrap().iter().any(|d| d["kind"] != "cpu" && d["kind"] != "software");
    let said = text(&output.stdout).contains("no EGL driver file");
    assert_eq!(said, system["egl"].is_null() && !gpu, "{diagnosis}");
}

#[test]
fn check_on_the_cpu_passes() {
    let lines = well(&["check", "--device", "cpu", "--op", "matmul", "--json"]);
    let mut lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON in each line")).collect();
    // A line for each case, and the report.
    let report = lines.pop().unwrap();
    assert_eq!(report["selected"], lines.len());
    let passed = lines.iter().filter(|line| line["outcome"] == "passed" && line["case"].is_string()).count();
    assert_eq!(report["total"]["passed"], passed);
    assert_eq!(report["device"], "cpu");
    assert!(report["total"]["passed"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["total"]["failed"], 0);
    let families = report["families"].as_object().unwrap();
    assert_eq!(families.keys().collect::<Vec<_>>(), ["matmul"]);
    let report = well(&["check", "--device", "cpu", "--op", "fill"]);
    assert!(report.contains("ok: "), "{report}");
}

/// What is promised beyond single operations comes with the cases, in lines of the same form.
#[test]
fn check_holds_a_device_to_the_contract() {
    let lines = well(&["check", "--device", "cpu", "--op", "contract", "--json"]);
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let report = lines.pop().unwrap();
    assert_eq!(report["selected"], lines.len());
    assert!(report["families"].as_object().unwrap().keys().eq(["contract"]), "{report}");
    let outcome_of = |row: &str| {
        let of_row = lines.iter().find(|line| line["case"] == row).unwrap_or_else(|| panic!("no {row}"));
        of_row["outcome"].as_str().unwrap().to_owned()
    };
    for row in [
        "contract/memory memory limit",
        "contract/lines distinct values come with their places and counts",
        "contract/quantised 4-bit steps lie two to a byte, and come back within half a step of their group",
        "contract/all_16_bits all 16-bit floats: exponentials and logarithms near zero",
        "contract/made whole and uniform numbers are drawn with the same bits everywhere",
    ] {
        assert_eq!(outcome_of(row), "passed", "{row}");
    }
    assert_eq!(outcome_of("contract/kernels empty grid"), "unsupported");
    // By a part of the name, as cases.
    let report = well(&["check", "--device", "cpu", "--filter", "contract/lines"]);
    let of_lines = lines
        .iter()
        .filter(|line| line["case"].as_str().is_some_and(|case| case.starts_with("contract/lines")))
        .count();
    assert!(of_lines > 1 && report.contains(&format!("ok: {of_lines} cases passed")), "{report}");
}

#[test]
fn check_of_nothing_is_not_well() {
    for nothing in [["--filter", "no such case"].as_slice(), &["--op", "contract", "--dtype", "f16"]] {
        let output = ended(&mut program(&[&["check", "--device", "cpu"], nothing].concat()));
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stdout).contains("no case matches"), "{}", text(&output.stdout));
    }
}

#[test]
fn check_bad_requests_are_refused() {
    assert!(refused(&["check", "--op", "nope"], 2).contains("matmul"));
    assert!(refused(&["check", "--op", "nope"], 2).contains("contract"));
    assert!(refused(&["check", "--device", "wgpu:99"], 2).contains("available are"));
    assert!(refused(&["check", "--device", ""], 2).contains("no device ``"));
    assert!(refused(&["check", "--dtype", "f31"], 2).contains("bf16"));
    assert!(refused(&["check", "--seed", "-1"], 2).contains("--seed"));
    assert!(refused(&["check", "--nope"], 2).contains("--nope"));
    assert!(refused(&["nope"], 2).contains("nope"));
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
