//! `polywarp tune`: what is remembered can be listed, exported, merged and forgotten, and nothing else is believed.

use std::fs;

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
    assert_eq!(exported["answers"][0]["winner"], "tiled");
    assert_eq!(exported["answers"][0]["times"].as_array().unwrap().len(), 2);
    let (code, said, _) = tune(&folder.0, &["--list", "--export", &out, "--winners"]);
    assert!(code == Some(0) && said.ends_with(&format!("1 answers written to {out}\n")), "{said}");
    let winners: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(winners["answers"][0]["times"], serde_json::json!([{"candidate": "tiled", "ns": 1000.0}]));
    assert_eq!(winners["answers"][0]["key"], exported["answers"][0]["key"]);
    // What says less of an answer does not take its place; alone it is one.
    let (_, said, _) = tune(&folder.0, &["--merge", &out]);
    assert_eq!(said, "0 of 1 answers taken\n");
    let (_, said, _) = tune(&folder.0, &["--clear"]);
    assert!(said.starts_with("1 answers and verdicts forgotten"), "{said}");
    let (_, said, _) = tune(&folder.0, &["--list"]);
    assert_eq!(said, "0 answers, 0 kernels in quarantine\n");
    let (_, said, _) = tune(&folder.0, &["--merge", &out]);
    assert_eq!(said, "1 of 1 answers taken\n");
}

#[test]
fn wrong_requests_are_refused() {
    let folder = Folder::new("refused");
    let broken = folder.file("broken.json");
    fs::write(&broken, &TABLE[..200]).unwrap();
    let missing = folder.file("missing.json");
    for (args, code) in [
        (vec!["--merge", broken.as_str()], 2),
        (vec!["--merge", missing.as_str()], 2),
        (vec!["--list", "--clear"], 2),
        (vec!["--device", "cpu"], 2),
        (vec!["--device", "wgpu:99"], 2),
        (vec!["--shape", "12x12"], 2),
        (vec!["--list", "--winners"], 2),
        (vec!["--budget", "0"], 2),
    ] {
        let (got, said, error) = tune(&folder.0, &args);
        assert_eq!((got, said.as_str()), (Some(code), ""), "{args:?}: {error}");
        assert!(error.starts_with("error: ") && error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn a_device_is_tuned_and_remembers() {
    let folder = Folder::new("device");
    let devices = super::json(&["devices", "--json"]);
    let gpu = devices["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|d| d["id"].as_str())
        .find(|id| id.starts_with("wgpu:"));
    let Some(id) = gpu else {
        println!("skipped: no GPU");
        return;
    };
    let out = folder.file("out.json");
    let args = ["--device", id, "--shape", "96x64x32", "--dtype", "f32", "--budget", "50", "--export", &out];
    let (code, said, error) = tune(&folder.0, &args);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.contains("f32 nn 96x64x32 highest: matmul_f32_"), "{said}");
    let (_, listed, _) = tune(&folder.0, &["--list"]);
    assert!(listed.contains("1 answers, 0 kernels in quarantine"), "{listed}");
    let exported: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(exported["answers"].as_array().unwrap().len(), 1);
}
