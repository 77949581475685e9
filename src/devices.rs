//! Lists the devices of this machine, and chooses the one to use.
//!
//! [`devices`] lists every route to a processor, the unusable ones with their reason; nothing is opened before
//! [`DeviceEntry::open`]. [`best`] tries CUDA, then wgpu's real GPUs, then the CPU, and can say why it passed over each
//! ([`best_with_reasons`]); it loads no graphics driver where CUDA works. The decision to know: a software GPU is never
//! chosen unless the user names it, since it computes on the CPU, only slower than the CPU device. `POLYWARP_DEVICE`
//! names the device that [`best`] returns.

use std::time::Duration;

use polywarp_core::{Device, DeviceKind, Error, Result};

mod best;

pub use best::{Choice, DEVICE_VARIABLE, Rejected, Rejection, best, best_with, best_with_reasons};

/// One route to a device, before it is opened.
#[derive(Clone, Debug)]
pub struct DeviceEntry {
    /// The name by which it is chosen: `cpu`, `wgpu:0`, `cuda:0`; only `wgpu` or `cuda` when that whole backend is not available.
    pub id: String,
    /// The marketing name; empty when nothing was found.
    pub name: String,
    /// `cpu`, `cuda`, `vulkan`, `metal`, `dx12`, `gl`, ...; empty when nothing was found.
    pub api: String,
    /// The kind of processor.
    pub kind: DeviceKind,
    /// Driver name and version.
    pub driver: String,
    /// PCI bus address, where the API has it: the same on every route to one card.
    pub pci_bus: Option<String>,
    /// Ids of the entries that are the same card through another API.
    pub other_routes: Vec<String>,
    /// Why it cannot be used, if it cannot.
    pub unusable: Option<Error>,
    route: Route,
}

#[derive(Clone, Debug)]
enum Route {
    #[cfg(feature = "cpu")]
    Cpu,
    #[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
    Cuda(Box<polywarp_cuda::CardEntry>),
    #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
    Wgpu(Box<polywarp_wgpu::AdapterEntry>),
    #[cfg(all(any(feature = "wgpu", feature = "cuda-unpinned"), not(target_arch = "wasm32")))]
    Missing,
}

/// How to open a device. [`device()`] and [`DeviceEntry::open`] use [`Opening::default`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// The longest wait for a GPU: beyond it the device counts as lost ([`Error::DeviceLost`]). `None` waits for ever.
    /// Set it for kernels that may never end. The CPU computes within the call, so nothing waits for it.
    pub patience: Option<Duration>,
}

impl Opening {
    /// Sets the patience.
    pub fn patience(mut self, patience: Option<Duration>) -> Opening {
        self.patience = patience;
        self
    }

    #[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
    fn cuda(self) -> polywarp_cuda::Options {
        polywarp_cuda::Options { patience: self.patience, ..polywarp_cuda::Options::default() }
    }

    #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
    fn wgpu(self) -> polywarp_wgpu::Options {
        polywarp_wgpu::Options { patience: self.patience, ..polywarp_wgpu::Options::default() }
    }
}

impl DeviceEntry {
    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when it cannot be used.
    pub fn open(&self) -> Result<Device> {
        self.open_with(Opening::default())
    }

    /// Opens the device as `opening` says.
    ///
    /// # Errors
    /// As [`DeviceEntry::open`].
    pub fn open_with(&self, opening: Opening) -> Result<Device> {
        if let Some(reason) = &self.unusable {
            return Err(reason.clone());
        }
        self.open_route(opening)
    }

    #[cfg(any(feature = "cpu", all(any(feature = "wgpu", feature = "cuda-unpinned"), not(target_arch = "wasm32"))))]
    fn open_route(&self, opening: Opening) -> Result<Device> {
        let _ = opening; // the CPU has no use for it
        match &self.route {
            #[cfg(feature = "cpu")]
            Route::Cpu => Ok(Device::cpu()),
            #[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
            Route::Cuda(card) => Ok(Device::new(card.open(opening.cuda())?)),
            #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
            Route::Wgpu(adapter) => Ok(Device::new(adapter.open(opening.wgpu())?)),
            #[cfg(all(any(feature = "wgpu", feature = "cuda-unpinned"), not(target_arch = "wasm32")))]
            Route::Missing => Err(Error::NoSuchDevice { name: self.id.clone(), variable: None, available: Vec::new() }),
        }
    }

