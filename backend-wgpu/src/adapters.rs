//! Which adapters this machine has, under stable names.
//!
//! Order: adapters that can compute before those that cannot, hardware before software, then the API in order of
//! preference (Vulkan, Metal, DX12, WebGPU, GL), then kind and PCI address; `wgpu:0` is the best one. One card reached
//! through two APIs is listed twice, and each entry names the other route. wgpu's own variables (`WGPU_BACKEND`,
//! `WGPU_ADAPTER_NAME`) choose among adapters; `VK_DRIVER_FILES` is read by the Vulkan loader. Opening is in `open.rs`.

use polywarp_core::{DeviceKind, Error, Result};
use wgpu::{Backend, DeviceType, DownlevelFlags};

use crate::driver::Kept;
#[cfg(not(target_arch = "wasm32"))]
use crate::driver::alone;

/// Storage buffers that a kernel needs at least: a fused map has up to seven inputs and an output, but most have three.
const FEWEST_STORAGE_BUFFERS: u32 = 4;

/// One adapter reached through one API.
#[derive(Clone, Debug)]
pub struct AdapterEntry {
    /// The name it is chosen by: `wgpu:0`.
    pub id: String,
    /// The marketing name.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `gl` or `webgpu`.
    pub api: &'static str,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// Driver name and version.
    pub driver: String,
    /// PCI bus address, where the API tells.
    pub pci_bus: Option<String>,
    /// PCI vendor number; 0 when the API does not tell.
    pub vendor: u32,
    /// PCI device number; 0 when the API does not tell.
    pub device: u32,
    /// Ids of the other entries that are the same card through another API.
    pub other_routes: Vec<String>,
    /// Why it cannot compute, when it cannot.
    pub unusable: Option<String>,
    /// What it can take at most.
    pub limits: wgpu::Limits,
    /// The optional features it has.
    pub features: wgpu::Features,
    pub(crate) adapter: Kept<wgpu::Adapter>,
}

/// Every adapter wgpu finds, best first. Takes tens of milliseconds: drivers are loaded.
///
/// # Errors
/// [`Error::BackendUnavailable`] when there is none, saying what was looked for.
#[cfg(not(target_arch = "wasm32"))]
pub fn adapters() -> Result<Vec<AdapterEntry>> {
    pollster::block_on(adapters_async())
}

/// [`adapters`] for where nothing may block.
///
/// # Errors
/// [`Error::BackendUnavailable`] when there is none.
pub async fn adapters_async() -> Result<Vec<AdapterEntry>> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // API validation layers cost several times the work itself; WGPU_VALIDATION=1 turns them on.
    descriptor.flags = wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL;
    let descriptor = descriptor.with_env();
    let backends = descriptor.backends;
    // Natively the answer is there at once: the future never waits, and the lock is not held across an await.
    #[cfg(not(target_arch = "wasm32"))]
    let found = alone(|| pollster::block_on(enumerate(descriptor)));
    #[cfg(target_arch = "wasm32")]
    let found = enumerate(descriptor).await;
    let wanted = wanted_name();
    let mut entries: Vec<AdapterEntry> = found.into_iter().map(AdapterEntry::describe).collect();
    let before_filter = entries.len();
    if let Some(wanted) = &wanted {
        entries.retain(|entry| entry.name.to_lowercase().contains(wanted.as_str()));
    }
    if entries.is_empty() {
        return Err(nothing_found(backends, wanted.as_deref(), before_filter));
    }
    entries.sort_by_key(AdapterEntry::rank);
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.id = format!("wgpu:{index}");
    }
    link_routes(&mut entries);
    Ok(entries)
}

async fn enumerate(descriptor: wgpu::InstanceDescriptor) -> Vec<Kept<wgpu::Adapter>> {
    let backends = descriptor.backends;
    let found = wgpu::Instance::new(descriptor).enumerate_adapters(backends).await;
    found.into_iter().map(Kept::new).collect()
}

impl AdapterEntry {
    fn describe(adapter: Kept<wgpu::Adapter>) -> AdapterEntry {
        let info = adapter.get_info();
        let limits = adapter.limits();
        let unusable = why_unusable(&adapter, &limits);
        AdapterEntry {
            id: String::new(),
            api: api_name(info.backend),
            kind: kind_of(info.device_type),
            driver: driver_name(&info),
            pci_bus: Some(info.device_pci_bus_id.clone()).filter(|bus| !bus.is_empty()),
            vendor: info.vendor,
            device: info.device,
            name: name_of(&info),
            other_routes: Vec::new(),
            unusable,
            limits,
            features: adapter.features(),
            adapter,
        }
    }

    /// Whether both are one physical card.
    ///
    /// By bus address where both tell it; else by vendor and device number; GL tells at most the vendor, so there the
    /// name decides. Two equal cards in one machine cannot be told apart through GL: both Vulkan entries then name it.
    pub fn same_card(&self, other: &AdapterEntry) -> bool {
        if (self.kind == DeviceKind::Software) != (other.kind == DeviceKind::Software) {
            return false;
        }
        if let (Some(a), Some(b)) = (&self.pci_bus, &other.pci_bus) {
            return a == b;
        }
        if self.device != 0 && other.device != 0 {
            return self.vendor == other.vendor && self.device == other.device;
        }
        let (a, b) = (plain_name(&self.name), plain_name(&other.name));
        !a.is_empty() && (a.contains(&b) || b.contains(&a))
    }

