//! The state of each card, from NVIDIA's management library (NVML), opened at run time and only when it is there.
//!
//! Any question may have no answer: from an old card, from a virtual one, or because this user may not ask. The value
//! is then `None`, never an invented one. NVML counts all cards, whatever CUDA_VISIBLE_DEVICES holds.

use nvml_wrapper::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{ComputeMode, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use serde::Serialize;

/// The answers of NVML.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Management {
    /// Why there are none.
    pub fault: Option<String>,
    /// Whether the reason is that library and kernel driver have different versions.
    pub mismatch: bool,
    pub cards: Vec<State>,
}

/// The state of one card.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    pub name: String,
    /// `GPU-...`.
    pub uuid: Option<String>,
    /// `0000:3b:00.0`.
    pub pci_bus: Option<String>,
    /// Why the card cannot be asked, if it has failed.
    pub fault: Option<String>,
    /// `default`, `prohibited` or `exclusive`.
    pub compute_mode: Option<String>,
    /// Share of the last moments in which a kernel ran.
    pub busy_percent: Option<u32>,
    /// Total and free memory, bytes.
    pub memory: Option<(u64, u64)>,
    /// Processes that compute or draw on it.
    pub processes: Option<Vec<Process>>,
    /// Error correction: now, and after the next reset.
    pub ecc: Option<(bool, bool)>,
    /// Memory errors that were not corrected, since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// A faulty row or page of memory is replaced at the next reset.
    pub repair_pending: bool,
    /// A faulty row could not be replaced.
    pub repair_failed: bool,
    /// The reasons why its clocks are lowered now, by NVML's names.
    pub throttled_by: Vec<String>,
    pub celsius: Option<u32>,
    /// Power now and its limit, watts.
    pub watts: Option<(u32, u32)>,
    /// Whether the driver stays loaded for the card while nobody uses it.
    pub persistence: Option<bool>,
    /// The UUIDs of its slices, where Multi-Instance GPU is on.
    pub slices: Option<Vec<String>>,
    /// Whether Multi-Instance GPU changes at the next reset.
    pub mig_pending: bool,
}

/// A process that holds memory of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    pub pid: u32,
    /// Its program, where this user may know.
    pub name: Option<String>,
    pub bytes: Option<u64>,
}

/// The library, opened and started.
pub struct Library(Nvml);

/// Why the library is not open.
#[derive(Clone, Debug)]
pub struct Unopened {
    pub fault: String,
    /// Whether library and kernel driver have different versions.
    pub mismatch: bool,
}

/// Opens the library under the name that the driver installs.
pub fn open() -> Result<Library, Unopened> {
    // The wrapper's own choice, the unversioned name, exists only with the toolkit, as a stub.
    open_named(if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" })
}

fn open_named(library: &str) -> Result<Library, Unopened> {
    match std::panic::catch_unwind(|| Nvml::builder().lib_path(library.as_ref()).init()) {
        Ok(Ok(nvml)) => Ok(Library(nvml)),
        Ok(Err(error)) => {
            Err(Unopened { mismatch: matches!(error, NvmlError::LibRmVersionMismatch), fault: words(&error) })
        }
        Err(_) => Err(Unopened { fault: format!("{library} is not usable"), mismatch: false }),
    }
}

impl Library {
    /// The state of every card now, or why none can be asked.
    pub fn cards(&self) -> Result<Vec<State>, String> {
        let count = self.0.device_count().map_err(|error| words(&error))?;
        Ok((0..count).map(|index| card(&self.0, index)).collect())
    }
}

/// Asks NVML about every card.
pub fn probe() -> Management {
    managed(open())
}

fn managed(library: Result<Library, Unopened>) -> Management {
    match library.map(|library| library.cards()) {
        Ok(Ok(cards)) => Management { fault: None, mismatch: false, cards },
        Ok(Err(fault)) => Management { fault: Some(fault), ..Management::default() },
        Err(Unopened { fault, mismatch }) => Management { fault: Some(fault), mismatch, cards: Vec::new() },
    }
}

fn card(nvml: &Nvml, index: u32) -> State {
    match nvml.device_by_index(index) {
        Ok(device) => state(nvml, &device),
        Err(error) => State { name: format!("card {index}"), fault: Some(words(&error)), ..State::default() },
    }
}

fn state(nvml: &Nvml, device: &Device<'_>) -> State {
    let pci_bus = device.pci_info().ok().map(|pci| format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device));
    let memory = device.memory_info();
    let lost = memory.as_ref().err().filter(|error| matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired));
    let fault = lost.map(words);
    // Field ids of nvml.h: NVML_FI_DEV_REMAPPED_PENDING and _FAILURE.
    let field = |id: u32| {
        let values = device.field_values_for(&[FieldId(id)]).ok()?;
        values.into_iter().next()?.ok()?.value.ok()
    };
    let raised = |id: u32| match field(id) {
        Some(SampleValue::U32(n)) => n != 0,
        Some(SampleValue::U64(n)) => n != 0,
        Some(SampleValue::I64(n)) => n != 0,
        Some(SampleValue::F64(_)) | None => false,
    };
    let mig = device.mig_mode().ok();
    let watts = device.power_usage().ok().zip(device.enforced_power_limit().ok());
    State {
        name: device.name().unwrap_or_else(|_| "an NVIDIA card".to_owned()),
        uuid: device.uuid().ok(),
        pci_bus,
        fault,
        compute_mode: device.compute_mode().ok().map(mode),
        busy_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        memory: memory.ok().map(|memory| (memory.total, memory.free)),
        processes: processes(nvml, device),
        ecc: device.is_ecc_enabled().ok().map(|ecc| (ecc.currently_enabled, ecc.pending_enabled)),
        uncorrected: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
        repair_pending: raised(144) || device.are_pages_pending_retired().unwrap_or(false),
        repair_failed: raised(145),
        throttled_by: throttled_by(device),
        celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        watts: watts.map(|(now, limit)| (now / 1000, limit / 1000)),
        persistence: persistence(device),
        slices: mig.as_ref().filter(|mig| mig.current == 1).map(|_| slices(device)),
        mig_pending: mig.is_some_and(|mig| mig.current != mig.pending),
    }
}

