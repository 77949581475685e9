//! A module as naga's GLSL means what WGSL says.
//!
//! Of other languages naga looks after itself; in GLSL it leaves out what WGSL promises of division, remainders, shifts and
//! conversions, and places the members of buffers by GLSL's rules alone. [`for_glsl`] writes such a module anew, so that the
//! text naga makes of it has WGSL's values: `arithmetic.rs` says which expressions, `layout.rs` and `memory.rs` which
//! buffers, `rebuild.rs` is how. It serves the offline compiler and every kernel that wgpu runs on GL. What cannot be
//! written so is refused with its place.

mod arithmetic;
mod layout;
mod memory;
pub(crate) mod rebuild;

use std::collections::HashMap;

use naga::valid::{Capabilities, ModuleInfo};
use naga::{Module, Span};
use polywarp_core::{Error, Result};

use crate::wgsl::{place, validate};
use rebuild::{Rewrite, rebuild};

/// `module`, which `info` is about, for naga's GLSL. `device` is a name for errors, whose places are in `source`.
///
/// Overrides must have been resolved.
///
/// # Errors
/// [`Error::Unsupported`] with the place of a buffer that GLSL cannot lay out, or of a whole with too many parts.
pub fn for_glsl(module: &Module, info: &ModuleInfo, device: &str, source: &str) -> Result<(Module, ModuleInfo)> {
    let refusal = Refusal { device, source };
    let mut new = module.clone();
    rewrite(&mut new, module, info, &mut || arithmetic::Arithmetic)?;
    let info = refusal.validated(&new)?;
    let mut shapes = HashMap::new();
    let mut buffers = layout::Buffers::new();
    let globals: Vec<_> = new.global_variables.iter().map(|(handle, global)| (handle, global.clone())).collect();
    for (handle, global) in globals {
        let shape = buffers.shape(&mut new, &global).map_err(|why| {
            let name = global.name.as_deref().unwrap_or("buffer");
            refusal.of(&format!("the layout of `{name}`"), why.0, new.global_variables.get_span(handle))
        })?;
        if let Some(shape) = shape {
            new.global_variables.get_mut(handle).ty = shape.ty();
            shapes.insert(handle, shape);
        }
    }
    if shapes.is_empty() {
        return Ok((new, info));
    }
    // `info` knows the types of the expressions as they were, which the new types do not change.
    let old = new.clone();
    rewrite(&mut new, &old, &info, &mut || memory::Memory::new(&shapes, &refusal))?;
    let info = refusal.validated(&new)?;
    Ok((new, info))
}

/// Has every function of `old`, which `info` is about, rewritten into `new`.
pub(crate) fn rewrite<R: Rewrite>(
    new: &mut Module,
    old: &Module,
    info: &ModuleInfo,
    with: &mut impl FnMut() -> R,
) -> Result<()> {
    for (handle, function) in old.functions.iter() {
        *new.functions.get_mut(handle) = rebuild(old, function, &info[handle], &mut with())?;
    }
    for (index, entry) in old.entry_points.iter().enumerate() {
        let info = info.get_entry_point(index);
        new.entry_points[index].function = rebuild(old, &entry.function, info, &mut with())?;
    }
    Ok(())
}

/// How this module says no.
struct Refusal<'a> {
    device: &'a str,
    source: &'a str,
}

impl Refusal<'_> {
    fn of(&self, what: &str, why: &str, span: Span) -> Error {
        let place = span.to_range().and_then(|range| place(self.source, range.start));
        let place = place.map_or(String::new(), |(line, column)| format!(" (line {line}, column {column})"));
        let reason = format!("{why}{place}, and GLSL has no attribute for it; move the member, or use an array");
        Error::Unsupported { device: self.device.to_owned(), what: what.to_owned(), reason }
    }

    fn too_many_parts(&self, span: Span, most: u32) -> Error {
        let place = span.to_range().and_then(|range| place(self.source, range.start));
        let place = place.map_or(String::new(), |(line, column)| format!(" (line {line}, column {column})"));
        Error::Unsupported {
            device: self.device.to_owned(),
            what: "a copy of a large padded array".to_owned(),
            reason: format!("it has more than {most} parts{place}, each of which is copied alone; copy it in a loop"),
        }
    }

    /// An error for what a valid module does not hold.
    fn unknown(&self, what: &str) -> Error {
        let message = format!("rewriting the shader for {} met {what}, which is a bug of polywarp", self.device);
        Error::Shader { line: 0, column: 0, message }
    }

    fn validated(&self, module: &Module) -> Result<ModuleInfo> {
        validate(module, Capabilities::all()).map_err(|error| self.unknown(&format!("an invalid module: {error:?}")))
    }
}

#[cfg(test)]
mod tests;
