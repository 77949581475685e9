//! `polywarp devices`: every route to a processor, the hardware behind it, and the default device.

use polywarp::{DeviceEntry, DeviceInfo, DeviceKind};
use serde::Serialize;

use super::{Fault, Verdict, say, say_json, size};

/// Lists every device on every backend, and says which one is the default and why
///
/// Free memory is known of CUDA cards alone: wgpu does not tell how much a GPU has, or how much of it is in use. A card that
/// has both routes shows it on its CUDA one.
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    devices: Vec<Listed>,
    /// The id that is used when the user names none.
    default: Option<String>,
    /// Why there is no default.
    default_error: Option<String>,
    /// The devices that would be preferred to the default, and why each is not taken.
    passed_over: Vec<String>,
    /// Slices of NVIDIA's cards: CUDA_VISIBLE_DEVICES takes these names, and shows this program one of them.
    slices: Vec<String>,
}

#[derive(Serialize)]
struct Listed {
    id: String,
    name: String,
    api: String,
    kind: DeviceKind,
    driver: String,
    usable: bool,
    /// Why it is not usable.
    reason: Option<String>,
    /// The same card through another API.
    other_routes: Vec<String>,
    /// The device's own description, once it is opened.
    info: Option<DeviceInfo>,
    /// Bytes that this program holds on it.
    in_use_bytes: Option<u64>,
    /// Bytes that no program holds, where the API can tell: wgpu cannot.
    free_bytes: Option<u64>,
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let devices: Vec<Listed> = polywarp::devices().into_iter().map(listed).collect();
    let choice = polywarp::best_with_reasons();
    let (default, default_error, passed_over) = match choice {
        Ok(choice) => {
            let passed_over = choice.rejected.iter().map(ToString::to_string).collect();
            (Some(choice.device.id().to_owned()), None, passed_over)
        }
        Err(error) => (None, Some(error.to_string()), Vec::new()),
    };
    let verdict = if default.is_some() { Verdict::Well } else { Verdict::Wrong };
    let slices = polywarp::cuda::slices().into_iter().map(|slice| slice.name).collect();
    let listing = Listing { devices, default, default_error, passed_over, slices };
    if args.json {
        say_json(&listing)?;
        return Ok(verdict);
    }
    for device in &listing.devices {
        say(describe(device))?;
    }
    match (&listing.default, &listing.default_error) {
        (Some(id), _) => say(format!("default: {id}"))?,
        (None, Some(error)) => say(format!("no default: {error}"))?,
        (None, None) => {}
    }
    for reason in &listing.passed_over {
        say(format!("  passed over: {reason}"))?;
    }
    for slice in &listing.slices {
        say(format!("slice of a card: CUDA_VISIBLE_DEVICES={slice}"))?;
    }
    Ok(verdict)
}

fn listed(entry: DeviceEntry) -> Listed {
    let opened = entry.open();
    let (info, in_use_bytes, free_bytes, reason) = match opened {
        Ok(device) => {
            let card = device.backend_as::<polywarp::cuda::CudaBackend>();
            let free = card.and_then(|card| card.card_memory_bytes().ok()).map(|(free, _)| free);
            (Some(device.info().clone()), Some(device.memory().in_use_bytes), free, None)
        }
        Err(error) => (None, None, None, Some(error.to_string())),
    };
    Listed {
        id: entry.id,
        name: entry.name,
        api: entry.api,
        kind: entry.kind,
        driver: entry.driver,
        usable: reason.is_none(),
        reason,
        other_routes: entry.other_routes,
        info,
        in_use_bytes,
        free_bytes,
    }
}

fn describe(device: &Listed) -> String {
    let kind = format!("{:?}", device.kind).to_lowercase();
    let mut text = format!("{:<8} {}", device.id, device.name);
    if !device.api.is_empty() && device.api != kind {
        text += &format!(" ({}, {kind})", device.api);
    }
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("\n         {label:<9} {value}");
        }
    };
    line("not used", device.reason.as_deref().unwrap_or(""));
    line("driver", &device.driver);
    line("also", &device.other_routes.join(", "));
    if let Some(info) = &device.info {
        line("pci bus", info.pci_bus.as_deref().unwrap_or(""));
        line("threads", &info.threads.map(|n| n.to_string()).unwrap_or_default());
        let free = device.free_bytes.map(|free| format!(", {} free", size(free))).unwrap_or_default();
        line("memory", &info.memory_bytes.map(|total| size(total) + &free).unwrap_or_default());
        let limits = &info.limits;
        let tensor = size(limits.max_binding_bytes);
        line("limits", &format!("tensors to {tensor}, workgroup memory {}", size(limits.max_workgroup_bytes.into())));
        let dtypes: Vec<&str> = info.dtypes.iter().map(|dtype| dtype.name()).collect();
        line("dtypes", &dtypes.join(" "));
        line("features", &info.features.join(" "));
    }
    text
}