#[cfg(target_os = "linux")]
fn persistence(device: &Device<'_>) -> Option<bool> {
    device.is_in_persistent_mode().ok()
}

#[cfg(not(target_os = "linux"))]
fn persistence(_: &Device<'_>) -> Option<bool> {
    None
}

fn mode(mode: ComputeMode) -> String {
    match mode {
        ComputeMode::Default => "default",
        ComputeMode::Prohibited => "prohibited",
        ComputeMode::ExclusiveThread | ComputeMode::ExclusiveProcess => "exclusive",
    }
    .to_owned()
}

fn processes(nvml: &Nvml, device: &Device<'_>) -> Option<Vec<Process>> {
    let computing = device.running_compute_processes();
    let drawing = device.running_graphics_processes();
    if computing.is_err() && drawing.is_err() {
        return None;
    }
    let mut found: Vec<Process> = Vec::new();
    for process in computing.into_iter().chain(drawing).flatten() {
        if found.iter().any(|other| other.pid == process.pid) {
            continue; // computes and draws
        }
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        // One byte longer, because a name of the whole length comes without its terminator.
        let name = nvml.sys_process_name(process.pid, 256).ok().filter(|name| !name.is_empty() && name.len() < 255);
        found.push(Process { pid: process.pid, name, bytes });
    }
    found.sort_by_key(|process| std::cmp::Reverse(process.bytes));
    Some(found)
}

fn throttled_by(device: &Device<'_>) -> Vec<String> {
    let Ok(reasons) = device.current_throttle_reasons() else { return Vec::new() };
    // "Idle" and "none" need no warning.
    let known = [
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, HEAT),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, WARMTH),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, POWER_BRAKE),
        (ThrottleReasons::HW_SLOWDOWN, HARDWARE),
        (ThrottleReasons::SW_POWER_CAP, POWER_CAP),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, SET_CLOCKS),
        (ThrottleReasons::SYNC_BOOST, SYNC_BOOST),
    ];
    known.iter().filter(|(flag, _)| reasons.contains(*flag)).map(|(_, name)| (*name).to_owned()).collect()
}

/// Reasons for lower clocks.
pub const HEAT: &str = "hardware thermal slowdown";
pub const WARMTH: &str = "software thermal slowdown";
pub const POWER_BRAKE: &str = "hardware power brake";
pub const HARDWARE: &str = "hardware slowdown";
pub const POWER_CAP: &str = "software power cap";
pub const SET_CLOCKS: &str = "application clocks";
pub const SYNC_BOOST: &str = "sync boost";

fn slices(device: &Device<'_>) -> Vec<String> {
    let most = device.mig_device_count().unwrap_or(0);
    // Places without a slice give an error.
    let slices = (0..most).filter_map(|index| device.mig_device_by_index(index).ok());
    slices.map(|slice| slice.uuid().unwrap_or_else(|_| "a slice of unknown UUID".to_owned())).collect()
}

fn words(error: &NvmlError) -> String {
    match error {
        // The cause names the file that was searched for.
        NvmlError::LibloadingError(cause) => match std::error::Error::source(cause) {
            Some(source) => format!("{cause}: {source}"),
            None => cause.to_string(),
        },
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_a_fault_and_no_panic() {
        let asked = managed(open_named("libpolywarp-no-such.so.1"));
        assert!(asked.fault.is_some_and(|fault| fault.contains("libpolywarp-no-such")) && asked.cards.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn library_that_is_another_is_a_fault_and_no_panic() {
        let asked = managed(open_named("libc.so.6"));
        assert!(asked.fault.is_some_and(|fault| fault.contains("nvmlInit_v2")) && asked.cards.is_empty());
    }

    #[test]
    fn probe_gives_cards_or_a_fault() {
        let asked = probe();
        assert!(asked.fault.is_none() || asked.cards.is_empty(), "{asked:?}");
        assert!(!asked.mismatch || asked.fault.is_some(), "{asked:?}");
    }
}
