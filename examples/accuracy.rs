//! The accuracy of WGSL's builtins on a device: each is measured against f64 and compared with the limits of WGSL's specification.
//!
//! Run: `cargo run --release --example accuracy -- --device cuda:0 --inputs 1048576`. Without `--device` it takes the
//! device that `POLYWARP_DEVICE` names, or the first GPU; without `--inputs` it takes only a few inputs. The other options:
//!
//! | option | effect |
//! |---|---|
//! | `--types f32,f16,f64` | the types, f32 and f16 unless given; f64 is naga's, has no limits, and few drivers know its functions |
//! | `--only sin` | builtins whose name contains this |
//! | `--json` | one object a line instead of a Markdown table |
//! | `--lenient` | a limit exceeded is reported, and does not fail |
//!
//! The exit code is 1 when a limit is exceeded or CUDA refuses a builtin, unless the device is a software GPU that was not
//! asked for; it is 2 when this program missed a wrong builtin of its own (`accuracy/broken.rs`), which it tries first.
//!
//! The parts: `float.rs` formats, `interval.rs` the allowed results, `inputs.rs` inputs; `arithmetic.rs`, `scalars.rs`,
//! `vectors.rs` and `conversions.rs` the builtins, `measure.rs` a kernel's run, `report.rs` the table.

use std::process::ExitCode;

use polywarp::{Device, DeviceKind};

#[path = "accuracy/arithmetic.rs"]
mod arithmetic;
#[path = "accuracy/broken.rs"]
mod broken;
#[path = "accuracy/builtins.rs"]
mod builtins;
#[path = "accuracy/conversions.rs"]
mod conversions;
#[path = "accuracy/float.rs"]
mod float;
#[path = "accuracy/inputs.rs"]
mod inputs;
#[path = "accuracy/interval.rs"]
mod interval;
#[path = "accuracy/measure.rs"]
mod measure;
#[path = "accuracy/report.rs"]
mod report;
#[path = "accuracy/scalars.rs"]
mod scalars;
#[path = "accuracy/vectors.rs"]
mod vectors;

use float::Type;

struct Arguments {
    device: Option<String>,
    inputs: usize,
    types: Vec<Type>,
    only: String,
    json: bool,
    lenient: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        device: None,
        inputs: 4096,
        types: vec![Type::F32, Type::F16],
        only: String::new(),
        json: false,
        lenient: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--device" => parsed.device = Some(value()?),
            "--inputs" => parsed.inputs = value()?.parse().map_err(|e| format!("--inputs: {e}"))?,
            "--only" => parsed.only = value()?,
            "--json" => parsed.json = true,
            "--lenient" => parsed.lenient = true,
            "--types" => {
                let named = |name: &str| builtins::ALL.iter().copied().find(|ty| ty.wgsl() == name);
                let types: Option<Vec<Type>> = value()?.split(',').map(named).collect();
                parsed.types = types.ok_or("--types: f32, f16 and f64 are known")?;
            }
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(parsed)
}

/// The requested device, else the best if it runs shaders, else the first one that does.
fn choose(name: Option<&str>) -> polywarp::Result<Option<Device>> {
    if let Some(name) = name {
        return polywarp::device(name).map(Some);
    }
    let best = polywarp::best()?;
    if best.info().kind != DeviceKind::Cpu {
        return Ok(Some(best));
    }
    let entries = polywarp::devices();
    let gpu = entries.iter().find(|entry| entry.unusable.is_none() && entry.kind != DeviceKind::Cpu);
    gpu.map(|entry| entry.open()).transpose()
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(fault) => {
            eprintln!("{fault}");
            return ExitCode::from(2);
        }
    };
    match choose(arguments.device.as_deref()) {
        Ok(Some(device)) => run(&device, &arguments),
        Ok(None) => {
            println!("skipped: no GPU here runs shaders");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::from(2)
        }
    }
}

fn run(device: &Device, arguments: &Arguments) -> ExitCode {
    let builtins = [arithmetic::builtins(), scalars::builtins(), vectors::builtins(), conversions::builtins()].concat();
    let missed = broken::missed(device, &builtins);
    if !missed.is_empty() {
        eprintln!("wrong builtins were not found out:\n{}", missed.join("\n"));
        return ExitCode::from(2);
    }
    let info = device.info();
    if !arguments.json {
        println!("{}: {} ({}, {})\n\n{}", device.id(), info.name, info.api, info.driver, report::HEAD);
    }
    let halves = info.features.iter().any(|feature| feature == "f16" || feature == "shader_f16");
    let (mut lines, mut over, mut refused) = (0, 0, 0);
    for &ty in &arguments.types {
        for builtin in builtins.iter().filter(|builtin| builtin.types.contains(&ty)) {
            let needs_halves = [Some(ty), builtin.from, builtin.to].contains(&Some(Type::F16));
            if !builtin.name.contains(&arguments.only) || needs_halves && !halves {
                continue;
            }
            for line in measure::measure(device, builtin, ty, arguments.inputs) {
                println!("{}", if arguments.json { report::json(&line) } else { report::markdown(&line) });
                lines += 1;
                over += usize::from(line.is_over());
                refused += usize::from(line.refused.is_some());
            }
        }
    }
    let skipped =
        if arguments.types.contains(&Type::F16) && !halves { "; f16 skipped: the device has none" } else { "" };
    eprintln!("\n{}: {lines} lines, {over} over their limit, {refused} refused{skipped}", device.id());
    let asked = arguments.device.is_some() || info.kind != DeviceKind::Software;
    // A builtin that a graphics driver lacks is no error. For CUDA this library compiles, and must compile all of them.
    let failed = over > 0 || refused > 0 && info.api == "cuda";
    if lines == 0 || failed && asked && !arguments.lenient { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
