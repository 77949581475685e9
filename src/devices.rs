//! Which devices there are, and which one to use.
//!
//! [`devices`] lists every route to a processor, the unusable ones with their reason; nothing is opened before
//! [`DeviceEntry::open`]. [`best`] walks from real GPUs to the CPU and can say why it passed over each
//! ([`best_with_reasons`]). The decision to know: a software GPU is never chosen unless it is asked for by name, since it
//! computes on the CPU, only slower than the CPU device. `POLYWARP_DEVICE` names the device that [`best`] returns.

use std::fmt;

use polywarp_core::{Device, DeviceKind, Error, Result};

/// The environment variable that chooses what [`best`] returns: `cpu`, `wgpu:0`, ...
pub const DEVICE_VARIABLE: &str = "POLYWARP_DEVICE";

/// One route to a device, before it is opened.
#[derive(Clone, Debug)]
pub struct DeviceEntry {
    /// The name it is chosen by: `cpu`, `wgpu:0`; only `wgpu` when that whole backend is not available.
    pub id: String,
    /// The marketing name; empty when nothing was found.
    pub name: String,
    /// `cpu`, `vulkan`, `metal`, `dx12`, `gl`, ...; empty when nothing was found.
    pub api: String,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// Driver name and version.
    pub driver: String,
    /// Ids of the entries that are the same card through another API.
    pub other_routes: Vec<String>,
    /// Why it cannot be used, when it cannot.
    pub unusable: Option<Error>,
    route: Route,
}

#[derive(Clone, Debug)]
enum Route {
    #[cfg(feature = "cpu")]
    Cpu,
    #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
    Wgpu(Box<polywarp_wgpu::AdapterEntry>),
    #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
    Missing,
}

impl DeviceEntry {
    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when it cannot be used.
    pub fn open(&self) -> Result<Device> {
        if let Some(reason) = &self.unusable {
            return Err(reason.clone());
        }
        self.open_route()
    }

    #[cfg(any(feature = "cpu", all(feature = "wgpu", not(target_arch = "wasm32"))))]
    fn open_route(&self) -> Result<Device> {
        match &self.route {
            #[cfg(feature = "cpu")]
            Route::Cpu => Ok(Device::cpu()),
            #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
            Route::Wgpu(adapter) => Ok(Device::new(adapter.open(polywarp_wgpu::Options::default())?)),
            #[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
            Route::Missing => Err(Error::NoSuchDevice { name: self.id.clone(), available: Vec::new() }),
        }
    }

    #[cfg(not(any(feature = "cpu", all(feature = "wgpu", not(target_arch = "wasm32")))))]
    fn open_route(&self) -> Result<Device> {
        match self.route {}
    }

    /// Whether this is a GPU in hardware: what [`best`] takes before the CPU.
    pub fn is_real_gpu(&self) -> bool {
        !matches!(self.kind, DeviceKind::Cpu | DeviceKind::Software) && !self.name.is_empty()
    }
}

/// Every route to a device that this build knows: GPUs, best first, then the CPU.
///
/// Takes tens of milliseconds: graphics drivers are loaded. In a browser GPUs are found asynchronously instead, by
/// `polywarp::wgpu::adapters_async`.
pub fn devices() -> Vec<DeviceEntry> {
    wgpu_entries().into_iter().chain(cpu_entry()).collect()
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
        Err(error) => {
            return vec![DeviceEntry {
                id: "wgpu".to_owned(),
                name: String::new(),
                api: String::new(),
                kind: DeviceKind::Other,
                driver: String::new(),
                other_routes: Vec::new(),
                unusable: Some(error),
                route: Route::Missing,
            }];
        }
    };
    let entry = |adapter: polywarp_wgpu::AdapterEntry| DeviceEntry {
        id: adapter.id.clone(),
        name: adapter.name.clone(),
        api: adapter.api.to_owned(),
        kind: adapter.kind,
        driver: adapter.driver.clone(),
        other_routes: adapter.other_routes.clone(),
        unusable: adapter.unusable.as_ref().map(|reason| Error::BackendUnavailable {
            backend: "wgpu",
            reason: format!("{} ({}) cannot be used: {reason}", adapter.id, adapter.name),
        }),
        route: Route::Wgpu(Box::new(adapter)),
    };
    adapters.into_iter().map(entry).collect()
}

/// The device called `name`: `cpu`, `wgpu:0`, ...
///
/// # Errors
/// [`Error::NoSuchDevice`] listing the names there are; [`Error::BackendUnavailable`] when it cannot be opened.
pub fn device(name: &str) -> Result<Device> {
    #[cfg(feature = "cpu")]
    if name == "cpu" {
        return Ok(Device::cpu()); // without loading graphics drivers
    }
    let entries = devices();
    match entries.iter().find(|entry| entry.id == name) {
        Some(entry) => entry.open(),
        None => {
            // A backend that is not available at all explains more than a list without it.
            let backend = name.split(':').next().unwrap_or_default();
            if let Some(why) = entries.iter().find(|entry| entry.id == backend).and_then(|e| e.unusable.clone()) {
                return Err(why);
            }
            let usable = entries.into_iter().filter(|entry| entry.unusable.is_none());
            Err(Error::NoSuchDevice { name: name.to_owned(), available: usable.map(|entry| entry.id).collect() })
        }
    }
}

/// The device to use when nobody chose one: what `POLYWARP_DEVICE` names, else the best real GPU, else the CPU.
///
/// # Errors
/// As [`best_with_reasons`].
pub fn best() -> Result<Device> {
    best_with_reasons().map(|choice| choice.device)
}

