//! Why a card cannot be reached: bus, kernel driver, device nodes, libcuda, its start, the container.
//!
//! Steps go from the bus towards the program. The first one that explains why CUDA shows no card ends the search.

use super::super::{Finding, Severity};
use super::library::Library;
use super::{Nvidia, Route, VulkanFile};

/// How to install the driver.
const INSTALL: &str = "install NVIDIA's driver (Ubuntu: ubuntu-drivers install; Debian: apt install nvidia-driver; \
                       Fedora with RPM Fusion: dnf install akmod-nvidia) and reboot";
/// How to give a container a card.
const GIVE: &str = "start the container with the card: docker run --gpus all (podman: --device nvidia.com/gpu=all; \
                    Kubernetes: limit nvidia.com/gpu), with the NVIDIA container toolkit on the host";

impl Nvidia {
    pub(super) fn access_findings(&self, routes: &[Route], vulkan_file: VulkanFile) -> Vec<Finding> {
        let mut found = Vec::new();
        if !self.has_card() {
            found.extend(self.no_card());
            return found;
        }
        let grave = Grave(if self.graphics_works(routes) { Severity::Warning } else { Severity::Error });
        if self.cards.is_empty() {
            found.extend(self.unreachable(grave));
        } else {
            found.extend(self.undriven(grave));
            found.extend(self.unusable_cards(routes));
        }
        if !self.graphics_works(routes) {
            found.extend(self.without_graphics(vulkan_file));
        }
        found
    }

    /// No NVIDIA hardware: a fact.
    fn no_card(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.looked && !self.wsl {
            let what = "no NVIDIA card on the PCI bus";
            found.push(Finding::note(
                what,
                "nothing to do if there is none; else check its seating and power, and a virtual machine's passthrough",
            ));
        }
        if self.wsl && self.library.path.is_none() {
            let what = "this is WSL, and libcuda, which Windows' driver brings, cannot be opened";
            found.push(Finding::note(what, "with an NVIDIA card: install its driver for Windows, then `wsl --update`"));
        }
        if self.library.is_stub() {
            found.push(self.stub(Grave(Severity::Warning)));
        } else if let (Some(path), Some(why)) = (&self.library.path, self.unstarted()) {
            // A driver is meant to be here: some containers and virtual machines hide the bus.
            let fix =
                "nothing to do if there is no card; else reinstall NVIDIA's driver and see whether nvidia-smi works";
            found.push(Finding::note(format!("{path} is there but not usable: {why}"), fix));
        }
        found
    }

    /// Why libcuda cannot be used although it is there, unless it only finds no card or is too old: `versions` reports those.
    fn unstarted(&self) -> Option<&str> {
        const NO_DEVICE: u32 = 100;
        let Library { fault, status, words, refusal, cuda_version, .. } = &self.library;
        if cuda_version.is_some_and(super::versions::too_old) {
            return None;
        }
        match status {
            None => fault.as_deref(),
            Some(NO_DEVICE) => None,
            // It starts, but the backend misses a function in it.
            Some(0) => refusal.as_deref().filter(|why| why.contains("has no function")),
            Some(_) => Some(words),
        }
    }

    /// The reason why CUDA shows none of the cards that there are.
    fn unreachable(&self, grave: Grave) -> Vec<Finding> {
        let undriven = self.undriven(grave);
        if !self.bus.is_empty() && self.bus.iter().all(|card| card.driver.as_deref() != Some("nvidia")) {
            return undriven;
        }
        if self.container.inside && self.kernel.nodes.is_empty() && self.looked {
            return vec![grave.finding(self.not_given(), GIVE)];
        }
        let reason = self.nodes_fault(grave).or_else(|| self.library_fault(grave)).or_else(|| self.start_fault(grave));
        undriven.into_iter().chain(reason).collect()
    }

    fn not_given(&self) -> String {
        match self.container.devices.as_deref() {
            Some(value @ ("" | "none" | "void")) => format!(
                "there is an NVIDIA card, but this container was not given it: NVIDIA_VISIBLE_DEVICES is `{value}`"
            ),
            _ => "there is an NVIDIA card, but this container was not given it: no /dev/nvidia*".to_owned(),
        }
    }

