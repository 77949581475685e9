//! The device to use when the user names none, and why each route before it was passed over.

use std::fmt;

use polywarp_core::{Device, DeviceKind, Error, Result};

use super::{DeviceEntry, Opening, cpu_entry, cuda_entries, device_with, wgpu_entries};

/// The environment variable that names the device that [`best`] returns: any name that [`device()`](super::device()) accepts.
pub const DEVICE_VARIABLE: &str = "POLYWARP_DEVICE";

/// The device to use when the user names none: the one that `POLYWARP_DEVICE` names, else the best real GPU, else the CPU.
///
/// # Errors
/// As [`best_with_reasons`].
pub fn best() -> Result<Device> {
    best_with(Opening::default())
}

/// [`best`], opened as `opening` says.
///
/// # Errors
/// As [`best_with_reasons`].
pub fn best_with(opening: Opening) -> Result<Device> {
    best_opened(opening).map(|choice| choice.device)
}

/// The result of [`best_with_reasons`].
#[derive(Clone, Debug)]
pub struct Choice {
    /// The device.
    pub device: Device,
    /// The preferred routes that were not taken, in order of preference, with the reasons.
    pub rejected: Vec<Rejected>,
}

/// A route that was not taken.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The route's id.
    pub id: String,
    /// The device's name.
    pub name: String,
    /// The reason.
    pub reason: Rejection,
}

/// Why a route was not taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rejection {
    /// It computes on the CPU behind a GPU API; it is only taken by name.
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
/// The errors of [`device()`](super::device()) for the name in `POLYWARP_DEVICE`; [`Error::BackendUnavailable`] with
/// every reason when no device is left.
pub fn best_with_reasons() -> Result<Choice> {
    best_opened(Opening::default())
}

fn best_opened(opening: Opening) -> Result<Choice> {
    if let Some(name) = std::env::var_os(DEVICE_VARIABLE).filter(|name| !name.is_empty()) {
        let name = name.to_string_lossy();
        let device = device_with(&name, opening).map_err(|error| named_by_variable(error, &name))?;
        return Ok(Choice { device, rejected: Vec::new() });
    }
    // Each step runs only when the one before it found nothing: loading graphics drivers takes longer than starting CUDA.
    let gpus = std::iter::once_with(cuda_entries).chain(std::iter::once_with(wgpu_entries)).flatten();
    choose(gpus.chain(std::iter::once_with(cpu_entry).flatten()), |entry| entry.open_with(opening))
}

/// `error` of the device that [`DEVICE_VARIABLE`] names: who did not set it in this program must learn of it.
fn named_by_variable(error: Error, name: &str) -> Error {
    match error {
        Error::BackendUnavailable { backend, reason } => {
            Error::BackendUnavailable { backend, reason: format!("{reason}; {DEVICE_VARIABLE}={name} is set") }
        }
        Error::NoSuchDevice { name, available, .. } => {
            Error::NoSuchDevice { name, variable: Some(DEVICE_VARIABLE), available }
        }
        other => other,
    }
}

fn choose(
    entries: impl IntoIterator<Item = DeviceEntry>,
    open: impl Fn(&DeviceEntry) -> Result<Device>,
) -> Result<Choice> {
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
        "this build has none of the features `cpu`, `cuda` and `wgpu`".to_owned()
    } else {
        format!("no device is left: {}", reasons.join("; "))
    };
    Err(Error::BackendUnavailable { backend: "default", reason })
}

#[cfg(all(test, feature = "cpu", feature = "wgpu"))]
mod tests {
    use super::super::tests::entry;
    use super::*;

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
    fn backend_that_the_variable_asks_for_and_is_missing_is_told_with_the_variable() {
        let missing = Error::BackendUnavailable { backend: "cuda", reason: "no driver".to_owned() };
        let told = named_by_variable(missing, "cuda:0").to_string();
        assert_eq!(told, "the cuda backend is not available: no driver; POLYWARP_DEVICE=cuda:0 is set");
        let unknown = Error::NoSuchDevice { name: "gpu".to_owned(), variable: None, available: vec!["cpu".to_owned()] };
        let told = named_by_variable(unknown, "gpu").to_string();
        assert_eq!(told, "no device `gpu`, which POLYWARP_DEVICE names: available are cpu");
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
    fn choose_asks_for_no_more_entries_than_it_needs() {
        let found = std::iter::once(entry("cuda:0", DeviceKind::Discrete, None));
        let never = std::iter::once_with(|| panic!("graphics drivers were loaded"));
        assert_eq!(choose(found.chain(never), |_| Ok(Device::cpu())).unwrap().rejected.len(), 0);
    }

    #[test]
    fn choose_with_nothing_left_gives_every_reason() {
        let entries = vec![entry("wgpu:0", DeviceKind::Software, None), entry("cpu", DeviceKind::Cpu, None)];
        let Err(Error::BackendUnavailable { reason, .. }) = choose_opening(entries, &["cpu"]) else {
            panic!("a device was found")
        };
        assert!(reason.contains("software") && reason.contains("driver refused"), "{reason}");
    }
}
