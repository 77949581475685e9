//! `polywarp tune`: what is remembered can be listed, exported, merged and forgotten, and nothing else is believed.

use std::fs;

use serde_json::json;

use super::{ended, program, text};

/// Runs `polywarp tune ARGS` with its answers in `cache`; exit code, output, error.
fn tune(cache: &std::path::Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program(&[&["tune"], args].concat());
    let output = ended(command.env("POLYWARP_CACHE", cache));
    (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polywarp-cli-tune-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As earlier versions wrote it.
const TABLE: &str = r#"{"format": "polywarp tuning table", "version": 1, "answers": [
{"device":"Card","api":"cuda","driver":"1","kernels":"k","key":"matmul x","winner":"tiled","complete":true,
 "times":[{"candidate":"tiled","ns":1000.0},{"candidate":"split","ns":1500.0}]}
]}"#;

#[test]
fn tables_are_merged_listed_exported_and_forgotten() {
    let folder = Folder::new("table");
    let (table, out) = (folder.file("in.json"), folder.file("out.json"));
    fs::write(&table, TABLE).unwrap();
    let (code, said, _) = tune(&folder.0, &["--merge", &table]);
    assert_eq!((code, said.as_str()), (Some(0), "1 of 1 answers taken\n"));
    let (code, said, _) = tune(&folder.0, &["--list", "--export", &out]);
    assert_eq!(code, Some(0));
    assert!(said.contains("Card (cuda, 1)\n  matmul x: tiled 1.0 us, the next +50 % (2 timed)"), "{said}");
    let exported: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let exported = &exported["devices"][0];
    assert_eq!((&exported["device"], &exported["answers"][0]["winner"]), (&json!("Card"), &json!("tiled")));
    assert_eq!(exported["answers"][0]["times"], json!([["tiled", 1000.0], ["split", 1500.0]]));
    let (code, said, _) = tune(&folder.0, &["--list", "--export", &out, "--winners"]);
    assert!(code == Some(0) && said.ends_with(&format!("1 answers written to {out}\n")), "{said}");
    let winners: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let winner = json!({"key": exported["answers"][0]["key"], "winner": "tiled", "ns": 1000.0});
    assert_eq!(winners["devices"][0]["answers"], json!([winner]));
    // What says less of an answer does not take its place; alone it is one.
    let (_, said, _) = tune(&folder.0, &["--merge", &out]);
    assert_eq!(said, "0 of 1 answers taken\n");
    let (_, said, _) = tune(&folder.0, &["--clear"]);
    assert!(said.starts_with("1 answers and verdicts forgotten"), "{said}");
    let (_, said, _) = tune(&folder.0, &["--list"]);
    assert!(said.starts_with("0 answers, 0 kernels in quarantine; `polywarp tune --device D` finds"), "{said}");
    let (_, said, _) = tune(&folder.0, &["--merge", &out]);
    assert_eq!(said, "1 of 1 answers taken\n");
}