    /// Cards on the bus that NVIDIA's kernel driver does not drive.
    fn undriven(&self, grave: Grave) -> Vec<Finding> {
        let mut drivers: Vec<Option<&str>> = self.bus.iter().map(|card| card.driver.as_deref()).collect();
        drivers.sort_unstable();
        drivers.dedup();
        let finding = |driver: Option<&str>| {
            let cards = self.bus.iter().filter(|card| card.driver.as_deref() == driver);
            let cards: Vec<&str> = cards.map(|card| card.pci_bus.as_str()).collect();
            let cards = format!("the NVIDIA card {}", cards.join(", "));
            match driver {
                Some("nvidia") => None,
                Some("nouveau" | "nova" | "NovaCore" | "nova_core") => Some(grave.finding(
                    format!("{cards} is driven by {}, which has no CUDA", driver.unwrap_or_default()),
                    format!("{INSTALL}; it replaces that driver"),
                )),
                Some(_) if self.bus.iter().any(|card| card.driver.as_deref() == driver && card.is_set_aside()) => {
                    Some(Finding::note(
                        format!("{cards} is set aside for a virtual machine ({})", driver.unwrap_or_default()),
                        "nothing to do if that is intended; else unbind it and load NVIDIA's driver (modprobe nvidia)",
                    ))
                }
                Some(other) => {
                    Some(grave.finding(format!("{cards} is driven by `{other}`, which has no CUDA"), INSTALL))
                }
                None => Some(self.not_bound(&cards, grave)),
            }
        };
        drivers.into_iter().filter_map(finding).collect()
    }

    fn not_bound(&self, cards: &str, grave: Grave) -> Finding {
        if let Some(version) = &self.kernel.version {
            return grave.finding(
                format!("{cards} is not driven by the NVIDIA kernel driver {version}, which is loaded"),
                "see why with `sudo dmesg | grep NVRM`: the card may be too old or too new for that driver (its README \
                 lists them), or need the open kernel module",
            );
        }
        match (self.kernel.module_installed, self.kernel.secure_boot) {
            (Some(true), true) => grave.finding(
                format!(
                    "{cards} has no kernel driver: Secure Boot is on, and the module nvidia installed but not loaded"
                ),
                "sign the module and enrol its key (mokutil --import, then reboot), or turn Secure Boot off",
            ),
            (Some(true), false) => grave.finding(
                format!("{cards} has no kernel driver: the module nvidia is installed but not loaded"),
                "load it with `sudo modprobe nvidia`; when that fails, `sudo dmesg | grep -i nvrm` says why",
            ),
            (Some(false), _) => grave.finding(
                format!("{cards} has no kernel driver: no module nvidia for the running kernel"),
                format!("{INSTALL}; after an update of the kernel, rebuild the module (dkms autoinstall) or reboot"),
            ),
            (None, _) => grave.finding(format!("{cards} has no kernel driver"), INSTALL),
        }
    }

    /// Device nodes that are missing or closed.
    fn nodes_fault(&self, grave: Grave) -> Option<Finding> {
        if !self.looked || self.wsl {
            return None;
        }
        if !self.kernel.closed_nodes.is_empty() {
            return Some(grave.finding(
                format!("this user may not open {}", self.kernel.closed_nodes.join(", ")),
                "add the user to the group that owns it (ls -l /dev/nvidia*; usermod -aG GROUP NAME, log in again); \
                 under a batch system, ask it for a card",
            ));
        }
        let missing = if !self.kernel.has_card_node() || !self.kernel.has_node("/dev/nvidiactl") {
            "/dev/nvidiactl or /dev/nvidia0"
        } else if !self.kernel.has_node("/dev/nvidia-uvm") && self.failed_to_start() {
            "/dev/nvidia-uvm"
        } else {
            return None;
        };
        let what = format!("NVIDIA's kernel driver is loaded but {missing} is missing");
        Some(if self.container.inside {
            grave.finding(what, GIVE)
        } else {
            grave.finding(what, "make it: sudo nvidia-modprobe -c 0 -u (running nvidia-smi as root once does the same)")
        })
    }

