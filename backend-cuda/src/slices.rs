//! The slices that cards are cut into (Multi-Instance GPU), whether or not CUDA shows them to this process.
//!
//! CUDA shows a process one slice at most: the first, or the one that CUDA_VISIBLE_DEVICES names. Which others there are,
//! NVML knows, which is not always installed; but on Linux the kernel driver keeps a folder per slice for granting access to
//! it (MIG user guide, "/dev based nvidia-capabilities"), and that is read here. It has no UUIDs of slices, so a slice is
//! named by its card and instances, as CUDA_VISIBLE_DEVICES takes it on every driver that has slices.

use std::path::Path;

/// One slice of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// What to set CUDA_VISIBLE_DEVICES to: `MIG-GPU-<uuid of the card>/<GPU instance>/<compute instance>`.
    pub name: String,
    /// The card's PCI address, as [`crate::CardEntry::pci_bus`].
    pub pci_bus: String,
    /// The GPU instance: a share of the card's memory and processors.
    pub gpu_instance: u32,
    /// The compute instance within it.
    pub compute_instance: u32,
}

/// Every slice of this machine's cards; none where cards are whole, and where the system keeps no such list.
pub fn slices() -> Vec<Slice> {
    under(Path::new("/proc/driver/nvidia"))
}

fn under(root: &Path) -> Vec<Slice> {
    let mut found = Vec::new();
    for pci in names(&root.join("gpus")) {
        let Ok(text) = std::fs::read_to_string(root.join("gpus").join(&pci).join("information")) else { continue };
        let (Some(uuid), Some(minor)) = (field(&text, "GPU UUID"), field(&text, "Device Minor")) else { continue };
        let instances = root.join("capabilities").join(format!("gpu{minor}")).join("mig");
        for gpu_instance in numbered(&instances, "gi") {
            for compute_instance in numbered(&instances.join(format!("gi{gpu_instance}")), "ci") {
                let name = format!("MIG-{uuid}/{gpu_instance}/{compute_instance}");
                let pci_bus = pci.to_ascii_lowercase();
                found.push(Slice { name, pci_bus, gpu_instance, compute_instance });
            }
        }
    }
    found
}

/// Names in a folder, sorted; none when it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.file_name()));
    let mut names: Vec<String> =
        entries.map(|names| names.map(|name| name.to_string_lossy().into_owned()).collect()).unwrap_or_default();
    names.sort_unstable();
    names
}

/// The numbers behind `prefix` of the names in a folder, ascending.
fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let names = names(folder);
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// What stands behind `key:` in the driver's list.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?.trim();
    Some(value).filter(|value| !value.is_empty() && !value.contains('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of the kernel driver's with two cards, the second cut into three slices.
    fn made_up(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("polywarp-slices-{name}-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let information = |uuid: &str, minor: u32| {
            format!(
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\nDevice Minor: \t {minor}\n"
            )
        };
        write("gpus/0000:3b:00.0/information", &information("GPU-aaaa", 0));
        write("gpus/0000:AF:00.0/information", &information("GPU-bbbb", 1));
        write("capabilities/mig/config", "");
        for instance in ["gi1/ci0", "gi10/ci0", "gi2/ci1"] {
            write(&format!("capabilities/gpu1/mig/{instance}/access"), "DeviceFileMinor: 30\n");
        }
        root
    }

    #[test]
    fn slices_are_named_as_cuda_visible_devices_takes_them() {
        let root = made_up("named");
        let found = under(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let names: Vec<&str> = found.iter().map(|slice| slice.name.as_str()).collect();
        assert_eq!(names, ["MIG-GPU-bbbb/1/0", "MIG-GPU-bbbb/2/1", "MIG-GPU-bbbb/10/0"]);
        assert!(found.iter().all(|slice| slice.pci_bus == "0000:af:00.0"));
    }

    #[test]
    fn machine_without_the_list_has_none() {
        assert_eq!(under(Path::new("/no/such/folder")), []);
        // A card whose UUID the driver does not tell.
        let root = made_up("untold");
        std::fs::write(root.join("gpus/0000:AF:00.0/information"), "GPU UUID: \t GPU-????????\nDevice Minor: 1\n")
            .unwrap();
        let found = under(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, []);
    }
}
