//! Compiles a WGSL file to PTX: `cargo run --example wgsl2ptx -- FILE [sm_90] [trusted]`.

use std::process::ExitCode;

use naga::valid::{Capabilities, ValidationFlags, Validator};

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: wgsl2ptx FILE [sm_90] [trusted]")?;
    let target = arguments.next().unwrap_or_else(|| "sm_80".to_owned());
    let target = naga_ptx::Target::parse(&target).ok_or_else(|| format!("`{target}` is no target"))?;
    let options = match arguments.next().as_deref() {
        Some("trusted") => naga_ptx::Options::trusted(target),
        _ => naga_ptx::Options { target, ..naga_ptx::Options::default() },
    };
    let source = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let module =
        naga::front::wgsl::parse_str(&source).map_err(|error| error.emit_to_string_with_path(&source, &file))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string_with_path(&source, &file))?;
    let ptx = naga_ptx::compile(&module, &info, &options).map_err(|error| format!("{file}: {error}"))?;
    Ok(ptx.text)
}
