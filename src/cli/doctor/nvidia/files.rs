//! Facts about NVIDIA's cards from Linux's files: the bus, the kernel driver, device nodes, the container round this process.
//!
//! Everything is read through [`Files`], so that tests can invent a machine. This file draws no conclusions.

use serde::Serialize;

/// A card of NVIDIA's on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PciCard {
    /// `0000:3b:00.0`.
    pub pci_bus: String,
    /// The kernel driver bound to it.
    pub driver: Option<String>,
}

impl PciCard {
    /// Whether it is reserved for a virtual machine.
    pub fn is_set_aside(&self) -> bool {
        matches!(self.driver.as_deref(), Some("vfio-pci" | "pci-stub" | "xen-pciback" | "pciback"))
    }
}

/// NVIDIA's kernel driver and its requirements.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kernel {
    /// Version of the loaded module, `570.86.15`.
    pub version: Option<String>,
    /// Whether the module is loaded at all.
    pub module_loaded: bool,
    /// Whether a module for the running kernel is installed; `None` where this is unknown, as in a container.
    pub module_installed: Option<bool>,
    /// Whether UEFI loads signed code only.
    pub secure_boot: bool,
    /// `/dev/nvidia*`.
    pub nodes: Vec<String>,
    /// Nodes that this user may not open.
    pub closed_nodes: Vec<String>,
    /// UUIDs of the driver's cards.
    pub uuids: Vec<String>,
}

impl Kernel {
    pub fn is_loaded(&self) -> bool {
        self.module_loaded || self.version.is_some()
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node == name)
    }

    /// Whether a card's own node (`/dev/nvidia0`) is there.
    pub fn has_card_node(&self) -> bool {
        self.nodes.iter().any(|node| is_card_node(node))
    }
}

/// The container round this process, when there is one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Container {
    pub inside: bool,
    /// NVIDIA_VISIBLE_DEVICES.
    pub devices: Option<String>,
    /// NVIDIA_DRIVER_CAPABILITIES.
    pub capabilities: Option<String>,
}

impl Container {
    /// Whether the capabilities are given and lack `name`.
    pub fn lacks(&self, name: &str) -> bool {
        let has = |list: &String| list.split(',').any(|one| matches!(one.trim(), "all") || one.trim() == name);
        self.capabilities.as_ref().is_some_and(|list| !list.trim().is_empty() && !has(list))
    }
}

/// The part of a file system that is read.
pub trait Files {
    fn read(&self, path: &str) -> Option<Vec<u8>>;
    /// Names in a folder, sorted.
    fn list(&self, path: &str) -> Vec<String>;
    /// The target of a symbolic link.
    fn link(&self, path: &str) -> Option<String>;
    fn exists(&self, path: &str) -> bool;
    /// Whether this user may read and write it.
    fn opens(&self, path: &str) -> bool;
    /// The kernel's log since the machine started, where this user may read it.
    fn kernel_log(&self) -> Option<String>;

    fn text(&self, path: &str) -> Option<String> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }
}

