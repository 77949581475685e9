//! The offline shader compiler: WGSL to SPIR-V, MSL, HLSL, GLSL, plain WGSL or PTX, with what a host needs to bind it.
//!
//! [`compile`] reads the text (see [`crate::wgsl`] for limits and errors), replaces overrides by values, checks that the
//! target language can say what the shader needs, and writes it. It optimises nothing: drivers do. The decision to
//! know: accesses are bounds-checked (in GLSL only those of textures: naga has no more there), workgroup memory starts as
//! zero and loops are bounded, as WebGPU promises. For GLSL the module is rewritten first (`src/glsl/`); WGSL is read again and
//! compared (`wgsl.rs`). How each language numbers its bindings is in `write.rs`.

mod wgsl;
mod write;

pub use write::BindSlot;
use write::Written;

use std::fmt;
use std::str::FromStr;

use naga::valid::Capabilities;
use naga::{Module, back};
use polywarp_core::{Error, Result};
use serde::Serialize;

use crate::glsl::for_glsl;
use crate::wgsl::{Reflection, find_entry, guarded, parse_and_validate, reflect, required_features, resolve_overrides};

/// A language that shaders are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// SPIR-V 1.3 (Vulkan 1.1), little-endian words.
    Spirv,
    /// Metal Shading Language 2.4; 3.1 where 64-bit atomics need it.
    Msl,
    /// HLSL for shader model 6.0; 6.2 or 6.6 where 16-bit types or 64-bit atomics need it.
    Hlsl,
    /// GLSL ES 3.10; desktop 4.30 where f64 needs it.
    Glsl,
    /// WGSL with overrides replaced and unused declarations removed.
    Wgsl,
    /// NVIDIA PTX, for compute entry points.
    Ptx,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 6] = [Target::Spirv, Target::Msl, Target::Hlsl, Target::Glsl, Target::Wgsl, Target::Ptx];

    /// The lower-case name, as printed and parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Spirv => "spirv",
            Target::Msl => "msl",
            Target::Hlsl => "hlsl",
            Target::Glsl => "glsl",
            Target::Wgsl => "wgsl",
            Target::Ptx => "ptx",
        }
    }

    /// What the language can express, as far as naga writes it.
    fn capabilities(self) -> Capabilities {
        match self {
            Target::Spirv => back::spv::supported_capabilities(),
            Target::Msl => back::msl::supported_capabilities(),
            Target::Hlsl => back::hlsl::supported_capabilities(),
            // The texts naga writes for these have no core GLSL version, or no ES one, behind them.
            Target::Glsl => {
                back::glsl::supported_capabilities()
                    - Capabilities::SHADER_INT64
                    - Capabilities::SHADER_INT64_ATOMIC_ALL_OPS
                    - Capabilities::SHADER_FLOAT16
                    - Capabilities::SHADER_INT16
            }
            // What it cannot say, naga-ptx refuses by itself, with the place in the text.
            Target::Wgsl | Target::Ptx => Capabilities::all(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        Target::ALL.into_iter().find(|target| target.name() == text).ok_or_else(|| Error::InvalidArgument {
            what: "target",
            reason: format!("`{text}` is not one of spirv msl hlsl glsl wgsl ptx"),
        })
    }
}

/// What to compile to what.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// WGSL.
    pub source: &'a str,
    /// The language wanted.
    pub target: Target,
    /// The entry point to keep; all of them when left out (GLSL holds one, so there it may only be left out when there
    /// is one).
    pub entry: Option<&'a str>,
    /// Values for overrides, by name or `@id`.
    pub defines: &'a [(String, f64)],
    /// PTX only: the architecture, `sm_70` (the oldest, which runs on all newer ones) when left out.
    pub arch: Option<&'a str>,
}