#[test]
fn wrong_requests_are_refused() {
    let folder = Folder::new("refused");
    let broken = folder.file("broken.json");
    fs::write(&broken, &TABLE[..200]).unwrap();
    let missing = folder.file("missing.json");
    let same = folder.file("./broken.json");
    for (args, code) in [
        (vec!["--merge", broken.as_str()], 2),
        (vec!["--merge", missing.as_str()], 2),
        (vec!["--list", "--clear"], 2),
        (vec!["--device", "cpu"], 2),
        (vec!["--device", "wgpu:99"], 2),
        (vec!["--shape", "12x12"], 2),
        (vec!["--list", "--winners"], 2),
        (vec!["--budget", "0"], 2),
        (vec!["--budget", "-1"], 2),
        (vec!["--merge", broken.as_str(), "--export", same.as_str()], 2),
        (vec!["--shape", "99999999999x99999999999x99999999999"], 2),
        (vec!["--dtype", "bool"], 2),
        (vec!["--shape", "8x8x8", "--dtype", "bool"], 2),
    ] {
        let (got, said, error) = tune(&folder.0, &args);
        assert_eq!((got, said.as_str()), (Some(code), ""), "{args:?}: {error}");
        assert!(error.starts_with("error: ") && error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn what_cannot_be_tuned_is_refused_with_its_reason() {
    let folder = Folder::new("cannot");
    let (_, _, error) = tune(&folder.0, &["--shape", "99999999999x99999999999x99999999999"]);
    assert!(error.contains("larger than any device can hold") && error.contains("other extents"), "{error}");
    let (_, _, error) = tune(&folder.0, &["--dtype", "bool"]);
    assert!(error.contains("--dtype bool") && error.contains("f16 bf16 f32"), "{error}");
    let (_, _, error) = tune(&folder.0, &["--budget", "-1"]);
    assert!(error.contains("expected 1 to 600000 milliseconds"), "{error}");
}

#[test]
fn table_goes_to_standard_output_alone() {
    let folder = Folder::new("stdout");
    let table = folder.file("in.json");
    fs::write(&table, TABLE).unwrap();
    assert_eq!(tune(&folder.0, &["--merge", &table]).0, Some(0));
    let (code, said, error) = tune(&folder.0, &["--list", "--export", "-"]);
    assert_eq!(code, Some(0), "{error}");
    let exported: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(exported["devices"][0]["answers"][0]["winner"], "tiled");
    assert!(error.contains("matmul x: tiled"), "{error}");
}

/// Neither taken nor forgotten is what is only said to be.
#[test]
fn what_is_not_kept_or_forgotten_is_an_error() {
    let folder = Folder::new("blocked");
    let table = folder.file("in.json");
    fs::write(&table, TABLE).unwrap();
    assert_eq!(tune(&folder.0, &["--merge", &table]).0, Some(0));
    let kept = fs::read_dir(folder.0.join("tuning")).unwrap().next().unwrap().unwrap().path();
    // No file takes the place of a folder, and no folder is removed as a file, whoever runs this.
    fs::remove_file(&kept).unwrap();
    fs::create_dir(&kept).unwrap();
    for (args, expected) in [
        (vec!["--merge", table.as_str()], "only 0 of 1 answers taken: "),
        (vec!["--clear"], "only 0 answers and verdicts forgotten: "),
    ] {
        let (code, said, error) = tune(&folder.0, &args);
        assert_eq!((code, said.as_str()), (Some(1), ""), "{args:?}: {error}");
        assert!(error.contains(expected) && error.contains("os error"), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    }
    fs::remove_dir(&kept).unwrap();
    #[cfg(target_os = "linux")]
    {
        let mut full = super::on_a_full_disk(&["tune", "--merge", &table]);
        let output = ended(full.env("POLYWARP_CACHE", &folder.0));
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{error}");
        assert!(error.contains("only 0 of 1 answers taken: ") && error.contains("cannot be written"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn place_that_keeps_nothing_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("place");
    let table = folder.file("in.json");
    fs::write(&table, TABLE).unwrap();
    let open = folder.0.join("open/tuning");
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let open = folder.file("open");
    for (cache, expected) in [
        ("off", "POLYWARP_CACHE is off"),
        ("some/where", "`some/where`, which is not an absolute path"),
        ("", "there is no absolute path in POLYWARP_CACHE, "),
        (open.as_str(), "can be written by others"),
    ] {
        for args in [&["tune", "--merge", table.as_str()][..], &["tune", "--clear"], &["tune", "--list"]] {
            let mut command = program(args);
            command.env("POLYWARP_CACHE", cache);
            for name in ["HOME", "XDG_CACHE_HOME"] {
                command.env_remove(name);
            }
            let output = ended(&mut command);
            let error = text(&output.stderr);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{cache}, {args:?}: {error}");
            assert!(error.contains("nothing is kept") && error.contains(expected), "{cache}, {args:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{cache}, {args:?}: {error}");
        }
    }
}

/// A device that can be tuned, software included; `None` is said aloud.
fn gpu() -> Option<String> {
    let devices = super::json(&["devices", "--json"]);
    let mut ids = devices["devices"].as_array().unwrap().iter().filter_map(|d| d["id"].as_str());
    let found = ids.find(|id| id.starts_with("wgpu:")).map(str::to_owned);
    if found.is_none() {
        println!("skipped: no GPU");
    }
    found
}

#[test]
fn tuning_that_is_not_kept_is_warned_of() {
    let folder = Folder::new("unkept");
    let Some(id) = gpu() else { return };
    let args = ["--device", &id, "--shape", "96x64x32", "--dtype", "f32", "--budget", "50", "--export", "-"];
    let (code, said, error) = tune(std::path::Path::new("off"), &args);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.starts_with("warning: what is found is not kept: POLYWARP_CACHE is off\n"), "{error}");
    assert!(error.contains("f32 nn 96x64x32 highest: "), "{error}");
    let exported: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(exported["devices"][0]["answers"].as_array().unwrap().len(), 1);
    let (code, _, error) = tune(&folder.0, &args);
    assert!(code == Some(0) && !error.contains("warning: "), "{error}");
}

#[test]
fn a_device_is_tuned_and_remembers() {
    let folder = Folder::new("device");
    let Some(id) = gpu() else { return };
    let out = folder.file("out.json");
    let args = ["--device", &id, "--shape", "96x64x32", "--dtype", "f32", "--budget", "50", "--export", &out];
    let (code, said, error) = tune(&folder.0, &args);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.contains("f32 nn 96x64x32 highest: matmul_f32_"), "{said}");
    let (_, listed, _) = tune(&folder.0, &["--list"]);
    assert!(listed.contains("1 answers, 0 kernels in quarantine"), "{listed}");
    let exported: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(exported["devices"][0]["answers"].as_array().unwrap().len(), 1);
}
