//! For tests: what naga says of a kernel's text, given the features a device has.

use std::collections::HashSet;

use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::plan::{KernelKey, Launch};
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

/// What naga may find in kernels of a device with `caps`.
fn allowed(caps: &Caps) -> Capabilities {
    let mut allowed = Capabilities::empty();
    allowed.set(Capabilities::SHADER_FLOAT16, caps.f16);
    allowed.set(Capabilities::FLOAT64, caps.f64);
    allowed.set(Capabilities::SHADER_INT64, caps.i64);
    allowed.set(Capabilities::SUBGROUP, caps.subgroups.is_some());
    allowed.set(Capabilities::COOPERATIVE_MATRIX, !caps.cooperative.is_empty());
    allowed
}

/// Parses and validates `wgsl` with the capabilities that `caps` implies and no others.
pub(crate) fn validate(wgsl: &str, caps: &Caps) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| e.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), allowed(caps));
    validator.validate(&module).map(|_| ()).map_err(|e| e.emit_to_string(wgsl))
}

/// Kernels that were found valid, each looked at once for devices of the same features.
#[derive(Default)]
pub(crate) struct Validated {
    seen: HashSet<(KernelKey, u64)>,
}

impl Validated {
    /// Panics where a kernel of `launches` is not valid on a device with `caps`, or is not given what it binds.
    pub(crate) fn check<'l>(&mut self, launches: impl IntoIterator<Item = &'l Launch>, caps: &Caps) {
        for launch in launches {
            if !self.seen.insert((launch.kernel.clone(), allowed(caps).bits())) {
                continue;
            }
            let source = launch.kernel.source();
            assert_eq!(source.bindings.len(), launch.bindings.len(), "{}", source.name);
            if let Err(message) = validate(&source.wgsl, caps) {
                panic!("{}: {message}\n{}", source.name, source.wgsl);
            }
        }
    }

    /// How many different ones there were.
    pub(crate) fn kernels(&self) -> usize {
        self.seen.iter().map(|(kernel, _)| kernel).collect::<HashSet<_>>().len()
    }
}
