//! polywarp's shader compiler, on naga: reads anybody's WGSL, checks it, and writes what devices take.
//!
//! The library's own kernels and their planners are with the operations, in `core/src/ops`; this crate knows no operation.
//!
//! | to find | look in |
//! |---|---|
//! | reading anybody's WGSL: limits, errors, overrides, reflection | [`wgsl`] |
//! | a module that naga's GLSL gives WGSL's values | `src/glsl/` |
//! | the offline shader compiler | `src/compiler/` (feature `compiler`) |

#[cfg(feature = "compiler")]
pub mod compiler;
#[cfg(any(feature = "fuzzing", all(test, feature = "compiler")))]
#[doc(hidden)]
pub mod fuzzing;
mod glsl;
pub mod wgsl;

pub use glsl::for_glsl;
