//! Facts about graphics from the system, before any driver is asked: loaders, driver files, device nodes, variables.
//!
//! [`System::probe`] reads, [`System::findings`] concludes; the latter is a pure function and tested on invented
//! machines. Only Linux is examined: Windows and macOS bring loader and driver with the system.

use std::path::{Path, PathBuf};

use polywarp::{DeviceEntry, DeviceKind};
use serde::Serialize;

use super::Finding;
use super::nvidia::VulkanFile;

/// The folders in which Vulkan's loader searches for driver files on Linux (Vulkan-Loader, LoaderDriverInterface.md).
const DRIVER_FOLDERS: [&str; 4] =
    ["/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d"];

/// The folders in which EGL's loader searches for driver files on Linux (libglvnd, src/EGL/icd_enumeration.md; its
/// build's own prefixes).
#[cfg(target_os = "linux")]
const EGL_FOLDERS: [&str; 2] = ["/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d"];
/// Variables that name EGL's driver files, or their folders, instead (same document).
#[cfg(target_os = "linux")]
const EGL_FILES_VARIABLE: &str = "__EGL_VENDOR_LIBRARY_FILENAMES";
#[cfg(target_os = "linux")]
const EGL_FOLDERS_VARIABLE: &str = "__EGL_VENDOR_LIBRARY_DIRS";

/// Variables that hide devices, and the devices that they hide.
const FILTERS: [(&str, &str); 3] = [
    ("WGPU_BACKEND", "only these graphics APIs are used"),
    ("WGPU_ADAPTER_NAME", "only GPUs with this in their name are used"),
    ("VK_LOADER_DRIVERS_DISABLE", "Vulkan drivers matching this are not loaded"),
];

/// The facts about a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct System {
    /// Whether this system was examined.
    looked: bool,
    /// Why `libvulkan.so.1` cannot be opened.
    vulkan_loader: Option<String>,
    /// Why `libEGL.so.1` cannot be opened.
    egl: Option<String>,
    /// Driver files of EGL in effect.
    egl_files: Vec<PathBuf>,
    /// The variable that names them, if one does.
    egl_variable: Option<String>,
    /// Driver files of EGL whose library cannot be opened, with the reason.
    broken_egl: Vec<(PathBuf, String)>,
    /// Driver files of Vulkan in effect.
    driver_files: Vec<PathBuf>,
    /// Driver files named by a variable that do not exist, with the variable.
    missing_driver_files: Vec<(String, PathBuf)>,
    /// Driver files whose library cannot be opened, with the reason.
    broken_drivers: Vec<(PathBuf, String)>,
    /// `/dev/dri/renderD*`.
    render_nodes: Vec<PathBuf>,
    /// Nodes that this user may not open.
    closed_nodes: Vec<PathBuf>,
    /// Whether NVIDIA's kernel driver shows a card, or the bus has one; `nvidia/` knows more about it.
    pub nvidia: bool,
    /// Variables that hide devices.
    filters: Vec<(String, String, String)>,
}

impl System {
    /// Reads the facts about this machine.
    #[cfg(target_os = "linux")]
    pub fn probe() -> System {
        let render_nodes = listed(Path::new("/dev/dri"), |name| name.starts_with("renderD"));
        let closed = |node: &&PathBuf| std::fs::OpenOptions::new().read(true).write(true).open(node).is_err();
        let (driver_files, missing_driver_files) = driver_files();
        let (egl_files, egl_variable) = egl_files();
        let faults =
            |files: &[PathBuf]| files.iter().filter_map(|file| Some((file.clone(), driver_fault(file)?))).collect();
        System {
            looked: true,
            vulkan_loader: library_fault("libvulkan.so.1"),
            egl: library_fault("libEGL.so.1"),
            broken_egl: faults(&egl_files),
            egl_files,
            egl_variable,
            broken_drivers: faults(&driver_files),
            driver_files,
            missing_driver_files,
            closed_nodes: render_nodes.iter().filter(closed).cloned().collect(),
            render_nodes,
            nvidia: Path::new("/dev/nvidia0").exists() || Path::new("/proc/driver/nvidia/version").exists(),
            filters: filters(),
        }
    }

    /// Reads the facts that every system has.
    #[cfg(not(target_os = "linux"))]
    pub fn probe() -> System {
        System { filters: filters(), ..System::default() }
    }

