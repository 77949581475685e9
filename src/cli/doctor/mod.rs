//! `polywarp doctor`: why a GPU is not found or does not work correctly, and how to fix it.
//!
//! Three steps: examine the system (`system.rs`) and NVIDIA's part of it (`nvidia/`), open every device and let it
//! compute something small (`smoke.rs`), and draw conclusions. Findings are errors, warnings or notes. An error means
//! that something is broken: a loader that cannot be opened although there is a GPU, a file that is named but missing,
//! a device that computes wrongly, a missing device that `POLYWARP_DEVICE` names, a variable of wgpu's that matches no
//! adapter, an NVIDIA card that its driver does not give access to. A machine without a GPU is a warning, since the CPU
//! device works: exit code 0.

mod nvidia;
mod smoke;
mod system;

use polywarp::{DEVICE_VARIABLE, Device, DeviceEntry, DeviceKind};
use serde::Serialize;

use super::{Fault, Verdict, counted, say, say_json, size};
#[cfg(test)]
pub(super) use nvidia::made_up;
use nvidia::{Nvidia, Route};
pub(super) use nvidia::{files, nvml};
use system::System;

/// Finds why a GPU is not seen or not right, and says what to do; exit code 1 when something is broken
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something is broken.
    Error,
    /// Something is missing or slow.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    severity: Severity,
    what: String,
    /// How to fix it.
    fix: String,
}

impl Finding {
    fn new(severity: Severity, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { severity, what: what.into(), fix: fix.into() }
    }

    fn error(what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, what, fix)
    }

    fn warning(what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, what, fix)
    }

    /// Turns an error into a warning.
    fn soften(&mut self) {
        if self.severity == Severity::Error {
            self.severity = Severity::Warning;
        }
    }

    fn note(what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, what, fix)
    }
}

/// One device that was tried.
#[derive(Clone, Debug, Serialize)]
struct Tried {
    id: String,
    name: String,
    api: String,
    kind: DeviceKind,
    driver: String,
    memory_bytes: Option<u64>,
    /// Whether it computed a matrix product, a sum and exponentials correctly; `None` when it was not usable.
    computes: Option<bool>,
    /// Milliseconds from opening the device to the last result.
    milliseconds: Option<f64>,
}

#[derive(Serialize)]
struct Diagnosis {
    healthy: bool,
    findings: Vec<Finding>,
    devices: Vec<Tried>,
    default: Option<String>,
    system: System,
    nvidia: Nvidia,
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let mut system = System::probe();
    let entries = polywarp::devices();
    // NVIDIA's part comes before any device is opened: afterwards this program itself would be one that holds memory.
    let nvidia = Nvidia::probe();
    system.nvidia |= nvidia.has_card_for_us();
    let routes: Vec<Route> = entries.iter().map(Route::from).collect();
    let mut findings = system.findings(&entries);
    findings.extend(nvidia.findings(&routes, system.nvidia_vulkan_file()));
    let mut devices: Vec<Tried> = Vec::new();
    let mut found = Vec::new();
    for entry in &entries {
        let mut of_this = Vec::new();
        devices.extend(try_device(entry, &nvidia, &mut of_this));
        found.push((entry, of_this));
    }
    for (entry, mut of_this) in found {
        // A route that fails is no fault of the machine when another route to the same card works.
        let works = |id: &String| devices.iter().any(|tried| tried.id == *id && tried.computes == Some(true));
        if entry.other_routes.iter().any(works) {
            of_this.iter_mut().for_each(Finding::soften);
        }
        findings.extend(of_this);
    }
    let default = default_device(&mut findings);
    findings.sort_by_key(|finding| finding.severity);
    let healthy = findings.iter().all(|finding| finding.severity != Severity::Error);
    let diagnosis = Diagnosis { healthy, findings, devices, default, system, nvidia };
    if args.json {
        say_json(&diagnosis)?;
    } else {
        print(&diagnosis)?;
    }
    Ok(if healthy { Verdict::Well } else { Verdict::Wrong })
}

