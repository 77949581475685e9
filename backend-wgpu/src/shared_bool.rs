//! bool in workgroup memory, which NVIDIA's Vulkan driver gets wrong.
//!
//! Of random programs that keep bool there two in five gave other values than CUDA and Mesa on the same text (driver 580.159, H100); of
//! those that do not, one in 1,500. The smallest: `array<vec2<bool>, 33>`, written, a barrier, read. Nobody is told: so such a kernel
//! is refused where that driver runs it (benches/results/h100-2026-11-25/programs.txt).

use naga::{AddressSpace, Module, Span, TypeInner};
use polywarp_core::{Error, Result};
use polywarp_shaders::wgsl::ReadKernel;

/// NVIDIA's number on the PCI bus.
const NVIDIA: u32 = 0x10de;

/// Refuses the kernel `read` where `adapter`'s driver loses its bools; `place_of` says where in the text one is.
pub(crate) fn refuse(
    device: &str,
    adapter: &wgpu::AdapterInfo,
    read: &ReadKernel,
    place_of: impl Fn(Span) -> String,
) -> Result<()> {
    if (adapter.vendor, adapter.backend) != (NVIDIA, wgpu::Backend::Vulkan) {
        return Ok(());
    }
    let Some((name, span)) = find(&read.module) else { return Ok(()) };
    Err(Error::Unsupported {
        device: device.to_owned(),
        what: "bool in workgroup memory in a kernel of your own".to_owned(),
        reason: format!(
            "its driver gives other values for `{name}`{}; keep u32 there, 0 and 1, or use the card through CUDA",
            place_of(span)
        ),
    })
}

/// The first workgroup variable that holds a bool.
fn find(module: &Module) -> Option<(&str, Span)> {
    let holds = module
        .global_variables
        .iter()
        .find(|(_, variable)| variable.space == AddressSpace::WorkGroup && holds_bool(module, variable.ty));
    holds.map(|(handle, variable)| {
        (variable.name.as_deref().unwrap_or("a variable"), module.global_variables.get_span(handle))
    })
}

fn holds_bool(module: &Module, ty: naga::Handle<naga::Type>) -> bool {
    match &module.types[ty].inner {
        TypeInner::Scalar(scalar) | TypeInner::Vector { scalar, .. } => scalar.kind == naga::ScalarKind::Bool,
        TypeInner::Array { base, .. } => holds_bool(module, *base),
        TypeInner::Struct { members, .. } => members.iter().any(|member| holds_bool(module, member.ty)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bools_are_found_wherever_they_hide_in_workgroup_memory() {
        let found = |declaration: &str| {
            let text = format!(
                "struct S {{ a: u32, b: array<vec2<bool>, 3> }}\n{declaration}\n@compute @workgroup_size(1) fn main() {{}}"
            );
            let module = naga::front::wgsl::parse_str(&text).unwrap();
            find(&module).map(|(name, _)| name.to_owned())
        };
        for ty in ["bool", "vec3<bool>", "array<bool, 4>", "array<array<vec2<bool>, 2>, 4>", "S", "array<S, 2>"] {
            assert_eq!(found(&format!("var<workgroup> x: {ty};")).as_deref(), Some("x"), "{ty}");
            assert_eq!(found(&format!("var<private> x: {ty};")), None, "{ty}");
        }
        assert_eq!(found("var<workgroup> x: array<u32, 4>;"), None);
    }
}