    fn failed_to_start(&self) -> bool {
        self.library.status.is_some_and(|status| status != 0)
    }

    /// libcuda is missing, or is no driver.
    fn library_fault(&self, grave: Grave) -> Option<Finding> {
        if self.library.is_stub() {
            return Some(self.stub(grave));
        }
        let fault = self.library.fault.as_ref()?;
        if let Some(path) = &self.library.path {
            let fix = "reinstall NVIDIA's driver; see what LD_LIBRARY_PATH and `ldconfig -p | grep libcuda` name";
            return Some(grave.finding(format!("{path} is not usable: {fault}"), fix));
        }
        let missing = format!("libcuda.so.1 cannot be opened ({fault})");
        Some(if !self.container.inside {
            grave.finding(
                format!("NVIDIA's kernel driver is loaded but {missing}"),
                "install the driver's libraries, of the kernel driver's version (Debian: apt install libcuda1; Ubuntu: \
                 libnvidia-compute-VERSION; Fedora with RPM Fusion: xorg-x11-drv-nvidia-cuda-libs)",
            )
        } else if self.container.lacks("compute") {
            let given = self.container.capabilities.as_deref().unwrap_or_default();
            grave.finding(
                format!("{missing}: NVIDIA_DRIVER_CAPABILITIES is `{given}`, which lacks compute"),
                "start the container with NVIDIA_DRIVER_CAPABILITIES=all (or compute,utility,graphics)",
            )
        } else {
            grave.finding(format!("this container sees the card but {missing}"), GIVE)
        })
    }

    fn stub(&self, grave: Grave) -> Finding {
        let path = self.library.path.as_deref().unwrap_or("libcuda");
        grave.finding(
            format!("{path} is the CUDA toolkit's stub for linking, not a driver"),
            "take the folder `stubs` out of LD_LIBRARY_PATH and of /etc/ld.so.conf.d, and let NVIDIA's driver be found",
        )
    }

    /// libcuda is there and does not start, or shows no card.
    fn start_fault(&self, grave: Grave) -> Option<Finding> {
        let path = self.library.path.as_deref().unwrap_or("libcuda");
        let kernel = self.kernel.version.as_deref();
        let mismatch = match (self.library.driver_version(), kernel) {
            (Some(library), Some(kernel)) => library != kernel && !self.library.is_compat(),
            _ => false,
        };
        // `health`, `visible` and `versions` report these.
        if self.sliceless() || self.all_hidden() || self.library.cuda_version.is_some_and(super::versions::too_old) {
            return None;
        }
        let words = &self.library.words;
        match self.library.status? {
            // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH; earlier drivers say CUDA_ERROR_UNKNOWN.
            status if status == 803 || self.management.mismatch || mismatch && status != 0 => Some(grave.finding(
                format!(
                    "libcuda is of driver {} but the kernel module is {} ({words})",
                    self.library.driver_version().unwrap_or("another version"),
                    kernel.unwrap_or("another")
                ),
                "reboot, which loads the kernel module that the update brought; in a container, let none of its own \
                 libcuda hide the host's (rm it, or unset LD_LIBRARY_PATH)",
            )),
            0 => match &self.library.refusal {
                Some(reason) => Some(grave.finding(reason.clone(), "update NVIDIA's driver; see nvidia-smi")),
                None => Some(grave.finding(format!("{path} starts but shows no card"), "see what nvidia-smi -L lists")),
            },
            // CUDA_ERROR_NO_DEVICE
            100 => Some(grave.finding(
                format!("{path} starts but finds no card ({words})"),
                "see whether nvidia-smi lists cards; `sudo dmesg | grep NVRM` says why the kernel driver gave one up",
            )),
            802 => Some(grave.finding(
                format!("CUDA is not ready ({words}): with NVSwitch, Fabric Manager must run first"),
                "start it: sudo systemctl enable --now nvidia-fabricmanager (of the driver's version)",
            )),
            804 => Some(grave.finding(
                format!("{path} is of a compatibility package that this card may not use ({words})"),
                "remove the package cuda-compat or its folder from LD_LIBRARY_PATH, and update the driver on the host",
            )),
            800..=899 => Some(grave.finding(
                format!("{path} does not start ({words})"),
                "see whether nvidia-smi works; reboot after an update of the driver",
            )),
            // CUDA_ERROR_OPERATING_SYSTEM
            304 => Some(grave.finding(
                format!("{path} does not start: the system refused it something ({words})"),
                "check rights of /dev/nvidia*, the container's device rules (cgroups) and limits (ulimit -v, -l)",
            )),
            _ => Some(grave.finding(
                format!("{path} does not start ({words})"),
                "reload the module (sudo modprobe -r nvidia_uvm; sudo modprobe nvidia_uvm), or reboot",
            )),
        }
    }

