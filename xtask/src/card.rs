//! Everything for a machine that has a card and no cargo: the program, the tests of both GPU backends, random programs with the
//! digests of their results, and the programs that measure, built in release and stripped, with `benches/card.sh`, which runs
//! them.
//!
//! They are packed as one file, because executables that embed the same kernels become small only together.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::command::Cmd;

/// Where the files go unless the argument says otherwise.
const FOLDER: &str = "target/card";
/// What goes along as it is.
const FILES: [&str; 2] = ["benches/card.sh", "testing/differential/expected-10000.txt"];

/// What cargo builds, and which of it is kept: kinds of targets, as cargo calls them.
const BUILDS: [(&str, &str); 4] = [
    ("cargo build --locked --release --package polywarp --bin polywarp", "bin"),
    ("cargo test --locked --release --no-run --package polywarp-cuda --package polywarp-wgpu --tests", "test"),
    ("cargo build --locked --release --package polywarp-cuda --examples", "example"),
    ("cargo build --locked --release --package differential --bin naga-ptx-differential", "bin"),
];

/// Builds into `folder`, or [`FOLDER`], and packs it beside itself.
pub fn run(folder: Option<&str>) -> Result {
    let folder = Path::new(folder.unwrap_or(FOLDER));
    // Nothing of an earlier build may be taken for a part of this one.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    for (line, kind) in BUILDS {
        let build = Cmd::new(line).arg("--message-format=json-render-diagnostics");
        for (name, executable) in executables(&build.env("CARGO_PROFILE_RELEASE_STRIP", "symbols").output()?, kind)? {
            copy(&executable, &folder.join(name))?;
        }
    }
    for file in FILES.map(Path::new) {
        copy(file, &folder.join(file.file_name().unwrap_or_default()))?;
    }
    let packed = PathBuf::from(format!("{}.tar.xz", folder.display()));
    // The dictionary must reach from one executable to the next.
    Cmd::new("tar --create --file")
        .arg(&packed)
        .arg("--use-compress-program")
        .arg("xz --threads=1 --lzma2=preset=1,dict=192MiB")
        .arg("--directory")
        .arg(folder)
        .arg(".")
        .run()?;
    let bytes = fs::metadata(&packed).map_err(|e| format!("{}: {e}", packed.display()))?.len();
    println!("{}: {:.1} MB; on the card's machine: tar -xf, then ./card.sh", packed.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Executables among cargo's messages, by a name that says the package too.
pub fn executables(messages: &str, kind: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value =
            serde_json::from_str(line).map_err(|e| format!("cargo printed {line}: {e}"))?;
        let (target, executable) = (&message["target"], message["executable"].as_str());
        let is_kind = target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|of| of == kind));
        let (Some(executable), Some(name), true) = (executable, target["name"].as_str(), is_kind) else { continue };
        let package = target["src_path"].as_str().unwrap_or_default();
        let prefix = if kind != "test" {
            ""
        } else if package.contains("backend-cuda") {
            "cuda-"
        } else {
            "wgpu-"
        };
        found.push((format!("{prefix}{name}"), PathBuf::from(executable)));
    }
    if found.is_empty() { Err(format!("cargo built nothing of the kind {kind}")) } else { Ok(found) }
}

fn copy(from: &Path, to: &Path) -> Result {
    fs::copy(from, to).map(|_| ()).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))
}
