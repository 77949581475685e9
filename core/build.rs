//! Tells states of the portable kernels apart, for answers and verdicts of the tuner that are kept on disk.
//!
//! Inside this repository what the kernels are made of is hashed; outside of it the version number says enough, and gives
//! the same hash of the same files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = vec![PathBuf::from("src/plan.rs")];
    collect(Path::new("src/ops"), &is_planner, &mut files);
    collect(Path::new("src/wgsl"), &|_| true, &mut files);
    collect(Path::new("wgsl"), &|_| true, &mut files);
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

/// Whether a file of an operation makes kernels: `plan.rs`, what lies in a folder `plan`, and what several planners share.
fn is_planner(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "plan" || part.as_os_str() == "fold")
        || ["plan.rs", "plans.rs", "elements.rs", "fold.rs"].iter().any(|name| file.ends_with(name))
}

fn collect(folder: &Path, is_part: &dyn Fn(&Path) -> bool, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, is_part, files);
        } else if is_part(&path) {
            files.push(path);
        }
    }
}