/// A compiled shader.
#[derive(Clone, Debug)]
pub struct Output {
    /// SPIR-V words as little-endian bytes, or UTF-8 text.
    pub bytes: Vec<u8>,
    /// What the compiled entry points use; overrides as the source declares them.
    pub reflection: Reflection,
    /// Where the target language finds each resource; empty where `group` and `binding` are kept (SPIR-V: descriptor
    /// set and binding, WGSL).
    pub slots: Vec<BindSlot>,
}

/// Compiles a shader.
///
/// # Errors
/// As [`parse_and_validate`] and [`resolve_overrides`]; [`Error::InvalidArgument`] for an entry point that is not there
/// or not chosen; [`Error::Unsupported`] naming what the target language cannot express.
pub fn compile(request: &Request<'_>) -> Result<Output> {
    let arch = arch_of(request)?;
    let (source_module, source_info) = parse_and_validate(request.source, Capabilities::all())?;
    let entry = match request.entry {
        None if source_module.entry_points.len() != 1 && request.target != Target::Glsl => {
            if source_module.entry_points.is_empty() {
                find_entry(&source_module, None, |_| true, "entry point")?;
            }
            None
        }
        name => Some(find_entry(&source_module, name, |_| true, "entry point")?.name.clone()),
    };
    let (module, info) = resolve_overrides(&source_module, &source_info, entry.as_deref(), request.defines)?;
    let features = required_features(&module);
    check_target(request.target, &features)?;
    let mut reflection = reflect(&module, &info);
    reflection.overrides = reflect(&source_module, &source_info).overrides;
    let needs = features.iter().fold(Capabilities::empty(), |all, (_, one)| all | *one);
    let written = guarded(|| match request.target {
        Target::Spirv => write::spirv(&module, &info),
        Target::Msl => write::msl(&module, &info, &reflection, needs),
        Target::Hlsl => write::hlsl(&module, &info, &reflection, needs),
        Target::Glsl => {
            let (module, info) = for_glsl(&module, &info, "target glsl", request.source)?;
            write::glsl(&module, &info, &reflection, needs)
        }
        Target::Wgsl => write::wgsl(&module, &info, needs, request.source),
        Target::Ptx => write::ptx(&module, &info, &reflection, arch, entry.as_deref(), request.source),
    });
    let Written { bytes, slots, symbols } = written?;
    for (entry, symbol) in reflection.entry_points.iter_mut().zip(symbols) {
        entry.symbol = symbol;
    }
    Ok(Output { bytes, reflection, slots })
}

fn arch_of(request: &Request<'_>) -> Result<naga_ptx::Target> {
    let invalid = |reason: String| Error::InvalidArgument { what: "arch", reason };
    match (request.target, request.arch) {
        (_, None) => Ok(naga_ptx::Target::OLDEST),
        (Target::Ptx, Some(text)) => naga_ptx::Target::parse(text)
            .filter(|&target| target >= naga_ptx::Target::OLDEST)
            .ok_or_else(|| invalid(format!("`{text}` is no architecture that PTX has from sm_70 on; write sm_90"))),
        (target, Some(_)) => Err(invalid(format!("it is PTX that has architectures, the target is {target}"))),
    }
}

fn check_target(target: Target, features: &[(String, Capabilities)]) -> Result<()> {
    let missing: Vec<&str> = features
        .iter()
        .filter(|(_, capability)| !target.capabilities().contains(*capability))
        .map(|(name, _)| name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsupported {
        device: format!("target {target}"),
        what: missing.join(", "),
        reason: "the shader needs it and this compiler cannot write it in that language; choose another target".into(),
    })
}

/// A failure of naga's writer: the shader is valid, so it has no place in the text.
fn write_error(target: Target, error: impl fmt::Display) -> Error {
    Error::Unsupported {
        device: format!("target {target}"),
        what: "this shader".to_owned(),
        reason: crate::wgsl::one_line(&error.to_string()),
    }
}

/// The only entry point of `module`, for languages that hold one.
fn only_entry(module: &Module) -> Result<&naga::EntryPoint> {
    find_entry(module, None, |_| true, "entry point")
}

#[cfg(test)]
mod tests;
