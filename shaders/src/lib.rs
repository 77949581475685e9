//! polywarp's portable kernels: WGSL, and how each op becomes launches of it.
//!
//! | to find | look in |
//! |---|---|
//! | what a backend runs | [`plan`], [`candidates`], [`Plan`], [`Launch`] |
//! | one op's kernels | `src/plans/<stem>.rs` and `wgsl/<stem>.wgsl` |
//! | how elements of each dtype are read and written | `src/element.rs` |
//! | exp, sin, erf ... as WGSL | `wgsl/math.wgsl` |
//! | reading anybody's WGSL: limits, errors, overrides, reflection | [`wgsl`] |
//! | a module that naga's GLSL gives WGSL's values | `src/glsl/` |
//! | the offline shader compiler | `src/compiler/` (feature `compiler`) |

#[cfg(feature = "compiler")]
pub mod compiler;
mod element;
#[cfg(any(feature = "fuzzing", all(test, feature = "compiler")))]
#[doc(hidden)]
pub mod fuzzing;
mod glsl;
mod math;
#[cfg(test)]
mod pins;
mod plan;
mod plans;
#[cfg(test)]
mod validate;
pub mod wgsl;

pub use glsl::for_glsl;
pub use plan::{candidates, plan};
pub use plans::is_own;
pub use polywarp_core::plan::{
    Access, Candidate, Caps, Cooperative, KernelKey, KernelText, Launch, Plan, Slot, Source, share_scratch,
};

/// Which state of these kernels this is: changes whenever one may compute, or perform, differently.
pub const KERNELS: &str = env!("POLYWARP_SHADERS");