    /// The faults, given the devices that the library found.
    pub fn findings(&self, entries: &[DeviceEntry]) -> Vec<Finding> {
        let mut found = Vec::new();
        let real_gpu = entries.iter().any(|entry| entry.is_real_gpu() && entry.unusable.is_none());
        for (name, value, effect) in &self.filters {
            found.push(match hides_everything(name, entries) {
                Some(reason) => Finding::error(
                    format!("{name} is `{value}`: {reason}"),
                    format!("unset {name}, and `polywarp devices` shows what there is to name"),
                ),
                None => {
                    Finding::note(format!("{name} is `{value}`: {effect}"), format!("unset {name} to see everything"))
                }
            });
        }
        for (variable, file) in &self.missing_driver_files {
            found.push(Finding::error(
                format!("{variable} names {}, which does not exist", file.display()),
                format!("unset {variable}, or let it name a driver file from {}", DRIVER_FOLDERS[1]),
            ));
        }
        if self.looked {
            self.linux_findings(real_gpu, &mut found);
            let usable = |gl: bool| {
                let wgpu = |entry: &DeviceEntry| entry.id.starts_with("wgpu:") && entry.unusable.is_none();
                entries.iter().any(|entry| wgpu(entry) && (entry.api == "gl") == gl)
            };
            found.extend(self.gl_finding(real_gpu, usable(true), usable(false)));
        }
        if !real_gpu {
            found.push(no_gpu(entries, self.has_card()));
        }
        found
    }

    /// Whether NVIDIA's driver file of Vulkan is in effect.
    pub fn nvidia_vulkan_file(&self) -> VulkanFile {
        let there = self.driver_files.iter().any(|file| names_nvidia(file));
        if there { VulkanFile::Present } else { VulkanFile::Absent }
    }

    /// Whether the kernel shows a card, working or not.
    fn has_card(&self) -> bool {
        self.nvidia || !self.render_nodes.is_empty()
    }

    fn linux_findings(&self, real_gpu: bool, found: &mut Vec<Finding>) {
        let worse = |what: String, fix: &str| {
            // Without a card these are only the normal state of a machine without a GPU.
            if self.has_card() && !real_gpu { Finding::error(what, fix) } else { Finding::warning(what, fix) }
        };
        if let Some(fault) = &self.vulkan_loader {
            let fix = "install the Vulkan loader: apt install libvulkan1 (Debian, Ubuntu), dnf install vulkan-loader \
                       (Fedora), pacman -S vulkan-icd-loader (Arch)";
            found.push(worse(format!("no Vulkan: libvulkan.so.1 cannot be opened ({fault})"), fix));
        } else if self.driver_files.is_empty() && self.missing_driver_files.is_empty() {
            let fix = "install a driver: NVIDIA's own, or apt install mesa-vulkan-drivers for AMD, Intel and software";
            found.push(worse("the Vulkan loader is there but no driver file".to_owned(), fix));
        }
        for (file, fault) in &self.broken_drivers {
            let what = format!("the library of the Vulkan driver {} cannot be opened ({fault})", file.display());
            let fix = "reinstall that driver, or remove the file when the driver is gone; in a container see \
                       NVIDIA_DRIVER_CAPABILITIES";
            found.push(worse(what, fix));
        }
        if !self.closed_nodes.is_empty() && !real_gpu {
            let nodes: Vec<String> = self.closed_nodes.iter().map(|node| node.display().to_string()).collect();
            found.push(Finding::error(
                format!("this user may not open {}", nodes.join(", ")),
                "add the user to the group that owns it (usermod -aG render NAME, then log in again); give a container \
                 --device /dev/dri",
            ));
        }
        if let (Some(fault), false) = (&self.egl, real_gpu) {
            let fix = "only needed where there is no Vulkan driver: apt install libegl1";
            found.push(Finding::note(format!("no OpenGL: libEGL.so.1 cannot be opened ({fault})"), fix));
        }
    }
}