    #[cfg(not(any(
        feature = "cpu",
        all(any(feature = "wgpu", feature = "cuda-unpinned"), not(target_arch = "wasm32"))
    )))]
    fn open_route(&self, _opening: Opening) -> Result<Device> {
        match self.route {}
    }

    /// Whether this is a hardware GPU, which [`best`] takes before the CPU.
    pub fn is_real_gpu(&self) -> bool {
        !matches!(self.kind, DeviceKind::Cpu | DeviceKind::Software) && !self.name.is_empty()
    }
}

/// Every route to a device that this build knows: GPUs, best first (CUDA, then wgpu), then the CPU. One card reached in
/// two ways is two entries that name each other.
///
/// Takes tens of milliseconds: graphics drivers are loaded. In a browser GPUs are found asynchronously instead, by
/// `polywarp::wgpu::adapters_async`.
pub fn devices() -> Vec<DeviceEntry> {
    let mut entries: Vec<DeviceEntry> = cuda_entries().into_iter().chain(wgpu_entries()).chain(cpu_entry()).collect();
    link_routes(&mut entries);
    entries
}

/// Adds to `other_routes` the entries of one card through different backends, because each backend knows only its own.
fn link_routes(entries: &mut [DeviceEntry]) {
    for index in 0..entries.len() {
        let this = &entries[index];
        let same = |other: &&DeviceEntry| other.id != this.id && other.api != this.api && same_card(this, other);
        let mut routes: Vec<String> = entries.iter().filter(same).map(|other| other.id.clone()).collect();
        // A card's GL entry has no bus address; its Vulkan entry, which has one, names the GL entry as a route to the same card.
        routes.extend(entries.iter().filter(same).flat_map(|other| other.other_routes.iter().cloned()));
        for route in routes {
            let this = &mut entries[index];
            if route != this.id && !this.other_routes.contains(&route) {
                this.other_routes.push(route);
            }
        }
    }
}

fn same_card(a: &DeviceEntry, b: &DeviceEntry) -> bool {
    let software = |entry: &DeviceEntry| matches!(entry.kind, DeviceKind::Software | DeviceKind::Cpu);
    a.pci_bus.is_some() && a.pci_bus == b.pci_bus && !software(a) && !software(b)
}

/// An entry that stands for a backend that is not available.
#[cfg(all(any(feature = "wgpu", feature = "cuda-unpinned"), not(target_arch = "wasm32")))]
fn missing(backend: &str, error: Error) -> DeviceEntry {
    DeviceEntry {
        id: backend.to_owned(),
        name: String::new(),
        api: String::new(),
        kind: DeviceKind::Other,
        driver: String::new(),
        pci_bus: None,
        other_routes: Vec::new(),
        unusable: Some(error),
        route: Route::Missing,
    }
}

#[cfg(not(all(feature = "cuda-unpinned", not(target_arch = "wasm32"))))]
fn cuda_entries() -> Vec<DeviceEntry> {
    Vec::new()
}

#[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
fn cuda_entries() -> Vec<DeviceEntry> {
    let cards = match polywarp_cuda::cards() {
        Ok(cards) => cards,
        Err(error) => return vec![missing("cuda", error)],
    };
    let entry = |card: polywarp_cuda::CardEntry| DeviceEntry {
        id: card.id.clone(),
        name: card.name.clone(),
        api: "cuda".to_owned(),
        kind: card.kind,
        driver: card.driver.clone(),
        // Graphics APIs see a whole card, or none when it is cut into slices.
        pci_bus: Some(card.pci_bus.clone()).filter(|_| !card.mig),
        other_routes: Vec::new(),
        unusable: card.unusable.as_ref().map(|reason| Error::BackendUnavailable {
            backend: "cuda",
            reason: format!("{} ({}) cannot be used: {reason}", card.id, card.name),
        }),
        route: Route::Cuda(Box::new(card)),
    };
    cards.into_iter().map(entry).collect()
}

#[cfg(not(feature = "cpu"))]
fn cpu_entry() -> Option<DeviceEntry> {
    None
}

#[cfg(feature = "cpu")]
fn cpu_entry() -> Option<DeviceEntry> {
    let device = Device::cpu();
    let info = device.info();
    Some(DeviceEntry {
        id: info.id.clone(),
        name: info.name.clone(),
        api: info.api.clone(),
        kind: info.kind,
        driver: info.driver.clone(),
        pci_bus: None,
        other_routes: Vec::new(),
        unusable: None,
        route: Route::Cpu,
    })
}

#[cfg(not(all(feature = "wgpu", not(target_arch = "wasm32"))))]
fn wgpu_entries() -> Vec<DeviceEntry> {
    Vec::new()
}