    /// Cards that CUDA shows but polywarp cannot use.
    fn unusable_cards(&self, routes: &[Route]) -> Vec<Finding> {
        let finding = |card: &super::CudaCard| {
            let label = format!("{} ({})", card.id, card.name);
            let (major, minor) = card.compute_capability;
            if card.is_too_old() {
                let elsewhere = routes.iter().any(|route| {
                    route.usable_gpu && route.api != "cuda" && route.pci_bus.as_deref() == Some(&card.pci_bus)
                });
                let severity = if elsewhere { Severity::Note } else { Severity::Warning };
                let what =
                    format!("{label} has compute capability {major}.{minor}; CUDA kernels here need 7.0 or newer");
                return Some(Finding::new(severity, what, "use the card through Vulkan (wgpu:0, ...)"));
            }
            // `health` reports the compute mode, which it knows from NVML.
            let said = card.unusable.as_ref().is_some_and(|why| why.contains("prohibited"))
                && self.management.cards.iter().any(|state| state.compute_mode.as_deref() == Some("prohibited"));
            let reason = card.unusable.as_ref().filter(|_| !said)?;
            Some(Finding::error(format!("{label} cannot be used: {reason}"), "change that, or use another device"))
        };
        self.cards.iter().filter_map(finding).collect()
    }

    /// No graphics API reaches the cards.
    fn without_graphics(&self, vulkan_file: VulkanFile) -> Option<Finding> {
        // Only where a driver is loaded at all, and not for slices, which no graphics API sees.
        let driven = self.looked && self.kernel.has_card_node() && self.kernel.is_loaded();
        if !driven || vulkan_file == VulkanFile::Present || self.cards.iter().any(|card| card.uuid.starts_with("MIG-"))
        {
            return None;
        }
        // With CUDA at work only the graphics route is lost.
        let severity = if self.cards.is_empty() { Severity::Warning } else { Severity::Note };
        Some(if self.container.inside {
            let given = match self.container.capabilities.as_deref() {
                Some(list) if !list.is_empty() => format!("NVIDIA_DRIVER_CAPABILITIES is `{list}`"),
                _ => "NVIDIA_DRIVER_CAPABILITIES is not set, so compute,utility".to_owned(),
            };
            Finding::new(
                severity,
                format!("no Vulkan on the NVIDIA card: this container has no nvidia_icd.json ({given})"),
                "start the container with NVIDIA_DRIVER_CAPABILITIES=all (or one that contains graphics)",
            )
        } else {
            Finding::new(
                severity,
                "no Vulkan on the NVIDIA card: its driver file nvidia_icd.json is missing",
                "install the driver's graphics libraries (Debian: nvidia-vulkan-icd; Ubuntu: libnvidia-gl-VERSION)",
            )
        })
    }
}

/// The severity where CUDA does not reach a card: less where a graphics API does.
#[derive(Clone, Copy)]
struct Grave(Severity);

impl Grave {
    fn finding(self, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding::new(self.0, what, fix)
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
