//! Reading WGSL that somebody else wrote: parse, validate, choose an entry point, set overrides, describe.
//!
//! Every fault arrives as an [`Error`] with the place in the text, on one line. Not the compiler to other languages
//! (`compiler`, feature `compiler`) and not needed for this library's own kernels, whose text is trusted. The decision to
//! know: naga is not trusted, so it only runs behind the limits and the thread of `guard.rs`. What a shader needs and
//! offers is described by [`reflect`]; the steps together, for a backend that runs it, are [`read_kernel`], and what a
//! launch binds is checked by [`Interface::check_bindings`].

mod align;
mod arguments;
mod bind;
mod directives;
mod expand;
mod guard;
mod indices;
mod kernel;
mod known;
pub use naga_loops as loops;
mod reflect;
mod sizes;
mod spirv;

pub use arguments::with_whole_arguments;
pub use bind::{Bindable, CheckedBinding, LaunchLimits, RangeLimits};
pub use directives::naga_text;
pub use expand::MAX_EXPANDED;
pub use guard::{MAX_CHAIN, MAX_NESTING, MAX_SOURCE_BYTES, MAX_WORDS, THREAD_NAME, check_source, guarded};
pub use kernel::{BufferInfo, BufferUse, Interface, ReadKernel, read_kernel};
pub use known::KnownKernels;
pub use reflect::{BindingInfo, EntryPointInfo, OverrideInfo, Reflection, reflect, required_features};
pub use sizes::MAX_TYPE_DEPTH;

use guard::too_complex;
use naga::back::PipelineConstants;
use naga::back::pipeline_constants::process_overrides;
use naga::front::wgsl::{Frontend, Options};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{EntryPoint, Module, Scalar, ShaderStage, TypeInner};
use polywarp_core::{Code, Error, Kernel, Result};
use reflect::feature_name;

/// Where naga's own parser gives up on nesting, some of which comes without a bracket.
const NAGA_NESTING: usize = 200;

/// The shader in `source`, checked against what the `capabilities` allow. Its text is read as [`naga_text`] gives it.
///
/// # Errors
/// [`Error::ShaderTooComplex`] for text beyond the limits here; [`Error::Shader`] with line and column (from 1) for
/// everything else that is wrong with it.
pub fn parse_and_validate(source: &str, capabilities: Capabilities) -> Result<(Module, ModuleInfo)> {
    parse(source, capabilities).map(|(module, info, _)| (module, info))
}

/// Whether a module means its text as naga itself reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// It does.
    AsWritten,
    /// naga refuses the text, which is valid.
    Settled,
}

fn parse(source: &str, capabilities: Capabilities) -> Result<(Module, ModuleInfo, Text)> {
    check_source(source)?;
    guarded(|| {
        expand::check_expansion(source)?;
        let options = Options { parse_doc_comments: false, capabilities };
        let mut module = Frontend::new_with_options(options).parse(&naga_text(source)).map_err(|e| {
            if e.notes().any(|note| note.contains("recursion limit")) {
                return too_complex("nesting of expressions", NAGA_NESTING, NAGA_NESTING);
            }
            let start = e.labels().next().and_then(|(span, _)| span.to_range()).map(|range| range.start);
            let label = e.labels().next().map(|(_, label)| label).filter(|label| !label.is_empty());
            let parts = [Some(e.message()), label].into_iter().flatten().chain(e.notes());
            shader_error(source, start, &parts.collect::<Vec<_>>().join(": "))
        })?;
        sizes::check_sizes(&module, source)?;
        align::check_alignment(&module, source)?;
        let refused = match validate(&module, capabilities) {
            Ok(info) => return Ok((module, info, Text::AsWritten)),
            Err(refused) => refused,
        };
        let settled = if indices::settle(&mut module, source) { validate(&module, capabilities) } else { Err(refused) };
        let info = settled.map_err(|e| {
            let start = e.spans().find_map(|(span, _)| span.to_range()).map(|range| range.start);
            shader_error(source, start, &with_causes(e.as_inner()))
        })?;
        Ok((module, info, Text::Settled))
    })
}