#[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
fn wgpu_entries() -> Vec<DeviceEntry> {
    let adapters = match polywarp_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(error) => return vec![missing("wgpu", error)],
    };
    let entry = |adapter: polywarp_wgpu::AdapterEntry| DeviceEntry {
        id: adapter.id.clone(),
        name: adapter.name.clone(),
        api: adapter.api.to_owned(),
        kind: adapter.kind,
        driver: adapter.driver.clone(),
        pci_bus: adapter.pci_bus.clone(),
        other_routes: adapter.other_routes.clone(),
        unusable: adapter.unusable.as_ref().map(|reason| Error::BackendUnavailable {
            backend: "wgpu",
            reason: format!("{} ({}) cannot be used: {reason}", adapter.id, adapter.name),
        }),
        route: Route::Wgpu(Box::new(adapter)),
    };
    adapters.into_iter().map(entry).collect()
}

/// The device called `name`: `cpu`, `wgpu:0`, `cuda:0`; the PCI address of a GPU (`0000:3b:00.0`, as `lspci -D` and
/// nvidia-smi write it), through CUDA where CUDA has the card; or the UUID of an NVIDIA card (`GPU-...`, `MIG-...`, or
/// the beginning of one).
///
/// # Errors
/// [`Error::NoSuchDevice`] with the list of names; [`Error::BackendUnavailable`] when it cannot be opened.
pub fn device(name: &str) -> Result<Device> {
    device_with(name, Opening::default())
}

/// [`device()`], opened as `opening` says.
///
/// # Errors
/// As [`device()`].
pub fn device_with(name: &str, opening: Opening) -> Result<Device> {
    #[cfg(feature = "cpu")]
    if name == "cpu" {
        return Ok(Device::cpu()); // without loading graphics drivers
    }
    #[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
    if name == "cuda" || ["cuda:", "GPU-", "MIG-"].iter().any(|prefix| name.starts_with(prefix)) {
        let card = polywarp_cuda::card(if name == "cuda" { "cuda:0" } else { name })?; // likewise
        return Ok(Device::new(card.open(opening.cuda())?));
    }
    let address = pci_address(name);
    #[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
    if let Some(card) = address.as_deref().and_then(|address| polywarp_cuda::card(address).ok()) {
        return Ok(Device::new(card.open(opening.cuda())?)); // likewise
    }
    let entries = devices();
    match named(&entries, name, address.as_deref()) {
        Some(entry) => entry.open_with(opening),
        None => {
            // The error of a backend that is not available explains more than a list of names without it.
            let backend = name.split(':').next().unwrap_or_default();
            if let Some(why) = entries.iter().find(|entry| entry.id == backend).and_then(|e| e.unusable.clone()) {
                return Err(why);
            }
            let usable = entries.into_iter().filter(|entry| entry.unusable.is_none());
            Err(Error::NoSuchDevice {
                name: name.to_owned(),
                variable: None,
                available: usable.map(|entry| entry.id).collect(),
            })
        }
    }
}

/// The entry whose id is `name`, or else the best at the PCI address.
fn named<'a>(entries: &'a [DeviceEntry], name: &str, address: Option<&str>) -> Option<&'a DeviceEntry> {
    let at = |entry: &&DeviceEntry| address.is_some() && entry.pci_bus.as_deref() == address;
    let by_id = entries.iter().find(|entry| entry.id == name);
    by_id.or_else(|| entries.iter().filter(at).min_by_key(|entry| entry.unusable.is_some()))
}

/// `name` as a PCI address, if it is one, in the spelling of `DeviceEntry::pci_bus`: nvidia-smi writes capitals and
/// eight digits of the domain.
fn pci_address(name: &str) -> Option<String> {
    let (front, function) = name.split_once('.')?;
    let [domain, bus, device]: [&str; 3] = front.split(':').collect::<Vec<_>>().try_into().ok()?;
    let hex = |digits: &str, most: usize| {
        let sound = (1..=most).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| sound)
    };
    let (domain, bus, device, function) = (hex(domain, 8)?, hex(bus, 2)?, hex(device, 2)?, hex(function, 1)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(all(test, feature = "cpu", feature = "wgpu"))]
mod tests {
    use super::*;

    pub(super) fn entry(id: &str, kind: DeviceKind, unusable: Option<&str>) -> DeviceEntry {
        DeviceEntry {
            id: id.to_owned(),
            name: format!("card {id}"),
            api: "vulkan".to_owned(),
            kind,
            driver: String::new(),
            pci_bus: None,
            other_routes: Vec::new(),
            unusable: unusable.map(|r| Error::BackendUnavailable { backend: "wgpu", reason: r.to_owned() }),
            route: Route::Missing,
        }
    }