/// What [`best_with_reasons`] found.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The device.
    pub device: Device,
    /// What would have been preferred, in that order, and why it was not taken.
    pub rejected: Vec<Rejected>,
}

/// A route that was not taken.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The route's id.
    pub id: String,
    /// The device's name.
    pub name: String,
    /// Why.
    pub reason: Rejection,
}

/// Why a route was not taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rejection {
    /// It computes on the CPU behind a GPU API; it is taken when named.
    Software,
    /// It cannot compute, or its backend cannot start.
    Unusable(Error),
    /// It looked usable but did not open.
    OpenFailed(Error),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Rejection::Software => {
                write!(
                    f,
                    "{} ({}): a GPU in software; name it to use it ({DEVICE_VARIABLE}={})",
                    self.id, self.name, self.id
                )
            }
            Rejection::Unusable(error) => write!(f, "{}: {error}", self.id),
            Rejection::OpenFailed(error) => write!(f, "{} ({}): {error}", self.id, self.name),
        }
    }
}

/// [`best`], and why each route before it was passed over.
///
/// # Errors
/// What [`device()`] says of the name in `POLYWARP_DEVICE`; [`Error::BackendUnavailable`] with every reason when no device
/// is left.
pub fn best_with_reasons() -> Result<Choice> {
    if let Some(name) = std::env::var_os(DEVICE_VARIABLE).filter(|name| !name.is_empty()) {
        return Ok(Choice { device: device(&name.to_string_lossy())?, rejected: Vec::new() });
    }
    choose(devices(), DeviceEntry::open)
}

fn choose(entries: Vec<DeviceEntry>, open: impl Fn(&DeviceEntry) -> Result<Device>) -> Result<Choice> {
    let mut rejected: Vec<Rejected> = Vec::new();
    for entry in entries {
        let reason = match &entry.unusable {
            Some(error) => Rejection::Unusable(error.clone()),
            None if entry.kind == DeviceKind::Software => Rejection::Software,
            None => match open(&entry) {
                Ok(device) => return Ok(Choice { device, rejected }),
                Err(error) => Rejection::OpenFailed(error),
            },
        };
        rejected.push(Rejected { id: entry.id, name: entry.name, reason });
    }
    let reasons: Vec<String> = rejected.iter().map(Rejected::to_string).collect();
    let reason = if reasons.is_empty() {
        "this build has neither the feature `cpu` nor `wgpu`".to_owned()
    } else {
        format!("no device is left: {}", reasons.join("; "))
    };
    Err(Error::BackendUnavailable { backend: "default", reason })
}

#[cfg(all(test, feature = "cpu", feature = "wgpu"))]
mod tests {
    use super::*;

    fn entry(id: &str, kind: DeviceKind, unusable: Option<&str>) -> DeviceEntry {
        DeviceEntry {
            id: id.to_owned(),
            name: format!("card {id}"),
            api: "vulkan".to_owned(),
            kind,
            driver: String::new(),
            other_routes: Vec::new(),
            unusable: unusable.map(|r| Error::BackendUnavailable { backend: "wgpu", reason: r.to_owned() }),
            route: Route::Missing,
        }
    }

    fn choose_opening(entries: Vec<DeviceEntry>, broken: &[&str]) -> Result<(Vec<String>, Choice)> {
        let opened = std::cell::RefCell::new(Vec::new());
        let choice = choose(entries, |entry| {
            opened.borrow_mut().push(entry.id.clone());
            if broken.contains(&entry.id.as_str()) {
                return Err(Error::BackendUnavailable { backend: "wgpu", reason: "driver refused".to_owned() });
            }
            Ok(Device::cpu())
        })?;
        Ok((opened.into_inner(), choice))
    }

    #[test]
    fn choose_passes_over_software_broken_and_unusable() {
        let entries = vec![
            entry("wgpu:0", DeviceKind::Discrete, Some("no compute shaders")),
            entry("wgpu:1", DeviceKind::Integrated, None),
            entry("wgpu:2", DeviceKind::Software, None),
            entry("cpu", DeviceKind::Cpu, None),
        ];
        let (opened, choice) = choose_opening(entries, &["wgpu:1"]).unwrap();
        assert_eq!(opened, ["wgpu:1", "cpu"], "software is not even opened");
        let reasons: Vec<_> = choice.rejected.iter().map(|r| (r.id.as_str(), &r.reason)).collect();
        assert!(
            matches!(
                reasons[..],
                [
                    ("wgpu:0", Rejection::Unusable(_)),
                    ("wgpu:1", Rejection::OpenFailed(_)),
                    ("wgpu:2", Rejection::Software)
                ]
            ),
            "{reasons:?}"
        );
    }

    #[test]
    fn choose_takes_a_real_gpu_before_the_cpu() {
        let entries = vec![entry("wgpu:0", DeviceKind::Discrete, None), entry("cpu", DeviceKind::Cpu, None)];
        let (opened, choice) = choose_opening(entries, &[]).unwrap();
        assert_eq!(opened, ["wgpu:0"]);
        assert!(choice.rejected.is_empty());
    }

    #[test]
    fn choose_with_nothing_left_gives_every_reason() {
        let entries = vec![entry("wgpu:0", DeviceKind::Software, None), entry("cpu", DeviceKind::Cpu, None)];
        let Err(Error::BackendUnavailable { reason, .. }) = choose_opening(entries, &["cpu"]) else {
            panic!("a device was found")
        };
        assert!(reason.contains("software") && reason.contains("driver refused"), "{reason}");
    }

    #[test]
    fn device_unknown_name_lists_what_there_is() {
        match device("cuda:7") {
            Err(Error::NoSuchDevice { name, available }) => {
                assert_eq!(name, "cuda:7");
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