/// The module of `kernel`, as [`parse_and_validate`] has it, for `device` (a name for errors): features that it lacks are named as such.
///
/// # Errors
/// As there; [`Error::Unsupported`] for a shader with no other fault than that it needs more than the `capabilities`.
fn parse_for(device: &str, kernel: &Kernel, capabilities: Capabilities) -> Result<(Module, ModuleInfo, Text)> {
    kernel.refuse_cuda(device)?;
    let source = match &kernel.code {
        Code::SpirV(module) => return spirv::parse(device, module, capabilities),
        _ => kernel.wgsl_text(),
    };
    let refused = match parse(source, capabilities) {
        Err(error @ Error::Shader { .. }) => error,
        other => return other,
    };
    // A fault of the text itself is one on every device, and is told first.
    let lacking = lacking(source, capabilities)?;
    if lacking.is_empty() {
        return Err(refused);
    }
    let place = match refused {
        Error::Shader { line, column, .. } if line > 0 => format!(" (line {line}, column {column} of the kernel)"),
        _ => String::new(),
    };
    let reason = format!("the kernel needs it{place}; use a device that has it");
    Err(Error::Unsupported { device: device.to_owned(), what: lacking.join(", "), reason })
}

/// The features that `source` uses or enables beyond `capabilities`, by name, sorted.
///
/// # Errors
/// As [`parse_and_validate`] with every capability.
fn lacking(source: &str, capabilities: Capabilities) -> Result<Vec<String>> {
    let (module, _) = parse_and_validate(source, Capabilities::all())?;
    let used = required_features(&module).into_iter().filter(|(_, capability)| !capabilities.contains(*capability));
    let mut names: Vec<String> = used.map(|(name, _)| name).collect();
    // What is enabled and not used is in the text alone.
    let text = naga_text(source);
    let enabled = guarded(|| {
        let head = directives::head(&text);
        let is_enabled = |capability: Capabilities| {
            let options = Options { parse_doc_comments: false, capabilities: Capabilities::all() - capability };
            Frontend::new_with_options(options).parse(head).is_err()
        };
        let lacks = (Capabilities::all() - capabilities).iter_names();
        Ok(lacks.filter(|&(_, lack)| is_enabled(lack)).map(|(name, _)| feature_name(name)).collect::<Vec<_>>())
    })?;
    names.extend(enabled);
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

pub(crate) type Invalid = Box<naga::WithSpan<naga::valid::ValidationError>>;

pub(crate) fn validate(module: &Module, capabilities: Capabilities) -> std::result::Result<ModuleInfo, Invalid> {
    Validator::new(ValidationFlags::all(), capabilities).validate(module).map_err(Box::new)
}

/// The compute entry point called `name`, or the only one there is.
///
/// # Errors
/// [`Error::InvalidArgument`] listing the compute entry points there are.
pub fn compute_entry<'a>(module: &'a Module, name: Option<&str>) -> Result<&'a EntryPoint> {
    find_entry(module, name, |entry| entry.stage == ShaderStage::Compute, "compute entry point")
}

/// The entry point that `wanted` accepts, called `name` or the only one.
pub(crate) fn find_entry<'a>(
    module: &'a Module,
    name: Option<&str>,
    wanted: impl Fn(&EntryPoint) -> bool,
    what: &'static str,
) -> Result<&'a EntryPoint> {
    let entries: Vec<&EntryPoint> = module.entry_points.iter().filter(|entry| wanted(entry)).collect();
    let names = || listed(entries.iter().map(|entry| entry.name.as_str()));
    let reason = match (name, entries.as_slice()) {
        (_, []) => "the shader has none".to_owned(),
        (None, [only]) => return Ok(only),
        (None, _) => format!("the shader has {}; choose one", names()),
        (Some(name), _) => match entries.iter().find(|entry| entry.name == name) {
            Some(entry) => return Ok(entry),
            None => format!("`{name}` is not in the shader, which has {}", names()),
        },
    };
    Err(Error::InvalidArgument { what, reason })
}

/// `module` with every `override` replaced by its value: from `defines` (by name, or by `@id`), else its default.
///
/// With `entry`, only that entry point and what it uses are kept, so overrides of the others need no value. The first
/// entry point of that name is taken.
///
/// # Errors
/// [`Error::InvalidArgument`] for a define that no override answers to, set twice, or that its type cannot hold, and
/// for an override left without a value; [`Error::Shader`] when a value makes the shader invalid.
pub fn resolve_overrides(
    module: &Module,
    info: &ModuleInfo,
    entry: Option<&str>,
    defines: &[(String, f64)],
) -> Result<(Module, ModuleInfo)> {
    let constants = pipeline_constants(module, defines)?;
    let entry = entry.and_then(|name| module.entry_points.iter().find(|e| e.name == name));
    guarded(|| {
        let entry = entry.map(|e| (e.stage, e.name.as_str()));
        let (module, info) = process_overrides(module, info, entry, &constants).map_err(override_error)?;
        // Without a place: the text is the caller's.
        sizes::check_sizes(&module, "")?;
        Ok((module.into_owned(), info.into_owned()))
    })
}

