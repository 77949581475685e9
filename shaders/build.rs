//! Tells states of the kernels apart, for answers and verdicts of the tuner that are kept on disk.
//!
//! Inside this repository what the kernels are made of is hashed; outside of it the version number says enough, and gives
//! the same hash of the same files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files: Vec<PathBuf> = ["src/element.rs", "src/math.rs", "../core/src/plan.rs"].map(PathBuf::from).into();
    collect(Path::new("src/plans"), &mut files);
    collect(Path::new("wgsl"), &mut files);
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        if let Ok(bytes) = std::fs::read(file) {
            println!("cargo:rerun-if-changed={}", file.display());
            bytes.hash(&mut hasher);
        }
    }
    println!("cargo:rustc-env=POLYWARP_SHADERS={}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish());
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
