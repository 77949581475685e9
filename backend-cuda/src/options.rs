//! What WGSL may use on a card, and how the library's own kernels are compiled. The compiler itself is called in `kernels.rs`.

use naga::valid::Capabilities;
use naga_ptx::{Options, Target};

/// What shaders may use: what every card from sm_70 on has and naga-ptx compiles. What it does not compile it says.
pub(crate) const CAPABILITIES: Capabilities = Capabilities::FLOAT64
    .union(Capabilities::SHADER_FLOAT16)
    .union(Capabilities::SHADER_FLOAT16_IN_FLOAT32)
    .union(Capabilities::SHADER_INT64)
    .union(Capabilities::SHADER_INT16)
    .union(Capabilities::SHADER_INT64_ATOMIC_MIN_MAX)
    .union(Capabilities::SHADER_INT64_ATOMIC_ALL_OPS)
    .union(Capabilities::SHADER_FLOAT32_ATOMIC)
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::SUBGROUP_BARRIER)
    .union(Capabilities::COOPERATIVE_MATRIX)
    .union(Capabilities::MEMORY_DECORATION_COHERENT)
    .union(Capabilities::MEMORY_DECORATION_VOLATILE);

/// How the library's own kernels are compiled.
pub(crate) fn own_options(target: Target) -> Options {
    Options { entry_point: Some("main".to_owned()), ..Options::trusted(target) }
}