/// Opens the device and lets it compute. `None` where the whole backend is missing: `system` and `nvidia` tell more about that.
fn try_device(entry: &DeviceEntry, nvidia: &Nvidia, findings: &mut Vec<Finding>) -> Option<Tried> {
    let mut tried = Tried {
        id: entry.id.clone(),
        name: entry.name.clone(),
        api: entry.api.clone(),
        kind: entry.kind,
        driver: entry.driver.clone(),
        memory_bytes: None,
        computes: None,
        milliseconds: None,
    };
    let label = format!("{} ({}, {})", entry.id, entry.name, entry.api);
    if let Some(reason) = &entry.unusable {
        if entry.name.is_empty() {
            return None;
        }
        // `nvidia` has reported CUDA's cards already.
        if entry.api != "cuda" {
            let fix = match &entry.other_routes[..] {
                [] => "use another device, or another API by WGPU_BACKEND".to_owned(),
                others => {
                    format!("nothing to do unless you need this API: {} reach the same card", others.join(" and "))
                }
            };
            findings.push(Finding::note(reason.to_string(), fix));
        }
        return Some(tried);
    }
    if nvidia.is_too_old(&entry.id) {
        return Some(tried);
    }
    let start = std::time::Instant::now();
    let outcome = smoke::open_and_compute(entry);
    tried.milliseconds = Some(start.elapsed().as_secs_f64() * 1e3);
    tried.computes = Some(outcome.is_ok());
    match outcome {
        Ok(device) => {
            tried.memory_bytes = device.info().memory_bytes;
            findings.extend(poor_limits(&device));
            findings.extend(quarantined(&device));
        }
        Err(smoke::Failure::Refused(error)) => {
            findings.push(refused(&label, &entry.api, &entry.other_routes, has_display(), &error));
        }
        Err(smoke::Failure::Wrong(what)) => {
            let fix = format!(
                "use another device; `polywarp check --device {}` has the details, please report them with the driver's version",
                entry.id
            );
            findings.push(Finding::error(format!("{label} computes wrongly: {what}"), fix));
        }
    }
    Some(tried)
}

/// Whether this machine has a display, according to the environment; only on Linux does GL work without one.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "/dev/null/no-display");
    !cfg!(target_os = "linux") || set("DISPLAY") || set("WAYLAND_DISPLAY")
}

/// The meaning of a device's refusal of a small computation, and the fix: only conclusions that follow from the error.
/// A driver is blamed, and an update advised, only where the error says so.
fn refused(label: &str, api: &str, others: &[String], display: bool, error: &polywarp::Error) -> Finding {
    use polywarp::Error;
    let failed = format!("{label} could not run a small computation: {error}");
    let trace =
        "`RUST_LOG=wgpu_hal=debug,wgpu_core=debug polywarp doctor` shows what the driver was asked for and refused";
    match error {
        Error::OutOfMemory { .. } => Finding::error(
            format!("{label} has no memory left: {error}"),
            "close what else uses the card (nvidia-smi, radeontop and intel_gpu_top show it)",
        ),
        Error::DriverTooOld { needed, .. } => {
            Finding::error(failed, format!("install NVIDIA's driver {needed} or newer (of a container: on the host)"))
        }
        _ if api == "cuda" => Finding::error(
            failed,
            "see the other findings and nvidia-smi; reset the card (nvidia-smi --gpu-reset) or reboot",
        ),
        // The driver has named the card, so GL itself works. The reason why it goes no further is unknown.
        _ if api == "gl" => {
            let place = if display { "" } else { ", on a machine without a display (EGL without a surface)" };
            let what = format!("{label}: GL finds the card and opens no device that works{place}: {error}");
            match others {
                [] => Finding::error(what, format!("set WGPU_BACKEND to try another API; {trace}")),
                others => Finding::note(
                    what,
                    format!(
                        "nothing to do unless you need GL: {} reach the same card and are not affected; {trace}",
                        others.join(" and ")
                    ),
                ),
            }
        }
        _ => Finding::error(failed, format!("set WGPU_BACKEND to try another API; {trace}")),
    }
}

/// Limits far below those that the library is made for.
fn poor_limits(device: &Device) -> Option<Finding> {
    /// The limit that WebGPU guarantees; a driver below it is hardly useful.
    const USEFUL_BINDING_BYTES: u64 = 128 << 20;
    let info = device.info();
    let limit = info.limits.max_binding_bytes;
    (limit < USEFUL_BINDING_BYTES).then(|| {
        Finding::warning(
            format!("{} ({}) takes tensors of {} at most", info.id, info.name, size(limit)),
            "use another route to the card if `polywarp devices` lists one; else split large tensors",
        )
    })
}