impl System {
    /// Why OpenGL gives no adapter although its loader is there. `gl`: whether it gives one; `others`: whether another API does.
    fn gl_finding(&self, real_gpu: bool, gl: bool, others: bool) -> Option<Finding> {
        // Where the variable asks only for other APIs, GL is not tried.
        let hidden = self.filters.iter().any(|(name, ..)| name == "WGPU_BACKEND");
        if real_gpu || gl || hidden || self.egl.is_some() {
            return None;
        }
        let names = |files: &mut dyn Iterator<Item = &PathBuf>| {
            files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        let (why, fix) = if self.egl_files.is_empty() {
            let fix = match &self.egl_variable {
                Some(variable) => format!("unset {variable}, which says where they are looked for"),
                None => "only needed where there is no Vulkan driver: apt install libegl-mesa0 libgl1-mesa-dri, or NVIDIA's \
                         own driver; of a container NVIDIA_DRIVER_CAPABILITIES must hold graphics"
                    .to_owned(),
            };
            ("no EGL driver file".to_owned(), fix)
        } else if !self.broken_egl.is_empty() && self.broken_egl.len() == self.egl_files.len() {
            let why = format!(
                "no library that a driver file of EGL names can be opened: {} ({})",
                names(&mut self.broken_egl.iter().map(|(file, _)| file)),
                self.broken_egl[0].1
            );
            (why, "reinstall the driver that the file is of: apt install --reinstall libegl-mesa0 for Mesa".to_owned())
        } else {
            let why = format!("its driver files ({}) give no adapter", names(&mut self.egl_files.iter()));
            (why, "install what those drivers load: apt install libgl1-mesa-dri for Mesa".to_owned())
        };
        let what = format!("no OpenGL: libEGL.so.1 is there but {why}");
        Some(match (others, self.has_card()) {
            (true, _) => Finding::note(what, fix),
            (false, true) => Finding::error(what, fix),
            (false, false) => Finding::warning(what, fix),
        })
    }
}

/// The finding for a machine without a GPU to compute on.
fn no_gpu(entries: &[DeviceEntry], card: bool) -> Finding {
    let software: Vec<&str> =
        entries.iter().filter(|e| e.kind == DeviceKind::Software).map(|entry| entry.id.as_str()).collect();
    let what = match (card, software.as_slice()) {
        (true, []) => "there is a graphics card but no driver gives access to it; the CPU is used".to_owned(),
        (true, some) => {
            format!("there is a graphics card but only software drivers ({}) work; the CPU is used", some.join(", "))
        }
        (false, []) => "no GPU was found; the CPU is used".to_owned(),
        (false, some) => {
            format!("only GPUs in software were found ({}); they are for testing, the CPU is used", some.join(", "))
        }
    };
    let fix =
        if card { "see the other findings; install the card's driver" } else { "nothing to do if there is no card" };
    if card { Finding::error(what, fix) } else { Finding::warning(what, fix) }
}

fn names_nvidia(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains("nvidia"))
}

/// Why wgpu finds nothing, where the reason is the value of `variable`: a name that no adapter has.
fn hides_everything(variable: &str, entries: &[DeviceEntry]) -> Option<String> {
    let wgpu = entries.iter().find(|entry| entry.id == "wgpu")?;
    let Some(polywarp::Error::BackendUnavailable { reason, .. }) = &wgpu.unusable else { return None };
    let own = match variable {
        "WGPU_BACKEND" => reason.starts_with("WGPU_BACKEND names no API"),
        "WGPU_ADAPTER_NAME" => reason.contains("is named like WGPU_ADAPTER_NAME="),
        _ => false,
    };
    own.then(|| reason.clone())
}

fn filters() -> Vec<(String, String, String)> {
    let set = |&(name, effect): &(&str, &str)| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((name.to_owned(), value, effect.to_owned()))
    };
    FILTERS.iter().filter_map(set).collect()
}

/// Files in `folder` whose name `wanted` accepts, sorted.
#[cfg(target_os = "linux")]
fn listed(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|p| p.file_name().is_some_and(|n| wanted(&n.to_string_lossy())))
        .collect();
    files.sort_unstable();
    files
}

/// The driver files in effect, and the missing ones that a variable names.
#[cfg(target_os = "linux")]
fn driver_files() -> (Vec<PathBuf>, Vec<(String, PathBuf)>) {
    let is_json = |name: &str| name.ends_with(".json");
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { continue };
        let named = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
        let (there, missing): (Vec<PathBuf>, Vec<PathBuf>) = named.partition(|path| path.exists());
        let folders = there.iter().filter(|path| path.is_dir()).flat_map(|folder| listed(folder, is_json));
        let files = there.iter().filter(|path| path.is_file()).cloned().chain(folders).collect();
        return (files, missing.into_iter().map(|path| (variable.to_owned(), path)).collect());
    }
    let mut folders: Vec<PathBuf> = DRIVER_FOLDERS.iter().map(PathBuf::from).collect();
    let home = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")));
    folders.extend(home.map(|home| home.join("vulkan/icd.d")));
    (folders.iter().flat_map(|folder| listed(folder, is_json)).collect(), Vec::new())
}

