//! Set-up: the shared libraries and drivers that wgpu opens at run time, looked for and, on Debian, installed.
//!
//! The library itself needs a driver and nothing else. A machine with a GPU has one; one without gets Mesa's software
//! drivers: lavapipe for Vulkan, llvmpipe for OpenGL ES through EGL. Elsewhere than on Linux nothing is missing: Metal,
//! DX12 and WARP come with the system.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::command::Cmd;

/// What the machine must be able to do afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Run on some GPU; a software one will do where there is no driver at all.
    AnyGpu,
    /// Run on software Vulkan and software GL: what the tests hold every machine to.
    SoftwareGpus,
}

/// One thing to have: what it is, the Debian package it comes in, and whether it is there.
struct Part {
    what: &'static str,
    package: &'static str,
    found: fn() -> bool,
}

const ANY_GPU: &[Part] = &[
    Part { what: "the Vulkan loader", package: "libvulkan1", found: || library("libvulkan.so.1") },
    Part { what: "a Vulkan driver", package: "mesa-vulkan-drivers", found: || vulkan_driver("") },
];

const SOFTWARE_GPUS: &[Part] = &[
    Part { what: "the Vulkan loader", package: "libvulkan1", found: || library("libvulkan.so.1") },
    Part { what: "software Vulkan (lavapipe)", package: "mesa-vulkan-drivers", found: || vulkan_driver("lvp_") },
    Part { what: "the EGL loader", package: "libegl1", found: || library("libEGL.so.1") },
    Part { what: "Mesa's EGL", package: "libegl-mesa0", found: || library("libEGL_mesa.so.0") },
    Part { what: "software GL (llvmpipe)", package: "libgl1-mesa-dri", found: software_gl },
];

/// Installs what `need` asks for and this machine lacks.
pub fn run(need: Need) -> Result {
    if !cfg!(target_os = "linux") {
        println!("nothing to set up: this system brings its own GPU interface");
        return Ok(());
    }
    let parts = match need {
        Need::AnyGpu => ANY_GPU,
        Need::SoftwareGpus => SOFTWARE_GPUS,
    };
    let missing = missing(parts);
    if missing.is_empty() {
        println!("nothing to set up: everything is there");
        return Ok(());
    }
    for part in &missing {
        println!("missing: {} (Debian package {})", part.what, part.package);
    }
    let packages: Vec<&str> = missing.iter().map(|part| part.package).collect();
    install(&packages.join(" "))?;
    match self::missing(parts).first() {
        None => Ok(()),
        Some(part) => Err(format!("{} is still missing though {} is installed", part.what, part.package)),
    }
}

fn missing(parts: &'static [Part]) -> Vec<&'static Part> {
    parts.iter().filter(|part| !(part.found)()).collect()
}

/// Installs Debian packages, named on one line, as root or by sudo.
pub fn install(packages: &str) -> Result {
    let by_hand = format!("install by hand what is missing (on Debian and Ubuntu: apt-get install {packages})");
    if Cmd::new("apt-get --version").output().is_err() {
        return Err(format!("no apt-get here: {by_hand}"));
    }
    let as_root = match Cmd::new("id -u").output()?.trim() {
        "0" => "",
        _ if Cmd::new("sudo -n true").output().is_ok() => "sudo -n ",
        _ => return Err(format!("this user may not install packages: {by_hand}")),
    };
    apt(as_root, "update")?;
    apt(as_root, &format!("install --yes --no-install-recommends {packages}"))
}

/// Runs apt-get so that it asks nothing; `as_root` is what precedes it on the command line.
fn apt(as_root: &str, arguments: &str) -> Result {
    Cmd::new(&format!("{as_root}env DEBIAN_FRONTEND=noninteractive apt-get -qq {arguments}")).run()
}

/// Whether the dynamic linker's usual folders hold `name`.
fn library(name: &str) -> bool {
    library_folders().iter().any(|folder| folder.join(name).exists())
}

/// Mesa before 24.3 had one file per driver in `dri/`; since then all of them are in one library.
fn software_gl() -> bool {
    let starts_right = |name: &str| name == "swrast_dri.so" || name.starts_with("libgallium-");
    let folders = library_folders().into_iter().flat_map(|folder| [folder.join("dri"), folder]);
    folders.flat_map(file_names).any(|name| starts_right(&name))
}

/// Whether a Vulkan driver's manifest whose name starts with `prefix` is where the loader looks.
fn vulkan_driver(prefix: &str) -> bool {
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].iter().any(|name| std::env::var_os(name).is_some());
    let folders = ["/etc", "/usr/share", "/usr/local/share"].map(|top| PathBuf::from(top).join("vulkan/icd.d"));
    let mut manifests = folders.into_iter().flat_map(file_names);
    (named && prefix.is_empty()) || manifests.any(|name| name.starts_with(prefix) && name.ends_with(".json"))
}

/// The linker's defaults, Debian's folder per architecture below them, and LD_LIBRARY_PATH.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"].map(PathBuf::from).into();
    folders.push(PathBuf::from("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH)));
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    folders
}

fn file_names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