/// Kernels of the library that gave wrong results here, or did not run.
fn quarantined(device: &Device) -> Option<Finding> {
    let tuner = device.tuner()?;
    let mut wrong = tuner.store().quarantine();
    wrong.retain(|verdict| verdict.identity == *tuner.identity());
    let first = wrong.first()?;
    let (id, name) = (device.id(), &device.info().name);
    let why = first.wrong.as_deref().unwrap_or_default();
    Some(Finding::warning(
        format!("{id} ({name}): {} kernels are not used, such as {}: {why}", wrong.len(), first.candidate),
        "results are right all the same, by slower kernels; update the driver, and please report it with the output of \
         `polywarp tune --list`",
    ))
}

fn default_device(findings: &mut Vec<Finding>) -> Option<String> {
    match polywarp::best() {
        Ok(device) => Some(device.id().to_owned()),
        Err(error) => {
            let named = std::env::var_os(DEVICE_VARIABLE).filter(|name| !name.is_empty());
            let finding = match named {
                Some(name) => Finding::error(
                    format!("{DEVICE_VARIABLE} is `{}`: {error}", name.to_string_lossy()),
                    format!("set {DEVICE_VARIABLE} to a device that `polywarp devices` lists, or unset it"),
                ),
                None => Finding::error(error.to_string(), "see the other findings"),
            };
            findings.push(finding);
            None
        }
    }
}

fn print(diagnosis: &Diagnosis) -> Result<(), Fault> {
    for device in &diagnosis.devices {
        let state = match device.computes {
            Some(true) => "computes rightly",
            Some(false) => "FAILED",
            None => "not usable",
        };
        let time = device.milliseconds.map(|ms| format!(" ({ms:.0} ms)")).unwrap_or_default();
        say(format!("{:<8} {} ({}): {state}{time}", device.id, device.name, device.api))?;
    }
    for finding in &diagnosis.findings {
        say(format!("{}: {}", format!("{:?}", finding.severity).to_lowercase(), finding.what))?;
        say(format!("    {}", finding.fix))?;
    }
    let count = |severity| diagnosis.findings.iter().filter(|finding| finding.severity == severity).count();
    let default = diagnosis.default.as_deref().unwrap_or("none");
    let (errors, warnings) = (counted(count(Severity::Error), "error"), counted(count(Severity::Warning), "warning"));
    say(format!("{errors}, {warnings}; the default device is {default}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polywarp::Error;

    /// wgpu's error for GL on an NVIDIA card without a display.
    fn lost() -> Error {
        let reason = "wgpu:1 (NVIDIA H200/PCIe/SSE2): Parent device is lost".to_owned();
        Error::BackendUnavailable { backend: "wgpu", reason }
    }

    #[test]
    fn gl_that_does_not_open_is_no_fault_where_the_card_is_reached_otherwise() {
        let others = ["cuda:0".to_owned(), "wgpu:0".to_owned()];
        let found = refused("wgpu:1 (H200, gl)", "gl", &others, false, &lost());
        assert_eq!(found.severity, Severity::Note);
        assert!(found.what.contains("without a display") && found.what.contains("Parent device is lost"), "{found:?}");
        assert!(found.fix.starts_with("nothing to do unless you need GL: cuda:0 and wgpu:0"), "{found:?}");
        let alone = refused("wgpu:1 (H200, gl)", "gl", &[], true, &lost());
        assert_eq!(alone.severity, Severity::Error);
        assert!(alone.fix.contains("WGPU_BACKEND") && !alone.what.contains("display"), "{alone:?}");
    }

    #[test]
    fn update_of_a_driver_is_advised_only_where_the_error_says_so() {
        let backend =
            Error::Backend { device: "wgpu:0".to_owned(), op: "submit".to_owned(), message: "refused".to_owned() };
        let memory = Error::OutOfMemory {
            device: "wgpu:0".to_owned(),
            requested: 1,
            in_use: 0,
            cached: 0,
            limit: None,
            largest: Default::default(),
        };
        for api in ["gl", "vulkan", "dx12", "metal", "cuda"] {
            for error in [lost(), backend.clone(), memory.clone()] {
                for others in [&[][..], &["cuda:0".to_owned()]] {
                    let found = refused("a card", api, others, true, &error);
                    assert!(!format!("{found:?}").contains("update"), "{found:?}");
                    assert!(!found.fix.is_empty());
                }
            }
        }
        let old = Error::DriverTooOld {
            device: "cuda:0".to_owned(),
            what: "a kernel".to_owned(),
            driver: "470".to_owned(),
            needed: "525".to_owned(),
        };
        assert!(refused("cuda:0", "cuda", &[], true, &old).fix.contains("525 or newer"));
    }
}
