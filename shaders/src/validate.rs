//! For tests: what naga says of a kernel's text, given the features a device has.

use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::{Caps, Cooperative};

/// A device with every optional feature.
pub(crate) fn full_caps() -> Caps {
    Caps {
        f16: true,
        f64: true,
        i64: true,
        subgroups: Some((32, 32)),
        max_workgroup_bytes: 48 << 10,
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        ..Caps::webgpu_defaults("test")
    }
}

/// Parses and validates `wgsl` with the capabilities that `caps` implies and no others.
pub(crate) fn validate(wgsl: &str, caps: &Caps) -> Result<(), String> {
    let mut allowed = Capabilities::empty();
    allowed.set(Capabilities::SHADER_FLOAT16, caps.f16);
    allowed.set(Capabilities::FLOAT64, caps.f64);
    allowed.set(Capabilities::SHADER_INT64, caps.i64);
    allowed.set(Capabilities::SUBGROUP, caps.subgroups.is_some());
    allowed.set(Capabilities::COOPERATIVE_MATRIX, !caps.cooperative.is_empty());
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| e.emit_to_string(wgsl))?;
    Validator::new(ValidationFlags::all(), allowed).validate(&module).map(|_| ()).map_err(|e| e.emit_to_string(wgsl))
}
