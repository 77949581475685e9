//! Tells kernels compiled by different states of the compiler apart in the cache on disk, and states of the kernels in CUDA
//! C++ in what the tuner keeps there.
//!
//! Inside this repository the compiler's sources and the versions it is built with are hashed, and the planners and the
//! manifest of those kernels; outside of it, where all are released versions, their version numbers say enough.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = vec![PathBuf::from("../Cargo.lock"), PathBuf::from("../shaders/naga-ptx/Cargo.toml")];
    collect(Path::new("../shaders/naga-ptx/src"), &mut files);
    println!("cargo:rustc-env=POLYWARP_COMPILER={}", state(files));
    // The manifest has the digest of every source.
    let mut files = vec![PathBuf::from("../kernels/prepared/manifest.json")];
    collect(Path::new("../kernels/src"), &mut files);
    println!("cargo:rustc-env=POLYWARP_NATIVE={}", state(files));
}

/// The version, and a hash of `files`.
fn state(mut files: Vec<PathBuf>) -> String {
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        if let Ok(bytes) = std::fs::read(file) {
            println!("cargo:rerun-if-changed={}", file.display());
            bytes.hash(&mut hasher);
        }
    }
    format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
