//! Invented machines for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Finding, Severity};
use super::files::{Files, Kernel, PciCard};
use super::library::Library;
use super::nvml::{Management, State};
use super::{CudaCard, Nvidia, Route, VulkanFile};

/// A file system in memory.
#[derive(Clone, Default)]
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    closed: BTreeSet<String>,
    log: Option<String>,
}

impl Tree {
    pub fn file(mut self, path: &str, text: &str) -> Tree {
        self.files.insert(path.to_owned(), text.as_bytes().to_vec());
        self
    }

    /// A file that this user may not open.
    pub fn closed(self, path: &str) -> Tree {
        let mut tree = self.file(path, "");
        tree.closed.insert(path.to_owned());
        tree
    }

    pub fn link_to(mut self, path: &str, target: &str) -> Tree {
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }

    pub fn log(self, text: &str) -> Tree {
        Tree { log: Some(text.to_owned()), ..self }
    }

    pub fn pci(self, address: &str, vendor: &str, class: &str, driver: Option<&str>) -> Tree {
        let folder = format!("/sys/bus/pci/devices/{address}");
        let mut tree = self.file(&format!("{folder}/vendor"), &format!("{vendor}\n"));
        tree = tree.file(&format!("{folder}/class"), &format!("{class}\n"));
        if let Some(driver) = driver {
            tree.links.insert(format!("{folder}/driver"), format!("../../../bus/pci/drivers/{driver}"));
        }
        tree
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let folder = format!("{path}/");
        let below = self.files.keys().chain(self.links.keys()).filter_map(|file| file.strip_prefix(&folder));
        let names: BTreeSet<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.keys().any(|file| file == path || file.starts_with(&folder))
    }

    fn opens(&self, path: &str) -> bool {
        self.exists(path) && !self.closed.contains(path)
    }

    fn kernel_log(&self) -> Option<String> {
        self.log.clone()
    }
}

/// A machine with one card and no faults.
pub fn well() -> Nvidia {
    Nvidia {
        looked: true,
        bus: vec![PciCard { pci_bus: "0000:3b:00.0".to_owned(), driver: Some("nvidia".to_owned()) }],
        kernel: Kernel {
            version: Some("570.86.15".to_owned()),
            module_loaded: true,
            nodes: ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"].map(str::to_owned).to_vec(),
            uuids: vec!["GPU-aaaa".to_owned()],
            ..Kernel::default()
        },
        library: Library {
            path: Some("/usr/lib/libcuda.so.570.86.15".to_owned()),
            cuda_version: Some(12_080),
            status: Some(0),
            ..Library::default()
        },
        cards: vec![CudaCard {
            id: "cuda:0".to_owned(),
            name: "NVIDIA Test".to_owned(),
            uuid: "GPU-aaaa".to_owned(),
            pci_bus: "0000:3b:00.0".to_owned(),
            compute_capability: (9, 0),
            unusable: None,
            ptx: Some((7, 8)),
        }],
        management: Management { fault: None, mismatch: false, cards: vec![state()] },
        ..Nvidia::default()
    }
}

/// The state of that machine's card.
pub fn state() -> State {
    State {
        name: "NVIDIA Test".to_owned(),
        uuid: Some("GPU-aaaa".to_owned()),
        pci_bus: Some("0000:3b:00.0".to_owned()),
        compute_mode: Some("default".to_owned()),
        memory: Some((80 << 30, 79 << 30)),
        processes: Some(Vec::new()),
        ecc: Some((true, true)),
        uncorrected: Some(0),
        persistence: Some(true),
        ..State::default()
    }
}

/// The machine of [`well`] whose CUDA shows no card.
pub fn without_cuda(library: Library) -> Nvidia {
    Nvidia { cards: Vec::new(), library, ..well() }
}

pub fn with_state(change: impl FnOnce(&mut State)) -> Nvidia {
    let mut machine = well();
    change(&mut machine.management.cards[0]);
    machine
}

/// The routes of [`well`]: CUDA and Vulkan.
pub fn both_routes() -> Vec<Route> {
    let route = |api: &str| Route {
        name: "NVIDIA Test".to_owned(),
        api: api.to_owned(),
        pci_bus: Some("0000:3b:00.0".to_owned()),
        usable_gpu: true,
    };
    vec![route("cuda"), route("vulkan")]
}

/// The findings for a machine that no graphics API reaches, though Vulkan's driver file is there.
pub fn found(machine: &Nvidia) -> Vec<Finding> {
    machine.findings(&[], VulkanFile::Present)
}

/// The severity of the only finding whose text contains `what` and whose fix contains `fix`; any other error fails the test.
pub fn only(found: &[Finding], what: &str, fix: &str) -> Severity {
    let (matching, others): (Vec<&Finding>, Vec<&Finding>) =
        found.iter().partition(|finding| finding.what.contains(what) && finding.fix.contains(fix));
    assert_eq!(matching.len(), 1, "`{what}` / `{fix}` in {found:#?}");
    assert!(others.iter().all(|other| other.severity != Severity::Error), "said twice: {found:#?}");
    assert!(found.iter().all(|finding| !finding.fix.is_empty() && !finding.fix.contains('\n')));
    matching[0].severity
}

#[test]
fn well_machine_has_no_findings() {
    let found = well().findings(&both_routes(), VulkanFile::Present);
    assert!(found.is_empty(), "{found:#?}");
}