    #[test]
    fn routes_to_one_card_name_each_other() {
        let card = |id: &str, api: &str, pci_bus: Option<&str>, other_routes: &[&str]| DeviceEntry {
            api: api.to_owned(),
            pci_bus: pci_bus.map(str::to_owned),
            other_routes: other_routes.iter().map(|&id| id.to_owned()).collect(),
            ..entry(id, DeviceKind::Discrete, None)
        };
        let mut entries = vec![
            card("cuda:0", "cuda", Some("0000:3b:00.0"), &[]),
            card("cuda:1", "cuda", Some("0000:af:00.0"), &[]),
            card("wgpu:0", "vulkan", Some("0000:af:00.0"), &["wgpu:2"]),
            card("wgpu:1", "vulkan", Some("0000:3b:00.0"), &[]),
            card("wgpu:2", "gl", None, &["wgpu:0"]),
            card("cpu", "cpu", None, &[]),
        ];
        link_routes(&mut entries);
        let routes: Vec<_> = entries.iter().map(|entry| entry.other_routes.join(" ")).collect();
        assert_eq!(routes, ["wgpu:1", "wgpu:0 wgpu:2", "wgpu:2 cuda:1", "cuda:0", "wgpu:0", ""]);
    }

    #[test]
    fn pci_addresses_are_known_in_every_spelling() {
        for name in ["0000:3b:00.0", "00000000:3B:00.0", "0:3b:0.0", "0000:3B:00.0"] {
            assert_eq!(pci_address(name).as_deref(), Some("0000:3b:00.0"), "{name}");
        }
        assert_eq!(pci_address("00010000:AF:1f.7").as_deref(), Some("10000:af:1f.7"));
        for name in [
            "",
            "cuda:0",
            "wgpu:0",
            "3b:00.0",
            "0000:3b:00",
            "0000:3b:00.",
            "0000:3bc:00.0",
            "0000:+b:00.0",
            "a.b:c:d.0",
        ] {
            assert_eq!(pci_address(name), None, "{name}");
        }
    }

    #[test]
    fn named_takes_the_best_usable_route_at_an_address() {
        let at = |id: &str, bus: &str, unusable: Option<&str>| DeviceEntry {
            pci_bus: Some(bus.to_owned()),
            ..entry(id, DeviceKind::Discrete, unusable)
        };
        let entries = [
            at("cuda:0", "0000:3b:00.0", Some("prohibited")),
            at("wgpu:0", "0000:af:00.0", Some("old driver")),
            at("wgpu:1", "0000:3b:00.0", None),
            at("wgpu:2", "0000:3b:00.0", None),
            entry("cpu", DeviceKind::Cpu, None),
        ];
        let found = |name: &str| named(&entries, name, pci_address(name).as_deref()).map(|entry| entry.id.as_str());
        assert_eq!(found("0000:3b:00.0"), Some("wgpu:1"));
        assert_eq!(found("00000000:AF:00.0"), Some("wgpu:0"), "which says why it cannot be used");
        assert_eq!((found("0000:3b:00.1"), found("cuda:0"), found("cpu")), (None, Some("cuda:0"), Some("cpu")));
        assert_eq!(found("nothing"), None, "an entry without an address is no match for a name without one");
    }

    #[cfg(feature = "cuda-unpinned")]
    #[test]
    fn device_of_a_missing_backend_says_why_it_is_missing() {
        if polywarp_cuda::cards().is_ok() {
            println!("not run: this machine has CUDA");
            return;
        }
        for name in ["cuda", "cuda:0", "GPU-1234"] {
            let refused = device(name);
            assert!(matches!(refused, Err(Error::BackendUnavailable { backend: "cuda", .. })), "{name}: {refused:?}");
        }
        let first = &devices()[0];
        assert_eq!((first.id.as_str(), first.is_real_gpu()), ("cuda", false));
    }

    #[test]
    fn device_unknown_name_lists_what_there_is() {
        match device("wgpu:77") {
            Err(Error::NoSuchDevice { name, available, .. }) => {
                assert_eq!(name, "wgpu:77");
                assert!(available.contains(&"cpu".to_owned()), "{available:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(device("cpu").unwrap().id(), "cpu");
    }

    #[test]
    fn devices_ends_with_the_cpu_and_names_are_unique() {
        let entries = devices();
        assert_eq!(entries.last().unwrap().id, "cpu");
        let mut ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), entries.len());
    }
}
