//! Tells kernels compiled by different states of the compiler apart in the cache on disk.
//!
//! Inside this repository the compiler's sources and the versions it is built with are hashed; outside of it, where both
//! are released versions, their version numbers say enough.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = vec![PathBuf::from("../Cargo.lock"), PathBuf::from("../shaders/naga-ptx/Cargo.toml")];
    collect(Path::new("../shaders/naga-ptx/src"), &mut files);
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        if let Ok(bytes) = std::fs::read(file) {
            println!("cargo:rerun-if-changed={}", file.display());
            bytes.hash(&mut hasher);
        }
    }
    println!("cargo:rustc-env=POLYWARP_COMPILER={}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish());
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