/// The file system of this machine.
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(path).ok().map(|target| target.to_string_lossy().into_owned())
    }

    fn exists(&self, path: &str) -> bool {
        std::path::Path::new(path).exists()
    }

    fn opens(&self, path: &str) -> bool {
        std::fs::OpenOptions::new().read(true).write(true).open(path).is_ok()
    }

    #[cfg(target_os = "linux")]
    fn kernel_log(&self) -> Option<String> {
        use std::io::Read;
        use std::os::unix::fs::OpenOptionsExt;
        /// Reading past the last record fails at once instead of waiting for the next (asm-generic/fcntl.h; MIPS and
        /// SPARC, which differ, have no driver of NVIDIA's).
        const O_NONBLOCK: i32 = 0o4000;
        /// More records than any kernel keeps: reading a log that grows meanwhile ends here.
        const MOST_RECORDS: usize = 1 << 20;
        let mut log = std::fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg").ok()?;
        let mut text = String::new();
        // A record is at most 8 KiB, one per read (Documentation/ABI/testing/dev-kmsg).
        let mut record = [0; 8192];
        for _ in 0..MOST_RECORDS {
            match log.read(&mut record) {
                Ok(0) => break,
                Ok(length) => text += &String::from_utf8_lossy(&record[..length]),
                // The record was overwritten before it was read: the next read continues after it.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Some(text)
    }

    #[cfg(not(target_os = "linux"))]
    fn kernel_log(&self) -> Option<String> {
        None
    }
}

/// NVIDIA's cards among the devices of the PCI bus: vendor 10de, class 03 (display controller).
pub fn bus(files: &impl Files) -> Vec<PciCard> {
    const FOLDER: &str = "/sys/bus/pci/devices";
    let is_card = |folder: &str| {
        files.text(&format!("{folder}/vendor")).is_some_and(|vendor| vendor == "0x10de")
            && files.text(&format!("{folder}/class")).is_some_and(|class| class.starts_with("0x03"))
    };
    let card = |pci_bus: String| {
        let folder = format!("{FOLDER}/{pci_bus}");
        let driver = files.link(&format!("{folder}/driver"));
        let driver = driver.and_then(|link| link.rsplit('/').next().map(str::to_owned));
        is_card(&folder).then_some(PciCard { pci_bus, driver })
    };
    files.list(FOLDER).into_iter().filter_map(card).collect()
}

pub fn kernel(files: &impl Files) -> Kernel {
    let version = files.text("/proc/driver/nvidia/version").and_then(|text| module_version(&text));
    let version = version.or_else(|| files.text("/sys/module/nvidia/version"));
    let nodes: Vec<String> = files.list("/dev").into_iter().filter(|name| is_node(name)).map(|n| dev(&n)).collect();
    let gpus = files.list("/proc/driver/nvidia/gpus").into_iter();
    let information = gpus.filter_map(|pci| files.text(&format!("/proc/driver/nvidia/gpus/{pci}/information")));
    let installed = files.text("/proc/sys/kernel/osrelease").and_then(|release| {
        let modules = files.text(&format!("/lib/modules/{release}/modules.dep"))?;
        let named = |line: &str| line.split(':').next().is_some_and(|path| path.contains("/nvidia.ko"));
        Some(modules.lines().any(named))
    });
    Kernel {
        module_loaded: files.exists("/sys/module/nvidia"),
        version,
        module_installed: installed,
        secure_boot: secure_boot(files),
        closed_nodes: nodes.iter().filter(|node| !files.opens(node)).cloned().collect(),
        nodes,
        uuids: information.filter_map(|text| uuid(&text)).collect(),
    }
}

pub fn container(files: &impl Files, variable: &impl Fn(&str) -> Option<String>) -> Container {
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/.toolboxenv", "/.singularity.d"];
    let variables = ["container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"];
    let groups = files.text("/proc/1/cgroup").unwrap_or_default();
    let managed = ["docker", "kubepods", "containerd", "libpod", "lxc"].iter().any(|name| groups.contains(name));
    Container {
        inside: managed
            || marks.iter().any(|path| files.exists(path))
            || variables.iter().any(|name| variable(name).is_some_and(|value| !value.is_empty())),
        devices: variable("NVIDIA_VISIBLE_DEVICES"),
        capabilities: variable("NVIDIA_DRIVER_CAPABILITIES"),
    }
}

/// Whether this is a node that computing needs: `nvidia0`, `nvidiactl`, `nvidia-uvm`. Nodes of video outputs and of
/// NVSwitch have owners and permissions of their own.
fn is_node(name: &str) -> bool {
    matches!(name, "nvidiactl" | "nvidia-uvm") || is_card_node(name)
}

fn is_card_node(path: &str) -> bool {
    let name = path.strip_prefix("/dev/").unwrap_or(path);
    name.strip_prefix("nvidia").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

fn dev(name: &str) -> String {
    format!("/dev/{name}")
}

/// The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue ...`.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version = |word: &&str| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() >= 2 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// The UUID in a card's `information`; a card never initialised has question marks instead.
fn uuid(information: &str) -> Option<String> {
    let line = information.lines().find(|line| line.starts_with("GPU UUID"))?;
    line.split_once(':').map(|(_, uuid)| uuid.trim().to_owned()).filter(|uuid| !uuid.contains('?'))
}

fn secure_boot(files: &impl Files) -> bool {
    // Four bytes of attributes, then the value (UEFI specification, section 3.3; kernel's efivarfs).
    let variable = files.read("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c");
    variable.is_some_and(|bytes| bytes.get(4) == Some(&1))
}

#[cfg(test)]
mod tests {
    use super::super::made_up::Tree;
    use super::*;

    #[test]
    fn bus_lists_display_controllers_of_nvidia_and_their_driver() {
        let tree = Tree::default()
            .pci("0000:3b:00.0", "0x10de", "0x030200", Some("nvidia"))
            .pci("0000:3b:00.1", "0x10de", "0x040300", Some("snd_hda_intel"))
            .pci("0000:00:02.0", "0x8086", "0x030000", Some("i915"))
            .pci("0000:af:00.0", "0x10de", "0x030000", None);
        let card = |pci_bus: &str, driver: Option<&str>| PciCard {
            pci_bus: pci_bus.to_owned(),
            driver: driver.map(str::to_owned),
        };
        assert_eq!(bus(&tree), [card("0000:3b:00.0", Some("nvidia")), card("0000:af:00.0", None)]);
        assert!(bus(&Tree::default()).is_empty());
    }

    #[test]
    fn kernel_reads_version_nodes_and_uuids() {
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (root)\nGCC";
        let tree = Tree::default()
            .file("/proc/driver/nvidia/version", version)
            .file("/proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model:\tX\nGPU UUID:\t GPU-12-34\nBus: 1")
            .file("/proc/driver/nvidia/gpus/0000:af:00.0/information", "GPU UUID:\t GPU-????????-????")
            .file("/dev/nvidia0", "")
            .file("/dev/nvidiactl", "")
            .file("/dev/nvidia-modeset", "")
            .closed("/dev/nvidia10");
        let kernel = kernel(&tree);
        assert_eq!(kernel.version.as_deref(), Some("570.86.15"));
        assert_eq!(kernel.nodes, ["/dev/nvidia0", "/dev/nvidia10", "/dev/nvidiactl"]);
        assert_eq!(kernel.closed_nodes, ["/dev/nvidia10"]);
        assert_eq!(kernel.uuids, ["GPU-12-34"]);
        assert!(kernel.is_loaded() && kernel.has_card_node() && !kernel.has_node("/dev/nvidia-uvm"));
        assert_eq!((kernel.module_installed, kernel.secure_boot), (None, false));
    }

    #[test]
    fn kernel_knows_an_installed_module_and_secure_boot() {
        let tree = |modules: &str| {
            Tree::default()
                .file("/proc/sys/kernel/osrelease", "6.1.0-1\n")
                .file("/lib/modules/6.1.0-1/modules.dep", modules)
                .file("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\x06\0\0\0\x01")
        };
        let with = kernel(&tree("kernel/a.ko: b.ko\nupdates/dkms/nvidia.ko.zst: kernel/video.ko\n"));
        assert_eq!((with.module_installed, with.secure_boot), (Some(true), true));
        let without = kernel(&tree("kernel/drivers/net/forcedeth.ko:\nx/nvidia-uvm.ko: updates/nvidia.ko\n"));
        assert_eq!(without.module_installed, Some(false));
    }

    #[test]
    fn container_is_known_by_marks_variables_and_groups() {
        let none = |_: &str| None;
        assert!(!container(&Tree::default().file("/proc/1/cgroup", "0::/init.scope"), &none).inside);
        assert!(container(&Tree::default().file("/.dockerenv", ""), &none).inside);
        assert!(container(&Tree::default().file("/proc/1/cgroup", "0::/kubepods/besteffort/x"), &none).inside);
        let podman = |name: &str| (name == "container").then(|| "podman".to_owned());
        assert!(container(&Tree::default(), &podman).inside);
    }

    #[test]
    fn capabilities_are_a_list() {
        let with = |list: &str| Container { capabilities: Some(list.to_owned()), ..Container::default() };
        assert!(with("utility, graphics").lacks("compute") && with("utility").lacks("graphics"));
        assert!(!with("all").lacks("graphics") && !with("compute,utility").lacks("compute"));
        assert!(!with("").lacks("compute") && !Container::default().lacks("compute"), "not given: defaults apply");
    }
}