/// The driver files of EGL in effect, and the variable that names them.
#[cfg(target_os = "linux")]
fn egl_files() -> (Vec<PathBuf>, Option<String>) {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
    let in_folders = |folders: &mut dyn Iterator<Item = PathBuf>| {
        folders.flat_map(|folder| listed(&folder, |name| name.ends_with(".json"))).collect()
    };
    if let Some(files) = named(EGL_FILES_VARIABLE) {
        let files = std::env::split_paths(&files).filter(|path| path.is_file());
        return (files.collect(), Some(EGL_FILES_VARIABLE.to_owned()));
    }
    match named(EGL_FOLDERS_VARIABLE) {
        Some(folders) => (in_folders(&mut std::env::split_paths(&folders)), Some(EGL_FOLDERS_VARIABLE.to_owned())),
        None => (in_folders(&mut EGL_FOLDERS.iter().map(PathBuf::from)), None),
    }
}

/// Why the library that a driver file names cannot be opened.
#[cfg(target_os = "linux")]
fn driver_fault(file: &Path) -> Option<String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Some(error.to_string()),
    };
    let json: serde_json::Value = match serde_json::from_str(&text) {
        Ok(json) => json,
        Err(error) => return Some(format!("not JSON: {error}")),
    };
    let driver = &json["ICD"];
    // Drivers for programs of the other word size cannot be opened here.
    let ours = if cfg!(target_pointer_width = "64") { "64" } else { "32" };
    if driver["library_arch"].as_str().is_some_and(|arch| arch != ours) {
        return None;
    }
    let Some(library) = driver["library_path"].as_str() else { return Some("it names no library".to_owned()) };
    // A path with a slash is relative to the file's folder, a bare name is searched for (same document, "library_path").
    let library = if library.contains('/') {
        file.parent().unwrap_or(Path::new("/")).join(library)
    } else {
        PathBuf::from(library)
    };
    library_fault(&library).filter(|fault| !fault.contains("wrong ELF class"))
}

