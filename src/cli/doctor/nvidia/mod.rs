//! Obstacles between this process and NVIDIA's cards, and the state of the cards themselves.
//!
//! Looking and concluding are separate: [`Nvidia::probe`] reads files, variables, the CUDA library and the management
//! library into plain data; [`Nvidia::findings`] is a pure function of that data, tested on invented machines. A
//! machine without NVIDIA hardware is a fact, not a fault.
//!
//! | to find | look in |
//! |---|---|
//! | the card on the bus, its kernel driver, device nodes, the container | `files.rs` |
//! | opening and starting libcuda | `library.rs` |
//! | the state of each card through NVML | `nvml.rs` |
//! | why a card cannot be reached | `access.rs`, `visible.rs`, `versions.rs` |
//! | faults of cards that can | `health.rs`, `xid.rs` |
//!
//! The decision to know: each cause is reported once. Findings go from the bus towards the program, and a later step
//! does not repeat a cause that an earlier one explains.

mod access;
pub(in crate::cli) mod files;
mod health;
mod library;
#[cfg(test)]
pub(in crate::cli) mod made_up;
pub(in crate::cli) mod nvml;
mod versions;
mod visible;
mod xid;

use polywarp::DeviceEntry;
use serde::Serialize;

use super::Finding;
use files::{Container, Disk, Files, Kernel, PciCard};
use library::Library;
use nvml::Management;
use xid::Xid;

/// The facts about a machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Nvidia {
    /// Whether bus, kernel and device nodes were looked at: on Linux only.
    looked: bool,
    /// NVIDIA's graphics cards on the PCI bus.
    bus: Vec<PciCard>,
    kernel: Kernel,
    container: Container,
    /// Whether this is Windows' subsystem for Linux, where the driver is Windows' own and no card is on the bus.
    wsl: bool,
    /// The value of CUDA_VISIBLE_DEVICES.
    visible_devices: Option<String>,
    library: Library,
    /// The cards that CUDA shows to this process.
    cards: Vec<CudaCard>,
    /// The answers of NVML, or why there are none.
    management: Management,
    /// Faults of cards in the kernel's log, where this user may read it.
    xids: Vec<Xid>,
}

/// A card that CUDA shows to this process.
#[derive(Clone, Debug, Default, Serialize)]
struct CudaCard {
    /// `cuda:0`.
    id: String,
    name: String,
    /// `GPU-...` or `MIG-...`.
    uuid: String,
    /// `0000:3b:00.0`.
    pci_bus: String,
    compute_capability: (u32, u32),
    /// Why it cannot be used.
    unusable: Option<String>,
    /// The PTX version that kernels compiled for it need.
    ptx: Option<(u32, u32)>,
}

impl CudaCard {
    fn is_too_old(&self) -> bool {
        self.compute_capability < polywarp::cuda::versions::OLDEST_CARD
    }
}

/// A route to a processor, as far as the findings need it.
#[derive(Clone, Debug, Default)]
pub struct Route {
    name: String,
    /// `cuda`, `vulkan`, `gl`, ...
    api: String,
    pci_bus: Option<String>,
    /// A GPU in hardware that can be used.
    usable_gpu: bool,
}

impl From<&DeviceEntry> for Route {
    fn from(entry: &DeviceEntry) -> Route {
        Route {
            name: entry.name.clone(),
            api: entry.api.clone(),
            pci_bus: entry.pci_bus.clone(),
            usable_gpu: entry.is_real_gpu() && entry.unusable.is_none(),
        }
    }
}

impl Nvidia {
    /// Reads the facts about this machine. Starts CUDA and NVML, and opens no card.
    pub fn probe() -> Nvidia {
        let looked = cfg!(target_os = "linux");
        let files = Disk;
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let mut seen = if looked { Nvidia::read(&files, &variable) } else { Nvidia::default() };
        seen.visible_devices = variable("CUDA_VISIBLE_DEVICES");
        match polywarp::cuda::cards() {
            Ok(cards) => seen.cards = cards.iter().map(CudaCard::from).collect(),
            Err(error) => seen.library.refusal = Some(error.to_string()),
        }
        let refusal = seen.library.refusal.take();
        seen.library = Library { refusal, ..library::probe() };
        seen.management = nvml::probe();
        seen
    }

    /// Reads the facts from files and variables.
    fn read(files: &impl Files, variable: &impl Fn(&str) -> Option<String>) -> Nvidia {
        Nvidia {
            looked: true,
            bus: files::bus(files),
            kernel: files::kernel(files),
            container: files::container(files, variable),
            wsl: files.exists("/dev/dxg"),
            xids: files.kernel_log().map(|log| xid::parse(&log)).unwrap_or_default(),
            ..Nvidia::default()
        }
    }

    /// Whether there is NVIDIA hardware, working or not.
    pub fn has_card(&self) -> bool {
        !self.bus.is_empty() || self.kernel.is_loaded() || !self.kernel.nodes.is_empty() || !self.cards.is_empty()
    }

    /// Whether the bus has a card that should work here, whatever driver it has.
    pub fn has_card_for_us(&self) -> bool {
        self.bus.iter().any(|card| !card.is_set_aside())
    }

    /// Whether `id` is a card too old for CUDA kernels, so that opening it proves nothing.
    pub fn is_too_old(&self, id: &str) -> bool {
        self.cards.iter().any(|card| card.id == id && card.is_too_old())
    }

    /// The faults, given every route that the library found and whether NVIDIA's driver file of Vulkan is there.
    pub fn findings(&self, routes: &[Route], vulkan_file: VulkanFile) -> Vec<Finding> {
        let mut found = self.access_findings(routes, vulkan_file);
        found.extend(self.visible_findings());
        found.extend(self.version_findings());
        found.extend(self.health_findings());
        found.extend(self.xid_findings());
        found
    }

    /// Whether a graphics API reaches one of the cards.
    fn graphics_works(&self, routes: &[Route]) -> bool {
        routes.iter().any(|route| {
            let on_bus = |pci: &String| self.bus.iter().any(|card| card.pci_bus == *pci);
            let by_name = ["NVIDIA", "GeForce", "Quadro", "Tesla"].iter().any(|word| route.name.contains(word));
            route.usable_gpu && route.api != "cuda" && (route.pci_bus.as_ref().is_some_and(on_bus) || by_name)
        })
    }
}

/// Whether a driver file of Vulkan is NVIDIA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VulkanFile {
    /// `nvidia_icd.json` is in effect.
    Present,
    /// It is not.
    Absent,
}

impl From<&polywarp::cuda::CardEntry> for CudaCard {
    fn from(card: &polywarp::cuda::CardEntry) -> CudaCard {
        CudaCard {
            id: card.id.clone(),
            name: card.name.clone(),
            uuid: card.uuid.clone(),
            pci_bus: card.pci_bus.clone(),
            compute_capability: card.compute_capability,
            unusable: card.unusable.clone(),
            ptx: versions::ptx_needed(card.compute_capability),
        }
    }
}
