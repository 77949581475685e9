//! The web build: core, shaders and backend-wgpu for wasm32-unknown-unknown, and the program that tests them in a browser.
//!
//! Where the toolchain has that target, or `rustup` can add it, this is one cargo command. Elsewhere Debian's own compiler
//! does it in a folder made by debootstrap: the sources and their vendored dependencies are copied in, so nothing is
//! mounted and nothing there reaches the network.
//! It proves that the crates build (`cargo xtask web` runs them); it is not part of `cargo xtask test`, because the folder
//! takes 2 GB and minutes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Cmd;
use crate::{Result, files, setup};

const TARGET: &str = "wasm32-unknown-unknown";

/// No default features: the CPU backend's thread pool has no threads to run on there.
const CRATES: &str = "--no-default-features --package polywarp-core --package polywarp-nn --package polywarp-shaders --package polywarp-wgpu";

/// The program that `cargo xtask web` runs.
const PROGRAM: &str = "--package polywarp-web-tests";

/// The folder, below the target folder so that `cargo clean` removes it.
const FOLDER: &str = "target/wasm/sid";

/// A compiler, the web's standard library, its linker, and a C library for build scripts to link with.
const PACKAGES: &str = "rustc,cargo,libstd-rust-dev-wasm32,lld,libc6-dev";

/// Builds the crates, by whichever compiler can.
pub fn run() -> Result {
    build(CRATES).map(|_| ())
}

/// Builds the program that tests polywarp in a browser; its wasm file.
pub fn program() -> Result<PathBuf> {
    Ok(build(PROGRAM)?.join("polywarp_web_tests.wasm"))
}

/// Builds what `packages` names; the folder that the results are in.
fn build(packages: &str) -> Result<PathBuf> {
    let line = format!("cargo build --locked --target {TARGET} {packages}");
    let results = |target: &Path| target.join(TARGET).join("debug");
    if has_target()? {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        return Cmd::new(&line).run().map(|()| results(&target));
    }
    println!("this toolchain has no {TARGET}; building in {FOLDER} instead");
    let folder = Path::new(FOLDER);
    make_folder(folder)?;
    copy_sources(&folder.join("src"))?;
    vendor(folder)?;
    let line = line.replace("cargo build", "cargo build --offline --manifest-path /src/Cargo.toml");
    Cmd::new("chroot")
        .arg(folder)
        .arg("env")
        .arg("CARGO_HOME=/cargo")
        .arg("CARGO_TARGET_DIR=/target")
        .arg("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld")
        .args(line.split_whitespace())
        .run()?;
    Ok(results(&folder.join("target")))
}

/// Whether the toolchain can build for the web, after `rustup`, where there is one, was asked to see to it.
fn has_target() -> Result<bool> {
    let sysroot = Cmd::new("rustc --print sysroot").output()?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET);
    Ok(library.exists() || (Cmd::new("rustup target add").arg(TARGET).run().is_ok() && library.exists()))
}

/// Installs Debian's unstable release with the compiler into `folder`, once.
fn make_folder(folder: &Path) -> Result {
    let finished = folder.join("finished");
    if finished.exists() {
        return Ok(());
    }
    if Cmd::new("id -u").output()?.trim() != "0" {
        return Err("debootstrap needs root; or give the toolchain the target: \
                    rustup target add wasm32-unknown-unknown"
            .to_owned());
    }
    if Cmd::new("debootstrap --version").output().is_err() {
        setup::install("debootstrap")?;
    }
    // Half a folder from an interrupted run would fail in ways that are hard to read.
    remove(folder)?;
    create(folder)?;
    let mirror = debian_mirror()?;
    Cmd::new("debootstrap --variant=minbase")
        .arg(format!("--include={PACKAGES}"))
        .arg("sid")
        .arg(folder)
        .arg(mirror)
        .run()?;
    fs::write(&finished, "").map_err(|e| format!("{}: {e}", finished.display()))
}

/// The archive this system itself installs from.
fn debian_mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let more = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(more.map(|entry| entry.path()));
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let mirror = texts.filter_map(|text| mirror_in(&text)).next();
    mirror.ok_or_else(|| "no Debian archive among this system's apt sources".to_owned())
}

/// The first URI of an apt sources file, in either of its two forms, that ends in `/debian`.
fn mirror_in(sources: &str) -> Option<String> {
    let lines = sources.lines().map(str::trim).filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let mut words = lines.flat_map(str::split_whitespace);
    words.find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian")).map(str::to_owned)
}

/// The repository's own files, afresh, so that files deleted here are gone there too.
fn copy_sources(to: &Path) -> Result {
    remove(to)?;
    for file in files::all(Path::new("."))? {
        let copy = to.join(&file);
        create(copy.parent().unwrap_or(to))?;
        fs::copy(&file, &copy).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// The dependencies' sources, and a cargo configuration that finds them.
fn vendor(folder: &Path) -> Result {
    Cmd::new("cargo vendor --locked --quiet --versioned-dirs").arg(folder.join("vendor")).output()?;
    let configuration = "[source.crates-io]\nreplace-with = \"vendor\"\n[source.vendor]\ndirectory = \"/vendor\"\n";
    let cargo_home = folder.join("cargo");
    create(&cargo_home)?;
    fs::write(cargo_home.join("config.toml"), configuration).map_err(|e| format!("{}: {e}", cargo_home.display()))
}

fn create(folder: &Path) -> Result {
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))
}

fn remove(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("cannot remove {}: {e}", folder.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_found_in_both_forms_of_sources() {
        let list = "# comment\ndeb https://other.test/tools bookworm main\ndeb http://archive.test/debian/ sid main\n";
        assert_eq!(mirror_in(list).as_deref(), Some("http://archive.test/debian/"));
        let stanza = "Types: deb\nURIs: https://a.test/debian-security http://b.test/debian\nSuites: sid\n";
        assert_eq!(mirror_in(stanza).as_deref(), Some("http://b.test/debian"));
    }

    #[test]
    fn mirror_of_other_sources_is_none() {
        assert_eq!(mirror_in("deb https://other.test/tools stable main\n# deb http://c.test/debian x\n"), None);
    }
}