/// Why a shared library cannot be opened; `None` when it can.
#[cfg(target_os = "linux")]
fn library_fault(name: impl AsRef<std::ffi::OsStr>) -> Option<String> {
    // SAFETY: opening a library runs its initialisers. These are the graphics loader and the drivers it names, which the
    // next step of this program loads in the same way; no symbol is looked up, and the handle is closed again.
    match unsafe { libloading::Library::new(name.as_ref()) } {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn machine() -> System {
        System {
            looked: true,
            driver_files: vec!["/usr/share/vulkan/icd.d/lvp_icd.json".into()],
            egl_files: vec!["/usr/share/glvnd/egl_vendor.d/50_mesa.json".into()],
            ..System::default()
        }
    }

    /// The severity of the only finding that says `what`.
    fn severity_of(found: &[Finding], what: &str) -> Option<Severity> {
        let matching: Vec<&Finding> = found.iter().filter(|finding| finding.what.contains(what)).collect();
        assert!(matching.len() <= 1, "{matching:?}");
        assert!(matching.iter().all(|finding| !finding.fix.is_empty()));
        matching.first().map(|finding| finding.severity)
    }

    #[test]
    fn machine_without_a_card_is_a_warning() {
        let found = machine().findings(&[]);
        assert_eq!(severity_of(&found, "no GPU was found"), Some(Severity::Warning));
        let bare = System { vulkan_loader: Some("not found".into()), egl: Some("not found".into()), ..machine() };
        let found = bare.findings(&[]);
        assert_eq!(severity_of(&found, "libvulkan.so.1"), Some(Severity::Warning));
        assert_eq!(severity_of(&found, "libEGL.so.1"), Some(Severity::Note));
        assert!(found.iter().all(|finding| finding.severity != Severity::Error));
    }

    #[test]
    fn card_without_loader_or_driver_is_an_error() {
        let card = System { render_nodes: vec!["/dev/dri/renderD128".into()], ..machine() };
        let found = System { vulkan_loader: Some("not found".into()), ..card.clone() }.findings(&[]);
        assert_eq!(severity_of(&found, "libvulkan.so.1"), Some(Severity::Error));
        let found = System { driver_files: vec![], ..card.clone() }.findings(&[]);
        assert_eq!(severity_of(&found, "no driver file"), Some(Severity::Error));
        let found = System { closed_nodes: card.render_nodes.clone(), ..card.clone() }.findings(&[]);
        assert_eq!(severity_of(&found, "may not open /dev/dri/renderD128"), Some(Severity::Error));
        let broken = vec![(PathBuf::from("/x/radeon_icd.json"), "no such file".to_owned())];
        let found = System { broken_drivers: broken, ..card }.findings(&[]);
        assert_eq!(severity_of(&found, "radeon_icd.json"), Some(Severity::Error));
    }

    #[test]
    fn nvidia_card_without_a_driver_is_an_error() {
        let found = System { nvidia: true, ..machine() }.findings(&[]);
        assert_eq!(severity_of(&found, "no driver gives access"), Some(Severity::Error));
    }

    #[test]
    fn driver_file_of_nvidia_is_known_by_its_name() {
        assert_eq!(machine().nvidia_vulkan_file(), VulkanFile::Absent);
        let complete = System { driver_files: vec!["/etc/vulkan/icd.d/nvidia_icd.json".into()], ..machine() };
        assert_eq!(complete.nvidia_vulkan_file(), VulkanFile::Present);
    }

    #[test]
    fn opengl_without_drivers_says_what_is_missing() {
        let bare = System { egl_files: vec![], ..machine() };
        let found = |system: &System, others| system.gl_finding(false, false, others).into_iter().collect::<Vec<_>>();
        assert_eq!(severity_of(&found(&bare, true), "no EGL driver file"), Some(Severity::Note));
        assert_eq!(severity_of(&found(&bare, false), "no EGL driver file"), Some(Severity::Warning));
        let card = System { render_nodes: vec!["/dev/dri/renderD128".into()], ..bare.clone() };
        assert_eq!(severity_of(&found(&card, false), "no EGL driver file"), Some(Severity::Error));
        assert_eq!(severity_of(&card.findings(&[]), "no EGL driver file"), Some(Severity::Error), "and is reported");
        let named = System { egl_variable: Some("__EGL_VENDOR_LIBRARY_DIRS".into()), ..bare.clone() };
        assert!(found(&named, true)[0].fix.contains("unset __EGL_VENDOR_LIBRARY_DIRS"));

        let idle = machine();
        assert_eq!(severity_of(&found(&idle, true), "50_mesa.json) give no adapter"), Some(Severity::Note));
        let broken = System { broken_egl: vec![(idle.egl_files[0].clone(), "no such file".to_owned())], ..idle };
        assert_eq!(severity_of(&found(&broken, true), "50_mesa.json (no such file)"), Some(Severity::Note));

        // Reported once, and not where nothing is missing or the system was not examined.
        let absent = System { egl: Some("not found".into()), ..bare.clone() };
        let hidden =
            System { filters: vec![("WGPU_BACKEND".into(), "vulkan".into(), "only these".into())], ..bare.clone() };
        assert!(found(&absent, true).is_empty() && found(&hidden, true).is_empty());
        assert!(bare.gl_finding(false, true, true).is_none() && bare.gl_finding(true, false, true).is_none());
    }

    #[test]
    fn missing_named_driver_file_is_an_error() {
        let named = vec![("VK_DRIVER_FILES".to_owned(), PathBuf::from("/nowhere.json"))];
        let found = System { missing_driver_files: named, driver_files: vec![], ..machine() }.findings(&[]);
        assert_eq!(severity_of(&found, "/nowhere.json"), Some(Severity::Error));
        assert_eq!(severity_of(&found, "no driver file"), None, "said once");
    }

    #[test]
    fn filters_are_noted() {
        let filters = vec![("WGPU_BACKEND".to_owned(), "gl".to_owned(), "only these".to_owned())];
        let found = System { filters, ..System::default() }.findings(&[]);
        assert_eq!(severity_of(&found, "WGPU_BACKEND"), Some(Severity::Note));
    }
}