fn override_error(error: naga::back::pipeline_constants::PipelineConstantError) -> Error {
    use naga::back::pipeline_constants::PipelineConstantError as E;
    match error {
        E::MissingValue(name) => define_error(format!("the shader's override `{name}` has no default; set it")),
        // The text these spans point into is the caller's; the message names the culprit.
        other => Error::Shader { line: 0, column: 0, message: one_line(&with_causes(&other)) },
    }
}

fn define_error(reason: String) -> Error {
    Error::InvalidArgument { what: "define", reason }
}

/// `defines` under the keys naga knows the overrides by, each checked against the override's type.
fn pipeline_constants(module: &Module, defines: &[(String, f64)]) -> Result<PipelineConstants> {
    let mut constants = PipelineConstants::default();
    for (name, value) in defines {
        let found = module.overrides.iter().map(|(_, o)| o).find(|o| {
            o.name.as_deref() == Some(name) || o.id.is_some_and(|id| name.parse() == Ok(id)) // by name or `@id`
        });
        let Some(found) = found else {
            let names = listed(module.overrides.iter().filter_map(|(_, o)| o.name.as_deref()));
            let has = if names.is_empty() { "the shader has none".to_owned() } else { format!("there are {names}") };
            return Err(define_error(format!("`{name}` is not an override of the shader; {has}")));
        };
        if let TypeInner::Scalar(scalar) = module.types[found.ty].inner {
            check_define(name, *value, scalar)?;
        }
        let key = found.id.map_or_else(|| name.clone(), |id| id.to_string());
        if constants.insert(key, *value).is_some() {
            return Err(define_error(format!("`{name}` is set twice")));
        }
    }
    Ok(constants)
}

/// Whether an override of type `scalar` can be exactly (integers) or nearly (floats) `value`.
fn check_define(name: &str, value: f64, scalar: Scalar) -> Result<()> {
    let whole = |low: f64, high: f64| value.fract() == 0.0 && (low..=high).contains(&value);
    let largest = |max: f64| value.abs() <= max;
    let (fits, range) = match scalar {
        Scalar::BOOL => (value == 0.0 || value == 1.0, "0 or 1"),
        Scalar::I32 => (whole(f64::from(i32::MIN), f64::from(i32::MAX)), "a whole number that fits i32"),
        Scalar::U32 => (whole(0.0, f64::from(u32::MAX)), "a whole number that fits u32"),
        Scalar::I16 => (whole(f64::from(i16::MIN), f64::from(i16::MAX)), "a whole number that fits i16"),
        Scalar::U16 => (whole(0.0, f64::from(u16::MAX)), "a whole number that fits u16"),
        Scalar::F16 => (largest(65504.0), "a finite number that fits f16"),
        Scalar::F32 => (largest(f64::from(f32::MAX)), "a finite number that fits f32"),
        Scalar::F64 => (largest(f64::MAX), "a finite number"),
        _ => (false, "left at its default: this type cannot be set from outside"),
    };
    if fits { Ok(()) } else { Err(define_error(format!("`{name}` must be {range}, not {value}"))) }
}

/// Names as they are listed in errors.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Transparent wrappers repeat their cause word for word.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn shader_error(source: &str, start: Option<usize>, message: &str) -> Error {
    let (line, column) = start.and_then(|start| place(source, start)).unwrap_or((0, 0));
    Error::Shader { line, column, message: one_line(message) }
}

/// Line and column, counted from 1 in characters, of the byte at `start`; none outside of the text.
pub fn place(source: &str, start: usize) -> Option<(u32, u32)> {
    let before = source.get(..start)?;
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    Some((u32::try_from(line).ok()?, u32::try_from(column).ok()?))
}

/// `text` with each run of white space and control characters as one space, and not longer than a screenful.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 500;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("{}...", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