    fn rank(&self) -> (bool, bool, u8, u8, Option<String>, String) {
        let api = match self.api {
            "vulkan" => 0,
            "metal" => 1,
            "dx12" => 2,
            "webgpu" => 3,
            _ => 4,
        };
        let kind = match self.kind {
            DeviceKind::Discrete => 0,
            DeviceKind::Integrated => 1,
            DeviceKind::Virtual => 2,
            _ => 3,
        };
        let software = self.kind == DeviceKind::Software;
        (self.unusable.is_some(), software, api, kind, self.pci_bus.clone(), self.name.clone())
    }
}

/// Fills in `other_routes`: entries of one card through different APIs.
fn link_routes(entries: &mut [AdapterEntry]) {
    for index in 0..entries.len() {
        let this = &entries[index];
        let routes = entries.iter().filter(|other| other.api != this.api && this.same_card(other));
        let routes = routes.map(|other| other.id.clone()).collect();
        entries[index].other_routes = routes;
    }
}

/// Letters and digits of a name up to its driver's own additions ("NVIDIA H200/PCIe/SSE2", "llvmpipe (LLVM ...)").
fn plain_name(name: &str) -> String {
    let head = name.split(['/', '(']).next().unwrap_or_default();
    head.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn why_unusable(adapter: &wgpu::Adapter, limits: &wgpu::Limits) -> Option<String> {
    let downlevel = adapter.get_downlevel_capabilities();
    if !downlevel.flags.contains(DownlevelFlags::COMPUTE_SHADERS) {
        return Some("it has no compute shaders".to_owned());
    }
    let buffers = limits.max_storage_buffers_per_shader_stage;
    if buffers < FEWEST_STORAGE_BUFFERS {
        return Some(format!("kernels need {FEWEST_STORAGE_BUFFERS} storage buffers, it has {buffers}"));
    }
    let info = adapter.get_info();
    if info.backend == Backend::Gl { crate::gl::too_old(&info.driver_info) } else { None }
}

pub(crate) fn api_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Vulkan => "vulkan",
        Backend::Metal => "metal",
        Backend::Dx12 => "dx12",
        Backend::Gl => "gl",
        Backend::BrowserWebGpu => "webgpu",
        Backend::Noop => "noop",
    }
}

pub(crate) fn kind_of(kind: DeviceType) -> DeviceKind {
    match kind {
        DeviceType::DiscreteGpu => DeviceKind::Discrete,
        DeviceType::IntegratedGpu => DeviceKind::Integrated,
        DeviceType::VirtualGpu => DeviceKind::Virtual,
        DeviceType::Cpu => DeviceKind::Software,
        DeviceType::Other => DeviceKind::Other,
    }
}

/// The marketing name. Browsers keep it to themselves.
pub(crate) fn name_of(info: &wgpu::AdapterInfo) -> String {
    if info.name.is_empty() { format!("unnamed {} adapter", api_name(info.backend)) } else { info.name.clone() }
}

pub(crate) fn driver_name(info: &wgpu::AdapterInfo) -> String {
    format!("{} {}", info.driver, info.driver_info).trim().to_owned()
}

#[cfg(not(target_arch = "wasm32"))]
fn wanted_name() -> Option<String> {
    std::env::var("WGPU_ADAPTER_NAME").ok().filter(|name| !name.is_empty()).map(|name| name.to_lowercase())
}

#[cfg(target_arch = "wasm32")]
fn wanted_name() -> Option<String> {
    None
}

fn nothing_found(backends: wgpu::Backends, wanted: Option<&str>, before_filter: usize) -> Error {
    let compiled = backends & wgpu::Instance::enabled_backend_features();
    let apis: Vec<String> = compiled.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    let mut reason = match wanted {
        Some(wanted) if before_filter > 0 => {
            format!("none of {before_filter} adapters is named like WGPU_ADAPTER_NAME={wanted}")
        }
        _ if apis.is_empty() => "WGPU_BACKEND names no API that this program has".to_owned(),
        _ => format!(
            "no adapter through {}; install the GPU's driver and its Vulkan part (Debian: libvulkan1 and, without a GPU, \
             mesa-vulkan-drivers)",
            apis.join(", ")
        ),
    };
    for variable in ["WGPU_BACKEND", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        if let Ok(value) = std::env::var(variable) {
            reason.push_str(&format!("; {variable}={value} is set"));
        }
    }
    Error::BackendUnavailable { backend: "wgpu", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_name_drops_driver_additions() {
        assert_eq!(plain_name("NVIDIA H200/PCIe/SSE2"), "nvidiah200");
        assert_eq!(plain_name("llvmpipe (LLVM 15.0.6, 256 bits)"), "llvmpipe");
    }

    #[test]
    fn nothing_found_names_what_was_looked_for() {
        let error = nothing_found(wgpu::Backends::VULKAN, Some("h900"), 2);
        let Error::BackendUnavailable { backend: "wgpu", reason } = error else { panic!("{error}") };
        assert!(reason.contains("h900"), "{reason}");
    }
}
