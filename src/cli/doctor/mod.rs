//! `polywarp doctor`: why a GPU is not seen or not right, and what to do about it.
//!
//! Three steps: look at the system (`system.rs`) and at NVIDIA's part of it (`nvidia/`), open every device and let it
//! compute something small (`smoke.rs`), and draw conclusions. Findings are errors, warnings or notes. An error is
//! something broken: a loader that cannot be opened although there is a GPU, a file that is named but missing, a device
//! that computes wrongly, a device asked for by `POLYWARP_DEVICE` that is not there, a variable of wgpu's that no adapter
//! answers to, an NVIDIA card that its driver does not give access to. A machine without a GPU is a warning, since the CPU device works: exit code 0.

mod nvidia;
mod smoke;
mod system;

use polywarp::{DEVICE_VARIABLE, Device, DeviceEntry, DeviceKind};
use serde::Serialize;

use super::{Fault, Verdict, say, say_json, size};
use nvidia::{Nvidia, Route};
use system::System;

/// Finds why a GPU is not seen or not right, and says what to do; exit code 1 when something is broken
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// Something is broken.
    Error,
    /// Something is missing or slow.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing found.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    severity: Severity,
    what: String,
    /// What to do about it.
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

    /// Not an error any more.
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
    /// Whether it computed a matrix product, a sum and exponentials rightly; `None` when it was not usable.
    computes: Option<bool>,
    /// Milliseconds that took, from opening the device on.
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
    // Before any device is opened: afterwards this program itself is one that holds memory.
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
        // A route that fails is no fault of the machine when another one to the same card works.
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

/// Opens the device and lets it compute; `None` where the whole backend is missing, of which `system` and `nvidia` know
/// more.
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
        // Of CUDA's cards `nvidia` has said it.
        if entry.api != "cuda" {
            let fix = "nothing to do when another route to the same card works; else update its driver";
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
            let failed = format!("{label} could not run a small computation: {error}");
            let (what, fix) = match &error {
                polywarp::Error::OutOfMemory { .. } => (
                    format!("{label} has no memory left: {error}"),
                    "close what else uses the card (nvidia-smi, radeontop and intel_gpu_top show it)".to_owned(),
                ),
                polywarp::Error::DriverTooOld { needed, .. } => {
                    (failed, format!("install NVIDIA's driver {needed} or newer (of a container: on the host)"))
                }
                _ if entry.api == "cuda" => (
                    failed,
                    "see the other findings and nvidia-smi; reset the card (nvidia-smi --gpu-reset) or reboot"
                        .to_owned(),
                ),
                _ => {
                    (failed, "update or reinstall the graphics driver; set WGPU_BACKEND to try another API".to_owned())
                }
            };
            findings.push(Finding::error(what, fix));
        }
        Err(smoke::Failure::Wrong(what)) => {
            let fix = format!("run `polywarp check --device {}` for the details; update the graphics driver", entry.id);
            findings.push(Finding::error(format!("{label} computes wrongly: {what}"), fix));
        }
    }
    Some(tried)
}

/// Limits far below what the library is made for.
fn poor_limits(device: &Device) -> Option<Finding> {
    /// What WebGPU guarantees; a driver that gives less gives little.
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

/// Kernels of ours that computed wrongly here, or did not run.
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
    say(format!(
        "{} errors, {} warnings; the default device is {default}",
        count(Severity::Error),
        count(Severity::Warning)
    ))
}
